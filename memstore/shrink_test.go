package memstore

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward"
)

// After a busy day the room is given back: a Go map alone would keep it.
func TestRoomIsGivenBack(t *testing.T) {
	s := New(Config{})
	claims := make([]onceward.Claim, 20_000)
	for i := range claims {
		claims[i] = onceward.Claim{Key: onceward.NewKey("user", strconv.Itoa(i)), Token: onceward.Token{1}, Lease: time.Hour, Keep: time.Hour}
		if _, _, err := s.Claim(t.Context(), claims[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range claims {
		if err := s.Release(t.Context(), c.Key, c.Token); err != nil {
			t.Fatal(err)
		}
	}
	if s.Len() != 0 {
		t.Errorf("%d records are left", s.Len())
	}
	for i := range s.shards {
		if sh := &s.shards[i]; sh.peak >= 256 || cap(sh.heap) >= 256 {
			t.Fatalf("shard %d still has room for %d records", i, max(sh.peak, cap(sh.heap)))
		}
	}
}

// The heap stays ordered, and knows where each record is, whatever happens to
// the records' times.
func TestTheHeapStaysOrdered(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sh := &shard{records: map[onceward.Key]*record{}}
	var live []*record
	for i := range 20_000 {
		switch k := rng.IntN(4); {
		case k < 2 || len(live) == 0:
			r := &record{absentAt: rng.Int64N(1000)}
			r.facts.Key = onceward.NewKey("", strconv.Itoa(i))
			sh.add(r)
			live = append(live, r)
		case k == 2:
			r := live[rng.IntN(len(live))]
			r.absentAt = rng.Int64N(1000)
			sh.reorder(r)
		default:
			n := rng.IntN(len(live))
			sh.drop(live[n])
			live[n] = live[len(live)-1]
			live = live[:len(live)-1]
		}
		if i%97 != 0 {
			continue
		}
		if len(sh.heap) != len(live) || len(sh.records) != len(live) {
			t.Fatalf("step %d: heap %d, map %d, want %d", i, len(sh.heap), len(sh.records), len(live))
		}
		for j, r := range sh.heap {
			if r.heapIndex != j {
				t.Fatalf("step %d: the record at %d believes that it is at %d", i, j, r.heapIndex)
			}
			if parent := (j - 1) / 2; sh.heap[parent].absentAt > r.absentAt {
				t.Fatalf("step %d: %d is above %d", i, sh.heap[parent].absentAt, r.absentAt)
			}
		}
	}
}
