package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisSentinel is a master with two replicas, watched by three sentinels.
type RedisSentinel struct {
	Master string   // the name by which the sentinels know it
	Addrs  []string // of the sentinels

	nodes map[string]*RedisServer // by address
}

// Sentinel starts six servers of the test's own and returns when the sentinels
// agree on what they see. directives are for the three that keep the data.
func Sentinel(t redisTest, directives ...string) *RedisSentinel {
	t.Helper()
	binary := redisBinary(t)
	s := &RedisSentinel{Master: "keys", nodes: map[string]*RedisServer{}}
	var host, port string
	for i := range 3 {
		settings := directives
		if i > 0 {
			settings = append([]string{"replicaof", host + " " + port}, directives...)
		}
		node := StartRedis(t, settings...)
		s.nodes[node.Addr] = node
		if i == 0 {
			host, port, _ = net.SplitHostPort(node.Addr)
		}
	}
	for range 3 {
		dir, err := os.MkdirTemp("", "onceward-sentinel-")
		if err != nil {
			t.Fatalf("%v", err)
		}
		own := redisPort()
		// A sentinel writes what it learns into its configuration.
		file := filepath.Join(dir, "sentinel.conf")
		conf := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %s 2\n"+
			"sentinel down-after-milliseconds %[3]s 500\nsentinel failover-timeout %[3]s 3000\n", own, dir, s.Master, host, port)
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatalf("%v", err)
		}
		sentinel := &RedisServer{Addr: "127.0.0.1:" + own, dir: dir, args: []string{binary, file, "--sentinel"}}
		t.Cleanup(sentinel.remove)
		if err := sentinel.start(); err != nil {
			t.Fatalf("%v", err)
		}
		s.Addrs = append(s.Addrs, sentinel.Addr)
	}
	err := redisWait(30*time.Second, func(ctx context.Context) error {
		for _, addr := range s.Addrs {
			state, err := askSentinel(ctx, addr, s.Master)
			if err != nil {
				return err
			}
			if state["num-other-sentinels"] != "2" || state["num-slaves"] != "2" || state["flags"] != "master" {
				return fmt.Errorf("sentinel %s sees %v", addr, state)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

func askSentinel(ctx context.Context, addr, master string) (map[string]string, error) {
	client := redis.NewSentinelClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer client.Close()
	return client.Master(ctx, master).Result()
}

// Failover kills the master (-9) and returns when the sentinels have made
// another one. The dead one stays dead.
func (s *RedisSentinel) Failover(t redisTest) {
	t.Helper()
	ctx := context.Background()
	state, err := askSentinel(ctx, s.Addrs[0], s.Master)
	if err != nil {
		t.Fatalf("%v", err)
	}
	old := net.JoinHostPort(state["ip"], state["port"])
	if s.nodes[old] == nil {
		t.Fatalf("the master is at %s, which is none of ours", old)
	}
	s.nodes[old].Kill()
	err = redisWait(60*time.Second, func(ctx context.Context) error {
		for _, addr := range s.Addrs {
			state, err := askSentinel(ctx, addr, s.Master)
			if err != nil {
				return err
			}
			now := net.JoinHostPort(state["ip"], state["port"])
			if now == old {
				return fmt.Errorf("sentinel %s still calls %s the master", addr, old)
			}
			if err := isMaster(ctx, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
}

func isMaster(ctx context.Context, addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer client.Close()
	text, err := client.Info(ctx, "replication").Result()
	if err == nil && !strings.Contains(text, "role:master") {
		err = fmt.Errorf("%s is no master yet", addr)
	}
	return err
}

// RedisCluster is a Cluster of three masters with a replica each.
type RedisCluster struct {
	Addrs []string

	nodes map[string]*RedisServer
}

const clusterSlots = 16384

// Cluster starts six servers of the test's own, joins them and returns when each
// knows the others and each replica follows its master.
func Cluster(t redisTest, directives ...string) *RedisCluster {
	t.Helper()
	c := &RedisCluster{nodes: map[string]*RedisServer{}}
	clients := make([]*redis.Client, 6)
	ids := make([]string, 6)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	buses := make([]string, 6)
	for i := range clients {
		buses[i] = redisPort()
		node := StartRedis(t, append([]string{
			"cluster-enabled", "yes", "cluster-port", buses[i], "cluster-node-timeout", "1000",
			"cluster-replica-validity-factor", "0", "repl-ping-replica-period", "1",
		}, directives...)...)
		c.nodes[node.Addr] = node
		c.Addrs = append(c.Addrs, node.Addr)
		clients[i] = redis.NewClient(&redis.Options{Addr: node.Addr})
		defer clients[i].Close()
		var err error
		if ids[i], err = clients[i].Do(ctx, "CLUSTER", "MYID").Text(); err != nil {
			t.Fatalf("%v", err)
		}
	}
	do := func(client *redis.Client, args ...any) {
		t.Helper()
		if err := client.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	for i, client := range clients {
		do(client, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < 3 {
			do(client, "CLUSTER", "ADDSLOTSRANGE", i*clusterSlots/3, (i+1)*clusterSlots/3-1)
		}
	}
	for i, addr := range c.Addrs[1:] {
		host, port, _ := net.SplitHostPort(addr)
		do(clients[0], "CLUSTER", "MEET", host, port, buses[i+1])
	}
	wait := func(check func(ctx context.Context, client *redis.Client) error) {
		t.Helper()
		for _, client := range clients {
			if err := redisWait(30*time.Second, func(ctx context.Context) error { return check(ctx, client) }); err != nil {
				t.Fatalf("%s: %v", client.Options().Addr, err)
			}
		}
	}
	says := func(line string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, client *redis.Client) error {
			text, err := client.ClusterInfo(ctx).Result()
			if err == nil && !strings.Contains(text, line+"\r\n") {
				err = errors.New(text)
			}
			return err
		}
	}
	wait(says("cluster_known_nodes:6"))
	for i := 3; i < 6; i++ {
		do(clients[i], "CLUSTER", "REPLICATE", ids[i-3])
	}
	wait(says("cluster_state:ok"))
	// A replica is told to clients when its offset is known everywhere.
	wait(func(ctx context.Context, client *redis.Client) error {
		shards, err := client.ClusterShards(ctx).Result()
		if err != nil {
			return err
		}
		for _, shard := range shards {
			if len(shard.Nodes) != 2 || shard.Nodes[0].Health != "online" || shard.Nodes[1].Health != "online" {
				return fmt.Errorf("a shard is %+v", shard)
			}
		}
		return nil
	})
	return c
}

// Failover kills the master at addr (-9) and returns when its replica has taken
// its place everywhere.
func (c *RedisCluster) Failover(t redisTest, addr string) {
	t.Helper()
	node := c.nodes[addr]
	if node == nil {
		t.Fatalf("%s is no node of this cluster", addr)
	}
	node.Kill()
	delete(c.nodes, addr)
	for other := range c.nodes {
		client := redis.NewClient(&redis.Options{Addr: other})
		err := redisWait(60*time.Second, func(ctx context.Context) error {
			shards, err := client.ClusterShards(ctx).Result()
			if err != nil {
				return err
			}
			served := 0
			for _, shard := range shards {
				for _, n := range shard.Nodes {
					if n.Role != "master" || n.Health != "online" || net.JoinHostPort(n.IP, strconv.FormatInt(n.Port, 10)) == addr {
						continue
					}
					for _, slots := range shard.Slots {
						served += int(slots.End - slots.Start + 1)
					}
				}
			}
			if served != clusterSlots {
				return errors.New("only " + strconv.Itoa(served) + " slots have a master")
			}
			return nil
		})
		client.Close()
		if err != nil {
			t.Fatalf("%s: %v", other, err)
		}
	}
}
