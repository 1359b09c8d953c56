package storetest

import (
	"errors"
	"strconv"
	"time"

	"github.com/onceward/onceward"
)

// sweep calls Sweep, or fails the case if the store cannot.
func (e *env) sweep(limit int) int {
	e.Helper()
	n, err := mustBe[onceward.Sweeper](e, "Sweeper").Sweep(e.ctx, limit)
	if err != nil {
		e.Fatalf("Sweep: %v", err)
	}
	return n
}

// expire leaves completed records whose retention is over.
func (e *env) expire(n int) {
	e.Helper()
	for i := range n {
		c := claimOf(token(i))
		c.Key = onceward.NewKey("user-1", "expired-"+strconv.Itoa(i))
		e.mustClaim(c, "the first claim")
		e.want(nil, e.store.Complete(e.ctx, c.Key, c.Token, answer("done"), e.unit), "Complete by the owner")
	}
	e.pass(2)
}

var sweepCases = []Case{
	{
		Name:    "SweepDeletesWhatIsAbsent",
		Explain: "without it the table grows with every tap for ever (B025)",
		needs:   sweeper,
		run: func(e *env) {
			for i := range 2 {
				c := claimOf(token(i))
				c.Key = onceward.NewKey("user-1", "abandoned-"+strconv.Itoa(i))
				c.Lease, c.Keep = e.unit, e.unit
				e.mustClaim(c, "the first claim")
			}
			e.pass(2)
			e.expire(3)
			if n := e.sweep(100); n != 5 {
				e.Errorf("Sweep deleted %d records, want 5: 2 abandoned, 3 answered", n)
			}
			if n := e.sweep(100); n != 0 {
				e.Errorf("the second Sweep deleted %d records, want 0", n)
			}
		},
	},
	{
		Name:    "SweepKeepsTheLiving",
		Explain: "a sweep that deletes a claim, a held one or an answer makes the work run again",
		needs:   sweeper,
		run: func(e *env) {
			claims, late := map[string]onceward.Claim{}, -1
			// A store that looks for what is absent by a coarser mark, such as the minute
			// or the claim's first end, must not delete by it.
			brief := max(30*time.Second, 20*e.unit)
			for i, name := range []string{"running", "abandoned", "held", "answered", "briefly answered"} {
				c := claimOf(token(i))
				c.Key = onceward.NewKey("user-1", name)
				switch name {
				case "abandoned":
					c.Lease = e.unit
				case "held":
					c.Keep = e.unit
				}
				e.mustClaim(c, "the first claim")
				claims[name] = c
			}
			e.inTime(1, func(c onceward.Claim, d time.Duration) bool {
				late++ // what is left of those that were extended too late may be swept
				c.Lease, c.Keep = d, d
				e.mustClaim(c, "the first claim")
				claims["extended"] = c
				err := e.store.Extend(e.ctx, c.Key, c.Token, long/2, false)
				if errors.Is(err, onceward.ErrClaimLost) {
					return false
				}
				e.want(nil, err, "Extend")
				return true
			})
			e.want(nil, e.store.Extend(e.ctx, claims["held"].Key, claims["held"].Token, e.unit, true), "Extend with hold")
			e.mustComplete(claims["answered"], answer("done"))
			e.want(nil, e.store.Complete(e.ctx, claims["briefly answered"].Key, claims["briefly answered"].Token, answer("done"), brief), "Complete by the owner")
			e.pass(4)
			if n := e.sweep(100); n > late {
				e.Errorf("Sweep deleted %d records, want %d", n, late)
			}
			e.mustReplay(claims["answered"], "done", "an answer after Sweep")
			e.mustReplay(claims["briefly answered"], "done", "an answer kept for less than a minute, after Sweep")
			for _, name := range []string{"running", "abandoned", "held", "extended"} {
				c := claims[name]
				e.want(nil, e.store.Complete(e.ctx, c.Key, c.Token, answer(name), long), "Complete of the "+name+" claim after Sweep")
			}
		},
	},
	{
		Name:    "SweepObeysItsLimit",
		Explain: "a sweep in one go holds up every claim behind it",
		needs:   sweeper,
		run: func(e *env) {
			e.expire(5)
			for range 5 {
				if n := e.sweep(2); n > 2 {
					e.Fatalf("Sweep(2) deleted %d records", n)
				}
			}
		},
	},
}
