package memstore

import (
	"bytes"
	"context"
	"slices"

	"github.com/onceward/onceward"
)

// Look implements [onceward.Looker].
func (s *Store) Look(ctx context.Context, key onceward.Key) (onceward.Record, bool, error) {
	if err := ctx.Err(); err != nil {
		return onceward.Record{}, false, err
	}
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	r := sh.records[key]
	if r == nil || r.absentAt <= now {
		return onceward.Record{}, false, nil
	}
	return r.report(now), true, nil
}

// List implements [onceward.Lister]. It goes through all records for each page,
// one shard at a time: it is for people, not for a loop. Records that change
// meanwhile are listed as they were or as they are.
func (s *Store) List(ctx context.Context, q onceward.Query) ([]onceward.Record, error) {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	var page []onceward.Record
	byKey := func(a, b onceward.Record) int { return a.Key.Compare(b.Key) }
	cut := func() {
		slices.SortFunc(page, byKey)
		page = page[:min(len(page), q.Limit)]
	}
	for i := range s.shards {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		page = s.appendShard(page, &s.shards[i], &q)
		if len(page) > 4*q.Limit {
			cut()
		}
	}
	cut()
	return page, nil
}

func (s *Store) appendShard(page []onceward.Record, sh *shard, q *onceward.Query) []onceward.Record {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	for _, r := range sh.records {
		if r.absentAt <= now || !r.matches(q, now) {
			continue
		}
		rec := r.report(now)
		if rec.Response != nil {
			withoutBody := *rec.Response
			withoutBody.Body = nil
			rec.Response = &withoutBody
		}
		page = append(page, rec)
	}
	return page
}

func (r *record) matches(q *onceward.Query, now int64) bool {
	f := &r.facts
	return (q.Scope == nil || f.Key.Scope == *q.Scope) &&
		bytes.HasPrefix(f.Key.ID[:], q.Prefix) &&
		(q.State == 0 || f.State == q.State) &&
		(!q.Stuck || f.State == onceward.InProgress && (f.Held || r.leaseEnd <= now)) &&
		(q.After == (onceward.Key{}) || f.Key.Compare(q.After) > 0)
}

// Forget implements [onceward.Forgetter].
func (s *Store) Forget(ctx context.Context, scope [32]byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range s.shards {
		s.forgetIn(&s.shards[i], scope)
	}
	return nil
}

func (s *Store) forgetIn(sh *shard, scope [32]byte) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var gone []*record
	for key, r := range sh.records {
		if key.Scope == scope {
			gone = append(gone, r)
		}
	}
	for _, r := range gone { // drop may make the map anew
		s.remove(sh, r)
	}
}
