package storetest

import (
	"time"

	"github.com/onceward/onceward"
)

var leaseCases = []Case{
	{
		Name:    "LeaseHolds",
		Explain: "while the lease runs the worker lives: a take-over now would be a second copy of its work",
		run: func(e *env) {
			e.mustClaim(claimOf(token(1)), "the first claim")
			c := claimOf(token(2))
			c.TakeOver = true
			e.mustReport(c, "a take-over within the lease")
		},
	},
	{
		Name:    "TakeOverIsAskedFor",
		Explain: "where a second run is forbidden the guard does not ask for it, and the store must not give it",
		run: func(e *env) {
			e.abandoned(claimOf(token(1)))
			e.mustReport(claimOf(token(2)), "a claim without TakeOver after the lease")
		},
	},
	{
		Name:    "LeaseOverIsSeen",
		Explain: "an unknown outcome is a claim whose lease is over: the guard can only tell it by LeaseLeft",
		run: func(e *env) {
			e.abandoned(claimOf(token(1)))
			other := claimOf(token(2))
			other.Fingerprint = fingerprint("another payload")
			if rec, _ := e.claim(other); rec.LeaseLeft > 0 {
				e.Errorf("LeaseLeft is %v after the lease, want zero or less", rec.LeaseLeft)
			}
		},
	},
	{
		Name:    "TakeOverMayHappenAgain",
		Explain: "the worker that took over may die as well; the key must not stay stuck after the first rescue",
		run: func(e *env) {
			e.abandoned(claimOf(token(1)))
			for n := 2; n <= 4; n++ {
				c := claimOf(token(n))
				c.TakeOver = true
				c.Lease = e.unit
				if rec := e.mustClaim(c, "a take-over after the lease"); rec.Token != c.Token {
					e.Errorf("the record has token %x, want the new owner's", rec.Token)
				}
				e.pass(2)
			}
		},
	},
	{
		Name:    "TakeOverCountsAttempts",
		Explain: "the attempt number tells the person on call, and the handler, that this is not the first run",
		run: func(e *env) {
			first := e.abandoned(claimOf(token(1)))
			c := claimOf(token(2))
			c.TakeOver = true
			if rec := e.mustClaim(c, "a take-over"); rec.Attempt != first.Attempt+1 {
				e.Errorf("the take-over is attempt %d, want %d", rec.Attempt, first.Attempt+1)
			}
			if rec, _ := e.claim(claimOf(token(3))); rec.Attempt != first.Attempt+1 {
				e.Errorf("attempt %d is reported afterwards, want %d", rec.Attempt, first.Attempt+1)
			}
		},
	},
	{
		Name:    "TakeOverHasItsOwnLease",
		Explain: "a take-over that inherits the dead worker's lease is taken over in its turn at once",
		run: func(e *env) {
			e.abandoned(claimOf(token(1)))
			c := claimOf(token(2))
			c.TakeOver = true
			if rec := e.mustClaim(c, "a take-over"); rec.LeaseLeft <= long/2 {
				e.Errorf("LeaseLeft is %v after a take-over with a lease of %v", rec.LeaseLeft, long)
			}
		},
	},
	{
		Name:    "TakeOverHasItsOwnKeep",
		Explain: "how long an abandoned claim counts is said by the claim that was abandoned last",
		run: func(e *env) {
			first := claimOf(token(1))
			first.Keep = 10 * e.unit
			e.abandoned(first)
			second := claimOf(token(2))
			second.TakeOver = true
			second.Lease = 0
			e.mustClaim(second, "a take-over with a longer Keep")
			e.pass(12)
			other := claimOf(token(3))
			other.Fingerprint = fingerprint("another payload")
			e.mustReport(other, "within the second claim's Keep")
		},
	},
	{
		Name:    "ZeroLeaseIsOverAtOnce",
		Explain: "zero is a value: read as \"not set\" it left claims that never ended (B032)",
		run: func(e *env) {
			c := claimOf(token(1))
			c.Lease = 0
			if rec := e.mustClaim(c, "a claim with no lease"); rec.LeaseLeft > 0 {
				e.Errorf("LeaseLeft is %v, want zero or less", rec.LeaseLeft)
			}
			next := claimOf(token(2))
			next.TakeOver = true
			e.mustClaim(next, "a take-over at once")
		},
	},
	{
		Name:    "NegativeLeaseIsOverAtOnce",
		Explain: "a deadline already past gives a negative lease: it is over, neither refused nor endless (B032)",
		run: func(e *env) {
			c := claimOf(token(1))
			c.Lease = -time.Minute
			if rec := e.mustClaim(c, "a claim with a negative lease"); rec.LeaseLeft > 0 {
				e.Errorf("LeaseLeft is %v, want zero or less", rec.LeaseLeft)
			}
			next := claimOf(token(2))
			next.TakeOver = true
			e.mustClaim(next, "a take-over at once")
		},
	},
	{
		Name:    "LeaseLeftIsWhatIsLeft",
		Explain: "Retry-After is made of it: the whole lease each time keeps people waiting for nothing (B040)",
		run: func(e *env) {
			begin := time.Now()
			e.mustClaim(claimOf(token(1)), "the first claim")
			e.pass(3)
			rec, _ := e.claim(claimOf(token(2)))
			elapsed := time.Since(begin)
			if rec.LeaseLeft > long-2*e.unit || rec.LeaseLeft < long-elapsed-e.unit {
				e.Errorf("LeaseLeft is %v of %v, %v after the claim", rec.LeaseLeft, long, elapsed)
			}
		},
	},
	{
		Name:    "ExtendLengthens",
		Explain: "a handler that takes longer than its lease keeps it by renewing; otherwise its work runs twice (B020)",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, 3*long, false), "Extend by the owner")
			if rec, _ := e.claim(claimOf(token(2))); rec.LeaseLeft <= 2*long {
				e.Errorf("LeaseLeft is %v after Extend by %v", rec.LeaseLeft, 3*long)
			}
		},
	},
	{
		Name:    "ExtendCountsFromNow",
		Explain: "renewals that add up leave a dead worker's key locked for hours",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			for range 3 {
				e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, long, false), "Extend by the owner")
			}
			if rec, _ := e.claim(claimOf(token(2))); rec.LeaseLeft > long+e.unit {
				e.Errorf("LeaseLeft is %v after three times Extend by %v", rec.LeaseLeft, long)
			}
		},
	},
	{
		Name:    "ExtendZeroEndsTheLease",
		Explain: "a worker that gives up ends its lease, so that the next try need not wait for it",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, 0, false), "Extend by zero")
			next := claimOf(token(2))
			next.TakeOver = true
			e.mustClaim(next, "a take-over at once")
		},
	},
	{
		Name:    "ExtendNegativeEndsTheLease",
		Explain: "what is left of a deadline can be negative: that is over, not a lease that stays (B032)",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, -time.Second, false), "Extend by less than zero")
			next := claimOf(token(2))
			next.TakeOver = true
			e.mustClaim(next, "a take-over at once")
		},
	},
	{
		Name:    "LateOwnerMayExtend",
		Explain: "a worker that was paused past its lease and was not displaced goes on; telling it that it lost kills good work",
		run: func(e *env) {
			c := claimOf(token(1))
			e.abandoned(c)
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, long, false), "Extend after the lease, by an owner whom nobody displaced")
		},
	},
	{
		Name:    "ExtendOfAbsentIsLost",
		Explain: "a worker whose key is gone must learn it and stop",
		run: func(e *env) {
			c := claimOf(token(1))
			e.want(onceward.ErrClaimLost, e.store.Extend(e.ctx, c.Key, c.Token, long, false), "Extend of an absent key")
		},
	},
	{
		Name:    "ExtendOfCompletedIsLost",
		Explain: "an answered key has no lease to renew: nil would hide that the work is finished",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.mustComplete(c, answer("done"))
			e.want(onceward.ErrClaimLost, e.store.Extend(e.ctx, c.Key, c.Token, long, false), "Extend of a completed key")
		},
	},
	{
		Name:    "ExtendNeedsTheToken",
		Explain: "only the owner renews: a stranger who can would lock a dead worker's key, or end a live one's",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(onceward.ErrClaimLost, e.store.Extend(e.ctx, c.Key, token(9), 0, true), "Extend under another token")
			if rec, _ := e.claim(claimOf(token(2))); rec.LeaseLeft <= 0 || rec.Held {
				e.Errorf("after it LeaseLeft is %v, held %v; want no change", rec.LeaseLeft, rec.Held)
			}
		},
	},
	{
		Name:    "DisplacedOwnerCannotExtend",
		Explain: "a worker that was taken over must learn it at its next renewal, before it does more work twice",
		run: func(e *env) {
			old, _ := e.displaced()
			e.want(onceward.ErrClaimLost, e.store.Extend(e.ctx, old.Key, old.Token, long, false), "Extend by the displaced owner")
		},
	},
}

