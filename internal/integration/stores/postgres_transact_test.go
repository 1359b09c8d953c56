package stores_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
)

// shop is an application's database with a store in it.
type pgShop struct {
	testing.TB
	dsn   string
	pool  *pgxpool.Pool
	store *pgxstore.Store
}

func newPGShop(t testing.TB, params ...string) *pgShop {
	t.Helper()
	s := &pgShop{TB: t, dsn: servers.Postgres(t)}
	s.pool = openPgPool(t, s.dsn, params...)
	s.exec("CREATE TABLE orders (id serial, key text NOT NULL)")
	s.store = openPgStore(t, s.pool, pgxstore.Config{})
	return s
}

func (s *pgShop) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.pool.Exec(context.Background(), sql, args...); err != nil {
		s.Fatal(err)
	}
}

func (s *pgShop) count(sql string, args ...any) (n int) {
	s.Helper()
	if err := s.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// orders is how many orders a key has made.
func (s *pgShop) orders(key string) int {
	s.Helper()
	return s.count("SELECT count(*) FROM orders WHERE key = $1", key)
}

func pgInsertOrder(ctx context.Context, key string) error {
	_, err := pgxstore.Tx(ctx).Exec(ctx, "INSERT INTO orders (key) VALUES ($1)", key)
	return err
}

// order is work that makes one order.
func order(key string) func(context.Context) (onceward.Verdict, *onceward.Response, error) {
	return func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		if err := pgInsertOrder(ctx, key); err != nil {
			return onceward.Abort, nil, err
		}
		return onceward.Commit, &onceward.Response{Status: 201, Body: []byte(key)}, nil
	}
}

var tokens atomic.Uint32

func pgClaim(key string) onceward.Claim { return processClaim(key, int(tokens.Add(1))) }

// do sends a request until it has its answer, as a client does who is told that it
// is in progress, and fails on any other error.
func (s *pgShop) do(store *pgxstore.Store, key string, work func(context.Context) (onceward.Verdict, *onceward.Response, error)) onceward.Record {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	c := pgClaim(key)
	for {
		rec, _, err := store.Transact(ctx, c, work)
		switch {
		case errors.Is(err, onceward.ErrInProgress):
		case err != nil:
			s.Errorf("Transact %s: %v", key, err)
			return rec
		case rec.State == onceward.Completed:
			return rec
		}
		select {
		case <-ctx.Done():
			s.Errorf("Transact %s: no answer in time", key)
			return rec
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// mustReplay asks once more, by work that must not run.
func (s *pgShop) mustReplay(key string, status int) {
	s.Helper()
	rec, ran, err := s.store.Transact(s.Context(), pgClaim(key), func(context.Context) (onceward.Verdict, *onceward.Response, error) {
		s.Error("the work of an answered request is run")
		return onceward.Abort, nil, nil
	})
	if err != nil || ran || rec.State != onceward.Completed || rec.Response.Status != status {
		s.Fatalf("the repeat: ran %v, error %v, %+v; want the answer %d", ran, err, rec, status)
	}
}

// mustBeFree asks who has the key.
func (s *pgShop) mustBeFree(key string) {
	s.Helper()
	if rec, found, err := s.store.Look(s.Context(), onceward.NewKey("user", key)); err != nil || found {
		s.Fatalf("the key is taken: %+v, %v", rec, err)
	}
	// Also in memory and among the server's locks.
	rec, ran, err := s.store.Transact(s.Context(), pgClaim(key), func(context.Context) (onceward.Verdict, *onceward.Response, error) {
		return onceward.Abort, nil, nil
	})
	if err != nil || !ran {
		s.Fatalf("the key is taken: ran %v, error %v, %+v", ran, err, rec)
	}
	s.mustBeIdle()
}

// mustBeIdle waits for all connections to be back in the pool.
func (s *pgShop) mustBeIdle() {
	s.Helper()
	for deadline := time.Now().Add(10 * time.Second); s.pool.Stat().AcquiredConns() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%d connections are still borrowed", s.pool.Stat().AcquiredConns())
		}
	}
}

// Through a pooler there are two sessions for all, and none of them remembers.
func TestPostgresTransactRunsDuplicatesOnceThroughAPooler(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol"} {
		s := newPGShop(t)
		pooled := servers.PgBouncer(t, s.dsn)
		var stores []*pgxstore.Store
		for range 2 {
			stores = append(stores, openPgStore(t, openPgPool(t, pooled, "default_query_exec_mode", mode), pgxstore.Config{}))
		}
		var wg sync.WaitGroup
		for i := range 60 {
			key := fmt.Sprint("key-", i%10)
			wg.Go(func() { s.do(stores[i%2], key, order(key)) })
		}
		wg.Wait()
		if n, keys := s.count("SELECT count(*) FROM orders"), s.count("SELECT count(DISTINCT key) FROM orders"); n != 10 || keys != 10 {
			t.Errorf("%s: %d orders for %d keys, want 10", mode, n, keys)
		}
	}
}

