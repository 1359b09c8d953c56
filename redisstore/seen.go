package redisstore

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
)

// seen remembers which keys this process has met lately, as a hint and no more:
// one of two keys that share a place is forgotten.
type seen [1 << 14]atomic.Uint64

func (s *seen) place(key onceward.Key) (*atomic.Uint64, uint64) {
	// Both halves are hashes; zero means an empty place.
	mark := binary.LittleEndian.Uint64(key.ID[:]) ^ binary.LittleEndian.Uint64(key.Scope[:]) | 1
	return &s[mark>>1%uint64(len(s))], mark
}

func (s *seen) add(key onceward.Key) {
	place, mark := s.place(key)
	place.Store(mark)
}

func (s *seen) has(key onceward.Key) bool {
	place, mark := s.place(key)
	return place.Load() == mark
}

func (s *seen) drop(key onceward.Key) {
	place, mark := s.place(key)
	place.CompareAndSwap(mark, 0)
}

// glance answers a claim that changes nothing by two plain reads in one flight,
// which cost the server half of what the script costs. A first request needs the
// script in any case, so only a key that this process has met is glanced at, and
// whatever is not plain is left to the script.
//
// The server's clock is not asked (TIME names no key, and a Cluster's client
// would send it anywhere): the moment follows from when the key expires and how
// long that is from now.
func (s *Store) glance(ctx context.Context, c *onceward.Claim) (onceward.Record, bool) {
	if s.seen == nil || !s.seen.has(c.Key) {
		return onceward.Record{}, false
	}
	name := s.name(c.Key)
	pipe := s.client.Pipeline()
	hash, ttl := pipe.HGetAll(ctx, name), pipe.PTTL(ctx, name)
	if _, err := pipe.Exec(ctx); err != nil || ttl.Val() <= 0 {
		return onceward.Record{}, false
	}
	f := fields(hash.Val())
	last, ok := f.last()
	if !ok || f["v"] != "" {
		return onceward.Record{}, false
	}
	rec, err := f.record(c.Key, last-ttl.Val().Milliseconds())
	if err != nil || rec.State == onceward.InProgress && (rec.Token == c.Token || rec.LeaseLeft <= time.Millisecond) {
		return onceward.Record{}, false
	}
	return rec, true
}

// readsMasters reports whether the client asks masters alone also for what only
// reads.
func readsMasters(client redis.UniversalClient) bool {
	cluster, ok := client.(*redis.ClusterClient)
	return !ok || !cluster.Options().ReadOnly
}
