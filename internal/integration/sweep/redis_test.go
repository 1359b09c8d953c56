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

func victimOnRedis(ctx context.Context, v *victim) (closeAll func(), err error) {
	opt, err := goredis.ParseURL(v.plan.Place)
	if err != nil {
		return nil, err
	}
	opt.ClientName, opt.ContextTimeoutEnabled = v.plan.Name, true
	client := goredis.NewClient(opt)
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
