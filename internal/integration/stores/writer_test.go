package stores_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

func testClaim(key string, n int) onceward.Claim {
	c := processClaim(key, n)
	c.Lease = time.Hour
	return c
}

func testAnswer(body string) *onceward.Response {
	return &onceward.Response{Status: 201, Header: map[string][]string{"Location": {"/1"}}, Body: []byte(body)}
}

// What gathers behind a slow commit shares the next one.
func TestRequestsShareACommit(t *testing.T) {
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	slow := spy.hold("COMMIT")
	spy.forget()
	const n = 100
	errs := make(chan error, n+1)
	claim := func(i int) {
		_, claimed, err := store.Claim(t.Context(), testClaim(fmt.Sprint("key-", i), i+1))
		if err == nil && !claimed {
			err = errors.New("not claimed")
		}
		errs <- err
	}
	go claim(n)
	<-slow.reached
	for i := range n {
		go claim(i)
	}
	waitUntilQueued(t, n+1)
	close(slow.open)
	for range n + 1 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if begun, committed := spy.count("BEGIN IMMEDIATE"), spy.count("COMMIT"); begun != 2 || committed != 2 {
		t.Errorf("%d claims took %d BEGIN IMMEDIATE and %d COMMIT, want 2 and 2", n+1, begun, committed)
	}
}

// Nobody may act on a claim that could still be lost.
func TestNobodyIsAnsweredBeforeTheCommit(t *testing.T) {
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	slow := spy.hold("COMMIT")
	answered := make(chan error, 1)
	go func() {
		_, _, err := store.Claim(t.Context(), testClaim("key", 1))
		answered <- err
	}()
	<-slow.reached
	select {
	case err := <-answered:
		t.Fatalf("Claim returned (%v) while its COMMIT had not run", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(slow.open)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}

// A caller who leaves gets his context's error at once; the batch goes on for
// the others, and his repeated call under the same token finds the claim.
func TestACallerMayLeaveABatch(t *testing.T) {
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	slow := spy.hold("COMMIT")
	ctx, leave := context.WithCancel(t.Context())
	left, stayed := make(chan error, 1), make(chan error, 1)
	first := make(chan error, 1)
	go func() {
		_, _, err := store.Claim(ctx, testClaim("impatient", 1))
		first <- err
	}()
	<-slow.reached // that one is in a batch of its own
	go func() {
		_, _, err := store.Claim(ctx, testClaim("queued", 2))
		left <- err
	}()
	go func() {
		_, _, err := store.Claim(t.Context(), testClaim("patient", 3))
		stayed <- err
	}()
	waitUntilQueued(t, 3)
	leave()
	for who, ch := range map[string]chan error{"in the batch": first, "in the queue": left} {
		if err := <-ch; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller %s who left got %v, want context.Canceled", who, err)
		}
	}
	close(slow.open)
	if err := <-stayed; err != nil {
		t.Fatal(err)
	}
	again, claimed, err := store.Claim(t.Context(), testClaim("impatient", 1))
	if err != nil || !claimed || again.Attempt != 1 {
		t.Errorf("the repeated claim: claimed %v, attempt %d, error %v", claimed, again.Attempt, err)
	}
	// A claim that had not begun when its caller left is not made at all: it
	// would lock the key with nobody behind it.
	if _, claimed, err := store.Claim(t.Context(), testClaim("queued", 9)); err != nil || !claimed {
		t.Errorf("the key whose caller left the queue: claimed %v, error %v", claimed, err)
	}
}

// What an owner sends goes before what begins new work, even if it came later:
// the lease that is renewed here is over, and a take-over stands in the queue
// before the renewal.
func TestRenewalsGoBeforeClaims(t *testing.T) {
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	owner := testClaim("key", 1)
	owner.Lease = 0
	if _, _, err := store.Claim(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	slow := spy.hold("COMMIT")
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { store.Claim(t.Context(), testClaim("other", 2)) })
	<-slow.reached
	taken := make(chan bool, 1)
	wg.Go(func() {
		c := testClaim("key", 3)
		c.TakeOver = true
		_, claimed, err := store.Claim(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		taken <- claimed
	})
	waitUntilQueued(t, 2)
	renewed := make(chan error, 1)
	wg.Go(func() { renewed <- store.Extend(t.Context(), owner.Key, owner.Token, time.Hour, false) })
	waitUntilQueued(t, 3)
	close(slow.open)
	if err := <-renewed; err != nil {
		t.Errorf("the renewal: %v", err)
	}
	if <-taken {
		t.Error("the take-over went before a renewal in the same batch")
	}
}

// Somebody else holds the write lock for a while: the store waits and nobody
// sees an error.
func TestABusyFileIsWaitedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.db")
	store := openStore(t, openPool(t, file), sqlitestore.Config{})
	free := lockFile(t, file)
	errs := make(chan error, 20)
	for i := range 10 {
		go func() {
			c := testClaim(fmt.Sprint("key-", i), i+1)
			_, _, err := store.Claim(t.Context(), c)
			errs <- err
			errs <- store.Complete(t.Context(), c.Key, c.Token, testAnswer("done"), time.Hour)
		}()
	}
	waitUntilQueued(t, 10)
	time.Sleep(100 * time.Millisecond)
	free()
	for range 20 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

// The wait for a lock is bounded, and what was not written is not there.
func TestALockHeldTooLongIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.db")
	store := openStore(t, openPool(t, file), sqlitestore.Config{Patience: 30 * time.Millisecond})
	free := lockFile(t, file)
	_, _, err := store.Claim(t.Context(), testClaim("key", 1))
	if err == nil || !strings.Contains(err.Error(), "write lock") {
		t.Errorf("Claim of a locked file: %v", err)
	}
	free()
	if _, claimed, err := store.Claim(t.Context(), testClaim("key", 2)); err != nil || !claimed {
		t.Errorf("after the lock: claimed %v, error %v", claimed, err)
	}
}

// lockFile takes SQLite's write lock on a connection of its own.
func lockFile(t *testing.T, file string) (free func()) {
	t.Helper()
	conn, err := openPool(t, file).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		conn.Close()
	})
}

