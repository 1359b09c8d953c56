package memstore

import (
	"context"
	"sync"

	"github.com/onceward/onceward"
)

// shard is one part of the map, with its records ordered by when they become
// absent: a binary heap, so that what has expired is always on top and is found
// without looking at what is alive.
type shard struct {
	mu      sync.Mutex // guards the rest
	records map[onceward.Key]*record
	heap    []*record
	peak    int // most records since the map was made
}

// Sweep implements [onceward.Sweeper]. It holds one shard's lock at a time, for
// at most 64 records.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	return s.sweep(ctx, limit, nil)
}

// SweepKeys implements [onceward.KeySweeper]. It does not know of the few records
// that claims delete in passing.
func (s *Store) SweepKeys(ctx context.Context, limit int) (deleted []onceward.Key, err error) {
	_, err = s.sweep(ctx, limit, &deleted)
	return deleted, err
}

// sweep appends the keys of what it deletes to keys, if that is not nil.
func (s *Store) sweep(ctx context.Context, limit int, keys *[]onceward.Key) (int, error) {
	deleted := 0
	for idle := 0; idle < shardCount && deleted < limit; {
		if err := ctx.Err(); err != nil {
			return deleted, err
		}
		n := s.sweepShard(&s.shards[s.hand.Load()%shardCount], min(64, limit-deleted), keys)
		deleted += n
		if n == 64 {
			idle = 0
			continue // there may be more here
		}
		idle++
		if deleted < limit {
			s.hand.Add(1)
		}
	}
	return deleted, nil
}

// sweepForRoom makes room for a claim that found the store full, if any record
// has expired.
func (s *Store) sweepForRoom() bool {
	n, _ := s.Sweep(context.Background(), 256)
	return n > 0
}

func (s *Store) sweepShard(sh *shard, limit int, keys *[]onceward.Key) int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return s.dropExpired(sh, s.now(), limit, keys)
}

// dropExpired deletes up to limit records of sh that count as absent.
func (s *Store) dropExpired(sh *shard, now int64, limit int, keys *[]onceward.Key) int {
	n := 0
	for n < limit && len(sh.heap) > 0 && sh.heap[0].absentAt <= now {
		if keys != nil {
			*keys = append(*keys, sh.heap[0].facts.Key)
		}
		s.remove(sh, sh.heap[0])
		n++
	}
	return n
}

func (sh *shard) add(r *record) {
	sh.records[r.facts.Key] = r
	sh.peak = max(sh.peak, len(sh.records))
	r.heapIndex = len(sh.heap)
	sh.heap = append(sh.heap, r)
	sh.up(r.heapIndex)
}

func (sh *shard) drop(r *record) {
	delete(sh.records, r.facts.Key)
	last := len(sh.heap) - 1
	i := r.heapIndex
	sh.swap(i, last)
	sh.heap[last] = nil
	sh.heap = sh.heap[:last]
	if i < last {
		sh.reorder(sh.heap[i])
	}
	// A Go map keeps the room of its largest day. A quarter full, it is made
	// anew; each rebuild is paid for by the deletions before it.
	if sh.peak >= 256 && len(sh.records)*4 <= sh.peak {
		small := make(map[onceward.Key]*record, len(sh.records))
		for key, r := range sh.records {
			small[key] = r
		}
		sh.records = small
		sh.heap = append(make([]*record, 0, len(sh.heap)), sh.heap...)
		sh.peak = len(small)
	}
}

// reorder restores the heap after r.absentAt changed.
func (sh *shard) reorder(r *record) {
	if !sh.down(r.heapIndex) {
		sh.up(r.heapIndex)
	}
}

func (sh *shard) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if sh.heap[parent].absentAt <= sh.heap[i].absentAt {
			return
		}
		sh.swap(i, parent)
		i = parent
	}
}

func (sh *shard) down(i int) bool {
	first := i
	for {
		child := 2*i + 1
		if child >= len(sh.heap) {
			break
		}
		if right := child + 1; right < len(sh.heap) && sh.heap[right].absentAt < sh.heap[child].absentAt {
			child = right
		}
		if sh.heap[i].absentAt <= sh.heap[child].absentAt {
			break
		}
		sh.swap(i, child)
		i = child
	}
	return i > first
}

func (sh *shard) swap(i, j int) {
	sh.heap[i], sh.heap[j] = sh.heap[j], sh.heap[i]
	sh.heap[i].heapIndex = i
	sh.heap[j].heapIndex = j
}
