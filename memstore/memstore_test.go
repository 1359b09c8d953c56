package memstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/storetest"
)

func TestMemstoreKeepsTheContract(t *testing.T) {
	storetest.Run(t, storetest.Config{
		FakeTime:     true,
		NoTransactor: true,
		NoFaults:     true, // it has no connection to lose
		New:          func(testing.TB) onceward.Store { return memstore.New(memstore.Config{}) },
	})
}

func TestMemstoreKeepsTheContractInRealTime(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Unit:         10 * time.Millisecond,
		NoTransactor: true,
		NoFaults:     true,
		New:          func(testing.TB) onceward.Store { return memstore.New(memstore.Config{}) },
	})
}

// claim's keys are spread as hashes are, without the time that hashing takes.
func claim(i int) onceward.Claim {
	var key onceward.Key
	binary.BigEndian.PutUint64(key.ID[:], uint64(i)*0x9e3779b97f4a7c15)
	return onceward.Claim{
		Key: key, Fingerprint: onceward.Fingerprint{Version: 1},
		Method: "POST", Path: "/orders", Token: onceward.Token{0: 1, 8: byte(i >> 16), 9: byte(i >> 8), 10: byte(i)},
		Lease: 30 * time.Second, Keep: 24 * time.Hour,
	}
}

// fill makes n answered records that expire after retain.
func fill(t testing.TB, s onceward.Store, from, n int, body []byte, retain time.Duration) {
	t.Helper()
	ctx := context.Background()
	for i := from; i < from+n; i++ {
		c := claim(i)
		if _, claimed, err := s.Claim(ctx, c); err != nil || !claimed {
			t.Fatalf("claim %d: claimed %v, error %v", i, claimed, err)
		}
		if err := s.Complete(ctx, c.Key, c.Token, &onceward.Response{Status: 200, Body: body}, retain); err != nil {
			t.Fatal(err)
		}
	}
}

// B025: 200,000 expired keys that nobody asks for again. Writing other keys
// drops them two at a time, with no sweeper.
func TestExpiredRecordsGoWithNewClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Config{})
		const n = 200_000
		fill(t, s, 0, n, nil, time.Minute)
		if s.Len() != n {
			t.Fatalf("%d records, want %d", s.Len(), n)
		}
		time.Sleep(time.Hour)
		fill(t, s, n, n/2, nil, time.Minute)
		// Each claim deletes two of its own shard, so that some shards have a
		// few left when others have none.
		if s.Len() > n/2+n/20 {
			t.Errorf("%d records after half as many claims as had expired, want about %d", s.Len(), n/2)
		}
		time.Sleep(time.Hour)
		if deleted, err := s.Sweep(t.Context(), math.MaxInt); err != nil || s.Len() != 0 {
			t.Errorf("Sweep deleted %d and left %d, error %v", deleted, s.Len(), err)
		}
	})
}

// B025: the cap. Past it a new key is refused with a clear error, what exists is
// served as ever, and room is made as soon as anything expires or is released.
func TestTheCapRefusesNewKeysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := memstore.New(memstore.Config{MaxRecords: 10})
		fill(t, s, 0, 9, []byte("done"), time.Hour)
		last := claim(9)
		if _, claimed, err := s.Claim(ctx, last); err != nil || !claimed {
			t.Fatalf("the tenth: claimed %v, error %v", claimed, err)
		}
		_, claimed, err := s.Claim(ctx, claim(10))
		if !errors.Is(err, memstore.ErrFull) || claimed {
			t.Fatalf("the eleventh: claimed %v, error %v, want ErrFull", claimed, err)
		}
		if s.Len() != 10 {
			t.Errorf("%d records, the limit is 10", s.Len())
		}
		if rec, _, err := s.Claim(ctx, claim(3)); err != nil || rec.State != onceward.Completed {
			t.Errorf("a replay from a full store: %v, error %v", rec.State, err)
		}
		if err := s.Complete(ctx, last.Key, last.Token, &onceward.Response{Status: 200}, time.Hour); err != nil {
			t.Errorf("Complete in a full store: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if _, claimed, err := s.Claim(ctx, claim(10)); err != nil || !claimed {
			t.Errorf("after the others expired: claimed %v, error %v", claimed, err)
		}
	})
}

func TestAReleaseMakesRoom(t *testing.T) {
	ctx := t.Context()
	s := memstore.New(memstore.Config{MaxRecords: 1})
	c := claim(1)
	if _, _, err := s.Claim(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(ctx, c.Key, c.Token); err != nil {
		t.Fatal(err)
	}
	if _, claimed, err := s.Claim(ctx, claim(2)); err != nil || !claimed {
		t.Errorf("claimed %v, error %v", claimed, err)
	}
}

// B059: bodies count too. A granted claim's answer is kept all the same.
func TestTheBytesOfAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := memstore.New(memstore.Config{MaxBytes: 1 << 20})
		granted := claim(100)
		if _, _, err := s.Claim(ctx, granted); err != nil {
			t.Fatal(err)
		}
		fill(t, s, 0, 4, make([]byte, 256<<10), time.Minute)
		if _, _, err := s.Claim(ctx, claim(4)); !errors.Is(err, memstore.ErrFull) {
			t.Errorf("a claim with 1 MiB kept: %v, want ErrFull", err)
		}
		big := &onceward.Response{Status: 200, Body: make([]byte, 1<<20)}
		if err := s.Complete(ctx, granted.Key, granted.Token, big, time.Minute); err != nil {
			t.Errorf("the answer to a granted claim: %v", err)
		}
		time.Sleep(time.Hour)
		if _, claimed, err := s.Claim(ctx, claim(4)); err != nil || !claimed {
			t.Errorf("after they expired: claimed %v, error %v", claimed, err)
		}
	})
}

