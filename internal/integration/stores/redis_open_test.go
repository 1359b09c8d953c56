package stores_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

// redisClient opens a client for a URL of servers.Redis.
func redisClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	client := redis.NewClient(opts)
	t.Cleanup(func() { client.Close() })
	return client
}

func openRedis(t testing.TB, client redis.UniversalClient, cfg redisstore.Config) *redisstore.Store {
	t.Helper()
	store, err := redisstore.New(context.Background(), client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// sentinelClient finds the master by its sentinels.
func sentinelClient(t testing.TB, s *servers.RedisSentinel) *redis.Client {
	t.Helper()
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.Master, SentinelAddrs: s.Addrs, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

func clusterClient(t testing.TB, c *servers.RedisCluster) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}

var prefixes atomic.Int64

// ownPrefix keeps a case's records apart where databases cannot.
func ownPrefix() string { return fmt.Sprintf("case-%d:", prefixes.Add(1)) }

// The client would tell standard error of every connection that these tests
// break.
func init() { redis.SetLogger(quiet{}) }

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