var holdCases = []Case{
	{
		Name:    "HoldForbidsTakeOver",
		Explain: "a payment with an unknown outcome is held so that it never runs again by itself (B033)",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, e.unit, true), "Extend with hold")
			e.pass(2)
			next := claimOf(token(2))
			next.TakeOver = true
			e.mustReport(next, "a take-over of a held claim")
		},
	},
	{
		Name:    "HoldIsReported",
		Explain: "people ask why a key is stuck: the record has to say that it is held",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, long, true), "Extend with hold")
			if rec, _ := e.claim(claimOf(token(2))); !rec.Held {
				e.Errorf("the record is not Held")
			}
		},
	},
	{
		Name:    "HeldNeverBecomesAbsent",
		Explain: "a held claim waits for a person; vanishing after Keep, it would let the payment run again",
		run: func(e *env) {
			c := claimOf(token(1))
			c.Keep = e.unit
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, e.unit, true), "Extend with hold")
			e.pass(5)
			other := claimOf(token(2))
			other.Fingerprint = fingerprint("another payload")
			e.mustReport(other, "a held claim long after its Keep")
		},
	},
	{
		Name:    "HoldIsNeverTakenAway",
		Explain: "a renewal still on its way must not undo the hold that was set after it was sent",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, long, true), "Extend with hold")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, e.unit, false), "Extend without hold")
			e.pass(2)
			next := claimOf(token(2))
			next.TakeOver = true
			e.mustReport(next, "a take-over after a later Extend without hold")
		},
	},
	{
		Name:    "HeldMayBeCompleted",
		Explain: "the late owner of a held claim may still bring the true answer",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, long, true), "Extend with hold")
			e.mustComplete(c, answer("done"))
			e.mustReplay(claimOf(token(2)), "done", "a claim after a held one was completed")
		},
	},
	{
		Name:    "HeldMayBeReleased",
		Explain: "an operator ends a hold with the claim's token; the key is free after that",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, long, true), "Extend with hold")
			e.want(nil, e.store.Release(e.ctx, c.Key, c.Token), "Release by the owner")
			e.mustClaim(claimOf(token(2)), "a claim after a held one was released")
		},
	},
}
