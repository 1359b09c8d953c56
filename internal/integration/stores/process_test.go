package stores_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// The test binary runs itself as another process that uses the same file. What
// such a child does is named in its environment; it talks on standard output.
const (
	childPart = "ONCEWARD_STORE_CHILD"
	childFile = "ONCEWARD_STORE_FILE"
)

const (
	sharedKeys = 200
	hotRacers  = 100
)

func runChild(part string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	db, err := sql.Open("sqlite", "file:"+os.Getenv(childFile))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	defer db.Close()
	store, err := sqlitestore.New(ctx, db, sqlitestore.Config{Patience: time.Minute})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return 1
	}
	switch part {
	case "share":
		childShare(ctx, store)
	case "hold":
		childHold(ctx, store)
	case "stream":
		childStream(ctx, store)
	case "transact":
		childTransact(ctx, db, store)
	case "transact-share":
		childTransactShare(ctx, db, store)
	}
	if err := store.Close(ctx); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// childShare sends requests that another process sends too, each in a goroutine
// of its own. It prints an effect for each that it runs.
func childShare(ctx context.Context, store onceward.Store) {
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	request := func(key string, n int) {
		c := processClaim(key, n)
		for {
			rec, claimed, err := store.Claim(ctx, c)
			switch {
			case err != nil:
				say("error claim %s: %v", key, err)
				return
			case claimed:
				say("effect %s", key)
				if err := store.Complete(ctx, c.Key, c.Token, &onceward.Response{Status: 201, Body: []byte(key)}, time.Hour); err != nil {
					say("error complete %s: %v", key, err)
				}
				return
			case rec.State == onceward.Completed:
				if string(rec.Response.Body) != key {
					say("error %s was answered with %q", key, rec.Response.Body)
				}
				say("replay %s", key)
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	var wg sync.WaitGroup
	for i := range sharedKeys {
		wg.Go(func() { request(fmt.Sprintf("key-%d", i), os.Getpid()<<10|i) })
	}
	for i := range hotRacers {
		wg.Go(func() { request("hot", os.Getpid()<<10|(sharedKeys+i)) })
	}
	wg.Wait()
}

// childHold claims a key and never completes it.
func childHold(ctx context.Context, store onceward.Store) {
	c := processClaim("held-by-the-dead", 1)
	c.Lease = 2 * time.Second
	if _, claimed, err := store.Claim(ctx, c); err != nil || !claimed {
		fmt.Println("error", claimed, err)
		return
	}
	fmt.Println("claimed")
	<-ctx.Done()
}

// childStream claims and completes one key after another from several
// goroutines, and says of each when it has been confirmed.
func childStream(ctx context.Context, store onceward.Store) {
	var out sync.Mutex
	say := func(what string, key string) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(what, key)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("stream-%d-%d-%d", os.Getpid(), g, i)
				c := processClaim(key, g<<20|i)
				if _, claimed, err := store.Claim(ctx, c); err != nil || !claimed {
					say("error", fmt.Sprint(key, claimed, err))
					return
				}
				say("claimed", key)
				if err := store.Complete(ctx, c.Key, c.Token, &onceward.Response{Status: 200, Body: []byte(key)}, time.Hour); err != nil {
					say("error", fmt.Sprint(key, err))
					return
				}
				say("completed", key)
			}
		})
	}
	wg.Wait()
}

func processClaim(key string, n int) onceward.Claim {
	return onceward.Claim{
		Key: onceward.NewKey("user", key), Fingerprint: onceward.Fingerprint{Version: 1},
		Method: "POST", Path: "/orders", Token: onceward.Token{0: byte(n >> 24), 1: byte(n >> 16), 2: byte(n >> 8), 3: byte(n), 4: 1},
		Lease: time.Minute, Keep: time.Hour,
	}
}

// child is a running copy of the test binary.
type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	err *strings.Builder
}

func startChild(t *testing.T, part, file string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: exec.CommandContext(t.Context(), exe), err: new(strings.Builder)}
	c.Env = append(os.Environ(), childPart+"="+part, childFile+"="+file)
	c.Stderr = c.err
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line := c.line(); line != "ready" {
		t.Fatalf("the child says %q, want ready\n%s", line, c.err)
	}
	return c
}

func (c *child) line() string {
	c.out.Scan()
	return c.out.Text()
}

func (c *child) begin() { io.WriteString(c.in, "go\n") }

// bothSay lets two processes begin at once and counts what they say.
func bothSay(t *testing.T, one, other *child) map[string]int {
	t.Helper()
	one.begin()
	other.begin()
	said := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range []*child{one, other} {
		wg.Go(func() {
			for c.out.Scan() {
				mu.Lock()
				said[c.out.Text()]++
				mu.Unlock()
			}
			if err := c.Wait(); err != nil {
				t.Errorf("a process ended with %v\n%s", err, c.err)
			}
		})
	}
	wg.Wait()
	return said
}

