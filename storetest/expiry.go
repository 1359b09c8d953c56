package storetest

import (
	"time"

	"github.com/onceward/onceward"
)

var expiryCases = []Case{
	{
		Name:    "RetentionIsJudgedOnRead",
		Explain: "an answer past its retention is gone whether or not a sweeper has run: nothing may depend on the sweep",
		run: func(e *env) {
			c := claimOf(token(1))
			c.Lease = e.unit
			first := e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Complete(e.ctx, c.Key, c.Token, answer("done"), e.unit), "Complete by the owner")
			e.pass(2)
			next := claimOf(token(2))
			next.Fingerprint = fingerprint("another payload")
			rec := e.mustClaim(next, "after the retention")
			if rec.State != onceward.InProgress || rec.Response != nil || rec.Attempt != first.Attempt {
				e.Errorf("state %v, attempt %d, response %v; want a fresh claim", rec.State, rec.Attempt, rec.Response)
			}
		},
	},
	{
		Name:    "LeaseIsNotRetention",
		Explain: "lease and retention are two settings: an answer that goes with its lease is work that runs twice (B029)",
		run: func(e *env) {
			c := claimOf(token(1))
			c.Lease = e.unit
			e.mustClaim(c, "the first claim")
			e.mustComplete(c, answer("done"))
			e.pass(3)
			e.mustReplay(claimOf(token(2)), "done", "after the lease, within the retention")
		},
	},
	{
		Name:    "RetentionCountsFromCompletion",
		Explain: "long work must not eat up the time in which its answer can be asked for",
		run: func(e *env) {
			e.inTime(10, func(c onceward.Claim, retain time.Duration) (inTime bool) {
				e.mustClaim(c, "the first claim")
				time.Sleep(retain + e.unit)
				begin := time.Now()
				e.want(nil, e.store.Complete(e.ctx, c.Key, c.Token, answer("done"), retain), "Complete by the owner")
				c.Token = token(2)
				rec, claimed := e.claim(c)
				if time.Since(begin) >= retain {
					return false
				}
				if claimed {
					e.Errorf("just after completion: Claim was granted, want the answer")
				} else {
					e.mustHave(rec, "done", "just after completion")
				}
				return true
			})
		},
	},
	{
		Name:    "ZeroRetentionKeepsNothing",
		Explain: "zero and less are values: read as \"not set\" they keep an answer that should be gone (B032)",
		run: func(e *env) {
			for i, retain := range []time.Duration{0, -time.Minute} {
				c := claimOf(token(i))
				c.Key = onceward.NewKey("user-1", retain.String())
				e.mustClaim(c, "the first claim")
				e.want(nil, e.store.Complete(e.ctx, c.Key, c.Token, answer("done"), retain), "Complete by the owner")
				c.Token = token(100 + i)
				e.mustClaim(c, "after a retention of "+retain.String())
			}
		},
	},
	{
		Name:    "AbandonedClaimEndsAfterKeep",
		Explain: "a key whose worker died does not stay taken for ever, even for a request that may not take over",
		run: func(e *env) {
			c := claimOf(token(1))
			c.Keep = e.unit
			first := e.abandoned(c)
			e.pass(2)
			next := claimOf(token(2))
			next.Fingerprint = fingerprint("another payload")
			if rec := e.mustClaim(next, "after lease and Keep"); rec.Attempt != first.Attempt {
				e.Errorf("attempt %d, want %d: the key was absent", rec.Attempt, first.Attempt)
			}
		},
	},
	{
		Name:    "NegativeKeepIsForever",
		Explain: "where a second run is forbidden the abandoned claim must stay until a person decides",
		run: func(e *env) {
			c := claimOf(token(1))
			c.Keep = -1
			e.abandoned(c)
			e.pass(3)
			other := claimOf(token(2))
			other.Fingerprint = fingerprint("another payload")
			e.mustReport(other, "long after the lease of a claim with a negative Keep")
		},
	},
	{
		Name:    "ExtendMovesKeep",
		Explain: "Keep counts from the lease's end, and renewing moves that end: a live worker's key must not vanish",
		run: func(e *env) {
			e.inTime(4, func(c onceward.Claim, lease time.Duration) (inTime bool) {
				c.Lease, c.Keep = lease, e.unit
				begin := time.Now()
				e.mustClaim(c, "the first claim")
				err := e.store.Extend(e.ctx, c.Key, c.Token, long, false)
				if time.Since(begin) >= lease {
					return false
				}
				e.want(nil, err, "Extend by the owner")
				time.Sleep(lease)
				e.pass(2)
				c.Token, c.Fingerprint = token(2), fingerprint("another payload")
				e.mustReport(c, "within a renewed lease, after the first lease and Keep")
				return true
			})
		},
	},
	{
		Name:    "AbsentOwnerCannotComplete",
		Explain: "past its Keep the key is absent, swept or not: the owner is told that the claim is lost",
		run: func(e *env) {
			c := claimOf(token(1))
			c.Keep = e.unit
			e.abandoned(c)
			e.pass(2)
			e.want(onceward.ErrClaimLost, e.store.Complete(e.ctx, c.Key, c.Token, answer("late"), long), "Complete after lease and Keep")
		},
	},
	{
		Name:    "AbsentOwnerCannotExtend",
		Explain: "past its Keep the key is absent, swept or not: a renewal must not bring it back",
		run: func(e *env) {
			c := claimOf(token(1))
			c.Keep = e.unit
			e.abandoned(c)
			e.pass(2)
			e.want(onceward.ErrClaimLost, e.store.Extend(e.ctx, c.Key, c.Token, long, false), "Extend after lease and Keep")
		},
	},
	{
		Name:    "AgeCountsFromTheFirstClaim",
		Explain: "the oldest claim is what people watch; a take-over must not make it look young",
		run: func(e *env) {
			begin := time.Now()
			c := claimOf(token(1))
			if rec := e.mustClaim(c, "the first claim"); rec.Age < 0 || rec.Age > time.Since(begin)+e.unit {
				e.Errorf("Age is %v just after the claim", rec.Age)
			}
			e.pass(3)
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, 0, false), "Extend by zero")
			c = claimOf(token(2))
			c.TakeOver = true
			rec, _ := e.claim(c)
			if elapsed := time.Since(begin); rec.Age < 2*e.unit || rec.Age > elapsed+e.unit {
				e.Errorf("Age is %v, %v after the first claim", rec.Age, elapsed)
			}
		},
	},
	{
		Name:    "AgeCountsFromCompletion",
		Explain: "the guard tells an expired answer by its age since completion",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.pass(20)
			begin := time.Now()
			e.mustComplete(c, answer("done"))
			rec, _ := e.claim(claimOf(token(2)))
			if elapsed := time.Since(begin); rec.Age < 0 || rec.Age > elapsed+e.unit {
				e.Errorf("Age is %v, %v after completion", rec.Age, elapsed)
			}
		},
	},
}
