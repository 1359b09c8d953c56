package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
)

// run runs a script on key's record: EVALSHA, and EVAL where the server does not
// know it (yet, or again after SCRIPT FLUSH, a restart or a failover). If Config.Wait
// asks for replicas and the reply needs them, it returns when they have confirmed.
func (s *Store) run(ctx context.Context, script *redis.Script, key onceward.Key, args []any, needsReplicas func(any) bool) (reply any, err error) {
	keys := []string{s.name(key)}
	if s.wait.Replicas <= 0 {
		reply, err = script.Run(ctx, s.client, keys, args...).Result()
	} else {
		reply, err = s.runAndWait(ctx, script, keys, args, needsReplicas)
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok && unanswered(err) {
		// go-redis goes on asking a master that is gone, for up to a minute
		// (https://github.com/redis/go-redis/issues/3979). Told to look again, it
		// finds the new one by the next call; it looks in the background, and
		// however many tell it, five times a second at most.
		cluster.ReloadState(ctx)
	}
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// unanswered reports whether a server has not answered.
func unanswered(err error) bool {
	var answer redis.Error
	return err != nil && !errors.As(err, &answer) && !errors.Is(err, ErrReplicas)
}

func (s *Store) runAndWait(ctx context.Context, script *redis.Script, keys []string, args []any, needsReplicas func(any) bool) (any, error) {
	var reply any
	err := s.pinned(ctx, keys[0], func(conn *redis.Conn, asking bool) (err error) {
		if asking {
			// It holds for the next command only, so that must be the one that
			// cannot answer NOSCRIPT.
			if err := conn.Do(ctx, "ASKING").Err(); err != nil {
				return err
			}
			reply, err = script.Eval(ctx, conn, keys, args...).Result()
		} else {
			reply, err = script.Run(ctx, conn, keys, args...).Result()
		}
		if err != nil || !needsReplicas(reply) {
			return err
		}
		n, err := conn.Wait(ctx, s.wait.Replicas, s.wait.Timeout).Result()
		if err == nil && n < int64(s.wait.Replicas) {
			err = fmt.Errorf("%w: %d of %d within %v", ErrReplicas, n, s.wait.Replicas, s.wait.Timeout)
		}
		return err
	})
	return reply, err
}

// pinned gives f one connection to the server that has the key. WAIT waits for
// what its own connection wrote, so script and WAIT must share one; and since
// WAIT names no key, a Cluster client would send it anywhere. That is why what
// the client does otherwise, following a Cluster's redirections and trying again
// on another connection, is done here.
func (s *Store) pinned(ctx context.Context, name string, f func(conn *redis.Conn, asking bool) error) error {
	on := func(node *redis.Client, asking bool) error {
		conn := node.Conn()
		defer conn.Close()
		return f(conn, asking)
	}
	cluster, _ := s.client.(*redis.ClusterClient)
	for try := 0; ; try++ {
		node, _ := s.client.(*redis.Client)
		if cluster != nil {
			var err error
			if node, err = cluster.MasterForKey(ctx, name); err != nil {
				return err
			}
		}
		err := on(node, false)
		for range 3 {
			addr, asking, redirected := redirection(err)
			if !redirected {
				break
			}
			if node = s.nodeAt(ctx, addr); node == nil {
				break
			}
			err = on(node, asking)
		}
		_, _, redirected := redirection(err)
		again := redirected || changing(err) || unanswered(err)
		if !again || try == 4 {
			return err
		}
		if cluster != nil {
			cluster.ReloadState(ctx)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(try) * 50 * time.Millisecond):
		}
	}
}

// redirection reads a Cluster's "MOVED slot host:port" and "ASK slot host:port".
func redirection(err error) (addr string, asking, ok bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return "", false, false
	}
	words := strings.Fields(reply.Error())
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return "", false, false
	}
	return words[2], words[0] == "ASK", true
}

// changing reports whether err says that the Cluster is being rearranged.
func changing(err error) bool {
	return redis.HasErrorPrefix(err, "READONLY") || redis.HasErrorPrefix(err, "CLUSTERDOWN") || redis.HasErrorPrefix(err, "TRYAGAIN")
}

// nodeAt finds the Cluster's node with this address, or nil.
func (s *Store) nodeAt(ctx context.Context, addr string) (found *redis.Client) {
	_ = s.eachServer(ctx, func(node *redis.Client) error {
		if node.Options().Addr == addr {
			found = node
		}
		return nil
	})
	return found
}

// eachMaster runs f on every server that has keys, one after another.
func (s *Store) eachMaster(ctx context.Context, f func(node *redis.Client) error) error {
	return s.each(ctx, (*redis.ClusterClient).ForEachMaster, f)
}

// eachServer runs f on every server that the client knows, one after another.
func (s *Store) eachServer(ctx context.Context, f func(node *redis.Client) error) error {
	return s.each(ctx, (*redis.ClusterClient).ForEachShard, f)
}

type forEach = func(*redis.ClusterClient, context.Context, func(context.Context, *redis.Client) error) error

// each collects the nodes first: the client's own loops run all at once, and f
// need not bear that.
func (s *Store) each(ctx context.Context, loop forEach, f func(node *redis.Client) error) error {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return f(s.client.(*redis.Client))
	}
	var mu sync.Mutex
	var nodes []*redis.Client
	err := loop(cluster, ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := f(node); err != nil {
			return fmt.Errorf("%s: %w", node.Options().Addr, err)
		}
	}
	return nil
}
