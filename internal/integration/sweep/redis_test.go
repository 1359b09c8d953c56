//go:build linux

package sweep

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

// redisClient opens a server by its URL, a Sentinel's master by
// "sentinel:NAME,ADDR,…" and a Cluster by "cluster:ADDR,…".
func redisClient(place, name string) (goredis.UniversalClient, error) {
	if rest, ok := strings.CutPrefix(place, "sentinel:"); ok {
		parts := strings.Split(rest, ",")
		return goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: parts[0], SentinelAddrs: parts[1:], ClientName: name, ContextTimeoutEnabled: true}), nil
	}
	if rest, ok := strings.CutPrefix(place, "cluster:"); ok {
		return goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: strings.Split(rest, ","), ClientName: name, ContextTimeoutEnabled: true}), nil
	}
	opt, err := goredis.ParseURL(place)
	if err != nil {
		return nil, err
	}
	opt.ClientName, opt.ContextTimeoutEnabled = name, true
	return goredis.NewClient(opt), nil
}

func victimOnRedis(ctx context.Context, v *victim) (closeAll func(), err error) {
	client, err := redisClient(v.plan.Place, v.plan.Name)
	if err != nil {
		return nil, err
	}
	if v.store, err = redisstore.New(ctx, client, redisstore.Config{}); err != nil {
		return nil, err
	}
	v.ledger = fileLedger{v.plan.Ledger}
	return func() { client.Close() }, nil
}

// redisSite is a server's database for the records and a file for the ledger.
type redisSite struct {
	fileLedger
	client *goredis.Client
	store  *redisstore.Store
}

func openRedis(t *testing.T) site {
	opt, err := goredis.ParseURL(servers.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(opt)
	t.Cleanup(func() { client.Close() })
	store, err := redisstore.New(t.Context(), client, redisstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return redisSite{newFileLedger(t), client, store}
}

func (s redisSite) plan(via string) plan {
	if via == "" {
		via = s.client.Options().Addr
	}
	return plan{Place: fmt.Sprintf("redis://%s/%d", via, s.client.Options().DB), Ledger: s.name}
}

func (s redisSite) upstream() (string, wire) { return s.client.Options().Addr, redis }

func (s redisSite) record(ctx context.Context, key string) (state, error) {
	return look(ctx, s.store, key)
}

func (s redisSite) lapsed(ctx context.Context, key string) (bool, error) {
	return lapsed(ctx, s.store, key)
}

// settle waits until a dead victim's connections are gone. A server that has got a
// command executes it, in the order of what arrives.
func (s redisSite) settle(ctx context.Context, name string, dead bool) error {
	if !dead {
		time.Sleep(20 * time.Millisecond)
		return nil
	}
	mark := fmt.Sprintf(" name=%s ", name)
	db := fmt.Sprintf(" db=%d ", s.client.Options().DB)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		list, err := s.client.ClientList(ctx).Result()
		if err != nil {
			return err
		}
		there := false
		for line := range strings.Lines(list) {
			there = there || strings.Contains(line, mark) && strings.Contains(line, db)
		}
		if !there {
			return nil
		}
	}
	return fmt.Errorf("the connections of %s stay", name)
}

// redisGroup is a Sentinel's master with its replica, or a Cluster: its victims are
// struck at the steps of a request, where none of their commands is under way.
type redisGroup struct {
	fileLedger
	place string
	store *redisstore.Store
}

func openRedisSentinel(t *testing.T) site {
	s := servers.Sentinel(t)
	return openRedisGroup(t, "sentinel:"+s.Master+","+strings.Join(s.Addrs, ","))
}

func openRedisCluster(t *testing.T) site {
	return openRedisGroup(t, "cluster:"+strings.Join(servers.Cluster(t).Addrs, ","))
}

func openRedisGroup(t *testing.T, place string) site {
	client, err := redisClient(place, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	store, err := redisstore.New(t.Context(), client, redisstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return redisGroup{newFileLedger(t), place, store}
}

func (s redisGroup) plan(string) plan { return plan{Place: s.place, Ledger: s.name} }

func (s redisGroup) upstream() (string, wire) { return "", nil }

func (s redisGroup) record(ctx context.Context, key string) (state, error) {
	return look(ctx, s.store, key)
}

func (s redisGroup) lapsed(ctx context.Context, key string) (bool, error) {
	return lapsed(ctx, s.store, key)
}

func (s redisGroup) settle(context.Context, string, bool) error {
	time.Sleep(20 * time.Millisecond)
	return nil
}
