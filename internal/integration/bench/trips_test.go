package bench

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

// statements counts what is sent to PostgreSQL: pgx tells it of each statement,
// alone or in a batch.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	s.n.Add(int64(data.Batch.Len()))
	return ctx
}
func (s *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// trips counts what is sent to Redis and waited for.
type trips struct{ n atomic.Int64 }

func (t *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { t.count(cmd); return next(ctx, cmd) }
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { t.count(cmds[0]); return next(ctx, cmds) }
}

// count leaves out what the client says once on each new connection.
func (t *trips) count(first redis.Cmder) {
	switch first.Name() {
	case "hello", "auth", "select", "client":
	default:
		t.n.Add(1)
	}
}

func nothing(context.Context, string, int) (int64, error) { return 1, nil }

// What a request costs the server that keeps the records, by the number of
// statements and by what a replay leaves behind: transaction ids taken, bytes of
// write-ahead log, and whether the record's row has been locked.
func BenchmarkPostgresTrips(b *testing.B) {
	ctx := context.Background()
	dsn := postgresDSN(b)
	sent := &statements{}
	h := guardOf(b, pgStore(b, pgPool(b, dsn, 1, func(c *pgxpool.Config) { c.ConnConfig.Tracer = sent }))).Handler(shop(nothing))
	other := pgPool(b, dsn, 1, nil)
	state := func() (xid uint64, wal float64, row []byte) {
		b.Helper()
		err := other.QueryRow(ctx, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8,
			(SELECT coalesce(string_agg(ctid::text || xmin::text || xmax::text, ' ' ORDER BY key), '')::bytea FROM idempotency_keys)`).Scan(&xid, &wal, &row)
		if err != nil {
			b.Fatal(err)
		}
		return xid, wal, row
	}
	const n = 1000
	ask := func(name string, key func(i uint64) string) {
		b.Helper()
		sent.n.Store(0)
		for i := range uint64(n) {
			if err := order(h, key(i)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(sent.n.Load())/n, "statements/"+name)
	}
	hot := func(uint64) string { return keyOf(0) }
	for b.Loop() {
		ask("first", func(uint64) string { return keyOf(ids.Add(1)) })
		ask("warm", hot)
		xid, wal, rows := state()
		ask("replay", hot)
		laterXid, laterWAL, laterRows := state()
		b.ReportMetric(float64(laterXid-xid)/n, "xids/replay")
		b.ReportMetric((laterWAL-wal)/n, "wal-B/replay")
		locked := 0.0
		if !bytes.Equal(rows, laterRows) {
			locked = 1
		}
		b.ReportMetric(locked, "locks/replay")
	}
	b.ReportMetric(0, "ns/op")
}

// The same of Redis, by the number of round trips.
func BenchmarkRedisTrips(b *testing.B) {
	ctx := context.Background()
	opts, err := redis.ParseURL(servers.Redis(b))
	if err != nil {
		b.Fatal(err)
	}
	client := redis.NewClient(opts)
	b.Cleanup(func() { client.Close() })
	store, err := redisstore.New(ctx, client, redisstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	sent := &trips{}
	client.AddHook(sent)
	h := guardOf(b, store).Handler(shop(nothing))
	// The first use of a script sends its text.
	for range 2 {
		if err := order(h, keyOf(ids.Add(1))); err != nil {
			b.Fatal(err)
		}
	}
	const n = 1000
	ask := func(name string, key func() string) {
		b.Helper()
		sent.n.Store(0)
		for range n {
			if err := order(h, key()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(sent.n.Load())/n, "trips/"+name)
	}
	hot := keyOf(ids.Add(1))
	if err := order(h, hot); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ask("first", func() string { return keyOf(ids.Add(1)) })
		ask("replay", func() string { return hot })
	}
	names, err := client.Keys(ctx, "idempotency:*").Result()
	if err != nil || len(names) == 0 {
		b.Fatalf("%d names, error %v", len(names), err)
	}
	size, err := client.MemoryUsage(ctx, names[0], 0).Result()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(size), "bytes/record")
	b.ReportMetric(0, "ns/op")
}
