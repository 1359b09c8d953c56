package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
)

var _ onceward.Auditor = (*Store)(nil)

// auditsKept is how many changes by hand are remembered.
const auditsKept = 10_000

// auditScript writes the server's time before what was done.
var auditScript = redis.NewScript(`local t = redis.call('TIME')
redis.call('LPUSH', KEYS[1], t[1] .. ' ' .. ARGV[1])
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
return 1`)

// Audit implements [onceward.Auditor], in the list "audit" behind Config.Prefix. The
// latest ten thousand are kept; a failover can lose the last ones.
func (s *Store) Audit(ctx context.Context, a onceward.Audit) error {
	a.At = time.Time{}
	text, err := json.Marshal(a)
	if err == nil {
		err = auditScript.Run(ctx, s.client, []string{s.prefix + "audit"}, text, auditsKept).Err()
	}
	if err != nil {
		return fmt.Errorf("redisstore: audit: %w", err)
	}
	return nil
}

// Audits implements [onceward.Auditor].
func (s *Store) Audits(ctx context.Context, key onceward.Key, limit int) (all []onceward.Audit, err error) {
	lines, err := s.client.LRange(ctx, s.prefix+"audit", 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("redisstore: audits: %w", err)
	}
	for _, line := range lines {
		at, text, _ := strings.Cut(line, " ")
		seconds, err := strconv.ParseInt(at, 10, 64)
		var a onceward.Audit
		if err == nil {
			err = json.Unmarshal([]byte(text), &a)
		}
		if err != nil {
			return nil, fmt.Errorf("redisstore: audits: %w", err)
		}
		if key != (onceward.Key{}) && a.Key != key {
			continue
		}
		a.At = time.Unix(seconds, 0)
		if all = append(all, a); len(all) == limit {
			break
		}
	}
	return all, nil
}
