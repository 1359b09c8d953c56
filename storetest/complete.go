package storetest

import (
	"context"

	"github.com/onceward/onceward"
)

var completeCases = []Case{
	{
		Name:    "LateOwnerMayComplete",
		Explain: "work that took longer than its lease and was not displaced is done: refusing its answer makes it run again",
		run: func(e *env) {
			c := claimOf(token(1))
			e.abandoned(c)
			e.want(nil, e.store.Complete(e.ctx, c.Key, c.Token, answer("late"), long), "Complete after the lease, by an owner whom nobody displaced")
		},
	},
	{
		Name:    "CompleteNeedsTheToken",
		Explain: "an answer under another token is somebody else's: stored, it is replayed to the wrong request",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.want(onceward.ErrClaimLost, e.store.Complete(e.ctx, c.Key, token(9), answer("strange"), long), "Complete under another token")
			e.mustComplete(c, answer("done"))
			e.mustReplay(claimOf(token(2)), "done", "the next claim")
		},
	},
	{
		Name:    "DisplacedOwnerCannotComplete",
		Explain: "a worker that outlived its lease and was displaced must not overwrite its successor (fencing)",
		run: func(e *env) {
			old, owner := e.displaced()
			e.want(onceward.ErrClaimLost, e.store.Complete(e.ctx, old.Key, old.Token, answer("old"), long), "Complete by the displaced owner")
			e.mustComplete(owner, answer("new"))
			e.mustReplay(claimOf(token(3)), "new", "the next claim")
		},
	},
	{
		Name:    "CompleteOfAbsentIsLost",
		Explain: "an answer to a key that nobody holds must not appear from nowhere: the claim was lost",
		run: func(e *env) {
			c := claimOf(token(1))
			e.want(onceward.ErrClaimLost, e.store.Complete(e.ctx, c.Key, c.Token, answer("done"), long), "Complete of an absent key")
			e.mustClaim(claimOf(token(2)), "a claim after it")
		},
	},
	{
		Name:    "RepeatedCompleteIsNil",
		Explain: "after a lost confirmation the guard repeats Complete: it is done, not lost",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.mustComplete(c, answer("done"))
			e.want(nil, e.store.Complete(e.ctx, c.Key, c.Token, answer("done"), long), "the same Complete again")
		},
	},
	{
		Name:    "RepeatedCompleteChangesNothing",
		Explain: "an answer that may have been replayed already must stay the one that everybody gets",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.mustComplete(c, answer("first"))
			if err := e.store.Complete(e.ctx, c.Key, c.Token, answer("second"), long); err != nil {
				e.Logf("the repeated Complete: %v", err) // another case's subject
			}
			e.mustReplay(claimOf(token(2)), "first", "the next claim")
		},
	},
	{
		Name:    "StrangerCannotCompleteTwice",
		Explain: "whoever completes a key that another token completed must learn that the claim was lost",
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.mustComplete(c, answer("done"))
			e.want(onceward.ErrClaimLost, e.store.Complete(e.ctx, c.Key, token(9), answer("strange"), long), "Complete of a completed key under another token")
			e.mustReplay(claimOf(token(2)), "done", "the next claim")
		},
	},
	{
		Name:    "EndedContextIsHonest",
		Explain: "a call whose context has ended says so or has done its work: a nil for nothing loses an answer, a wrong ErrClaimLost kills good work",
		run: func(e *env) {
			ended, cancel := context.WithCancel(e.ctx)
			cancel()
			c := claimOf(token(1))
			if _, claimed, err := e.store.Claim(ended, c); err == nil && !claimed {
				e.Errorf("Claim of an absent key under an ended context: not claimed and no error")
			}
			e.mustClaim(c, "the same claim under a live context")
			if err := e.store.Extend(ended, c.Key, c.Token, long, false); is(err, onceward.ErrClaimLost) {
				e.Errorf("Extend by the owner under an ended context: %v", err)
			}
			if err := e.store.Complete(ended, c.Key, c.Token, answer("done"), long); is(err, onceward.ErrClaimLost) {
				e.Errorf("Complete by the owner under an ended context: %v", err)
			} else if err == nil {
				e.mustReplay(claimOf(token(2)), "done", "Complete under an ended context said nil")
			}
			e.want(nil, e.store.Complete(e.ctx, c.Key, c.Token, answer("done"), long), "Complete under a live context")
			e.mustReplay(claimOf(token(3)), "done", "the next claim")
		},
	},
}
