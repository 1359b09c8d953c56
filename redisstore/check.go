package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// checkServers refuses servers on which the store would not keep its word.
func (s *Store) checkServers(ctx context.Context, log *slog.Logger) error {
	return s.eachServer(ctx, func(node *redis.Client) error {
		log := log.With("server", node.Options().Addr)
		text, err := node.Info(ctx).Result()
		if closed(err) {
			log.Warn("redisstore: INFO is closed: whether this server is new enough, and whether it evicts keys, is unknown", "error", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("redisstore: ask a server about itself: %w", err)
		}
		_, cluster := s.client.(*redis.ClusterClient)
		return judge(parseInfo(text), cluster, log)
	})
}

// closed reports whether a server refuses the command, as hosted ones and ACLs
// do, rather than failing at it. (HasErrorPrefix looks past a leading "ERR ".)
func closed(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "unknown command")
}

// info is what INFO says: "name:value" lines.
type info map[string]string

func parseInfo(text string) info {
	i := info{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			i[name] = value
		}
	}
	return i
}

// judge looks at what a server says of itself. Valkey gives redis_version too:
// the one of Redis that it is compatible with.
func judge(i info, clusterClient bool, log *slog.Logger) error {
	version := i["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil:
		log.Warn("redisstore: the server does not say its version; Redis 5 or newer is needed", "redis_version", version)
	case n < 5:
		return fmt.Errorf("%w: %s", ErrTooOld, version)
	}
	switch policy := i["maxmemory_policy"]; policy {
	case "noeviction":
	case "":
		log.Warn("redisstore: the server does not say its maxmemory-policy; it must be noeviction")
	default:
		return fmt.Errorf("%w: maxmemory-policy is %s, and must be noeviction", ErrEvicting, policy)
	}
	if i["cluster_enabled"] == "1" && !clusterClient {
		return errors.New("redisstore: the server belongs to a Cluster, which needs a *redis.ClusterClient")
	}
	if i["aof_enabled"] == "0" {
		log.Warn("redisstore: appendonly is off: a server that is killed forgets the keys since its last snapshot")
	}
	return nil
}