// An error in COMMIT leaves the outcome open. Every member of the batch gets it,
// and the same calls again settle the matter.
func TestAFailedCommitIsEverybodysError(t *testing.T) {
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	broken := errors.New("the disk is on fire")
	slow := spy.hold("COMMIT")
	errs := make(chan error, 11)
	claim := func(i int) {
		_, _, err := store.Claim(t.Context(), testClaim(fmt.Sprint("key-", i), i+1))
		errs <- err
	}
	go claim(10)
	<-slow.reached
	for i := range 10 {
		go claim(i)
	}
	waitUntilQueued(t, 11)
	spy.meet(func(statement string) error {
		if statement == "COMMIT" {
			return broken
		}
		return nil
	})
	close(slow.open) // the held COMMIT is the last that works
	if err := <-errs; err != nil {
		t.Errorf("the claim whose COMMIT worked: %v", err)
	}
	for range 10 {
		if err := <-errs; !errors.Is(err, broken) {
			t.Errorf("a claim whose COMMIT failed: %v, want the driver's error", err)
		}
	}
	spy.meet(nil)
	for i := range 10 {
		if rec, claimed, err := store.Claim(t.Context(), testClaim(fmt.Sprint("key-", i), i+1)); err != nil || !claimed || rec.Attempt != 1 {
			t.Errorf("the same claim again: claimed %v, attempt %d, error %v", claimed, rec.Attempt, err)
		}
	}
}

