package redisstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
)

// scanStep is how many names a server is asked to look at in one go: some tenths
// of a millisecond, in which it does nothing else.
const scanStep = 1000

// List implements [onceward.Lister]. Redis keeps no order, so each call goes
// through all keys of the database, in small steps (SCAN), and keeps the first
// q.Limit that it finds; its memory does not grow with the database, its time
// does. Records that come and go meanwhile may be missed, and so may those of a
// Cluster's slots that are moving.
func (s *Store) List(ctx context.Context, q onceward.Query) ([]onceward.Record, error) {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	var first []onceward.Record // in order, at most q.Limit
	err := s.scan(ctx, q.Scope, func(node *redis.Client, names []string) error {
		var wanted []onceward.Key
		for _, name := range names {
			key, ok := s.keyOf(name)
			if !ok || !bytes.HasPrefix(key.ID[:], q.Prefix) || key.Compare(q.After) <= 0 {
				continue
			}
			if at, there := position(first, key); !there && at < q.Limit {
				wanted = append(wanted, key)
			}
		}
		records, err := s.heads(ctx, node, wanted)
		if err != nil {
			return err
		}
		for _, rec := range records {
			if q.State != 0 && rec.State != q.State || q.Stuck && !stuck(rec) {
				continue
			}
			// SCAN may give a name twice.
			if at, there := position(first, rec.Key); !there {
				first = slices.Insert(first, at, rec)
				first = first[:min(len(first), q.Limit)]
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("redisstore: list: %w", err)
	}
	return first, nil
}

func position(records []onceward.Record, key onceward.Key) (int, bool) {
	return slices.BinarySearchFunc(records, key, func(r onceward.Record, k onceward.Key) int { return r.Key.Compare(k) })
}

func stuck(r onceward.Record) bool {
	return r.State == onceward.InProgress && (r.Held || r.LeaseLeft <= 0)
}

// headFields are a record without its body.
var headFields = func() []string {
	names := []string{"st", "fp", "tk", "n", "rq", "at", "le", "kp", "v"}
	for i := range maxPieces {
		names = append(names, pieceName("hd", i))
	}
	return names
}()

// heads reads records without their bodies in one round trip. Those that are
// absent are left out, and so are those that this version cannot read: one of
// them must not hide all others.
func (s *Store) heads(ctx context.Context, node *redis.Client, keys []onceward.Key) ([]onceward.Record, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := node.Pipeline()
	clock := pipe.Time(ctx)
	answers := make([]*redis.SliceCmd, len(keys))
	for i, key := range keys {
		answers[i] = pipe.HMGet(ctx, s.name(key), headFields...)
	}
	_, _ = pipe.Exec(ctx) // each answer has its own error
	now, err := clock.Result()
	if err != nil {
		return nil, err
	}
	records := make([]onceward.Record, 0, len(keys))
	for i, answer := range answers {
		values, err := answer.Result()
		if _, _, moved := redirection(err); moved || redis.HasErrorPrefix(err, "WRONGTYPE") {
			continue
		}
		if err != nil {
			return nil, err
		}
		f := make(fields, len(values))
		for j, value := range values {
			if text, ok := value.(string); ok {
				f[headFields[j]] = text
			}
		}
		if f["v"] != "" || f["st"] == "" || f.absent(now.UnixMilli()) {
			continue
		}
		if rec, err := f.record(keys[i], now.UnixMilli()); err == nil {
			records = append(records, rec)
		}
	}
	return records, nil
}

// Forget implements [onceward.Forgetter]. It goes through all keys of the
// database (SCAN) until it finds none of the scope's any more. An index of each
// scope would find them faster; but in a Cluster it lies in another slot than its
// records, so that nothing keeps the two in step, and every first request would
// pay for what happens when an account is deleted.
//
// A request that the account sends meanwhile can make a record that stays: end
// its sessions first.
func (s *Store) Forget(ctx context.Context, scope [32]byte) error {
	for found := true; found; {
		found = false
		err := s.scan(ctx, &scope, func(_ *redis.Client, names []string) error {
			// Through the client, which follows a key whose slot has moved.
			pipe := s.client.Pipeline()
			for _, name := range names {
				if key, ok := s.keyOf(name); ok && key.Scope == scope {
					pipe.Unlink(ctx, name)
				}
			}
			if pipe.Len() == 0 {
				return nil
			}
			found = true
			_, err := pipe.Exec(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("redisstore: forget: %w", err)
		}
	}
	return nil
}

// scan hands the names that may be records' to f, step by step, of every master.
func (s *Store) scan(ctx context.Context, scope *[32]byte, f func(node *redis.Client, names []string) error) error {
	pattern := globEscaper.Replace(s.prefix) + "{"
	if scope != nil {
		pattern += base64.RawURLEncoding.EncodeToString(scope[:]) + "."
	}
	pattern += "*}"
	return s.eachMaster(ctx, func(node *redis.Client) error {
		for cursor := uint64(0); ; {
			names, next, err := node.Scan(ctx, cursor, pattern, scanStep).Result()
			if err != nil {
				return err
			}
			if err := f(node, names); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	})
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
