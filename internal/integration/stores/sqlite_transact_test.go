package stores_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// shop is an application that writes orders in the store's transactions.
type shop struct {
	testing.TB
	db    *sql.DB
	spy   *spy
	store *sqlitestore.Store
}

func openShop(t testing.TB, conns int, cfg sqlitestore.Config) *shop {
	t.Helper()
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "shop.db"))
	db.SetMaxOpenConns(conns)
	if _, err := db.Exec("CREATE TABLE orders (name TEXT PRIMARY KEY, parent TEXT REFERENCES orders (name) DEFERRABLE INITIALLY DEFERRED) STRICT"); err != nil {
		t.Fatal(err)
	}
	return &shop{t, db, spy, openStore(t, db, cfg)}
}

// orders lists what is committed, in the order of the names.
func (s *shop) orders() string {
	s.Helper()
	rows, err := s.db.Query("SELECT name FROM orders ORDER BY name")
	if err != nil {
		s.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			s.Fatal(err)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// answered lists the keys among names that have an answer.
func (s *shop) answered(names ...string) string {
	s.Helper()
	var found []string
	for _, name := range names {
		rec, ok, err := s.store.Look(context.Background(), testClaim(name, 1).Key)
		if err != nil {
			s.Fatal(err)
		}
		if ok && rec.State == onceward.Completed {
			found = append(found, name)
		}
	}
	return strings.Join(found, " ")
}

func insertOrder(ctx context.Context, name string) error {
	_, err := sqlitestore.Tx(ctx).ExecContext(ctx, "INSERT INTO orders (name) VALUES (?)", name)
	return err
}

type workFunc = func(context.Context) (onceward.Verdict, *onceward.Response, error)

// ordering is the work that most tests do.
func ordering(name string) workFunc {
	return func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		return onceward.Commit, testAnswer(name), insertOrder(ctx, name)
	}
}

// order transacts the order name under the key name. It has a minute, whatever the
// store's limit is.
func (s *shop) order(name string, n int) (onceward.Record, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.store.Transact(ctx, testClaim(name, n), ordering(name))
}

func (s *shop) mustOrder(name string, n int) {
	s.Helper()
	if rec, ran, err := s.order(name, n); err != nil || !ran || string(rec.Response.Body) != name {
		s.Errorf("order %s: ran %v, %v", name, ran, err)
	}
}

// together runs works in one batch, in the order of their keys k00, k01, …: they
// gather behind a commit that is held up. It returns their errors.
func (s *shop) together(works ...workFunc) []error {
	s.Helper()
	slow := s.spy.hold("COMMIT")
	first := make(chan error, 1)
	go func() { first <- second(s.store.Claim(context.Background(), testClaim("first", 9000))) }()
	<-slow.reached
	errs := make([]error, len(works))
	var wg sync.WaitGroup
	for i, work := range works {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			_, ran, err := s.store.Transact(context.Background(), testClaim(keyName(i), 100+i), work)
			if err == nil && !ran {
				err = errors.New("it did not run")
			}
			errs[i] = err
		})
		waitUntilQueued(s, i+2)
	}
	s.spy.forget()
	close(slow.open)
	if err := <-first; err != nil {
		s.Fatal(err)
	}
	wg.Wait()
	return errs
}

func keyName(i int) string { return fmt.Sprintf("k%02d", i) }

// orderingEach is n works, of which the one at odd does something else.
func orderingEach(n, odd int, other workFunc) []workFunc {
	works := make([]workFunc, n)
	for i := range works {
		if works[i] = ordering(keyName(i)); i == odd {
			works[i] = other
		}
	}
	return works
}

// exactly fails the test unless all keys but the one at odd have one order and an
// answer, and that one has neither.
func (s *shop) exactly(n, odd int, errs []error) {
	s.Helper()
	var all, want []string
	for i := range n {
		all = append(all, keyName(i))
		if i != odd {
			want = append(want, keyName(i))
			if errs[i] != nil {
				s.Errorf("%s, which did nothing wrong: %v", keyName(i), errs[i])
			}
		}
	}
	if got := s.orders(); got != strings.Join(want, " ") {
		s.Errorf("the orders are %s, want %s", got, want)
	}
	if got := s.answered(all...); got != strings.Join(want, " ") {
		s.Errorf("answered are %s, want %s", got, want)
	}
}

