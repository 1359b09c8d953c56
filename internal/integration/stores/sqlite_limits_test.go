package stores_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// One handler that does not come back, and does not look at its context, delays the
// others until its time is over and no longer; nothing of it is kept.
func TestAStuckWorkDelaysOthersByItsLimit(t *testing.T) {
	for name, byContext := range map[string]bool{"its context's": true, "the store's": false} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			cfg, want := sqlitestore.Config{MaxWork: 200 * time.Millisecond}, context.DeadlineExceeded
			if byContext {
				cfg, want = sqlitestore.Config{MaxWork: -1}, context.Canceled
			}
			s := openShop(t, 1, cfg)
			begun, release := make(chan struct{}), make(chan struct{})
			stuck := make(chan error, 1)
			go func() {
				_, _, err := s.store.Transact(ctx, testClaim("stuck", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
					err := insertOrder(ctx, "stuck")
					close(begun)
					<-release
					if err := insertOrder(ctx, "stray"); err == nil {
						t.Error("a statement past the limit was accepted")
					}
					return onceward.Commit, testAnswer(""), err
				})
				stuck <- err
			}()
			<-begun
			if byContext {
				cancel()
			}
			for i := range 3 { // while it is still there
				s.mustOrder(keyName(i), 10+i)
			}
			select {
			case err := <-stuck:
				t.Errorf("Transact returned (%v) before its work", err)
			default:
			}
			close(release)
			if err := <-stuck; !errors.Is(err, want) || errors.Is(err, onceward.ErrInProgress) {
				t.Errorf("the stuck one: %v, want %v", err, want)
			}
			if got := s.orders(); got != "k00 k01 k02" {
				t.Errorf("the orders are %q", got)
			}
			s.mustOrder("stuck", 2) // and the key is free
		})
	}
}

// A work that comes back too late and has its own reason is believed.
func TestALateWorkMayStillAbort(t *testing.T) {
	s := openShop(t, 1, sqlitestore.Config{})
	for name, late := range map[string]error{"abort": nil, "error": errors.New("too slow")} {
		ctx, cancel := context.WithCancel(t.Context())
		rec, ran, err := s.store.Transact(ctx, testClaim(name, 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			insertOrder(ctx, name)
			cancel()
			time.Sleep(20 * time.Millisecond)
			return onceward.Abort, nil, late
		})
		if err != late || ran != (late == nil) || rec.State != 0 {
			t.Errorf("%s: ran %v, %v", name, ran, err)
		}
	}
	if got := s.orders(); got != "" {
		t.Errorf("the orders are %q", got)
	}
}

// A write that goes past sqlitestore.Tx waits for its own transaction. It is not
// for ever, the error says what is wrong, and the others are served.
func TestAWritePastTheTransactionEnds(t *testing.T) {
	t.Run("for the only connection", func(t *testing.T) {
		s := openShop(t, 1, sqlitestore.Config{MaxWork: 100 * time.Millisecond})
		_, _, err := s.store.Transact(t.Context(), testClaim("past", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			_, err := s.db.ExecContext(context.Background(), "INSERT INTO orders (name) VALUES ('past')")
			if err != nil {
				t.Errorf("when the connection is back: %v", err)
			}
			return onceward.Commit, testAnswer(""), nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "sqlitestore.Tx") {
			t.Errorf("Transact: %v, want the deadline and a word about sqlitestore.Tx", err)
		}
		s.mustOrder("later", 1)
	})
	t.Run("for the lock", func(t *testing.T) {
		s := openShop(t, 4, sqlitestore.Config{})
		_, _, err := s.store.Transact(t.Context(), testClaim("past", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			_, err := s.db.ExecContext(ctx, "INSERT INTO orders (name) VALUES ('past')")
			return onceward.Commit, testAnswer(""), err
		})
		if err == nil || !strings.Contains(err.Error(), "locked") {
			t.Errorf("Transact: %v, want the driver's error", err)
		}
		s.mustOrder("later", 1)
		if got := s.orders(); got != "later" {
			t.Errorf("the orders are %q", got)
		}
	})
}

// A statement under way is never interrupted, because that would end everybody's
// transaction: the context is asked between statements.
func TestTheContextIsAskedBetweenStatements(t *testing.T) {
	s := openShop(t, 4, sqlitestore.Config{})
	errs := s.together(orderingEach(5, 2, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(5*time.Millisecond, cancel)
		tx := sqlitestore.Tx(ctx)
		// Some tens of milliseconds of work in one statement.
		_, err := tx.ExecContext(ctx, `INSERT INTO orders (name) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 15000)
			SELECT 'many-' || i FROM n`)
		if err != nil {
			t.Errorf("the statement that was under way: %v", err)
		}
		<-ctx.Done()
		err = insertOrder(ctx, "stray")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the next statement: %v, want the context's error", err)
		}
		return onceward.Undo, testAnswer(""), err
	})...)
	if !errors.Is(errs[2], context.Canceled) {
		t.Errorf("the cancelled one: %v", errs[2])
	}
	s.exactly(5, 2, errs)
	if begun := s.spy.count("BEGIN IMMEDIATE"); begun > 3 {
		t.Errorf("%d transactions: the batch was voided", begun)
	}
}

