package stores_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/sqlitestore"
)

// clients runs f b.N times from n clients, each of which sends its next request
// when it has the answer to the last, and reports throughput and the spread of
// latencies.
func clients(b *testing.B, n int, f func(request uint64) error) {
	b.Helper()
	latencies := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	begin := time.Now()
	for range n {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(b.N) {
					return
				}
				sent := time.Now()
				if err := f(uint64(i)); err != nil {
					b.Error(err)
					return
				}
				latencies[i] = time.Since(sent)
			}
		})
	}
	wg.Wait()
	total := time.Since(begin)
	b.StopTimer()
	slices.Sort(latencies)
	p50, p99 := latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	b.ReportMetric(float64(b.N)/total.Seconds(), "req/s")
	b.ReportMetric(float64(p50.Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(p99)/float64(p50), "p99/p50")
}

func benchClaim(i uint64) onceward.Claim {
	c := onceward.Claim{
		Fingerprint: onceward.Fingerprint{Version: 1},
		Method:      "POST", Path: "/create-order",
		Lease: 30 * time.Second, Keep: 24 * time.Hour,
	}
	// Spread like hashes are.
	x := i * 0x9e3779b97f4a7c15
	binary.BigEndian.PutUint64(c.Key.ID[:], x)
	binary.BigEndian.PutUint64(c.Key.ID[8:], i)
	binary.BigEndian.PutUint64(c.Token[:], i+1)
	return c
}

var benchAnswer = &onceward.Response{
	Status: 201,
	Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/orders/1"}},
	Body:   []byte(`{"id":"1f0e7c1c","item":"notebook","qty":1}` + "\n"),
}

func benchRequest(ctx context.Context, store onceward.Store, i uint64) error {
	c := benchClaim(i)
	if _, _, err := store.Claim(ctx, c); err != nil {
		return err
	}
	return store.Complete(ctx, c.Key, c.Token, benchAnswer, 24*time.Hour)
}

// commitAlone runs one statement in a transaction of its own.
func commitAlone(ctx context.Context, db *sql.DB, query string, args ...any) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, query, args...); err != nil {
		conn.ExecContext(ctx, "ROLLBACK")
		return err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

// requestAlone is a first request that commits claim and answer by themselves, as
// plainly and as fast as it can: the measure for shared commits.
func requestAlone(ctx context.Context, db *sql.DB, i uint64) error {
	c := benchClaim(i)
	now := time.Now().UnixMilli()
	fp, err := c.Fingerprint.MarshalBinary()
	if err != nil {
		return err
	}
	err = commitAlone(ctx, db, `INSERT INTO idempotency_keys
		(scope, key, fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, 1, 0, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		c.Key.Scope[:], c.Key.ID[:], fp, c.Method, c.Path, c.Token[:], now, now+30_000, 86_400_000, now+86_430_001)
	if err != nil {
		return err
	}
	encoded, err := benchAnswer.MarshalBinary()
	if err != nil {
		return err
	}
	return commitAlone(ctx, db, `UPDATE idempotency_keys SET completed_at = ?, status = ?, expires_at = ?, response = ?
		WHERE scope = ? AND key = ? AND token = ? AND completed_at IS NULL`,
		now, benchAnswer.Status, now+86_400_000, encoded, c.Key.Scope[:], c.Key.ID[:], c.Token[:])
}

func benchPool(b *testing.B, pragmas string, conns int) *sql.DB {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "keys.db")+pragmas)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

const durable = "?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)"

// A first request, claim and complete each durable (synchronous=FULL), from 32
// clients: shared commits against one transaction per call on the same table,
// with a connection for each client and with one that they take in turn.
func BenchmarkSQLiteGroupCommit(b *testing.B) {
	ctx := context.Background()
	b.Run("shared", func(b *testing.B) {
		store := openStore(b, benchPool(b, durable, 4), sqlitestore.Config{})
		clients(b, 32, func(i uint64) error { return benchRequest(ctx, store, i) })
	})
	b.Run("shared-pool-of-1", func(b *testing.B) {
		store := openStore(b, benchPool(b, durable, 1), sqlitestore.Config{})
		clients(b, 32, func(i uint64) error { return benchRequest(ctx, store, i) })
	})
	for _, conns := range []int{1, 32} {
		b.Run(fmt.Sprintf("each-alone-pool-of-%d", conns), func(b *testing.B) {
			db := benchPool(b, durable, conns)
			openStore(b, db, sqlitestore.Config{}) // makes the table
			clients(b, 32, func(i uint64) error { return requestAlone(ctx, db, i) })
		})
	}
}

// A key that everybody asks for, replayed by 64 clients, against reading its row.
func BenchmarkSQLiteHotReplay(b *testing.B) {
	ctx := context.Background()
	setup := func(b *testing.B) (*sql.DB, *sqlitestore.Store) {
		db := benchPool(b, durable, 4)
		store := openStore(b, db, sqlitestore.Config{})
		if err := benchRequest(ctx, store, 0); err != nil {
			b.Fatal(err)
		}
		return db, store
	}
	b.Run("replay", func(b *testing.B) {
		_, store := setup(b)
		clients(b, 64, func(i uint64) error {
			c := benchClaim(0)
			binary.BigEndian.PutUint64(c.Token[:], i+1000)
			rec, _, err := store.Claim(ctx, c)
			if err == nil && rec.State != onceward.Completed {
				b.Errorf("state %v", rec.State)
			}
			return err
		})
	})
	b.Run("plain-read", func(b *testing.B) {
		db, _ := setup(b)
		stmt, err := db.Prepare(`SELECT fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, completed_at, expires_at, response
			FROM idempotency_keys WHERE scope = ? AND key = ?`)
		if err != nil {
			b.Fatal(err)
		}
		defer stmt.Close()
		key := benchClaim(0).Key
		clients(b, 64, func(uint64) error {
			var (
				fp, token, response                           []byte
				method, path                                  string
				attempt, held, created, lease, keep, done, ex int64
			)
			return stmt.QueryRow(key.Scope[:], key.ID[:]).Scan(&fp, &method, &path, &token, &attempt, &held, &created, &lease, &keep, &done, &ex, &response)
		})
	})
}

// A first request in memory: claim and complete, and as many records expiring as
// are made, so that the cost of dropping them is in it.
func BenchmarkMemstoreClaimComplete(b *testing.B) {
	ctx := context.Background()
	store := memstore.New(memstore.Config{})
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		i++
		c := benchClaim(i)
		if _, _, err := store.Claim(ctx, c); err != nil {
			b.Fatal(err)
		}
		if err := store.Complete(ctx, c.Key, c.Token, benchAnswer, 10*time.Millisecond); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemstoreReplay(b *testing.B) {
	ctx := context.Background()
	store := memstore.New(memstore.Config{})
	if err := benchRequest(ctx, store, 0); err != nil {
		b.Fatal(err)
	}
	c := benchClaim(0)
	b.ReportAllocs()
	for b.Loop() {
		if rec, _, err := store.Claim(ctx, c); err != nil || rec.Response == nil {
			b.Fatal(err)
		}
	}
}
