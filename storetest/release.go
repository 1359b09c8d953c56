package storetest

var releaseCases = []Case{
	{
		Name:    "ReleasedKeyIsAbsent",
		Explain: "after a failure that is not kept the key is as if it had never been used: a corrected request may use it (B044)",
		run: func(e *env) {
			c := claimOf(token(1))
			first := e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Release(e.ctx, c.Key, c.Token), "Release by the owner")
			next := claimOf(token(2))
			next.Fingerprint = fingerprint("another payload")
			if rec := e.mustClaim(next, "another payload after Release"); rec.Attempt != first.Attempt || rec.Fingerprint != next.Fingerprint {
				e.Errorf("attempt %d, fingerprint %x; want a fresh claim", rec.Attempt, rec.Fingerprint.Sum[:4])
			}
		},
	},
	{
		Name:    "ReleaseNeedsTheToken",
		Explain: "released by key alone, a live claim is opened for a second copy of its work (B020)",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Release(e.ctx, c.Key, token(9)), "Release under another token")
			e.mustReport(claimOf(token(2)), "a claim after it")
		},
	},
	{
		Name:    "DisplacedOwnerCannotRelease",
		Explain: "the old owner's late Release must not free its successor's claim (B020)",
		run: func(e *env) {
			old, _ := e.displaced()
			e.want(nil, e.store.Release(e.ctx, old.Key, old.Token), "Release by the displaced owner")
			e.mustReport(claimOf(token(3)), "a claim after it")
		},
	},
	{
		Name:    "ReleaseOfCompletedIsNoChange",
		Explain: "a release on its way when the answer was stored must not delete it: the work would run again (B037)",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.mustComplete(c, answer("done"))
			e.want(nil, e.store.Release(e.ctx, c.Key, c.Token), "Release after Complete")
			e.mustReplay(claimOf(token(2)), "done", "the next claim")
		},
	},
	{
		Name:    "ReleaseOfAbsentIsNil",
		Explain: "a repeated Release has what it wants; an error would be retried for ever",
		run: func(e *env) {
			c := claimOf(token(1))
			e.want(nil, e.store.Release(e.ctx, c.Key, c.Token), "Release of a key never claimed")
			e.mustClaim(c, "the first claim")
			for range 2 {
				e.want(nil, e.store.Release(e.ctx, c.Key, c.Token), "Release by the owner")
			}
		},
	},
}
