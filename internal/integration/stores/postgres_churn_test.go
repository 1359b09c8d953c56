package stores_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
)

// cycles is how many records B094 lets come and go: a sample here, more in `make
// sweep`, by ONCEWARD_CYCLES.
func cycles(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ONCEWARD_CYCLES")
	if text == "" {
		return 10_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 10_000 {
		t.Fatalf("ONCEWARD_CYCLES=%q: want a number from 10000 on", text)
	}
	return n
}

// B094: keys are claimed, answered and swept all the time, one transaction each in
// every fourth cycle, with the server's own autovacuum running by the table's settings.
// What is dead does not pile up, and the table stays as small as what lives in it asks
// for, however many cycles there were.
func TestB094ATableThatChangesAllTheTimeStaysSmall(t *testing.T) {
	n := cycles(t)
	dsn := servers.Postgres(t)
	pool := openPgPool(t, dsn, "pool_max_conns", "12")
	store := openPgStore(t, pool, pgxstore.Config{})
	// The daemon looks once a minute by default, which is longer than this test.
	for _, sql := range []string{"ALTER SYSTEM SET autovacuum_naptime = '1s'", "SELECT pg_reload_conf()"} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var sweeping, working sync.WaitGroup
	var swept atomic.Int64
	sweeping.Go(func() {
		for ctx.Err() == nil {
			if n, err := store.Sweep(ctx, 500); err == nil {
				swept.Add(int64(n))
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	var next atomic.Int64
	took := make([]time.Duration, n)
	const clients = 8
	for range clients {
		working.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || t.Failed() {
					return
				}
				c := pgClaim(fmt.Sprint("cycle-", i))
				begin := time.Now()
				if i%4 == 0 {
					c.Keep = 10 * time.Millisecond
					_, ran, err := store.Transact(t.Context(), c, func(context.Context) (onceward.Verdict, *onceward.Response, error) {
						return onceward.Commit, testAnswer("done"), nil
					})
					if err != nil || !ran {
						t.Errorf("cycle %d: Transact: ran %v, %v", i, ran, err)
					}
				} else {
					_, claimed, err := store.Claim(t.Context(), c)
					if err == nil {
						err = store.Complete(t.Context(), c.Key, c.Token, testAnswer("done"), 10*time.Millisecond)
					}
					if err != nil || !claimed {
						t.Errorf("cycle %d: claimed %v, %v", i, claimed, err)
					}
				}
				took[i] = time.Since(begin)
			}
		})
	}
	working.Wait()
	for deadline := time.Now().Add(time.Minute); swept.Load() < int64(n) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	sweeping.Wait()
	if swept.Load() != int64(n) {
		t.Fatalf("%d of %d records were swept", swept.Load(), n)
	}
	// Every cycle leaves dead rows: of the update, if there was one, and of the sweep.
	// The table's settings let a thousand of them lie before the daemon comes.
	var dead, vacuums int
	var bytes, pages int64
	look := func() {
		t.Helper()
		if err := pool.QueryRow(t.Context(), `SELECT n_dead_tup, autovacuum_count, pg_total_relation_size(relid), pg_relation_size(relid) / 8192
			FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'`).Scan(&dead, &vacuums, &bytes, &pages); err != nil {
			t.Fatal(err)
		}
	}
	const lie = 2000
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if look(); vacuums > 0 && dead <= lie || time.Now().After(deadline) {
			break
		}
	}
	first, last := p99(took[:n/10]), p99(took[n-n/10:])
	t.Logf("%d cycles: %d dead rows, %d runs of autovacuum, %d KiB with its indexes, %d pages; p99 of the first tenth %v, of the last %v",
		n, dead, vacuums, bytes>>10, pages, first, last)
	if vacuums == 0 || dead > lie {
		t.Errorf("%d dead rows after %d runs of autovacuum, want at most %d", dead, vacuums, lie)
	}
	// 10,000 rows in half-filled pages, each with its update, would be more than that;
	// what lives at a time is a few hundred.
	if most := int64(4 << 20); bytes > most {
		t.Errorf("the empty table has %d bytes, want at most %d: what is dead was not used again", bytes, most)
	}
}

func p99(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*99/100].Round(10 * time.Microsecond)
}