// A batch of works that take their time is committed in parts, so that those who
// are done need not wait for all.
func TestABatchOfSlowWorksEndsEarly(t *testing.T) {
	s := openShop(t, 4, sqlitestore.Config{})
	works := orderingEach(8, -1, nil)
	for i, work := range works {
		works[i] = func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			time.Sleep(8 * time.Millisecond)
			return work(ctx)
		}
	}
	s.exactly(8, -1, s.together(works...))
	if n := s.spy.count("COMMIT"); n < 3 {
		t.Errorf("8 works of 8 ms were committed in %d parts, want at least 3", n)
	}
}

// What an owner sends, and claims, go before works, even if they came later.
func TestWorksGoLast(t *testing.T) {
	s := openShop(t, 4, sqlitestore.Config{})
	owner := testClaim("owner", 1)
	if _, _, err := s.store.Claim(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	slow := s.spy.hold("COMMIT")
	var wg sync.WaitGroup
	wg.Go(func() { s.store.Claim(context.Background(), testClaim("first", 2)) })
	<-slow.reached
	wg.Go(func() { s.mustOrder("work", 3) })
	waitUntilQueued(t, 2)
	wg.Go(func() { s.store.Claim(context.Background(), testClaim("claim", 4)) })
	waitUntilQueued(t, 3)
	wg.Go(func() { s.store.Extend(context.Background(), owner.Key, owner.Token, time.Hour, false) })
	waitUntilQueued(t, 4)
	s.spy.forget()
	close(slow.open)
	wg.Wait()
	s.spy.mu.Lock()
	defer s.spy.mu.Unlock()
	var order []string
	for _, statement := range s.spy.statements {
		switch {
		case strings.HasPrefix(statement, "UPDATE idempotency_keys"):
			order = append(order, "extend")
		case strings.HasPrefix(statement, "INSERT INTO idempotency_keys") && strings.Contains(statement, "DO NOTHING"):
			order = append(order, "claim")
		case strings.HasPrefix(statement, "INSERT INTO orders"):
			order = append(order, "work")
		}
	}
	if got := strings.Join(order, " "); got != "extend claim work" {
		t.Errorf("the order is %s", got)
	}
}

// The database has committed and its answer was lost: the record under the own
// token tells, nothing runs twice and nobody gets an error.
func TestALostCommitIsLookedUp(t *testing.T) {
	for _, n := range []int{1, 6} {
		s := openShop(t, 4, sqlitestore.Config{})
		calls := make([]int, n)
		works := orderingEach(n, -1, nil)
		for i, work := range works {
			works[i] = func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
				calls[i]++
				return work(ctx)
			}
		}
		var once sync.Once
		s.spy.lose(func(statement string) (err error) {
			// The first COMMIT is that of together's claim.
			if statement == "COMMIT" && s.spy.count("INSERT INTO orders") == n {
				once.Do(func() { err = errors.New("connection reset") })
			}
			return err
		})
		errs := s.together(works...)
		s.spy.lose(nil)
		s.exactly(n, -1, errs)
		for i, c := range calls {
			if c != 1 {
				t.Errorf("work %d of %d ran %d times, want 1: its commit had succeeded", i, n, c)
			}
		}
	}
}

