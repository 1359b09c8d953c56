package stores_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
)

// The test binary as another process on one database: the parts of process_test.go
// and one of its own. It has to take over before anything else of the binary runs.
const childPostgres = "ONCEWARD_POSTGRES_CHILD"

func init() {
	if part := os.Getenv(childPostgres); part != "" {
		os.Exit(runPostgresChild(part))
	}
}

func runPostgresChild(part string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	fail := func(err error) int {
		fmt.Println("error", err)
		return 1
	}
	pool, err := pgxpool.New(ctx, os.Getenv(childFile))
	if err != nil {
		return fail(err)
	}
	defer pool.Close()
	store, err := pgxstore.New(ctx, pool, pgxstore.Config{})
	if err != nil {
		return fail(err)
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
	case "atomic":
		childAtomic(ctx, store)
	case "stop":
		childStop(ctx, store)
	}
	if err := store.Close(ctx); err != nil {
		return fail(err)
	}
	return 0
}

// childAtomic makes an order for each of the keys that another process makes
// orders for too, each duplicate in a goroutine of its own.
func childAtomic(ctx context.Context, store *pgxstore.Store) {
	var wg sync.WaitGroup
	for i := range 2 * sharedKeys {
		key := fmt.Sprint("key-", i%sharedKeys)
		wg.Go(func() {
			for {
				rec, _, err := store.Transact(ctx, processClaim(key, os.Getpid()<<10|i), order(key))
				switch {
				case err != nil:
					fmt.Println("error", key, err)
					return
				case rec.State == onceward.Completed:
					fmt.Println("answer", key, string(rec.Response.Body))
					return
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// childStop is stopped within its work, and says what became of it when it wakes.
func childStop(ctx context.Context, store *pgxstore.Store) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, ran, err := store.Transact(ctx, processClaim("stopped", 1), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		err := pgInsertOrder(ctx, "stopped")
		fmt.Println("inside")
		<-ctx.Done()
		return onceward.Commit, &onceward.Response{Status: 200}, err
	})
	fmt.Println("woken", ran, errors.Is(err, context.DeadlineExceeded))
}

func startPostgresChild(t *testing.T, part, dsn string) *child {
	t.Helper()
	t.Setenv(childPostgres, part)
	defer os.Unsetenv(childPostgres)
	return startChild(t, part, dsn)
}

// B005, B017.
func TestTwoProcessesShareAPostgres(t *testing.T) {
	dsn := servers.Postgres(t)
	shareKeys(t, startPostgresChild(t, "share", dsn), startPostgresChild(t, "share", dsn))
}

func TestTwoProcessesShareTransactions(t *testing.T) {
	s := newPGShop(t)
	for said, n := range bothSay(t, startPostgresChild(t, "atomic", s.dsn), startPostgresChild(t, "atomic", s.dsn)) {
		f := strings.Fields(said)
		if len(f) != 3 || f[0] != "answer" || f[1] != f[2] || n != 4 {
			t.Errorf("%d times a process says: %s", n, said)
		}
	}
	if n, keys := s.count("SELECT count(*) FROM orders"), s.count("SELECT count(DISTINCT key) FROM orders"); n != sharedKeys || keys != sharedKeys {
		t.Errorf("%d orders for %d keys, want %d", n, keys, sharedKeys)
	}
}

// B030.
func TestAKilledProcessIsTakenOverOnPostgres(t *testing.T) {
	s := newPGShop(t)
	takeOver(t, startPostgresChild(t, "hold", s.dsn), s.store)
}

// kill -9 within the work of Transact: its key is free at once and nothing of it is
// left.
func TestAKilledProcessLeavesNoTransaction(t *testing.T) {
	s := newPGShop(t)
	dead := startPostgresChild(t, "stop", s.dsn)
	dead.begin()
	if line := dead.line(); line != "inside" {
		t.Fatalf("the child says %q\n%s", line, dead.err)
	}
	if err := dead.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	dead.Wait()
	s.do(s.store, "stopped", order("stopped"))
	if n := s.orders("stopped"); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}

// A process that is stopped within its work holds the key no longer than its time
// limit; when it wakes it learns that its work is undone.
func TestAStoppedProcessFreesItsKey(t *testing.T) {
	s := newPGShop(t)
	zombie := startPostgresChild(t, "stop", s.dsn)
	zombie.begin()
	if line := zombie.line(); line != "inside" {
		t.Fatalf("the child says %q\n%s", line, zombie.err)
	}
	if err := zombie.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.do(s.store, "stopped", order("stopped")) // as soon as the server has ended the zombie's transaction
	if err := zombie.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if line := zombie.line(); line != "woken false true" {
		t.Errorf("the woken process says %q\n%s", line, zombie.err)
	}
	if err := zombie.Wait(); err != nil {
		t.Errorf("the woken process: %v", err)
	}
	if n := s.orders("stopped"); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
	s.mustReplay("stopped", 201)
}