func TestPostgresTransactCommitsWorkAndAnswerTogether(t *testing.T) {
	s := newPGShop(t)
	c := pgClaim("k")
	rec, ran, err := s.store.Transact(t.Context(), c, order("k"))
	if err != nil || !ran {
		t.Fatal(ran, err)
	}
	if rec.State != onceward.Completed || rec.Attempt != 1 || rec.Token != c.Token || string(rec.Response.Body) != "k" {
		t.Errorf("the record is %+v", rec)
	}
	s.mustReplay("k", 201)
	if n := s.orders("k"); n != 1 {
		t.Errorf("%d orders", n)
	}
	// A store without Transact's help finds the same answer.
	rec, claimed, err := s.store.Claim(t.Context(), pgClaim("k"))
	if err != nil || claimed || rec.State != onceward.Completed || rec.Method != "POST" || rec.Path != "/orders" {
		t.Errorf("Claim: %v, %v, %+v", claimed, err, rec)
	}
	if pgxstore.Tx(t.Context()) != nil {
		t.Error("a context without a transaction has one")
	}
	s.mustBeIdle()
}

// B085, B086, B088: fifty at once, in two processes' worth of stores, make one
// order, and none gets an error.
func TestPostgresTransactRunsDuplicatesOnce(t *testing.T) {
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			s := newPGShop(t, "default_transaction_isolation", isolation)
			other := openPgStore(t, openPgPool(t, s.dsn, "default_transaction_isolation", isolation), pgxstore.Config{})
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					rec := s.do([]*pgxstore.Store{s.store, other}[i%2], "hot", order("hot"))
					if rec.Response == nil || string(rec.Response.Body) != "hot" {
						t.Errorf("a duplicate was answered with %+v", rec)
					}
				})
			}
			// And other people's requests at the same time.
			for i := range 50 {
				wg.Go(func() { s.do(s.store, fmt.Sprint("cold-", i), order(fmt.Sprint("cold-", i))) })
			}
			wg.Wait()
			if n := s.orders("hot"); n != 1 {
				t.Errorf("%d orders, want 1", n)
			}
			if n := s.count("SELECT count(*) FROM orders"); n != 51 {
				t.Errorf("%d orders in all, want 51", n)
			}
			s.mustBeIdle()
		})
	}
}

// B087: serialization failures are answered by running again, also where the
// handler has made a 500 of them.
func TestPostgresTransactRunsAgainAfterASerializationFailure(t *testing.T) {
	s := newPGShop(t, "default_transaction_isolation", "repeatable read")
	s.exec("CREATE TABLE stock (left_over integer)")
	s.exec("INSERT INTO stock VALUES (100)")
	var runs atomic.Int32
	take := func(hidden bool) func(context.Context) (onceward.Verdict, *onceward.Response, error) {
		first := true
		return func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			runs.Add(1)
			tx := pgxstore.Tx(ctx)
			var n int
			if err := tx.QueryRow(ctx, "SELECT left_over FROM stock").Scan(&n); err != nil {
				return onceward.Abort, nil, err
			}
			if first { // somebody else comes between
				first = false
				s.exec("UPDATE stock SET left_over = left_over - 1")
			}
			if _, err := tx.Exec(ctx, "UPDATE stock SET left_over = $1", n-1); err != nil && !hidden {
				return onceward.Abort, nil, err
			}
			return onceward.Commit, &onceward.Response{Status: 200}, nil
		}
	}
	for i, hidden := range []bool{false, true} {
		runs.Store(0)
		if rec := s.do(s.store, fmt.Sprint("take", i), take(hidden)); rec.State != onceward.Completed {
			t.Fatalf("hidden %v: %+v", hidden, rec)
		}
		if runs.Load() != 2 {
			t.Errorf("hidden %v: the work ran %d times, want 2", hidden, runs.Load())
		}
		if n := s.count("SELECT left_over FROM stock"); n != 98-2*i {
			t.Errorf("hidden %v: %d left over, want %d", hidden, n, 98-2*i)
		}
	}
	s.mustBeIdle()
}