// When not even looking is possible, the error says that nobody knows, and the same
// call again settles it.
func TestACommitThatNobodyKnowsOf(t *testing.T) {
	s := openShop(t, 4, sqlitestore.Config{})
	broken := errors.New("the disk is gone")
	s.spy.lose(func(statement string) error {
		if statement != "COMMIT" {
			return nil
		}
		s.spy.meet(func(string) error { return broken })
		return broken
	})
	_, _, err := s.order("key", 1)
	if !errors.Is(err, onceward.ErrInProgress) || !errors.Is(err, broken) {
		t.Errorf("Transact: %v, want ErrInProgress and the driver's error", err)
	}
	s.spy.lose(nil)
	s.spy.meet(nil)
	if rec, ran, err := s.order("key", 1); err != nil || ran || rec.State != onceward.Completed {
		t.Errorf("the same call again: ran %v, %v, %v", ran, rec.State, err)
	}
	if got := s.orders(); got != "key" {
		t.Errorf("the orders are %q", got)
	}
}

// failing is a disk that fails at the n-th statement that it is asked for.
type failing struct {
	n     int
	stays bool // it fails from then on

	mu   sync.Mutex
	seen int
	at   string // the first statement that failed
}

var errDisk = errors.New("disk I/O error")

func (f *failing) statement(text string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	if f.seen < f.n || f.seen > f.n && !f.stays {
		return nil
	}
	if f.at == "" {
		f.at = text
	}
	return errDisk
}

// A disk that fails at the n-th statement, once or from then on, for every n, before
// the statement was done or after it: order and answer agree for each request, an
// error means neither (or that nobody knows), and once the disk is well again all of
// them can be ordered.
func TestErrorsAtEveryStatement(t *testing.T) {
	for _, mode := range []struct {
		name        string
		stays, done bool
	}{
		{"once", false, false},
		{"from then on", true, false},
		{"once, when it was done", false, true},
		{"from then on, when it was done", true, true},
	} {
		t.Run(mode.name, func(t *testing.T) {
			s := openShop(t, 4, sqlitestore.Config{})
			for n := 1; !t.Failed(); n++ {
				disk := &failing{n: n, stays: mode.stays}
				failAtOneStatement(s, n, disk, mode.done)
				if disk.at == "" {
					if n < 20 {
						t.Errorf("only %d statements were met", n)
					}
					break
				}
			}
		})
	}
}

func failAtOneStatement(s *shop, n int, disk *failing, done bool) {
	s.Helper()
	verdicts := []onceward.Verdict{onceward.Commit, onceward.Undo, onceward.Commit, onceward.Abort}
	name := func(i int) string { return fmt.Sprintf("round-%d-%d", n, i) }
	transact := func(i, token int) (bool, error) {
		_, ran, err := s.store.Transact(context.Background(), testClaim(name(i), token), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			return verdicts[i], testAnswer(name(i)), insertOrder(ctx, name(i))
		})
		return ran, err
	}
	errs, rans := make([]error, len(verdicts)), make([]bool, len(verdicts))
	// They gather behind a commit that is held up and does not count.
	slow := s.spy.hold("COMMIT")
	var wg sync.WaitGroup
	wg.Go(func() { s.store.Claim(context.Background(), testClaim(fmt.Sprint("gate-", n), 1)) })
	<-slow.reached
	for i := range verdicts {
		wg.Go(func() { rans[i], errs[i] = transact(i, 10+i) })
		waitUntilQueued(s, i+2)
	}
	if done {
		var gate sync.Once
		s.spy.lose(func(statement string) (err error) {
			first := false
			gate.Do(func() { first = true })
			if first {
				return nil
			}
			return disk.statement(statement)
		})
	} else {
		s.spy.meet(disk.statement)
	}
	close(slow.open)
	wg.Wait()
	s.spy.meet(nil)
	s.spy.lose(nil)

	failed := 0
	for i, verdict := range verdicts {
		kept := s.answered(name(i)) != ""
		var rows, want int
		if err := s.db.QueryRow("SELECT count(*) FROM orders WHERE name = ?", name(i)).Scan(&rows); err != nil {
			s.Fatal(err)
		}
		if kept && verdict == onceward.Commit {
			want = 1
		}
		if errs[i] != nil {
			failed++
		}
		switch {
		case rows != want:
			s.Errorf("statement %d (%s), %v: %d orders and answered %v (%v)", n, disk.at, verdict, rows, kept, errs[i])
		case errs[i] != nil && kept && !errors.Is(errs[i], onceward.ErrInProgress):
			s.Errorf("statement %d (%s), %v: the error %v for what is kept", n, disk.at, verdict, errs[i])
		case errs[i] == nil && (!rans[i] || kept != (verdict != onceward.Abort)):
			s.Errorf("statement %d (%s), %v: no error, ran %v, answered %v", n, disk.at, verdict, rans[i], kept)
		case errs[i] != nil && !errors.Is(errs[i], errDisk) && !errors.Is(errs[i], sqlitestore.ErrShared):
			s.Errorf("statement %d (%s), %v: %v", n, disk.at, verdict, errs[i])
		}
	}
	// Without a transaction nobody can be served; every other failure is one's own.
	if !disk.stays && failed > 1 && disk.at != "BEGIN IMMEDIATE" && !strings.HasPrefix(disk.at, "PRAGMA") {
		s.Errorf("statement %d (%s) failed once and %d requests have an error: %v", n, disk.at, failed, errs)
	}
	for i := range verdicts { // well again
		if _, err := transact(i, 20+i); err != nil {
			s.Fatalf("statement %d (%s): afterwards %v", n, disk.at, err)
		}
	}
}

