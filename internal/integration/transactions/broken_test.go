package transactions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/sqlitestore"
)

// brokenValue and brokenScan are two bugs that are met often: a nil pointer that is
// followed, and a nil map that is written to.
type brokenValue struct{ n *int }

func (v brokenValue) Value() (driver.Value, error) { return int64(*v.n), nil }

type brokenScan struct{ seen map[string]bool }

func (s *brokenScan) Scan(any) error { s.seen["x"] = true; return nil }

// within calls f and says what it panicked with, or fails the test if f does not
// return: a hang must not become the whole run's.
func within(t *testing.T, limit time.Duration, f func()) (panicked any) {
	t.Helper()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	select {
	case p := <-done:
		return p
	case <-time.After(limit):
		t.Fatalf("no answer after %v", limit)
		return nil
	}
}

func ask(h http.Handler, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func openGuard(t *testing.T, store onceward.Store) *onceward.Guard {
	t.Helper()
	guard, err := onceward.New(store, onceward.Unscoped, onceward.Config{MaxTransaction: 2 * time.Second, StoreTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := guard.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return guard
}

// goesOn has a handler panic within a statement, after a write: the panic comes out
// of the guard, the write is gone, and the same key runs again at once.
func goesOn[Tx any](t *testing.T, guard *onceward.Guard, tx func(context.Context) Tx, write, broken func(context.Context, Tx), count func() int) {
	t.Helper()
	bad := guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		write(r.Context(), tx(r.Context()))
		broken(r.Context(), tx(r.Context()))
		fmt.Fprint(w, "as if nothing had been")
	}))
	p := within(t, 10*time.Second, func() { ask(bad, t.Name()) })
	if text := fmt.Sprint(p); !strings.Contains(text, "nil pointer") && !strings.Contains(text, "nil map") {
		t.Errorf("the guard panicked with %v, want the statement's panic", p)
	}
	if n := count(); n != 0 {
		t.Errorf("%d rows have been kept of a work that panicked", n)
	}
	good := guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") }))
	var w *httptest.ResponseRecorder
	within(t, 10*time.Second, func() { w = ask(good, t.Name()) })
	if w.Code != http.StatusOK || w.Body.String() != "ok" {
		t.Errorf("the key again: %d %q", w.Code, w.Body)
	}
}

const insertBroken = `INSERT INTO orders (id, item, qty) VALUES ('broken', 'tea', 1)`

func TestAPanicWithinAStatementOnPostgresRollsBackAndGoesOn(t *testing.T) {
	pool := openPostgres(t)
	store, err := pgxstore.New(t.Context(), pool, pgxstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	guard := openGuard(t, store)
	batch := func(args ...any) *pgx.Batch {
		b := &pgx.Batch{}
		b.Queue("SELECT $1::int", args...)
		return b
	}
	for name, broken := range map[string]func(context.Context, pgx.Tx){
		"exec":  func(ctx context.Context, tx pgx.Tx) { _, _ = tx.Exec(ctx, "SELECT $1::int", brokenValue{}) },
		"query": func(ctx context.Context, tx pgx.Tx) { _, _ = tx.Query(ctx, "SELECT $1::int", brokenValue{}) },
		"scan of a row": func(ctx context.Context, tx pgx.Tx) {
			_ = tx.QueryRow(ctx, "SELECT 'a'::text").Scan(&brokenScan{})
		},
		"scan of many rows": func(ctx context.Context, tx pgx.Tx) {
			rows, _ := tx.Query(ctx, "SELECT g::text FROM generate_series(1, 100000) g")
			defer rows.Close()
			rows.Next()
			_ = rows.Scan(&brokenScan{})
		},
		"batch": func(ctx context.Context, tx pgx.Tx) { _ = tx.SendBatch(ctx, batch(brokenValue{})).Close() },
		"scan of a batch's row": func(ctx context.Context, tx pgx.Tx) {
			results := tx.SendBatch(ctx, batch(1))
			defer results.Close()
			_ = results.QueryRow().Scan(&brokenScan{})
		},
		"callback of a batch": func(ctx context.Context, tx pgx.Tx) {
			b := &pgx.Batch{}
			b.Queue("SELECT 1").QueryRow(func(row pgx.Row) error { return row.Scan(&brokenScan{}) })
			_ = tx.SendBatch(ctx, b).Close()
		},
		"in a savepoint": func(ctx context.Context, tx pgx.Tx) {
			_ = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, _ = tx.Query(ctx, "SELECT $1::int", brokenValue{})
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			goesOn(t, guard, pgxstore.Tx,
				func(ctx context.Context, tx pgx.Tx) {
					if _, err := tx.Exec(ctx, insertBroken); err != nil {
						t.Error(err)
					}
				}, broken,
				func() (n int) {
					if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
						t.Error(err)
					}
					return n
				})
			if n := pool.Stat().AcquiredConns(); n != 0 {
				t.Errorf("%d connections are still in use", n)
			}
		})
	}

	t.Run("that the handler recovers", func(t *testing.T) {
		runs := 0
		h := guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			tx := pgxstore.Tx(r.Context())
			func() {
				defer func() { _ = recover() }()
				_, _ = tx.Query(r.Context(), "SELECT $1::int", brokenValue{})
			}()
			if _, err := tx.Exec(r.Context(), insertBroken); err == nil {
				t.Error("a statement after it is not refused")
			}
			fmt.Fprint(w, "as if nothing had been")
		}))
		var w *httptest.ResponseRecorder
		within(t, 10*time.Second, func() { w = ask(h, "recovered") })
		if w.Code != http.StatusServiceUnavailable || runs != 1 {
			t.Errorf("%d %q after %d runs, want 503 after one: nothing can be committed, and a repeat would be no better", w.Code, w.Body, runs)
		}
	})
}