func TestPostgresTransactUndoKeepsTheAnswerOnly(t *testing.T) {
	for _, failing := range []bool{false, true} {
		s := newPGShop(t)
		_, ran, err := s.store.Transact(t.Context(), pgClaim("k"), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			if err := pgInsertOrder(ctx, "k"); err != nil {
				return onceward.Abort, nil, err
			}
			if failing { // B083: the transaction is aborted, the answer is kept all the same
				if _, err := pgxstore.Tx(ctx).Exec(ctx, "SELECT 1/0"); err == nil {
					t.Error("1/0 is a number")
				}
			}
			return onceward.Undo, &onceward.Response{Status: 409}, nil
		})
		if err != nil || !ran {
			t.Fatalf("failing %v: ran %v, error %v", failing, ran, err)
		}
		if n := s.orders("k"); n != 0 {
			t.Errorf("failing %v: %d orders are left", failing, n)
		}
		s.mustReplay("k", 409)
		s.mustBeIdle()
	}
}

func TestPostgresTransactKeepsNothingOfAnAbort(t *testing.T) {
	s := newPGShop(t)
	broken := errors.New("broken")
	for name, end := range map[string]struct {
		verdict onceward.Verdict
		err     error
	}{"abort": {}, "error": {onceward.Commit, broken}} {
		rec, ran, err := s.store.Transact(t.Context(), pgClaim(name), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			if err := pgInsertOrder(ctx, name); err != nil {
				t.Error(err)
			}
			return end.verdict, &onceward.Response{Status: 200}, end.err
		})
		if err != end.err || ran != (end.err == nil) || rec.State != 0 {
			t.Errorf("%s: ran %v, error %v, %+v", name, ran, err, rec)
		}
		s.mustBeFree(name)
		if n := s.orders(name); n != 0 {
			t.Errorf("%s: %d orders are left", name, n)
		}
	}
}

// B083: after a failed statement nothing can be committed; that is an error, no
// half and no 200.
func TestPostgresTransactCannotCommitAFailedStatement(t *testing.T) {
	s := newPGShop(t)
	_, _, err := s.store.Transact(t.Context(), pgClaim("k"), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		err := pgInsertOrder(ctx, "k")
		pgxstore.Tx(ctx).Exec(ctx, "SELECT 1/0")
		return onceward.Commit, &onceward.Response{Status: 200}, err
	})
	if err == nil {
		t.Error("a transaction with a failed statement was committed")
	}
	if n := s.orders("k"); n != 0 {
		t.Errorf("%d orders are left", n)
	}
	s.mustBeFree("k")
}

// A deferred constraint fails in COMMIT itself: an error of the application's, no
// conflict about the key.
func TestPostgresTransactReportsADeferredConstraint(t *testing.T) {
	s := newPGShop(t)
	s.exec("CREATE TABLE names (name text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	runs := 0
	_, _, err := s.store.Transact(t.Context(), pgClaim("k"), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		runs++
		_, err := pgxstore.Tx(ctx).Exec(ctx, "INSERT INTO names VALUES ('a'), ('a')")
		return onceward.Commit, &onceward.Response{Status: 200}, err
	})
	if err == nil || runs != 1 {
		t.Errorf("%d runs, error %v; want one and an error", runs, err)
	}
	s.mustBeFree("k")
}

// B029, B037: a panic undoes the work and goes on.
func TestPostgresTransactPanicsOn(t *testing.T) {
	s := newPGShop(t)
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Errorf("recovered %v", r)
			}
		}()
		s.store.Transact(t.Context(), pgClaim("k"), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			if err := pgInsertOrder(ctx, "k"); err != nil {
				t.Error(err)
			}
			panic("boom")
		})
	}()
	if n := s.orders("k"); n != 0 {
		t.Errorf("%d orders are left", n)
	}
	s.mustBeFree("k")
}

