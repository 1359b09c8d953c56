package storetest

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward"
)

const racers = 100

// race calls f from n goroutines that start together.
func race(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

var raceCases = []Case{
	{
		Name:    "RacersGetOneClaim",
		Explain: "eight presses of a slow button are one order: of all claims at once exactly one is granted (B001, B016, B017)",
		run: func(e *env) {
			var granted atomic.Int32
			race(racers, func(i int) {
				_, claimed, err := e.store.Claim(e.ctx, claimOf(token(i+1)))
				if err != nil {
					e.Errorf("Claim: %v", err)
				}
				if claimed {
					granted.Add(1)
				}
			})
			if n := granted.Load(); n != 1 {
				e.Errorf("%d of %d claims were granted, want exactly 1", n, racers)
			}
		},
	},
	{
		Name:    "RacersTakeOverOnce",
		Explain: "when a worker dies all who wait come at once: exactly one of them may run (B088)",
		run: func(e *env) {
			e.abandoned(claimOf(token(1)))
			var granted atomic.Int32
			race(racers, func(i int) {
				c := claimOf(token(i + 2))
				c.TakeOver = true
				_, claimed, err := e.store.Claim(e.ctx, c)
				if err != nil {
					e.Errorf("Claim: %v", err)
				}
				if claimed {
					granted.Add(1)
				}
			})
			if n := granted.Load(); n != 1 {
				e.Errorf("%d of %d take-overs were granted, want exactly 1", n, racers)
			}
		},
	},
	{
		Name:    "CompleteOrTakeOver",
		Explain: "a late answer and a take-over at one moment: one of them wins and the other learns it, else the work counts twice (B019)",
		run: func(e *env) {
			const rounds = 20
			claims := make([]onceward.Claim, rounds)
			for i := range claims {
				claims[i] = claimOf(token(i + 1))
				claims[i].Key = onceward.NewKey("user-1", "round-"+strconv.Itoa(i))
				claims[i].Lease = e.unit
				e.mustClaim(claims[i], "the first claim")
			}
			e.pass(2)
			var completed, taken [rounds]bool
			race(2*rounds, func(n int) {
				i := n / 2
				if n%2 == 0 {
					err := e.store.Complete(e.ctx, claims[i].Key, claims[i].Token, answer("done"), long)
					if err != nil && !is(err, onceward.ErrClaimLost) {
						e.Errorf("Complete: %v", err)
					}
					completed[i] = err == nil
					return
				}
				c := claims[i]
				c.Token, c.TakeOver, c.Lease = token(1000+i), true, long
				_, claimed, err := e.store.Claim(e.ctx, c)
				if err != nil {
					e.Errorf("Claim: %v", err)
				}
				taken[i] = claimed
			})
			for i := range rounds {
				if completed[i] == taken[i] {
					e.Errorf("round %d: completed %v and taken over %v, want exactly one", i, completed[i], taken[i])
				}
			}
		},
	},
	{
		Name:    "ManyKeysKeepTheirAnswers",
		Explain: "requests of many people at once each get their own answer",
		run: func(e *env) {
			race(racers, func(i int) {
				c := claimOf(token(i + 1))
				c.Key = onceward.NewKey("user-1", "many-"+strconv.Itoa(i))
				if _, claimed, err := e.store.Claim(e.ctx, c); err != nil || !claimed {
					e.Errorf("key %d: claimed %v, error %v", i, claimed, err)
					return
				}
				if err := e.store.Complete(e.ctx, c.Key, c.Token, answer("answer "+strconv.Itoa(i)), long); err != nil {
					e.Errorf("key %d: Complete: %v", i, err)
				}
			})
			for i := range racers {
				c := claimOf(token(1000 + i))
				c.Key = onceward.NewKey("user-1", "many-"+strconv.Itoa(i))
				e.mustReplay(c, "answer "+strconv.Itoa(i), "key "+strconv.Itoa(i))
			}
		},
	},
}