// The limit holds while many claim at once, and no slot is lost.
func TestTheCapHoldsUnderConcurrency(t *testing.T) {
	s := memstore.New(memstore.Config{MaxRecords: 50})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				c := claim(g<<10 | i)
				_, claimed, err := s.Claim(t.Context(), c)
				switch {
				case err != nil && !errors.Is(err, memstore.ErrFull):
					t.Error(err)
				case claimed && i%2 == 0:
					if err := s.Release(t.Context(), c.Key, c.Token); err != nil {
						t.Error(err)
					}
				}
				if n := s.Len(); n > 50+8 { // Len may see slots that are just being refused
					t.Errorf("%d records, the limit is 50", n)
				}
			}
		})
	}
	wg.Wait()
	if s.Len() != 50 {
		t.Errorf("%d records at the end, want 50", s.Len())
	}
}

// A long lease added to the store's clock must not wrap round into the past.
func TestTheLongestTimesDoNotOverflow(t *testing.T) {
	ctx := t.Context()
	s := memstore.New(memstore.Config{})
	c := claim(1)
	c.Lease, c.Keep = math.MaxInt64, math.MaxInt64
	if rec, claimed, err := s.Claim(ctx, c); err != nil || !claimed || rec.LeaseLeft <= 0 {
		t.Fatalf("claimed %v, lease left %v, error %v", claimed, rec.LeaseLeft, err)
	}
	other := claim(1)
	other.Token[0], other.TakeOver = 9, true
	if _, claimed, _ := s.Claim(ctx, other); claimed {
		t.Error("the endless lease was taken over")
	}
	if err := s.Complete(ctx, c.Key, c.Token, &onceward.Response{Status: 200}, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	if rec, claimed, _ := s.Claim(ctx, other); claimed || rec.State != onceward.Completed {
		t.Error("the endless retention was over at once")
	}
	short := claim(2)
	short.Lease = math.MinInt64
	if rec, _, err := s.Claim(ctx, short); err != nil || rec.LeaseLeft > 0 {
		t.Errorf("the shortest lease leaves %v, error %v", rec.LeaseLeft, err)
	}
}

// Replays share one answer: asking for it at once from many goroutines races
// with nothing.
func TestReplaysShareOneAnswer(t *testing.T) {
	s := memstore.New(memstore.Config{})
	c := claim(1)
	if _, _, err := s.Claim(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Link": {"a", "b"}, "Content-Type": {"text/plain"}}
	if err := s.Complete(t.Context(), c.Key, c.Token, &onceward.Response{Status: 200, Header: header, Body: []byte("x")}, time.Hour); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				rec, _, err := s.Claim(t.Context(), claim(1))
				if err != nil || rec.Response == nil || len(rec.Response.Header["Link"]) != 2 {
					t.Errorf("replay %v, error %v", rec.Response, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A first request costs three allocations in the store (the record, the header
// lines, the body), a replay none.
func TestAllocations(t *testing.T) {
	ctx := context.Background()
	s := memstore.New(memstore.Config{})
	resp := &onceward.Response{
		Status: 201, Body: []byte("done"),
		Header: http.Header{"Content-Type": {"text/plain"}, "Location": {"/orders/1"}},
	}
	i := 0
	claims := make([]onceward.Claim, 5000)
	for n := range claims {
		claims[n] = claim(n)
	}
	first := testing.AllocsPerRun(4000, func() {
		i++
		if _, _, err := s.Claim(ctx, claims[i]); err != nil {
			t.Fatal(err)
		}
		if err := s.Complete(ctx, claims[i].Key, claims[i].Token, resp, time.Hour); err != nil {
			t.Fatal(err)
		}
	})
	if first > 4 { // and the map's own growth
		t.Errorf("claim and complete allocate %v times, want at most 4", first)
	}
	replay := testing.AllocsPerRun(1000, func() {
		if rec, _, err := s.Claim(ctx, claims[1]); err != nil || rec.Response == nil {
			t.Fatal(err)
		}
	})
	if replay != 0 {
		t.Errorf("a replay allocates %v times, want 0", replay)
	}
}

func Example() {
	ctx := context.Background()
	store := memstore.New(memstore.Config{})
	c := onceward.Claim{
		Key:   onceward.NewKey("account 7", "key-abc-123"),
		Token: onceward.Token{1}, Lease: 30 * time.Second, Keep: 24 * time.Hour,
	}
	_, claimed, _ := store.Claim(ctx, c)
	fmt.Println("first:", claimed)
	store.Complete(ctx, c.Key, c.Token, &onceward.Response{Status: 201, Body: []byte("order 1")}, 24*time.Hour)

	c.Token = onceward.Token{2} // the same request, sent again
	rec, claimed, _ := store.Claim(ctx, c)
	fmt.Println("again:", claimed, rec.State, rec.Response.Status, string(rec.Response.Body))
	// Output:
	// first: true
	// again: false completed 201 order 1
}
