package orders_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Cases B016–B028: races on the key.

// Also requirement 21: the key is taken before the work.
func TestB016TheKeyIsTakenBeforeTheHandlerStarts(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.background(request{key: "k", chaos: "sleep_ms=3000"})
		s.waitRunning(1)
		time.Sleep(500 * time.Millisecond)
		s.duplicate(request{key: "k"})
		(<-first).want(t, http.StatusCreated, "executed")
		s.wantEffects(1)
	})
}

// Also requirement 22 (50 at once, one is first), requirement 77 and B088 (a
// hundred).
func TestB017OfManyAtOnceOneRunsEvenOnTwoProcesses(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		two := startTwo(t, b)
		for round, many := range []int{50, 50, 100} {
			var sends []func() answer
			for i := range many {
				r := request{key: fmt.Sprint("round-", round), chaos: "sleep_ms=50"}
				if i%2 == 0 {
					r.prefer = "wait=10"
				}
				sends = append(sends, func() answer { return two[i%2].send(r) })
			}
			answers := parallel(sends...)
			n := count(answers)
			if n["executed"] != 1 || n["executed"]+n["replayed"]+n["in-progress"] != many {
				t.Errorf("outcomes: %v, want 1 executed, the rest replayed or in-progress", n)
			}
		}
		wantEffectsOfTwo(two, 3)
	})
}

func TestB019WaitersOfASlowFirstRequestAllGetItsAnswer(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		for round := range 3 {
			key := fmt.Sprint("round-", round)
			first := s.background(request{key: key, chaos: "sleep_ms=2500"}) // longer than a busy machine takes to look
			s.waitRunning(1)
			answers := parallel(s.times(20, request{key: key, prefer: "wait=10"})...)
			run := (<-first).want(t, http.StatusCreated, "executed")
			for _, a := range answers {
				a.wantReplayOf(t, run)
			}
		}
		s.wantEffects(3)
	})
}

// The lease is far shorter than the handler; the retry comes from another
// process where the store is shared. A transaction needs no lease.
func TestB020AHandlerThatOutlivesItsLeaseKeepsItsKey(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		two := startTwo(t, b, "-lease", "3s")
		owner, other := two[0], two[1]
		first := owner.background(request{key: "k", chaos: "sleep_ms=7000"})
		owner.waitRunning(1)
		time.Sleep(4500 * time.Millisecond)
		other.duplicate(request{key: "k"})
		run := (<-first).want(t, http.StatusCreated, "executed")
		other.send(request{key: "k"}).wantReplayOf(t, run)
		wantEffectsOfTwo(two, 1)
	})
}

func TestB022AWaiterEndsAtItsLimitWhateverTheOthersDo(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		ctx, stop := context.WithCancel(context.Background())
		var thieves sync.WaitGroup
		for range 20 {
			thieves.Go(func() {
				for ctx.Err() == nil {
					_, _ = s.try(request{key: "hot", chaos: "sleep_ms=20&status=500"})
				}
			})
		}
		// How much of a wait is the machine's is told by one under the same load who is
		// not to wait at all, before it and after it.
		busy := func() time.Duration {
			begin := time.Now()
			_, _ = s.try(request{key: "hot", chaos: "sleep_ms=20&status=500"}) // it must not be the one that ends it
			return time.Since(begin)
		}
		least := busy()
		begin := time.Now()
		a := s.send(request{key: "hot", prefer: "wait=1"})
		took := time.Since(begin)
		if most := time.Second + 3*max(least, busy()) + 6*time.Second; took > most {
			t.Errorf("a wait of 1 s took %v, want at most %v", took, most)
		}
		if o := a.outcome(); o != "executed" && o != "in-progress" {
			t.Errorf("the waiter was answered %v", a)
		}
		stop()
		thieves.Wait()
		s.until(request{key: "hot"})
		s.wantEffects(1)
	})
}

func TestB023WaitersThatLeaveLeaveNothingBehind(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		before, err := s.vitals()
		if err != nil {
			t.Fatal(err)
		}
		first := s.background(request{key: "k", chaos: "sleep_ms=2500"})
		s.waitRunning(1)
		impatient := request{key: "k", prefer: "wait=10", timeout: 50 * time.Millisecond}
		for range s.b.sample(20, 5) {
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if a, err := s.try(impatient); err == nil && a.outcome() == "executed" {
						t.Error("a waiter ran the request")
					}
				})
			}
			wg.Wait()
		}
		(<-first).want(t, http.StatusCreated, "executed")
		eventually(t, "no goroutine left of so many waiters", func() bool {
			now, err := s.vitals()
			return err == nil && now.Goroutines <= before.Goroutines+8
		})
		s.wantEffects(1)
	})
}

// Also R12 and requirement 30's second half: the room is given back without a
// restart and without anyone asking for the old keys.
func TestB025ExpiredKeysGiveTheirRoomBack(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
		defer client.CloseIdleConnections()
		next := 0
		burst := func(n int) vitals {
			var wg sync.WaitGroup
			each := n / 16
			for w := range 16 {
				from := next + w*each
				wg.Go(func() {
					for i := from; i < from+each; i++ {
						a, err := s.try(request{client: client, method: http.MethodDelete, path: "/orders/none", key: fmt.Sprint("key-", i)})
						if err != nil || a.status != http.StatusNoContent {
							t.Errorf("answered %v, %v", a, err)
							return
						}
					}
				})
			}
			wg.Wait()
			next += n
			v, err := s.vitals()
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if kept := s.kept(); kept != nil {
			burst(320)
			eventually(t, "the expired records are deleted", func() bool { return kept() == 0 })
			return
		}
		burst(800)
		before := burst(800)
		after := burst(3200)
		// A record that stays costs well over 300 bytes.
		if grown := after.Heap - before.Heap; grown > 3200*150 {
			t.Errorf("3200 expired keys left %d bytes behind", grown)
		}
	}, "-retention", "1ms", "-sweep", "200ms")
}

// Also requirement 24.
func TestB028TheRefusalOfADuplicateSaysWhatToDo(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.background(request{key: "k", chaos: "sleep_ms=2500"})
		s.waitRunning(1)
		if s.b.serial {
			s.duplicate(request{key: "k", prefer: "wait=0"}) // nobody is refused
		} else {
			a := s.send(request{key: "k", prefer: "wait=0"})
			a.wantBusy(t)
			if got := a.header.Get("Idempotency-Status"); got != `in-progress;key="k"` {
				t.Errorf("Idempotency-Status: %s", got)
			}
		}
		(<-first).want(t, http.StatusCreated, "executed")
		s.send(request{key: "k"}).want(t, http.StatusCreated, "replayed")
		s.wantEffects(1)
	})
}
