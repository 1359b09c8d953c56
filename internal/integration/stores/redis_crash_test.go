package stores_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

// crowd sends requests without end while a test breaks what it talks to, and
// remembers what each was told.
type crowd struct {
	store onceward.Store
	lease time.Duration
	tries int // how often a call that fails is made

	mu        sync.Mutex
	claimed   map[string]bool // Claim said yes
	completed map[string]bool // Complete said nil
	failed    int             // calls that ended in an error
	workers   sync.WaitGroup
	stop      context.CancelFunc
}

func crowdOf(workers, tries int, store onceward.Store) *crowd {
	ctx, stop := context.WithCancel(context.Background())
	c := &crowd{store: store, lease: time.Second, tries: tries, claimed: map[string]bool{}, completed: map[string]bool{}, stop: stop}
	for w := range workers {
		c.workers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				c.request(fmt.Sprintf("key-%d-%d", w, i))
			}
		})
	}
	return c
}

// request makes one request the way a guard does: each call has a limit, and one
// that failed is repeated under the same token.
func (c *crowd) request(key string) {
	claim := redisClaim("user", key, 1)
	claim.Lease = c.lease
	repeat := func(call func(ctx context.Context) error) error {
		var err error
		for range c.tries {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			err = call(ctx)
			cancel()
			if err == nil || errors.Is(err, onceward.ErrClaimLost) {
				break
			}
			c.mu.Lock()
			c.failed++
			c.mu.Unlock()
		}
		return err
	}
	claimed := false
	err := repeat(func(ctx context.Context) (err error) {
		_, claimed, err = c.store.Claim(ctx, claim)
		return err
	})
	if err != nil || !claimed {
		return
	}
	c.mu.Lock()
	c.claimed[key] = true
	c.mu.Unlock()
	err = repeat(func(ctx context.Context) error {
		return c.store.Complete(ctx, claim.Key, claim.Token, testAnswer(key), time.Hour)
	})
	if err == nil {
		c.mu.Lock()
		c.completed[key] = true
		c.mu.Unlock()
	}
}

// awaitRequests returns when n more requests have been answered.
func (c *crowd) awaitRequests(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.completed)
	}
	begin := count()
	for deadline := time.Now().Add(60 * time.Second); count() < begin+n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests were answered, want %d", count()-begin, n)
		}
	}
}

// end stops the crowd.
func (c *crowd) end() {
	c.stop()
	c.workers.Wait()
}

// settle asks for every key once more, the way a client that retries does, and
// says how many were lost. A retry gets the key's own answer, or runs: at once
// where the claim is gone, and otherwise at the latest when its lease is over.
func (c *crowd) settle(t *testing.T) (lostClaims, lostAnswers int) {
	t.Helper()
	for key := range c.claimed {
		claim := redisClaim("user", key, 2)
		claim.TakeOver, claim.Lease = true, c.lease
		rec, claimed := c.insist(t, claim)
		if !claimed && rec.State == onceward.InProgress {
			if rec.LeaseLeft > c.lease {
				t.Errorf("%s is taken for %v, with a lease of %v", key, rec.LeaseLeft, c.lease)
			}
			time.Sleep(max(0, rec.LeaseLeft) + 5*time.Millisecond)
			rec, claimed = c.insist(t, claim)
		}
		switch {
		case claimed && rec.Attempt == 1:
			lostClaims++
		case claimed:
			if c.completed[key] {
				lostAnswers++
			}
		case rec.State != onceward.Completed:
			t.Errorf("%s is wedged: %v, attempt %d, lease left %v", key, rec.State, rec.Attempt, rec.LeaseLeft)
		case string(rec.Response.Body) != key:
			t.Errorf("%s is answered with %q", key, rec.Response.Body)
		}
		if claimed {
			if err := c.store.Complete(t.Context(), claim.Key, claim.Token, testAnswer(key), time.Hour); err != nil {
				t.Errorf("%s: Complete after it: %v", key, err)
			}
		}
	}
	return lostClaims, lostAnswers
}

// insist repeats a claim until it is answered: after a failover the client
// library takes a while to find the new master.
func (c *crowd) insist(t *testing.T, claim onceward.Claim) (onceward.Record, bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		rec, claimed, err := c.store.Claim(ctx, claim)
		cancel()
		if err == nil {
			return rec, claimed
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer to a claim: %v", err)
		}
	}
}