// At its deadline the transaction is undone and the key free, even if the work
// sleeps on, in Go or in the server, and obeys no context.
func TestPostgresTransactEndsAtItsDeadline(t *testing.T) {
	for name, sleep := range map[string]func(ctx context.Context, free chan struct{}){
		"in Go": func(_ context.Context, free chan struct{}) { <-free },
		"in the server": func(ctx context.Context, free chan struct{}) {
			pgxstore.Tx(ctx).Exec(context.Background(), "SELECT pg_sleep(60)")
		},
		"between rows": func(ctx context.Context, free chan struct{}) {
			rows, err := pgxstore.Tx(ctx).Query(context.Background(), "SELECT generate_series(1, 10000000)")
			if (err != nil || !rows.Next()) && ctx.Err() == nil { // a slow machine may be too late already
				t.Error(err, rows.Err())
			}
			<-free
			for rows.Next() {
			}
			if rows.Err() == nil {
				t.Error("all rows were read after the deadline")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPGShop(t)
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			free, ended := make(chan struct{}), make(chan error)
			go func() {
				_, _, err := s.store.Transact(ctx, pgClaim("k"), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
					err := pgInsertOrder(ctx, "k")
					sleep(ctx, free)
					return onceward.Commit, &onceward.Response{Status: 200}, err
				})
				ended <- err
			}()
			// Another process runs the key while the work sleeps on.
			other := openPgStore(t, openPgPool(t, s.dsn), pgxstore.Config{})
			s.do(other, "k", order("k"))
			s.mustBeIdle()
			close(free)
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the late work ended with %v", err)
			}
			if n := s.orders("k"); n != 1 {
				t.Errorf("%d orders, want the other's", n)
			}
		})
	}
}

// A goroutine that the work has left behind can do nothing more.
func TestPostgresTransactEndsWithItsWork(t *testing.T) {
	s := newPGShop(t)
	var left pgx.Tx
	var rows pgx.Rows
	s.do(s.store, "k", func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		left = pgxstore.Tx(ctx)
		if err := pgInsertOrder(ctx, "k"); err != nil {
			return onceward.Abort, nil, err
		}
		var err error
		rows, err = left.Query(ctx, "SELECT generate_series(1, 1000)")
		return onceward.Commit, &onceward.Response{Status: 200}, err
	})
	ctx := t.Context()
	if rows.Next() {
		t.Error("rows can be read after the work")
	}
	if rows.Err() == nil {
		t.Error("rows that were cut off seem to be complete")
	}
	_, execErr := left.Exec(ctx, "INSERT INTO orders (key) VALUES ('late')")
	_, queryErr := left.Query(ctx, "SELECT 1")
	_, beginErr := left.Begin(ctx)
	_, copyErr := left.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"key"}, pgx.CopyFromRows([][]any{{"late"}}))
	_, prepareErr := left.Prepare(ctx, "late", "SELECT 1")
	batch := &pgx.Batch{}
	batch.Queue("INSERT INTO orders (key) VALUES ('late')")
	for what, err := range map[string]error{
		"Exec": execErr, "Query": queryErr, "Begin": beginErr, "CopyFrom": copyErr, "Prepare": prepareErr,
		"SendBatch": left.SendBatch(ctx, batch).Close(), "QueryRow": left.QueryRow(ctx, "SELECT 1").Scan(new(int)),
	} {
		if !errors.Is(err, pgxstore.ErrTxOver) || !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s after the work: %v", what, err)
		}
	}
	if n := s.count("SELECT count(*) FROM orders"); n != 1 {
		t.Errorf("%d orders", n)
	}

	// One that does not stop: under -race this is the test that the connection is
	// never touched by two.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 20 {
		s.do(s.store, fmt.Sprint("busy", i), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			tx := pgxstore.Tx(ctx)
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						rows, _ := tx.Query(context.Background(), "SELECT generate_series(1, 100)")
						for rows.Next() {
							rows.Scan(new(int))
						}
						rows.Close()
					}
				}
			})
			time.Sleep(time.Millisecond)
			return onceward.Commit, &onceward.Response{Status: 200}, nil
		})
	}
	close(stop)
	wg.Wait()
	s.mustBeIdle()
}

// The server ends a transaction whose process says nothing past its time; without
// a time the administrator's setting stands.
func TestPostgresTransactIsLimitedByTheServer(t *testing.T) {
	s := newPGShop(t, "idle_in_transaction_session_timeout", "7654")
	limit := func(ctx context.Context, key string) (ms string) {
		_, ran, err := s.store.Transact(ctx, pgClaim(key), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			err := pgxstore.Tx(ctx).QueryRow(ctx, "SELECT setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'").Scan(&ms)
			return onceward.Abort, nil, err
		})
		if err != nil || !ran {
			t.Fatal(ran, err)
		}
		return ms
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if got := limit(ctx, "limited"); len(got) != len("3600000") || got < "3590000" || got > "3601000" {
		t.Errorf("with an hour left the limit is %s ms", got)
	}
	if got := limit(t.Context(), "unlimited"); got != "7654" {
		t.Errorf("without a deadline the limit is %s ms, want the connection's own", got)
	}
}