// What gathers behind a slow commit shares the next one: 40 requests, one fsync.
func TestTransactionsShareACommit(t *testing.T) {
	s := openShop(t, 4, sqlitestore.Config{})
	works := orderingEach(40, -1, nil)
	var first, last time.Time
	for i, work := range works {
		works[i] = func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			if last = time.Now(); first.IsZero() { // one at a time: no race
				first = last
			}
			return work(ctx)
		}
	}
	errs := s.together(works...)
	s.exactly(40, -1, errs)
	// A commit leaves early only if its works have taken 10 ms already.
	most := 1 + int(last.Sub(first)/(10*time.Millisecond))
	if begun, committed := s.spy.count("BEGIN IMMEDIATE"), s.spy.count("COMMIT"); begun > most || committed > most {
		t.Errorf("40 transactions within %v took %d BEGIN IMMEDIATE and %d COMMIT, want at most %d", last.Sub(first), begun, committed, most)
	}
}

// Nobody acts on work that could still be lost, nor on an answer that a duplicate
// in the same batch has read.
func TestNoTransactionIsAnsweredBeforeItsCommit(t *testing.T) {
	s := openShop(t, 4, sqlitestore.Config{})
	slow := s.spy.hold("COMMIT")
	type answer struct {
		ran bool
		err error
	}
	answers := make(chan answer, 2)
	var runs atomic.Int32
	for i := range 2 {
		go func() {
			_, ran, err := s.store.Transact(context.Background(), testClaim("key", i+1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
				runs.Add(1)
				return ordering("key")(ctx)
			})
			answers <- answer{ran, err}
		}()
	}
	<-slow.reached
	select {
	case a := <-answers:
		t.Fatalf("Transact returned (ran %v, %v) while its COMMIT had not run", a.ran, a.err)
	case <-time.After(50 * time.Millisecond):
	}
	close(slow.open)
	a, b := <-answers, <-answers
	if a.err != nil || b.err != nil || a.ran == b.ran || runs.Load() != 1 {
		t.Errorf("two of one key: ran %v and %v, %v, %v; the work was called %d times", a.ran, b.ran, a.err, b.err, runs.Load())
	}
}

// Code that is used to end its own transaction is told that this is not its own;
// nothing has happened, and the work may go on.
func TestSharedTransactionsAreNotEndedBySQL(t *testing.T) {
	s := openShop(t, 4, sqlitestore.Config{})
	errs := s.together(orderingEach(5, -1, nil)[:2]...)
	_, ran, err := s.store.Transact(t.Context(), testClaim("ends", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		for _, text := range []string{"COMMIT", "rollback", " /* so */ END TRANSACTION", "-- now\nBEGIN IMMEDIATE", ";commit;"} {
			if _, err := sqlitestore.Tx(ctx).Exec(text); !errors.Is(err, sqlitestore.ErrShared) {
				t.Errorf("Exec(%q): %v, want ErrShared", text, err)
			}
			if _, err := sqlitestore.Tx(ctx).Query(text); !errors.Is(err, sqlitestore.ErrShared) {
				t.Errorf("Query(%q): %v, want ErrShared", text, err)
			}
			if _, err := sqlitestore.Tx(ctx).Prepare(text); !errors.Is(err, sqlitestore.ErrShared) {
				t.Errorf("Prepare(%q): %v, want ErrShared", text, err)
			}
		}
		return ordering("ends")(ctx)
	})
	if err != nil || !ran || errs[0] != nil || errs[1] != nil {
		t.Errorf("ran %v, %v", ran, err)
	}
	if got := s.orders(); got != "ends k00 k01" {
		t.Errorf("the orders are %q", got)
	}
}

