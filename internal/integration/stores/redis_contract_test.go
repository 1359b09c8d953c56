package stores_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/redisstore"
	"github.com/onceward/onceward/storetest"
)

func TestRedisKeepsTheContract(t *testing.T) {
	storetest.Run(t, storetest.Config{
		NoSweeper:    true, // Redis deletes by itself
		NoTransactor: true, // and knows nothing of the application's data
		New: func(t testing.TB) onceward.Store {
			client := redisClient(t, servers.Redis(t))
			return &redisDirect{openRedis(t, client, redisstore.Config{}), client}
		},
		// The client repeats by itself what a lost connection left open; the next test
		// is about one that does not.
		Faulty: redisFaulty(0),
	})
}

// redisDirect is a store with its client.
type redisDirect struct {
	*redisstore.Store
	client *redis.Client
}

// redisFaulty opens a second store, through a cutter, whose client makes at most so
// many retries; zero is the client's default.
func redisFaulty(retries int) func(testing.TB, onceward.Store) (onceward.Store, storetest.Lose) {
	return func(t testing.TB, store onceward.Store) (onceward.Store, storetest.Lose) {
		opts := store.(*redisDirect).client.Options()
		c, url := newCutter(t, fmt.Sprintf("redis://%s/%d", opts.Addr, opts.DB))
		through := redisClient(t, url)
		if retries != 0 {
			opts := *through.Options()
			opts.MaxRetries = retries
			through = redis.NewClient(&opts)
			t.Cleanup(func() { through.Close() })
		}
		return openRedis(t, through, redisstore.Config{}), c.loseOne
	}
}

func TestRedisKeepsTheContractWithoutRetriesOfItsClient(t *testing.T) {
	storetest.Run(t, storetest.Config{
		NoSweeper: true, NoTransactor: true,
		New: func(t testing.TB) onceward.Store {
			client := redisClient(t, servers.Redis(t))
			return &redisDirect{openRedis(t, client, redisstore.Config{}), client}
		},
		Faulty: redisFaulty(-1),
	})
}

// Two stores on one server are asked in turn: what one has written the other
// must see, whatever it remembers.
func TestRedisKeepsTheContractAcrossStores(t *testing.T) {
	storetest.Run(t, storetest.Config{
		NoSweeper: true, NoTransactor: true,
		NoFaults: true, // TestRedisKeepsTheContract has them
		New: func(t testing.TB) onceward.Store {
			url := servers.Redis(t)
			pair := &redisPair{}
			for i := range pair.stores {
				pair.stores[i] = openRedis(t, redisClient(t, url), redisstore.Config{})
			}
			return pair
		},
	})
}

// redisPair gives each call to the next of its stores.
type redisPair struct {
	stores [2]*redisstore.Store
	calls  atomic.Uint32
}

func (p *redisPair) next() *redisstore.Store { return p.stores[p.calls.Add(1)%2] }

func (p *redisPair) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	return p.next().Claim(ctx, c)
}

func (p *redisPair) Extend(ctx context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	return p.next().Extend(ctx, key, tok, lease, hold)
}

func (p *redisPair) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	return p.next().Complete(ctx, key, tok, resp, retain)
}

func (p *redisPair) Release(ctx context.Context, key onceward.Key, tok onceward.Token) error {
	return p.next().Release(ctx, key, tok)
}

func (p *redisPair) Look(ctx context.Context, key onceward.Key) (onceward.Record, bool, error) {
	return p.next().Look(ctx, key)
}

func (p *redisPair) List(ctx context.Context, q onceward.Query) ([]onceward.Record, error) {
	return p.next().List(ctx, q)
}

func (p *redisPair) Forget(ctx context.Context, scope [32]byte) error {
	return p.next().Forget(ctx, scope)
}

// With two replicas that have to confirm each claim and each answer.
func TestRedisKeepsTheContractBehindSentinel(t *testing.T) {
	client := sentinelClient(t, servers.Sentinel(t))
	storetest.Run(t, storetest.Config{
		NoSweeper: true, NoTransactor: true,
		NoFaults: true, // TestRedisKeepsTheContract has them
		New: func(t testing.TB) onceward.Store {
			return openRedis(t, client, redisstore.Config{
				Prefix: ownPrefix(), Wait: redisstore.Wait{Replicas: 2, Timeout: 10 * time.Second},
			})
		},
	})
}