// The server is killed (-9) in the middle of requests and started again, three
// times. With appendonly and appendfsync always nothing that was confirmed is
// lost; while it is down each call fails.
func TestAKilledRedisLosesNothingConfirmed(t *testing.T) {
	server := servers.StartRedis(t, "appendonly", "yes", "appendfsync", "always")
	store := openRedis(t, redisClient(t, "redis://"+server.Addr), redisstore.Config{})
	requests := crowdOf(8, 3, store)
	defer requests.end()
	for range 3 {
		requests.awaitRequests(t, 100)
		server.Kill()
		down := redisClaim("user", "down", 1)
		if _, claimed, err := store.Claim(t.Context(), down); err == nil || claimed {
			t.Errorf("Claim on a dead server: claimed %v, error %v", claimed, err)
		}
		server.Start(t)
	}
	requests.awaitRequests(t, 100)
	requests.end()
	if claims, answers := requests.settle(t); claims+answers > 0 {
		t.Errorf("%d claims and %d answers that were confirmed are lost, of %d requests", claims, answers, len(requests.claimed))
	}
}

// Without persistence a killed server forgets everything. Then every request is
// a new one; nothing is wedged and nothing is mixed up.
func TestARedisWithoutPersistenceForgets(t *testing.T) {
	server := servers.StartRedis(t)
	store := openRedis(t, redisClient(t, "redis://"+server.Addr), redisstore.Config{})
	requests := crowdOf(4, 3, store)
	defer requests.end()
	requests.awaitRequests(t, 100)
	requests.end()
	server.Kill()
	server.Start(t)
	if claims, answers := requests.settle(t); claims != len(requests.claimed) || answers != 0 {
		t.Errorf("%d claims and %d answers are lost, of %d; want all claims", claims, answers, len(requests.claimed))
	}
}

// What may happen at a failover is that confirmed claims and answers of the last
// moment are gone: such a request runs again. What may not happen: a key that is
// wedged past its lease, or the answer of another key.
func TestAFailoverWedgesNothingAndMixesNothing(t *testing.T) {
	t.Run("sentinel", func(t *testing.T) {
		group := servers.Sentinel(t)
		failover(t, sentinelClient(t, group), redisstore.Config{}, func() { group.Failover(t) })
	})
	t.Run("sentinel, waiting for a replica", func(t *testing.T) {
		group := servers.Sentinel(t)
		// When one replica is the master, there is one left to wait for.
		wait := redisstore.Wait{Replicas: 1, Timeout: 5 * time.Second}
		failover(t, sentinelClient(t, group), redisstore.Config{Wait: wait}, func() { group.Failover(t) })
	})
	t.Run("cluster", func(t *testing.T) {
		group := servers.Cluster(t)
		client := clusterClient(t, group)
		failover(t, client, redisstore.Config{}, func() { killAMaster(t, group, client) })
	})
	t.Run("cluster, waiting for the replica", func(t *testing.T) {
		group := servers.Cluster(t)
		client := clusterClient(t, group)
		// The shard that loses its master has nobody left to wait for, so only
		// what went before is judged there.
		wait := redisstore.Wait{Replicas: 1, Timeout: 5 * time.Second}
		store := openRedis(t, client, redisstore.Config{Wait: wait})
		requests := crowdOf(8, 3, store)
		defer requests.end()
		requests.awaitRequests(t, 300)
		requests.end()
		killAMaster(t, group, client)
		settled := crowd{store: openRedis(t, client, redisstore.Config{}), lease: requests.lease, claimed: requests.claimed, completed: requests.completed}
		if claims, answers := settled.settle(t); claims+answers > 0 {
			t.Errorf("%d claims and %d answers are lost that the only replica had confirmed", claims, answers)
		}
	})
}

func killAMaster(t *testing.T, group *servers.RedisCluster, client *redis.ClusterClient) {
	t.Helper()
	node, err := client.MasterForKey(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	group.Failover(t, node.Options().Addr)
}

func failover(t *testing.T, client redis.UniversalClient, cfg redisstore.Config, happen func()) {
	t.Helper()
	store := openRedis(t, client, cfg)
	requests := crowdOf(8, 3, store)
	defer requests.end()
	requests.awaitRequests(t, 200)
	happen()
	requests.awaitRequests(t, 200)
	requests.end()
	claims, answers := requests.settle(t)
	t.Logf("of %d requests the failover lost %d claims and %d answers; %d calls failed", len(requests.claimed), claims, answers, requests.failed)
}
