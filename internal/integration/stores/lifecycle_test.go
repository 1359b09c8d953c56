package stores_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/assert"
	"github.com/onceward/onceward/sqlitestore"
)

func TestReopenedTheFileStillHasItsRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.db")
	done, open := testClaim("done", 1), testClaim("open", 2)
	for round := range 3 { // the migration is there already from the second on
		db := openPool(t, file)
		store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			for _, c := range []onceward.Claim{done, open} {
				if _, claimed, err := store.Claim(t.Context(), c); err != nil || !claimed {
					t.Fatalf("claimed %v, error %v", claimed, err)
				}
			}
			if err := store.Complete(t.Context(), done.Key, done.Token, testAnswer("done"), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		rec, claimed, err := store.Claim(t.Context(), testClaim("done", 3))
		if err != nil || claimed || rec.State != onceward.Completed || string(rec.Response.Body) != "done" {
			t.Errorf("round %d: the answer: claimed %v, state %v, error %v", round, claimed, rec.State, err)
		}
		if rec, claimed, err = store.Claim(t.Context(), testClaim("open", 3)); err != nil || claimed || rec.Token != open.Token {
			t.Errorf("round %d: the claim in progress: claimed %v, error %v", round, claimed, err)
		}
		if err := store.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		db.Close()
	}
}

func TestManyMayMigrateAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.db")
	var wg sync.WaitGroup
	for range 8 {
		db := openPool(t, file)
		wg.Go(func() {
			store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := store.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestANewerSchemaIsRefused(t *testing.T) {
	db := openPool(t, filepath.Join(t.TempDir(), "keys.db"))
	openStore(t, db, sqlitestore.Config{})
	if _, err := db.Exec("UPDATE idempotency_schema SET version = 99"); err != nil {
		t.Fatal(err)
	}
	_, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if !errors.Is(err, sqlitestore.ErrNewerSchema) || !strings.Contains(err.Error(), "99") {
		t.Errorf("New on a newer schema: %v", err)
	}
	var version int
	if err := db.QueryRow("SELECT version FROM idempotency_schema").Scan(&version); err != nil || version != 99 {
		t.Errorf("the version is %d afterwards, error %v", version, err)
	}
}

func TestAStrangersTableIsLeftAlone(t *testing.T) {
	db := openPool(t, filepath.Join(t.TempDir(), "keys.db"))
	if _, err := db.Exec("CREATE TABLE idempotency_keys (mine TEXT); INSERT INTO idempotency_keys VALUES ('here first')"); err != nil {
		t.Fatal(err)
	}
	_, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("New on a stranger's table: %v", err)
	}
	var mine string
	if err := db.QueryRow("SELECT mine FROM idempotency_keys").Scan(&mine); err != nil || mine != "here first" {
		t.Errorf("the table holds %q, error %v", mine, err)
	}
	if err := db.QueryRow("SELECT version FROM idempotency_schema").Scan(new(int)); err == nil {
		t.Error("a half migration was left behind")
	}
}

// A database in memory is another one for each connection: two requests, two
// memories.
func TestAMemoryDatabaseIsRefused(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err == nil || !strings.Contains(err.Error(), "write-ahead log") {
		t.Errorf("New on :memory: %v", err)
	}
}

// The seed's facts, under their names, for people with a SQL prompt.
func TestTheTableTellsTheStory(t *testing.T) {
	db := openPool(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	before := time.Now().UnixMilli()
	c := testClaim("key", 1)
	if _, _, err := store.Claim(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var (
		method, path, scope, key string
		created                  int64
		completed, status        sql.NullInt64
	)
	read := func() {
		t.Helper()
		err := db.QueryRow("SELECT hex(scope), hex(key), method, path, created_at, completed_at, status FROM idempotency_keys").
			Scan(&scope, &key, &method, &path, &created, &completed, &status)
		if err != nil {
			t.Fatal(err)
		}
	}
	read()
	if method != "POST" || path != "/orders" || created < before || created > time.Now().UnixMilli() || completed.Valid || status.Valid {
		t.Errorf("in progress: %s %s, created %d, completed %v, status %v", method, path, created, completed, status)
	}
	if !strings.EqualFold(scope, fmt.Sprintf("%x", c.Key.Scope)) || !strings.EqualFold(key, fmt.Sprintf("%x", c.Key.ID)) {
		t.Errorf("scope %s, key %s", scope, key)
	}
	if err := store.Complete(t.Context(), c.Key, c.Token, testAnswer("done"), time.Hour); err != nil {
		t.Fatal(err)
	}
	read()
	if !completed.Valid || completed.Int64 < created || status.Int64 != 201 {
		t.Errorf("completed: completed %v, status %v", completed, status)
	}
}

// The store makes its commits durable on whatever connection it is given, and
// changes nothing else of it.
func TestCommitsAreDurableOnEveryConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=synchronous(off)&_pragma=busy_timeout(1234)&_pragma=foreign_keys(on)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	store := openStore(t, db, sqlitestore.Config{})
	for i := range 3 {
		if _, _, err := store.Claim(t.Context(), testClaim(fmt.Sprint(i), i+1)); err != nil {
			t.Fatal(err)
		}
		for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "busy_timeout": "1234", "foreign_keys": "1"} {
			var got string
			if err := db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
				t.Errorf("connection %d: %s is %s, want %s (error %v)", i, pragma, got, want, err)
			}
		}
		// The next round has a new connection.
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn.Raw(func(any) error { return driver.ErrBadConn })
		conn.Close()
	}
}

func TestCloseWhileBusy(t *testing.T) {
	db := openPool(t, filepath.Join(t.TempDir(), "keys.db"))
	store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var claimed []string
	var made atomic.Int32
	for g := range 20 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d-%d", g, i)
				_, ok, err := store.Claim(t.Context(), testClaim(key, g<<16|i))
				switch {
				case errors.Is(err, sqlitestore.ErrClosed):
					return
				case err != nil || !ok:
					t.Errorf("claim while closing: claimed %v, error %v", ok, err)
					return
				}
				mu.Lock()
				claimed = append(claimed, key)
				mu.Unlock()
				made.Add(1)
			}
		})
	}
	for made.Load() < 100 {
		time.Sleep(time.Millisecond)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	wg.Wait()
	for name, err := range map[string]error{
		"Claim":    second(store.Claim(t.Context(), testClaim("late", 1))),
		"Extend":   store.Extend(t.Context(), onceward.Key{}, onceward.Token{}, time.Hour, false),
		"Complete": store.Complete(t.Context(), onceward.Key{}, onceward.Token{}, testAnswer(""), time.Hour),
		"Release":  store.Release(t.Context(), onceward.Key{}, onceward.Token{}),
		"again":    store.Close(t.Context()),
	} {
		if name == "again" && err == nil {
			continue
		}
		if !errors.Is(err, sqlitestore.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	var rows int
	if err := db.QueryRow("SELECT count(*) FROM idempotency_keys").Scan(&rows); err != nil || rows != len(claimed) {
		t.Errorf("%d rows for %d confirmed claims, error %v", rows, len(claimed), err)
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}

func second[A, B, C any](_ A, _ B, c C) C { return c }

// Close obeys its context even while somebody else holds the lock; who is still
// in the queue then learns that nothing was written.
func TestCloseDoesNotWaitForALock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.db")
	store, err := sqlitestore.New(t.Context(), openPool(t, file), sqlitestore.Config{Patience: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	free := lockFile(t, file)
	defer free()
	errs := make(chan error, 5)
	for i := range 5 {
		go func() { errs <- second(store.Claim(context.Background(), testClaim(fmt.Sprint(i), i+1))) }()
	}
	waitUntilQueued(t, 5)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := store.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close under a lock: %v, want its context's error", err)
	}
	for range 5 {
		if err := <-errs; err == nil {
			t.Error("a claim under another's lock was confirmed")
		}
	}
	if left := assert.LeftBehind("onceward/sqlitestore.", 5*time.Second); left != "" {
		t.Errorf("the writer is still there:\n%s", left)
	}
}

// One writing connection for the application and the store: both get on, also
// while the application is in a transaction.
func TestAPoolOfOneIsShared(t *testing.T) {
	db := openPool(t, filepath.Join(t.TempDir(), "app.db"))
	db.SetMaxOpenConns(1)
	store := openStore(t, db, sqlitestore.Config{})
	if _, err := db.Exec("CREATE TABLE tasks (title TEXT)"); err != nil {
		t.Fatal(err)
	}
	const people, each = 8, 15
	var wg sync.WaitGroup
	for p := range people {
		wg.Go(func() {
			for i := range each {
				c := testClaim(fmt.Sprintf("%d-%d", p, i), p<<16|i+1)
				if _, claimed, err := store.Claim(t.Context(), c); err != nil || !claimed {
					t.Errorf("claimed %v, error %v", claimed, err)
					return
				}
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := tx.Exec("INSERT INTO tasks VALUES (?)", fmt.Sprint(p, i)); err != nil {
					t.Error(err)
				}
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
				if err := store.Complete(t.Context(), c.Key, c.Token, testAnswer("done"), time.Hour); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var tasks, keys int
	if err := db.QueryRow("SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM idempotency_keys WHERE completed_at IS NOT NULL)").Scan(&tasks, &keys); err != nil {
		t.Fatal(err)
	}
	if tasks != people*each || keys != people*each {
		t.Errorf("%d tasks and %d answers, want %d each", tasks, keys, people*each)
	}
}

// While the application keeps the only connection, a caller leaves when his
// context ends, and the store goes on when the connection is back.
func TestAKeptConnectionHoldsUpNobodyForGood(t *testing.T) {
	db := openPool(t, filepath.Join(t.TempDir(), "app.db"))
	db.SetMaxOpenConns(1)
	store := openStore(t, db, sqlitestore.Config{})
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := store.Claim(ctx, testClaim("key", 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim without a connection: %v, want its context's error", err)
	}
	conn.Close()
	if _, claimed, err := store.Claim(t.Context(), testClaim("key", 2)); err != nil || !claimed {
		t.Errorf("with the connection back: claimed %v, error %v", claimed, err)
	}
}

// A pool whose only connection does not come back fails the whole queue at once,
// not one caller after the other.
func TestALostConnectionFailsTheQueueTogether(t *testing.T) {
	db := openPool(t, filepath.Join(t.TempDir(), "app.db"))
	db.SetMaxOpenConns(1)
	store := openStore(t, db, sqlitestore.Config{Patience: -1})
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	errs := make(chan error, 50)
	for i := range 50 {
		go func() { errs <- second(store.Claim(ctx, testClaim(fmt.Sprint(i), i+1))) }()
	}
	for range 50 {
		if err := <-errs; err == nil || !strings.Contains(err.Error(), "no connection") || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a claim without a connection: %v", err)
		}
	}
}
