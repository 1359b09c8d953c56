package stores_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

const makeOrders = `CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT`

// childTransact orders one thing after another from several goroutines, says when
// it sends a request and when it has the answer, and begins each third one twice at
// once. Some works undo, abort or take their time.
func childTransact(ctx context.Context, db *sql.DB, store *sqlitestore.Store) {
	var out sync.Mutex
	say := func(what, name string) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(what, name)
	}
	if _, err := db.Exec(makeOrders); err != nil {
		say("error", err.Error())
		return
	}
	request := func(name string, n int, verdict onceward.Verdict) {
		rec, ran, err := store.Transact(ctx, processClaim(name, n), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			if n%50 == 0 {
				time.Sleep(3 * time.Millisecond)
			}
			_, err := sqlitestore.Tx(ctx).ExecContext(ctx, "INSERT INTO orders (name) VALUES (?)", name)
			return verdict, testAnswer(name), err
		})
		switch {
		case err != nil:
			say("error", fmt.Sprint(name, err))
		case verdict == onceward.Abort && ran:
			say("aborted", name)
		case rec.State != onceward.Completed || string(rec.Response.Body) != name:
			say("error", fmt.Sprint(name, ran, rec.State))
		default:
			say("answered", name)
		}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				verdict := onceward.Commit
				switch i % 7 {
				case 3:
					verdict = onceward.Undo
				case 5:
					verdict = onceward.Abort
				}
				name := fmt.Sprintf("%v-%d-%d-%d", verdict, os.Getpid(), g, i)
				say("sent", name)
				var pair sync.WaitGroup
				if i%3 == 0 && verdict != onceward.Abort {
					pair.Go(func() { request(name, g<<20|i<<1|1, verdict) })
				}
				request(name, g<<20|i<<1, verdict)
				pair.Wait()
			}
		})
	}
	wg.Wait()
}

// B002, B030, B037: kill -9 in the middle of shared commits, again and again. For
// each request that was ever sent there is an order and its answer, or neither; what
// was answered is there; the same request sent again settles the rest, and then each
// has exactly one order.
func TestKilledInTheMiddleOfTransactions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	rounds := 6
	sent, answered := map[string]bool{}, map[string]bool{}
	for range rounds {
		c := startChild(t, "transact", file)
		c.begin()
		for deadline, n := 40+rand.IntN(200), 0; n < deadline; n++ {
			what, name, _ := strings.Cut(c.line(), " ")
			switch what {
			case "sent":
				sent[name] = true
			case "answered":
				answered[name] = true
			case "aborted":
			default:
				t.Fatalf("the child says %q\n%s", c.out.Text(), c.err)
			}
		}
		time.Sleep(rand.N(4 * time.Millisecond)) // anywhere within a batch
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for c.out.Scan() { // what it said before it died
			switch what, name, _ := strings.Cut(c.out.Text(), " "); what {
			case "sent":
				sent[name] = true
			case "answered":
				answered[name] = true
			}
		}
		c.Wait()
		checkOrders(t, file, sent, answered)
	}
	if t.Failed() {
		return
	}
	// Every client repeats what it has no answer to.
	db := openPool(t, file)
	store := openStore(t, db, sqlitestore.Config{})
	settled := 0
	for name := range sent {
		verdict := onceward.Abort
		switch {
		case strings.HasPrefix(name, "commit"):
			verdict = onceward.Commit
		case strings.HasPrefix(name, "undo"):
			verdict = onceward.Undo
		}
		_, ran, err := store.Transact(t.Context(), processClaim(name, 1<<30), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			_, err := sqlitestore.Tx(ctx).ExecContext(ctx, "INSERT INTO orders (name) VALUES (?)", name)
			return verdict, testAnswer(name), err
		})
		if err != nil {
			t.Fatal(err)
		}
		if answered[name] && ran {
			t.Errorf("%s was answered before the kill and ran again", name)
		}
		if ran && verdict == onceward.Commit {
			settled++
		}
		answered[name] = verdict != onceward.Abort
	}
	checkOrders(t, file, sent, answered)
	t.Logf("%d requests in %d lives; %d had to run again", len(sent), rounds, settled)
}

// checkOrders holds each request's order against its record.
func checkOrders(t *testing.T, file string, sent, answered map[string]bool) {
	t.Helper()
	db := openPool(t, file)
	var health string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&health); err != nil || health != "ok" {
		t.Fatalf("integrity_check: %q, %v", health, err)
	}
	store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(t.Context())
	orders := map[string]int{}
	rows, err := db.Query("SELECT name, count(*) FROM orders GROUP BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		orders[name] = n
		if !sent[name] {
			t.Errorf("there is an order %s that nobody sent", name)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	for name := range sent {
		rec, found, err := store.Look(t.Context(), processClaim(name, 1).Key)
		if err != nil {
			t.Fatal(err)
		}
		kept := found && rec.State == onceward.Completed
		want := 0
		if kept && strings.HasPrefix(name, "commit") {
			want = 1
		}
		switch {
		case found && !kept:
			t.Errorf("%s left a claim behind", name)
		case orders[name] != want:
			t.Errorf("%s has %d orders, and is answered: %v", name, orders[name], kept)
		case answered[name] && !kept:
			t.Errorf("%s was answered and is gone", name)
		case kept && string(rec.Response.Body) != name:
			t.Errorf("%s has the answer %q", name, rec.Response.Body)
		}
	}
}

// B005, B092: two processes transact on one file, each with batches of its own; the
// same requests reach both.
func TestTwoProcessesTransactOnAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	ran := map[string]int{}
	for what, n := range bothSay(t, startChild(t, "transact-share", file), startChild(t, "transact-share", file)) {
		switch word, name, _ := strings.Cut(what, " "); word {
		case "ran":
			ran[name] += n
		case "replayed":
		default:
			t.Errorf("a process says: %s", what)
		}
	}
	sent, answered := map[string]bool{}, map[string]bool{}
	for i := range sharedKeys {
		name := fmt.Sprintf("commit-%d", i)
		sent[name], answered[name] = true, true
		if ran[name] != 1 {
			t.Errorf("%s ran %d times", name, ran[name])
		}
	}
	checkOrders(t, file, sent, answered)
}

// childTransactShare sends all requests at once, as another process does too.
func childTransactShare(ctx context.Context, db *sql.DB, store *sqlitestore.Store) {
	if _, err := db.Exec("PRAGMA busy_timeout=60000;" + makeOrders); err != nil {
		fmt.Println("error", err)
		return
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for i := range sharedKeys {
		wg.Go(func() {
			name := fmt.Sprintf("commit-%d", i)
			rec, ran, err := store.Transact(ctx, processClaim(name, os.Getpid()<<10|i), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
				_, err := sqlitestore.Tx(ctx).ExecContext(ctx, "INSERT INTO orders (name) VALUES (?)", name)
				return onceward.Commit, testAnswer(name), err
			})
			out.Lock()
			defer out.Unlock()
			switch {
			case err != nil:
				fmt.Println("error", name, err)
			case ran:
				fmt.Println("ran", name)
			case rec.State == onceward.Completed && string(rec.Response.Body) == name:
				fmt.Println("replayed", name)
			default:
				fmt.Println("error", name, rec.State)
			}
		})
	}
	wg.Wait()
}