// Statements of one work that end everybody's transaction: that work gets a clear
// error and leaves nothing, whatever it does next; each of the others runs again by
// itself and has its effect once.
func TestAWorkThatEndsTheTransactionHarmsNobody(t *testing.T) {
	exec := func(ctx context.Context, text string) error {
		_, err := sqlitestore.Tx(ctx).ExecContext(ctx, text)
		return err
	}
	for name, work := range map[string]workFunc{
		"a hidden COMMIT": func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			if err := exec(ctx, "SELECT 1; COMMIT"); err != nil {
				t.Errorf("the hidden COMMIT was refused: %v", err)
			}
			if err := insertOrder(ctx, "stray"); !errors.Is(err, sqlitestore.ErrShared) {
				t.Errorf("a statement after the hidden COMMIT: %v, want ErrShared", err)
			}
			return onceward.Commit, testAnswer(""), nil
		},
		"a hidden ROLLBACK in a prepared statement": func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			stmt, err := sqlitestore.Tx(ctx).Prepare("SELECT 1; ROLLBACK")
			if err == nil {
				_, err = stmt.Exec()
			}
			if err != nil {
				t.Errorf("the hidden ROLLBACK was refused: %v", err)
			}
			return onceward.Commit, testAnswer(""), insertOrder(ctx, "stray")
		},
		"a conflict that rolls back": func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			if err := exec(ctx, "INSERT OR ROLLBACK INTO orders (name) VALUES ('k04'), ('k04')"); err == nil {
				t.Error("the conflict went through")
			}
			insertOrder(ctx, "stray") // a handler that looks at no error
			return onceward.Commit, testAnswer(""), nil
		},
		"the same in a query": func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			rows, err := sqlitestore.Tx(ctx).QueryContext(ctx, "INSERT OR ROLLBACK INTO orders (name) VALUES ('k04'), ('k04') RETURNING name")
			if err == nil {
				for rows.Next() {
				}
				err = rows.Err()
			}
			if err == nil {
				t.Error("the conflict went through")
			}
			insertOrder(ctx, "stray")
			return onceward.Undo, testAnswer(""), nil
		},
		"the savepoint let go": func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			insertOrder(ctx, "stray")
			return onceward.Undo, testAnswer(""), exec(ctx, "RELEASE onceward_request")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, 4, sqlitestore.Config{})
			errs := s.together(orderingEach(8, 4, work)...)
			if !errors.Is(errs[4], sqlitestore.ErrShared) {
				t.Errorf("the one who did it: %v, want ErrShared", errs[4])
			}
			s.exactly(8, 4, errs)
			if s.mustOrder("later", 1); t.Failed() {
				t.Log(s.spy.statements)
			}
		})
	}
}

// A deferred constraint is checked by the COMMIT, which is everybody's: the one who
// broke it fails, and nobody else.
func TestADeferredConstraintHarmsNobody(t *testing.T) {
	s := openShop(t, 1, sqlitestore.Config{})
	if _, err := s.db.Exec("PRAGMA foreign_keys=ON"); err != nil {
		t.Fatal(err)
	}
	errs := s.together(orderingEach(8, 3, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		_, err := sqlitestore.Tx(ctx).ExecContext(ctx, "INSERT INTO orders VALUES ('orphan', 'nobody')")
		return onceward.Commit, testAnswer(""), err
	})...)
	if errs[3] == nil || errors.Is(errs[3], onceward.ErrInProgress) || !strings.Contains(errs[3].Error(), "FOREIGN KEY") {
		t.Errorf("the one who broke it: %v", errs[3])
	}
	s.exactly(8, 3, errs)
}

// B037: a panic, or a goroutine that ends itself, undoes its own request only, and
// the writer goes on.
func TestAPanicInAWorkHarmsNobody(t *testing.T) {
	for name, work := range map[string]workFunc{
		"panic": func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			insertOrder(ctx, "stray")
			panic("a handler's mistake")
		},
		"error": func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			insertOrder(ctx, "stray")
			return onceward.Commit, testAnswer(""), errors.New("a handler's mistake")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, 4, sqlitestore.Config{})
			errs := s.together(orderingEach(8, 2, work)...)
			if errs[2] == nil || !strings.Contains(errs[2].Error(), "a handler's mistake") {
				t.Errorf("the one who made it: %v", errs[2])
			}
			s.exactly(8, 2, errs)
		})
	}
	t.Run("Goexit", func(t *testing.T) {
		s := openShop(t, 1, sqlitestore.Config{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.store.Transact(context.Background(), testClaim("goexit", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
				insertOrder(ctx, "stray")
				runtime.Goexit()
				return onceward.Commit, testAnswer(""), nil
			})
		}()
		<-ended
		s.mustOrder("later", 1)
		if got := s.orders(); got != "later" {
			t.Errorf("the orders are %q", got)
		}
	})
}

