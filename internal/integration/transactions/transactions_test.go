package transactions

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/pages"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/sqlitestore"
)

// TestTheDocumentShowsTheCodeThatRuns holds docs/transactions.md to handlers.go and
// locking.go.
func TestTheDocumentShowsTheCodeThatRuns(t *testing.T) {
	pages.Hold(t, "transactions.md", "handlers.go", "locking.go")
}

const tables = `CREATE TABLE orders (id text PRIMARY KEY, external_id text UNIQUE, item text NOT NULL, qty integer NOT NULL);
CREATE TABLE stock (item text PRIMARY KEY, "left" integer NOT NULL CHECK ("left" >= 0));
INSERT INTO stock VALUES ('tea', 5);
` + lockingTables

func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(tables); err != nil {
		t.Fatal(err)
	}
	return db
}

func openPostgres(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), servers.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Conn().PgConn().Exec(t.Context(), tables).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return pool
}

// onEach runs a test on both databases: h is the guarded handler, count reads one
// number.
func onEach(t *testing.T, test func(t *testing.T, h http.Handler, count func(query string) int)) {
	guarded := func(t *testing.T, store onceward.Store, app http.HandlerFunc) http.Handler {
		guard, err := onceward.New(store, onceward.Unscoped, onceward.Config{Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := guard.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return guard.Atomic(app)
	}
	t.Run("sqlite", func(t *testing.T) {
		db := openSQLite(t)
		store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close(context.Background()) })
		test(t, guarded(t, store, createOrderSQLite), func(query string) (n int) {
			if err := db.QueryRow(query).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		})
	})
	t.Run("postgres", func(t *testing.T) {
		pool := openPostgres(t)
		store, err := pgxstore.New(t.Context(), pool, pgxstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close(context.Background()) })
		test(t, guarded(t, store, createOrderPostgres), func(query string) (n int) {
			if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		})
	})
}

func post(h http.Handler, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/create-order", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	orders = `SELECT count(*) FROM orders`
	left   = `SELECT "left" FROM stock`
)

// Without a key there is no transaction for the handler to write through.
func TestTheDocumentsRoutesRefuseARequestWithoutAKey(t *testing.T) {
	db := openSQLite(t)
	store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(context.Background()) })
	guard, err := newGuard(store, onceward.Unscoped)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guard.Close(context.Background()) })
	h := routes(guard)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/create-order", strings.NewReader(`{"item":"tea","qty":1}`)))
	if w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Header().Get("Idempotency-Status"), "key-missing") {
		t.Errorf("without a key: %d %v", w.Code, w.Header())
	}
	if w := post(h, "k", `{"item":"tea","qty":1}`); w.Code != http.StatusCreated {
		t.Errorf("with one: %d %s", w.Code, w.Body)
	}
	var n int
	if err := db.QueryRow(orders).Scan(&n); err != nil || n != 1 {
		t.Errorf("there are %d orders, %v", n, err)
	}
}

func TestAnOrderAndItsAnswerAreOneTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, h http.Handler, count func(string) int) {
		var all sync.WaitGroup
		answers := make([]*httptest.ResponseRecorder, 20)
		for i := range answers {
			all.Go(func() { answers[i] = post(h, "k1", `{"item":"tea","qty":2}`) })
		}
		all.Wait()
		for _, w := range answers {
			if w.Code != 201 || w.Header().Get("Location") != answers[0].Header().Get("Location") {
				t.Errorf("%d %v", w.Code, w.Header())
			}
		}
		if count(orders) != 1 || count(left) != 3 {
			t.Errorf("%d orders, %d left", count(orders), count(left))
		}
	})
}

func TestAFailureInTheMiddleUndoesBothHalves(t *testing.T) {
	onEach(t, func(t *testing.T, h http.Handler, count func(string) int) {
		for range 2 { // the stock has a CHECK; the order before it was written
			w := post(h, "k1", `{"item":"tea","qty":9}`)
			if w.Code != 500 || !strings.HasPrefix(w.Header().Get("Idempotency-Status"), "released") {
				t.Errorf("%d %v", w.Code, w.Header())
			}
		}
		if count(orders) != 0 || count(left) != 5 {
			t.Errorf("%d orders, %d left", count(orders), count(left))
		}
		w := post(h, "k2", `{"item":""}`)
		if again := post(h, "k2", `{"item":""}`); w.Code != 400 || again.Header().Get("Idempotency-Replayed") != "1" {
			t.Errorf("%d, then %v", w.Code, again.Header())
		}
	})
}

func TestAUniqueIndexDecidesWhoIsFirst(t *testing.T) {
	for name, open := range map[string]func(*testing.T) func(order) (string, bool, error){
		"sqlite": func(t *testing.T) func(order) (string, bool, error) {
			db := openSQLite(t)
			return func(o order) (string, bool, error) { return place(t.Context(), db, o) }
		},
		"postgres": func(t *testing.T) func(order) (string, bool, error) {
			pool := openPostgres(t)
			return func(o order) (string, bool, error) { return placePostgres(t.Context(), pool, o) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			place := open(t)
			var all sync.WaitGroup
			var mu sync.Mutex
			ids, made := map[string]int{}, 0
			for range 20 {
				all.Go(func() {
					id, first, err := place(order{"e1", "tea", 1})
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Error(err)
					}
					ids[id]++
					if first {
						made++
					}
				})
			}
			all.Wait()
			if len(ids) != 1 || made != 1 {
				t.Errorf("%v, made %d times", ids, made)
			}
		})
	}
}

func TestAWishedStateIsTheSameHoweverOftenItIsSent(t *testing.T) {
	db := openSQLite(t)
	for range 3 {
		if err := put(t.Context(), db, order{"e1", "tea", 3}); err != nil {
			t.Fatal(err)
		}
	}
	var n, qty int
	if err := db.QueryRow(`SELECT count(*), max(qty) FROM orders`).Scan(&n, &qty); err != nil || n != 1 || qty != 3 {
		t.Errorf("%d orders of %d: %v", n, qty, err)
	}
}
