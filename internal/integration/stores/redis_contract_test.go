package stores_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/redisstore"
	"github.com/onceward/onceward/storetest"
)

func TestRedisKeepsTheContract(t *testing.T) {
	storetest.Run(t, storetest.Config{
		NoSweeper: true, // Redis deletes by itself
		New: func(t testing.TB) onceward.Store {
			return openRedis(t, redisClient(t, servers.Redis(t)), redisstore.Config{})
		},
	})
}

// With two replicas that have to confirm each claim and each answer.
func TestRedisKeepsTheContractBehindSentinel(t *testing.T) {
	client := sentinelClient(t, servers.Sentinel(t))
	storetest.Run(t, storetest.Config{
		NoSweeper: true,
		New: func(t testing.TB) onceward.Store {
			return openRedis(t, client, redisstore.Config{
				Prefix: ownPrefix(), Wait: redisstore.Wait{Replicas: 2, Timeout: 10 * time.Second},
			})
		},
	})
}

func TestRedisKeepsTheContractInACluster(t *testing.T) {
	client := clusterClient(t, servers.Cluster(t))
	for name, wait := range map[string]redisstore.Wait{
		"alone": {}, "with a replica": {Replicas: 1, Timeout: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.Config{
				NoSweeper: true,
				New: func(t testing.TB) onceward.Store {
					return openRedis(t, client, redisstore.Config{Prefix: ownPrefix(), Wait: wait})
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