// Rows that a work leaves half read, of a query and of a write, are closed for it:
// open, they would keep the savepoint and the file's log from being ended.
func TestRowsLeftOpenHarmNobody(t *testing.T) {
	s := openShop(t, 4, sqlitestore.Config{})
	open := s.spy.open.Load()
	errs := s.together(orderingEach(6, 2, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		for _, text := range []string{
			"SELECT 1 UNION SELECT 2 UNION SELECT 3", "INSERT INTO orders (name) VALUES ('a'), ('b'), ('c') RETURNING name",
		} {
			rows, err := sqlitestore.Tx(ctx).Query(text)
			if err != nil || !rows.Next() {
				t.Errorf("%s: %v", text, err)
			}
		}
		if _, err := sqlitestore.Tx(ctx).Prepare("SELECT name FROM orders"); err != nil {
			t.Error(err)
		}
		return onceward.Undo, testAnswer(""), errors.New("and fails")
	})...)
	if n := s.spy.open.Load(); n != open {
		t.Errorf("%d statements are left prepared", n-open)
	}
	s.exactly(6, 2, errs)
	var busy, log, checkpointed int
	if err := s.db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &checkpointed); err != nil || busy != 0 || log != 0 {
		t.Errorf("the log cannot be ended: busy %d, %d frames, %v", busy, log, err)
	}
	if begun := s.spy.count("BEGIN IMMEDIATE"); begun > 3 {
		t.Errorf("%d transactions: the batch was voided", begun)
	}
}

// When the work returns, a statement under way is waited for and belongs to it; one
// that waits behind it comes too late.
func TestAStatementUnderWayIsWaitedFor(t *testing.T) {
	s := openShop(t, 1, sqlitestore.Config{})
	slow := s.spy.hold("INSERT INTO orders (name) VALUES ('slow')")
	underWay, behind := make(chan error, 1), make(chan error, 1)
	_, ran, err := s.store.Transact(t.Context(), testClaim("key", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		tx := sqlitestore.Tx(ctx)
		exec := func(name string, done chan<- error) {
			_, err := tx.Exec("INSERT INTO orders (name) VALUES ('" + name + "')")
			done <- err
		}
		go exec("slow", underWay)
		<-slow.reached
		go exec("behind", behind)
		time.AfterFunc(50*time.Millisecond, func() { close(slow.open) })
		time.Sleep(20 * time.Millisecond)
		return onceward.Commit, testAnswer(""), nil
	})
	if err != nil || !ran {
		t.Errorf("ran %v, %v", ran, err)
	}
	if err := <-underWay; err != nil {
		t.Errorf("the statement under way: %v", err)
	}
	if err := <-behind; !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("the statement behind it: %v, want sql.ErrTxDone", err)
	}
	if got := s.orders(); got != "slow" {
		t.Errorf("the orders are %q", got)
	}
}

