package storetest

import "github.com/onceward/onceward"

var claimCases = []Case{
	{
		Name:    "AbsentKeyIsClaimed",
		Explain: "the first request of a key runs, as attempt 1; a store that refuses it loses what the person did",
		run: func(e *env) {
			c := claimOf(token(1))
			rec := e.mustClaim(c, "an absent key")
			if rec.State != onceward.InProgress || rec.Attempt != 1 || rec.Held || rec.Response != nil {
				e.Errorf("state %v, attempt %d, held %v, response %v; want a fresh claim in progress, attempt 1",
					rec.State, rec.Attempt, rec.Held, rec.Response)
			}
			if rec.Key != c.Key || rec.Token != c.Token {
				e.Errorf("the record is another key's or another token's: %v", rec)
			}
		},
	},
	{
		Name:    "SecondClaimIsReported",
		Explain: "a double tap while the first runs must not run; it is told who has the key",
		run: func(e *env) {
			e.mustClaim(claimOf(token(1)), "the first claim")
			rec := e.mustReport(claimOf(token(2)), "a second claim")
			if rec.State != onceward.InProgress || rec.Token != token(1) || rec.Response != nil {
				e.Errorf("state %v, token %x, response %v; want the first claim, in progress", rec.State, rec.Token, rec.Response)
			}
		},
	},
	{
		Name:    "FactsAreKept",
		Explain: "the guard compares fingerprints, and the person on call reads method and path: they are the first request's",
		run: func(e *env) {
			c := claimOf(token(1))
			c.Path = "/заказы/1"
			e.mustClaim(c, "the first claim")
			again := claimOf(token(2))
			again.Method, again.Path = "PUT", "/other"
			rec := e.mustReport(again, "a second claim")
			if rec.Key != c.Key || rec.Fingerprint != c.Fingerprint || rec.Method != "POST" || rec.Path != c.Path {
				e.Errorf("reported %s %s, fingerprint %x; want what the first claim said", rec.Method, rec.Path, rec.Fingerprint.Sum[:4])
			}
		},
	},
	{
		Name:    "OwnTokenFindsItsClaim",
		Explain: "after a lost answer the guard repeats the same call; refused, the request waits a whole lease for itself",
		run: func(e *env) {
			first := e.mustClaim(claimOf(token(1)), "the first claim")
			again := e.mustClaim(claimOf(token(1)), "the same claim again")
			if again.Attempt != first.Attempt || again.Token != first.Token {
				e.Errorf("the repeated claim is attempt %d, want %d", again.Attempt, first.Attempt)
			}
		},
	},
	{
		Name:    "OwnTokenFindsItsClaimAfterItsLease",
		Explain: "a lease that ran out while the call was repeated is still the owner's as long as nobody took it",
		run: func(e *env) {
			e.abandoned(claimOf(token(1)))
			e.mustClaim(claimOf(token(1)), "the same claim after its lease")
		},
	},
	{
		Name:    "RepeatIsNoTakeOver",
		Explain: "attempts count runs; a repeated call of the same run is not another one",
		run: func(e *env) {
			first := e.abandoned(claimOf(token(1)))
			c := claimOf(token(1))
			c.TakeOver = true
			if again, _ := e.claim(c); again.Attempt != first.Attempt {
				e.Errorf("the repeated claim is attempt %d, want %d", again.Attempt, first.Attempt)
			}
		},
	},
	{
		Name:    "OwnTokenSeesItsAnswer",
		Explain: "a claim delivered late, after its own completion, must not run the work again (B026)",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.mustComplete(c, answer("done"))
			e.mustHave(e.mustReport(c, "the same claim after its completion"), "done", "the same claim after its completion")
		},
	},
	{
		Name:    "CompletedNeverGoesBack",
		Explain: "a delayed duplicate that may take over finds the answer, whatever became of the lease (B026)",
		run: func(e *env) {
			c := claimOf(token(1))
			e.abandoned(c)
			e.mustComplete(c, answer("done"))
			e.pass(1)
			late := claimOf(token(2))
			late.TakeOver = true
			e.mustReplay(late, "done", "a take-over after completion")
			e.mustReplay(claimOf(token(3)), "done", "the next claim")
		},
	},
	{
		Name:    "ScopesAreApart",
		Explain: "two people may choose one key: each gets their own work and never the other's answer (B077)",
		run: func(e *env) {
			mine, theirs := claimOf(token(1)), claimOf(token(2))
			theirs.Key = onceward.NewKey("user-2", "key-1")
			e.mustClaim(mine, "one scope")
			e.mustComplete(mine, answer("mine"))
			e.mustClaim(theirs, "the same key in another scope")
			e.mustComplete(theirs, answer("theirs"))
			e.mustReplay(mine, "mine", "the first scope")
			e.mustReplay(theirs, "theirs", "the second scope")
		},
	},
	{
		Name:    "KeysAreApart",
		Explain: "keys are compared whole and keep their case: abc and ABC are two requests (B067)",
		run: func(e *env) {
			near := onceward.NewKey("user-1", "abc")
			near.ID[31] ^= 1
			for i, key := range []onceward.Key{onceward.NewKey("user-1", "abc"), onceward.NewKey("user-1", "ABC"), near} {
				c := claimOf(token(i + 1))
				c.Key = key
				e.mustClaim(c, "a key that differs in one bit or in its case")
			}
		},
	},
	{
		Name:    "MismatchIsReportedInProgress",
		Explain: "a key used for another request is the client's mistake; the first one must not feel it",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			other := claimOf(token(2))
			other.Fingerprint = fingerprint("another payload")
			for range 2 {
				if rec := e.mustReport(other, "another payload"); rec.Fingerprint != c.Fingerprint {
					e.Errorf("the report shows the asker's own fingerprint, want the first claim's")
				}
			}
			e.mustComplete(c, answer("done"))
		},
	},
	{
		Name:    "MismatchIsNoTakeOver",
		Explain: "another request must never take the place of one that died under this key: it would answer for it",
		run: func(e *env) {
			c := claimOf(token(1))
			e.abandoned(c)
			other := claimOf(token(2))
			other.Fingerprint = fingerprint("another payload")
			other.TakeOver = true
			e.mustReport(other, "another payload after the lease")
			e.mustComplete(c, answer("done"))
		},
	},
	{
		Name:    "MismatchIsReportedWhenCompleted",
		Explain: "a key used for another request later neither runs nor spoils the stored answer",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.mustComplete(c, answer("done"))
			other := claimOf(token(2))
			other.Fingerprint = fingerprint("another payload")
			if rec := e.mustReport(other, "another payload"); rec.State != onceward.Completed || rec.Fingerprint != c.Fingerprint {
				e.Errorf("reported %v with fingerprint %x, want the completed record", rec.State, rec.Fingerprint.Sum[:4])
			}
			e.mustReplay(c, "done", "the first request again")
		},
	},
	{
		Name:    "FingerprintVersionCounts",
		Explain: "the same sum under another version is not known to be the same request, so it takes nothing over",
		run: func(e *env) {
			e.abandoned(claimOf(token(1)))
			other := claimOf(token(2))
			other.Fingerprint.Version++
			other.TakeOver = true
			if rec := e.mustReport(other, "another fingerprint version"); rec.Fingerprint.Version != 1 {
				e.Errorf("reported fingerprint version %d, want 1", rec.Fingerprint.Version)
			}
		},
	},
}