// shareKeys lets two processes send 400 requests for 200 keys and 200 for one key, all
// at once: each key is run once, and each other request gets its answer.
func shareKeys(t *testing.T, one, other *child) {
	t.Helper()
	effects, replays := map[string]int{}, 0
	for what, n := range bothSay(t, one, other) {
		switch word, key, _ := strings.Cut(what, " "); word {
		case "effect":
			effects[key] += n
		case "replay":
			replays += n
		default:
			t.Errorf("a process says: %s", what)
		}
	}
	if len(effects) != sharedKeys+1 {
		t.Errorf("%d keys were run, want %d", len(effects), sharedKeys+1)
	}
	for key, n := range effects {
		if n != 1 {
			t.Errorf("%s was run %d times", key, n)
		}
	}
	if want := 2*(sharedKeys+hotRacers) - sharedKeys - 1; replays != want {
		t.Errorf("%d replays, want %d", replays, want)
	}
}

// takeOver kills (-9) a process that holds a claim. Before its lease ends the key is
// taken; after it another process takes over, once, and the dead one's token is worth
// nothing.
func takeOver(t *testing.T, dead *child, store onceward.Store) {
	t.Helper()
	dead.begin()
	if line := dead.line(); line != "claimed" {
		t.Fatalf("the child says %q\n%s", line, dead.err)
	}
	if err := dead.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	dead.Wait()

	ctx := t.Context()
	next := processClaim("held-by-the-dead", 2)
	next.TakeOver = true
	rec, claimed, err := store.Claim(ctx, next)
	if err != nil {
		t.Fatal(err)
	}
	// A slow machine may come after the lease; then this is the take-over.
	if !claimed {
		if rec.State != onceward.InProgress || rec.Attempt != 1 || rec.LeaseLeft > 2*time.Second {
			t.Fatalf("the dead process's claim is reported as %v, attempt %d, lease left %v", rec.State, rec.Attempt, rec.LeaseLeft)
		}
		time.Sleep(max(0, rec.LeaseLeft) + 10*time.Millisecond)
		if rec, claimed, err = store.Claim(ctx, next); err != nil || !claimed {
			t.Fatalf("after the lease: claimed %v, error %v", claimed, err)
		}
	}
	if rec.Attempt != 2 || rec.Token != next.Token {
		t.Errorf("the take-over is attempt %d", rec.Attempt)
	}
	old := processClaim("held-by-the-dead", 1)
	if err := store.Complete(ctx, old.Key, old.Token, testAnswer("late"), time.Hour); !errors.Is(err, onceward.ErrClaimLost) {
		t.Errorf("Complete under the dead process's token: %v, want ErrClaimLost", err)
	}
}

// B005, B017, B091, B092: one file, and no "database is locked" is seen.
func TestTwoProcessesShareAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.db")
	shareKeys(t, startChild(t, "share", file), startChild(t, "share", file))
}

// B030.
func TestAKilledProcessIsTakenOverAfterItsLease(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.db")
	dead := startChild(t, "hold", file)
	takeOver(t, dead, openStore(t, openPool(t, file), sqlitestore.Config{}))
}

// A process killed in the middle of its commits has lost nothing that it had
// confirmed, and the file is whole.
func TestAKilledProcessLosesNothingConfirmed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.db")
	confirmed := map[string]string{}
	for round := range 3 {
		c := startChild(t, "stream", file)
		c.begin()
		for range 150 + 50*round {
			what, key, _ := strings.Cut(c.line(), " ")
			if what != "claimed" && what != "completed" {
				t.Fatalf("the child says %q\n%s", c.out.Text(), c.err)
			}
			confirmed[key] = what
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		c.Wait()
		db := openPool(t, file)
		var health string
		if err := db.QueryRow("PRAGMA integrity_check").Scan(&health); err != nil || health != "ok" {
			t.Fatalf("integrity_check: %q, %v", health, err)
		}
		store := openStore(t, db, sqlitestore.Config{})
		for key, what := range confirmed {
			rec, claimed, err := store.Claim(t.Context(), processClaim(key, 1<<30))
			switch {
			case err != nil:
				t.Fatal(err)
			case claimed:
				t.Fatalf("%s was %s before the kill and is absent after it", key, what)
			case what == "completed" && (rec.State != onceward.Completed || string(rec.Response.Body) != key):
				t.Fatalf("%s was completed before the kill and is %v after it", key, rec.State)
			}
		}
	}
}