// A goroutine that a work leaves behind, with rows half read and statements
// prepared, reaches neither the transactions that follow nor the answer.
func TestGoroutinesLeftBehindAreShutOut(t *testing.T) {
	s := openShop(t, 1, sqlitestore.Config{})
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("old-%02d", i)
		s.mustOrder(name, i+1)
		want = append(want, name)
	}
	stop := make(chan struct{})
	var zombies sync.WaitGroup
	for i := range 10 {
		var returned atomic.Bool
		_, ran, err := s.store.Transact(t.Context(), testClaim(keyName(i), 100+i), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			ctx = context.WithoutCancel(ctx)
			tx := sqlitestore.Tx(ctx)
			stmt, err := tx.Prepare("INSERT INTO orders (name) VALUES (?)")
			if err != nil {
				return onceward.Abort, nil, err
			}
			begun := make(chan struct{}, 4)
			for z := range 4 {
				zombies.Go(func() { haunt(t, ctx, stmt, fmt.Sprintf("zombie-%d-%d", i, z), &returned, begun, stop) })
				<-begun
			}
			return onceward.Undo, testAnswer(""), nil
		})
		returned.Store(true)
		if err != nil || !ran {
			t.Fatalf("ran %v, %v", ran, err)
		}
		name := fmt.Sprintf("z-%02d", i)
		s.mustOrder(name, 200+i)
		want = append(want, name)
	}
	close(stop)
	zombies.Wait()
	if got := s.orders(); got != strings.Join(want, " ") {
		t.Errorf("the orders are %s", got)
	}
	if n := s.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}

// haunt uses a transaction in every way that it can, until it is stopped.
func haunt(t *testing.T, ctx context.Context, stmt *sql.Stmt, name string, returned *atomic.Bool, begun chan<- struct{}, stop <-chan struct{}) {
	tx := sqlitestore.Tx(ctx)
	rows, err := tx.Query("SELECT name FROM orders")
	if err != nil {
		t.Error(err)
		return
	}
	for n := 0; ; n++ {
		late := returned.Load()
		if _, err := stmt.Exec(fmt.Sprint(name, n)); err == nil && late {
			t.Error("a statement was accepted after its work had returned")
		}
		insertOrder(ctx, fmt.Sprint(name, n, "b"))
		tx.Exec("DELETE FROM orders WHERE name LIKE 'old-%'")
		rows.Next()
		var got string
		rows.Scan(&got)
		switch {
		case n == 0:
			begun <- struct{}{}
		case late && n%7 == 0:
			rows.Close()
			stmt.Close()
			tx.Rollback()
			tx.Commit()
		}
		select {
		case <-stop:
			return
		default:
			runtime.Gosched()
		}
	}
}

// The store may be asked from inside a work for what it can read or write in that
// very transaction; what would wait for itself is refused at once.
func TestCallsFromInsideAWork(t *testing.T) {
	s := openShop(t, 1, sqlitestore.Config{})
	s.mustOrder("before", 1)
	_, ran, err := s.store.Transact(t.Context(), testClaim("key", 2), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		c := testClaim("before", 3)
		for name, err := range map[string]error{
			"Claim":    second(s.store.Claim(ctx, c)),
			"Transact": second(s.store.Transact(ctx, c, ordering("inner"))),
			"Extend":   s.store.Extend(ctx, c.Key, c.Token, time.Hour, false),
			"Complete": s.store.Complete(ctx, c.Key, c.Token, testAnswer(""), time.Hour),
			"Release":  s.store.Release(ctx, c.Key, c.Token),
		} {
			if !errors.Is(err, sqlitestore.ErrInside) {
				t.Errorf("%s inside a work: %v, want ErrInside", name, err)
			}
		}
		if rec, found, err := s.store.Look(ctx, c.Key); err != nil || !found || string(rec.Response.Body) != "before" {
			t.Errorf("Look inside a work: found %v, %v", found, err)
		}
		if records, err := s.store.List(ctx, onceward.Query{}); err != nil || len(records) != 1 {
			t.Errorf("List inside a work: %d records, %v", len(records), err)
		}
		if err := s.store.Forget(ctx, c.Key.Scope); err != nil {
			t.Errorf("Forget inside a work: %v", err)
		}
		if _, found, err := s.store.Look(ctx, c.Key); err != nil || found {
			t.Errorf("Look after Forget in the same work: found %v, %v", found, err)
		}
		return onceward.Commit, testAnswer("key"), nil
	})
	if err != nil || !ran {
		t.Fatalf("ran %v, %v", ran, err)
	}
	// The account's deletion is itself a request that has its answer.
	if got := s.answered("before", "key"); got != "key" {
		t.Errorf("answered are %q, want only the request that forgot the rest", got)
	}
}