// Closing lets the work under way be committed; who comes later is refused.
func TestCloseWaitsForAWork(t *testing.T) {
	s := openShop(t, 1, sqlitestore.Config{})
	begun, release := make(chan struct{}), make(chan struct{})
	worked := make(chan error, 1)
	go func() {
		_, _, err := s.store.Transact(context.Background(), testClaim("last", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			close(begun)
			<-release
			return ordering("last")(ctx)
		})
		worked <- err
	}()
	<-begun
	closed := make(chan error, 1)
	go func() { closed <- s.store.Close(context.Background()) }()
	select {
	case err := <-closed:
		t.Errorf("Close returned (%v) while a work had the connection", err)
	case <-time.After(30 * time.Millisecond):
	}
	close(release)
	if err := <-worked; err != nil {
		t.Errorf("the work under way: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, _, err := s.order("late", 2); !errors.Is(err, sqlitestore.ErrClosed) {
		t.Errorf("Transact after Close: %v, want ErrClosed", err)
	}
	if got := s.orders(); got != "last" {
		t.Errorf("the orders are %q", got)
	}
}

// A caller who leaves the queue has written nothing; one who leaves while the commit
// is under way is told that nobody knows yet.
func TestACallerMayLeaveATransaction(t *testing.T) {
	s := openShop(t, 4, sqlitestore.Config{})
	slow := s.spy.hold("COMMIT")
	ctx, leave := context.WithCancel(t.Context())
	committing, queued := make(chan error, 1), make(chan error, 1)
	go func() {
		_, _, err := s.store.Transact(ctx, testClaim("committing", 1), ordering("committing"))
		committing <- err
	}()
	<-slow.reached
	go func() {
		_, _, err := s.store.Transact(ctx, testClaim("queued", 2), ordering("queued"))
		queued <- err
	}()
	waitUntilQueued(t, 2)
	leave()
	if err := <-committing; !errors.Is(err, onceward.ErrInProgress) || !errors.Is(err, context.Canceled) {
		t.Errorf("who left during the commit: %v, want ErrInProgress", err)
	}
	if err := <-queued; !errors.Is(err, context.Canceled) || errors.Is(err, onceward.ErrInProgress) {
		t.Errorf("who left the queue: %v, want the context's error", err)
	}
	close(slow.open)
	if rec, ran, err := s.order("committing", 3); err != nil || ran || rec.State != onceward.Completed {
		t.Errorf("the same request again: ran %v, %v, %v", ran, rec.State, err)
	}
	if got := s.orders(); got != "committing" {
		t.Errorf("the orders are %q", got)
	}
}