func TestRedisKeepsTheContractInACluster(t *testing.T) {
	cluster := servers.Cluster(t)
	client := clusterClient(t, cluster)
	// This one sends what only reads to any node, and replicas lag.
	anyNode := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs, RouteRandomly: true})
	defer anyNode.Close()
	for _, c := range []struct {
		name   string
		client *redis.ClusterClient
		wait   redisstore.Wait
	}{
		{"alone", client, redisstore.Wait{}},
		{"with a replica", client, redisstore.Wait{Replicas: 1, Timeout: 10 * time.Second}},
		{"reading anywhere", anyNode, redisstore.Wait{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			storetest.Run(t, storetest.Config{
				NoSweeper: true, NoTransactor: true,
				NoFaults: true, // TestRedisKeepsTheContract has them
				New: func(t testing.TB) onceward.Store {
					return openRedis(t, c.client, redisstore.Config{Prefix: ownPrefix(), Wait: c.wait})
				},
			})
		})
	}
}

// The map and the server give the same answer to the same calls, whatever the
// calls are. Leases and retentions are nothing or an hour, so that time decides
// nothing between the two.
func TestMemoryAndRedisAgree(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	stores := []onceward.Store{
		memstore.New(memstore.Config{}),
		openRedis(t, redisClient(t, servers.Redis(t)), redisstore.Config{}),
	}
	pick := func(d ...time.Duration) time.Duration { return d[rng.IntN(len(d))] }
	var script []string
	for i := range 5000 {
		c := processClaim(fmt.Sprint(rng.IntN(4)), 1+rng.IntN(3))
		c.Fingerprint.Version = uint8(1 + rng.IntN(5)/4)
		c.Lease, c.Keep = pick(-time.Second, 0, time.Hour, time.Hour), pick(-1, time.Hour)
		c.TakeOver = rng.IntN(2) == 0
		hold, retain, body := rng.IntN(8) == 0, pick(0, time.Hour, time.Hour), fmt.Sprint(i)
		var call string
		var results [2]string
		kind := rng.IntN(10)
		for n, store := range stores {
			switch {
			case kind < 5:
				call = fmt.Sprintf("Claim %x fp %d token %d lease %v keep %v takeover %v", c.Key.ID[:2], c.Fingerprint.Version, c.Token[3], c.Lease, c.Keep, c.TakeOver)
				rec, claimed, err := store.Claim(t.Context(), c)
				got := ""
				if rec.Response != nil {
					got = fmt.Sprint(rec.Response.Status, rec.Response.Header, string(rec.Response.Body))
				}
				results[n] = fmt.Sprint(claimed, err, rec.State, rec.Attempt, rec.Held, rec.Token[3], rec.Fingerprint.Version, rec.LeaseLeft > 0, got)
			case kind < 7:
				call = fmt.Sprintf("Extend %x token %d lease %v hold %v", c.Key.ID[:2], c.Token[3], c.Lease, hold)
				results[n] = outcome(store.Extend(t.Context(), c.Key, c.Token, c.Lease, hold))
			case kind < 9:
				call = fmt.Sprintf("Complete %x token %d retain %v", c.Key.ID[:2], c.Token[3], retain)
				results[n] = outcome(store.Complete(t.Context(), c.Key, c.Token, testAnswer(body), retain))
			default:
				call = fmt.Sprintf("Release %x token %d", c.Key.ID[:2], c.Token[3])
				results[n] = outcome(store.Release(t.Context(), c.Key, c.Token))
			}
		}
		script = append(script, fmt.Sprintf("%s: %s", call, results[0]))
		if results[0] != results[1] {
			t.Fatalf("seed %d, call %d: memory says %s, Redis says %s\n%s", seed, i, results[0], results[1], script[max(0, len(script)-15):])
		}
	}
}
