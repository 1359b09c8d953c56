package stores_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

// tripCounter counts what the client sends and waits for.
type tripCounter struct{ n atomic.Int64 }

func (c *tripCounter) taken() int64 { return c.n.Swap(0) }

func (c *tripCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

// A first request, claim and complete, against the two plainest commands that
// could do it (SET NX with an expiry, then SET), in turn on the same server; and
// how many bytes a record has.
func BenchmarkRedisFirstRequest(b *testing.B) {
	for _, clients := range []int{1, 32} {
		b.Run(fmt.Sprintf("%d-clients", clients), func(b *testing.B) {
			ctx := context.Background()
			client := redisClient(b, servers.Redis(b))
			store := openRedis(b, client, redisstore.Config{})
			trips := &tripCounter{}
			client.AddHook(trips)
			requests := atomic.Int64{}
			sent := atomic.Int64{}
			compare(b, clients, "x-set-nx",
				func(i uint64) error {
					requests.Add(1)
					before := trips.n.Load()
					err := benchRequest(ctx, store, i)
					if clients == 1 {
						sent.Add(trips.n.Load() - before)
					}
					return err
				},
				func(i uint64) error {
					c := benchClaim(i)
					body, err := benchAnswer.MarshalBinary()
					if err != nil {
						return err
					}
					name := "plain:" + string(c.Key.ID[:])
					if err := client.SetArgs(ctx, name, c.Token[:], redis.SetArgs{Mode: "NX", TTL: 30 * time.Second}).Err(); err != nil {
						return err
					}
					return client.Set(ctx, name, body, 24*time.Hour).Err()
				})
			if clients == 1 {
				b.ReportMetric(float64(sent.Load())/float64(requests.Load()), "trips/req")
				names, _, err := client.Scan(ctx, 0, "idempotency:*", 10000).Result()
				if err != nil || len(names) == 0 {
					b.Fatalf("%d names, error %v", len(names), err)
				}
				b.ReportMetric(float64(client.MemoryUsage(ctx, names[0], 0).Val()), "bytes/record")
			}
		})
	}
}

// A key that everybody asks for, replayed to 64 clients, against reading its
// hash.
func BenchmarkRedisHotReplay(b *testing.B) {
	ctx := context.Background()
	client := redisClient(b, servers.Redis(b))
	store := openRedis(b, client, redisstore.Config{})
	if err := benchRequest(ctx, store, 0); err != nil {
		b.Fatal(err)
	}
	hot := benchClaim(0)
	name := client.Keys(ctx, "*").Val()[0]
	compare(b, 64, "x-plain-read",
		func(i uint64) error {
			c := hot
			binary.BigEndian.PutUint64(c.Token[:], i+1000)
			rec, _, err := store.Claim(ctx, c)
			if err == nil && rec.State != onceward.Completed {
				err = fmt.Errorf("a replay is %v", rec.State)
			}
			return err
		},
		func(uint64) error { return client.HGetAll(ctx, name).Err() })
}