// One request that SQLite refuses, even by ending everybody's transaction, is
// its own failure and nobody else's.
func TestOneRefusedRequestHarmsNobody(t *testing.T) {
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	_, err := db.Exec(`CREATE TRIGGER poison BEFORE INSERT ON idempotency_keys WHEN NEW.path = '/poison'
		BEGIN SELECT RAISE(ROLLBACK, 'poisoned'); END`)
	if err != nil {
		t.Fatal(err)
	}
	slow := spy.hold("COMMIT")
	var wg sync.WaitGroup
	wg.Go(func() { store.Claim(t.Context(), testClaim("first", 1)) })
	<-slow.reached
	for i := range 9 {
		wg.Go(func() {
			c := testClaim(fmt.Sprint("key-", i), i+10)
			if i == 4 {
				c.Path = "/poison"
			}
			_, claimed, err := store.Claim(t.Context(), c)
			if i == 4 && (err == nil || !strings.Contains(err.Error(), "poisoned")) {
				t.Errorf("the refused claim: claimed %v, error %v", claimed, err)
			}
			if i != 4 && (err != nil || !claimed) {
				t.Errorf("claim %d beside it: claimed %v, error %v", i, claimed, err)
			}
		})
	}
	waitUntilQueued(t, 10)
	close(slow.open)
	wg.Wait()
}

// A replay takes no lock and writes nothing.
func TestAReplayIsOnlyRead(t *testing.T) {
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	c := testClaim("key", 1)
	if _, _, err := store.Claim(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := store.Complete(t.Context(), c.Key, c.Token, testAnswer("done"), time.Hour); err != nil {
		t.Fatal(err)
	}
	spy.forget()
	free := lockFile(t, fileOf(t, db)) // and nobody's lock is in its way
	defer free()
	for i := range 5 {
		rec, claimed, err := store.Claim(t.Context(), testClaim("key", i+2))
		if err != nil || claimed || string(rec.Response.Body) != "done" {
			t.Fatalf("replay %d: claimed %v, error %v", i, claimed, err)
		}
	}
	if n := spy.count("BEGIN"); n != 0 {
		t.Errorf("5 replays began %d transactions", n)
	}
	if n := spy.count("SELECT"); n != 5 {
		t.Errorf("5 replays took %d SELECTs", n)
	}
}

func fileOf(t testing.TB, db *sql.DB) string {
	t.Helper()
	var seq int
	var name, file string
	if err := db.QueryRow("PRAGMA database_list").Scan(&seq, &name, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// The sweep finds what has expired by its index, not by reading the table.
func TestTheSweepUsesItsIndex(t *testing.T) {
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	spy.forget()
	if _, err := store.Sweep(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	plan := ""
	spy.mu.Lock()
	statements := spy.statements
	spy.mu.Unlock()
	for _, statement := range statements {
		if !strings.HasPrefix(statement, "DELETE") {
			continue
		}
		rows, err := db.Query("EXPLAIN QUERY PLAN "+statement, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan += detail + "\n"
		}
	}
	if !strings.Contains(plan, "INDEX idempotency_keys_expires (expires_at<?)") || strings.Contains(plan, "SCAN idempotency_keys") {
		t.Errorf("the plan of the sweep:\n%s", plan)
	}
}

// A large sweep is many small batches, so that claims get in between.
func TestASweepWorksInSteps(t *testing.T) {
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			c := testClaim(fmt.Sprint("key-", i), i+1)
			if _, _, err := store.Claim(t.Context(), c); err != nil {
				t.Error(err)
			}
			if err := store.Complete(t.Context(), c.Key, c.Token, testAnswer("done"), 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	spy.forget()
	n, err := store.Sweep(t.Context(), 250)
	if err != nil || n != 250 {
		t.Fatalf("Sweep(250) deleted %d, error %v", n, err)
	}
	if steps := spy.count("COMMIT"); steps < 4 {
		t.Errorf("Sweep(250) took %d commits, want small steps", steps)
	}
	if n, err := store.Sweep(t.Context(), 1000); err != nil || n != 50 {
		t.Errorf("the rest: %d, error %v", n, err)
	}
	var rows int
	if err := db.QueryRow("SELECT count(*) FROM idempotency_keys").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows are left, error %v", rows, err)
	}
}
