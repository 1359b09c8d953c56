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

// slice is how long one side of a comparison runs before the other has its turn:
// short enough that whatever else the machine does meets both alike.
const slice = 250 * time.Millisecond

// side is one of two ways to do the same.
type side struct {
	request   func(i uint64) error
	done      int
	ran       time.Duration
	latencies []time.Duration
}

// run sends requests from n clients for one slice. Each client sends its next
// request when it has the answer to the last.
func (s *side) run(b *testing.B, n int, ids *atomic.Uint64) {
	b.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for range n {
		wg.Go(func() {
			var mine []time.Duration
			for sent := time.Now(); sent.Sub(begin) < slice; {
				if err := s.request(ids.Add(1)); err != nil {
					b.Error(err)
					break
				}
				now := time.Now()
				mine = append(mine, now.Sub(sent))
				sent = now
			}
			mu.Lock()
			defer mu.Unlock()
			s.latencies = append(s.latencies, mine...)
		})
	}
	wg.Wait()
	s.ran += time.Since(begin)
	s.done = len(s.latencies)
}

func (s *side) rate() float64 { return float64(s.done) / s.ran.Seconds() }

// compare lets ours and theirs run in turn and reports ours, with its throughput
// as a multiple of theirs under the name multiple.
func compare(b *testing.B, n int, multiple string, ours, theirs func(i uint64) error) {
	b.Helper()
	our, their := &side{request: ours}, &side{request: theirs}
	var ids atomic.Uint64
	for b.Loop() {
		our.run(b, n, &ids)
		their.run(b, n, &ids)
	}
	slices.Sort(our.latencies)
	p50, p99 := our.latencies[our.done/2], our.latencies[our.done*99/100]
	b.ReportMetric(0, "ns/op") // an op is a slice of each: its time says nothing
	b.ReportMetric(our.rate(), "req/s")
	b.ReportMetric(our.rate()/their.rate(), multiple)
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
// clients: shared commits against one transaction per call on the same table of
// the same file, with one connection that all take in turn (the faster way to do
// without sharing) and with a connection for each client (the usual one).
func BenchmarkSQLiteGroupCommit(b *testing.B) {
	ctx := context.Background()
	for _, conns := range []int{1, 32} {
		b.Run(fmt.Sprintf("pool-of-%d", conns), func(b *testing.B) {
			db := benchPool(b, durable, conns)
			store := openStore(b, db, sqlitestore.Config{})
			compare(b, 32, "x-each-alone",
				func(i uint64) error { return benchRequest(ctx, store, i) },
				func(i uint64) error { return requestAlone(ctx, db, i) })
		})
	}
}

// A request with one business insert, durable (synchronous=FULL), from 32 clients:
// in a transaction with its record, sharing commits, against a bare handler that
// commits its insert alone and has no record at all. The pools are as above.
func BenchmarkSQLiteAtomic(b *testing.B) {
	const insert = "INSERT INTO orders (item, qty) VALUES (?, ?)"
	ctx := context.Background()
	for _, conns := range []int{1, 32} {
		b.Run(fmt.Sprintf("pool-of-%d", conns), func(b *testing.B) {
			db := benchPool(b, durable, conns)
			if _, err := db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, qty INTEGER NOT NULL) STRICT"); err != nil {
				b.Fatal(err)
			}
			store := openStore(b, db, sqlitestore.Config{})
			compare(b, 32, "x-bare-handler",
				func(i uint64) error {
					_, ran, err := store.Transact(ctx, benchClaim(i), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
						_, err := sqlitestore.Tx(ctx).ExecContext(ctx, insert, "notebook", 1)
						return onceward.Commit, benchAnswer, err
					})
					if err == nil && !ran {
						err = fmt.Errorf("request %d did not run", i)
					}
					return err
				},
				func(uint64) error { return commitAlone(ctx, db, insert, "notebook", 1) })
		})
	}
}

// A key that everybody asks for, replayed to 64 clients, against reading its row.
func BenchmarkSQLiteHotReplay(b *testing.B) {
	ctx := context.Background()
	db := benchPool(b, durable, 4)
	store := openStore(b, db, sqlitestore.Config{})
	if err := benchRequest(ctx, store, 0); err != nil {
		b.Fatal(err)
	}
	stmt, err := db.Prepare(`SELECT fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, completed_at, expires_at, response
		FROM idempotency_keys WHERE scope = ? AND key = ?`)
	if err != nil {
		b.Fatal(err)
	}
	defer stmt.Close()
	hot := benchClaim(0)
	replay := func(i uint64) error {
		c := hot
		binary.BigEndian.PutUint64(c.Token[:], i+1000)
		rec, _, err := store.Claim(ctx, c)
		if err == nil && rec.State != onceward.Completed {
			err = fmt.Errorf("a replay is %v", rec.State)
		}
		return err
	}
	read := func(uint64) error {
		var (
			fp, token, response                           []byte
			method, path                                  string
			attempt, held, created, lease, keep, done, ex int64
		)
		return stmt.QueryRow(hot.Key.Scope[:], hot.Key.ID[:]).
			Scan(&fp, &method, &path, &token, &attempt, &held, &created, &lease, &keep, &done, &ex, &response)
	}
	compare(b, 64, "x-plain-read", replay, read)
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