func TestAPanicWithinAStatementOnSQLiteRollsBackAndGoesOn(t *testing.T) {
	db := openSQLite(t)
	store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	guard := openGuard(t, store)
	for name, broken := range map[string]func(context.Context, *sql.Tx){
		"exec":  func(ctx context.Context, tx *sql.Tx) { _, _ = tx.ExecContext(ctx, "SELECT ?", brokenValue{}) },
		"query": func(ctx context.Context, tx *sql.Tx) { _, _ = tx.QueryContext(ctx, "SELECT ?", brokenValue{}) },
		"prepared": func(ctx context.Context, tx *sql.Tx) {
			s, err := tx.PrepareContext(ctx, "SELECT ?")
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = s.QueryContext(ctx, brokenValue{})
		},
		"scan of rows that stay open": func(ctx context.Context, tx *sql.Tx) {
			rows, err := tx.QueryContext(ctx, "SELECT 'a' UNION SELECT 'b'")
			if err != nil {
				t.Error(err)
				return
			}
			rows.Next()
			_ = rows.Scan(&brokenScan{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			goesOn(t, guard, sqlitestore.Tx,
				func(ctx context.Context, tx *sql.Tx) {
					if _, err := tx.ExecContext(ctx, insertBroken); err != nil {
						t.Error(err)
					}
				}, broken,
				func() (n int) {
					if err := db.QueryRow("SELECT count(*) FROM orders").Scan(&n); err != nil {
						t.Error(err)
					}
					return n
				})
		})
	}
}

// TestAScannerThatPanicsOnSQLiteHoldsUpNobodyElse is about a lock of database/sql
// that stays locked then: its Row.Scan waits for it for ever, in the handler, and
// nobody can help that. The caller and all others go on.
func TestAScannerThatPanicsOnSQLiteHoldsUpNobodyElse(t *testing.T) {
	db := openSQLite(t)
	store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	// Its Close would wait for the handler.
	guard, err := onceward.New(store, onceward.Unscoped, onceward.Config{MaxTransaction: 2 * time.Second, StoreTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	bad := guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx := sqlitestore.Tx(r.Context())
		if _, err := tx.ExecContext(r.Context(), insertBroken); err != nil {
			t.Error(err)
		}
		_ = tx.QueryRowContext(r.Context(), "SELECT 'a'").Scan(&brokenScan{})
		fmt.Fprint(w, "as if nothing had been")
	}))
	good := guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := sqlitestore.Tx(r.Context()).ExecContext(r.Context(), insertBroken)
		fmt.Fprint(w, err)
	}))
	// A panic is as good: that is what it is in a Go that has mended it.
	if p := within(t, 10*time.Second, func() {
		if w := ask(bad, "key"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d %q, want 503", w.Code, w.Body)
		}
	}); p != nil && !strings.Contains(fmt.Sprint(p), "nil map") {
		t.Errorf("the guard panicked with %v", p)
	}
	within(t, 10*time.Second, func() {
		if w := ask(good, "key"); w.Code != http.StatusOK || w.Body.String() != "<nil>" {
			t.Errorf("the key again: %d %q, want the row to go in, because the first one is gone", w.Code, w.Body)
		}
	})
}

// TestAStatementLeftBehindOnPostgresEndsWithTheTime has the handler return, or
// panic, while a goroutine of its own is within a statement.
func TestAStatementLeftBehindOnPostgresEndsWithTheTime(t *testing.T) {
	store, err := pgxstore.New(t.Context(), openPostgres(t), pgxstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	guard := openGuard(t, store)
	for name, end := range map[string]func(){
		"returns": func() {},
		"panics":  func() { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			left := make(chan error, 1)
			h := guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tx := pgxstore.Tx(r.Context())
				go func() {
					_, err := tx.Exec(context.Background(), "SELECT pg_sleep(60)")
					left <- err
				}()
				time.Sleep(200 * time.Millisecond) // or it would be refused, and nothing tried
				fmt.Fprint(w, "ok")
				end()
			}))
			start := time.Now()
			p := within(t, 15*time.Second, func() {
				if w := ask(h, name); w.Code != http.StatusServiceUnavailable {
					t.Errorf("%d %q, want 503", w.Code, w.Body)
				}
			})
			if p != nil && name != "panics" { // and there it may be answered by the time first
				t.Errorf("the guard panicked with %v", p)
			}
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("a transaction of at most 2 s took %v", took)
			}
			if err := <-left; err == nil {
				t.Error("the statement left behind has succeeded")
			}
		})
	}
}
