package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward"
)

// Loss is what a connection that fails takes with it.
type Loss int

const (
	LoseRequest Loss = iota // a message does not reach the server
	LoseAnswer              // the server has done what a message asks; its answer is lost
)

func (l Loss) String() string {
	if l == LoseAnswer {
		return "answer"
	}
	return "request"
}

// Lose makes the connections of one store fail: of the messages that it sends from
// now on, number n, counted from 0, meets the loss, and those after it pass again,
// on a new connection if need be. met ends that and says whether anything was lost:
// where fewer messages were sent, nothing was.
type Lose func(what Loss, n int) (met func() bool)

// eachLoss runs f for the loss of the first message of what f gives to lose, then
// of the second, and so on until nothing is lost any more, each time with a key of
// its own. f makes everything else through e.store, whose connections are sound.
func (e *env) eachLoss(f func(c onceward.Claim, faulty onceward.Store, lose func(what string, call func() error))) {
	e.Helper()
	faulty, arm := e.cfg.Faulty(e.TB, e.store)
	for _, loss := range []Loss{LoseRequest, LoseAnswer} {
		for n, met := 0, true; met; n++ {
			if n == 100 {
				e.Fatalf("there is no end of messages: Config.Faulty's function says of each that it was lost")
			}
			c := e.request(token(1))
			c.Key = e.key(fmt.Sprint(loss, " ", n))
			f(c, faulty, func(what string, call func() error) {
				e.Helper()
				over := arm(loss, n)
				err := call()
				met = over()
				if n == 0 && !met {
					e.Fatalf("%s: no %s was lost: Config.Faulty's function does not do what it says", what, loss)
				}
				for try := 0; err != nil; try++ {
					what := fmt.Sprintf("%s whose %s %d was lost", what, loss, n)
					if errors.Is(err, onceward.ErrClaimLost) {
						e.Fatalf("%s: %v, want nil, or an error that leaves the outcome open", what, err)
					}
					if try == 10 {
						e.Fatalf("%s, repeated %d times: %v", what, try, err)
					}
					if try > 0 {
						e.pass(1)
					}
					err = call()
				}
			})
		}
	}
}

var lostCases = []Case{
	{
		Name:    "LostClaimIsFoundAgain",
		Explain: "the claim was made and nobody heard: told of a stranger in its place, the request waits a lease for itself",
		needs:   faults,
		run: func(e *env) {
			e.eachLoss(func(c onceward.Claim, faulty onceward.Store, lose func(string, func() error)) {
				lose("Claim", func() error {
					rec, claimed, err := faulty.Claim(e.ctx, c)
					if err == nil && (!claimed || rec.Attempt != 1 || rec.Token != c.Token) {
						e.Fatalf("repeated under its token: claimed %v, attempt %d, token %x; want its own first claim", claimed, rec.Attempt, rec.Token)
					}
					return err
				})
				c.Token, c.TakeOver = token(2), true
				if rec := e.mustReport(c, "another's claim after it"); rec.Token != token(1) || rec.LeaseLeft <= 0 {
					e.Errorf("another is told of token %x, lease left %v; want the live claim", rec.Token, rec.LeaseLeft)
				}
			})
		},
	},
	{
		Name:    "LostTakeOverIsFoundAgain",
		Explain: "a take-over that nobody heard of is one take-over: counted twice, the log tells of a run that never was",
		needs:   faults,
		run: func(e *env) {
			e.eachLoss(func(c onceward.Claim, faulty onceward.Store, lose func(string, func() error)) {
				old := c
				old.Token, old.Lease = token(9), 0
				e.mustClaim(old, "the first claim")
				c.TakeOver = true
				lose("a take-over", func() error {
					rec, claimed, err := faulty.Claim(e.ctx, c)
					if err == nil && (!claimed || rec.Attempt != 2 || rec.Token != c.Token) {
						e.Fatalf("repeated under its token: claimed %v, attempt %d, token %x; want its own, attempt 2", claimed, rec.Attempt, rec.Token)
					}
					return err
				})
				e.want(onceward.ErrClaimLost, e.store.Complete(e.ctx, old.Key, old.Token, answer("old"), long), "Complete by the displaced owner")
			})
		},
	},
	{
		Name:    "LostExtendIsRepeated",
		Explain: "a renewal that nobody heard of cost the owner nothing: taken for a lost claim, it cancels the handler at work",
		needs:   faults,
		run: func(e *env) {
			e.eachLoss(func(c onceward.Claim, faulty onceward.Store, lose func(string, func() error)) {
				c.Lease = 0
				e.mustClaim(c, "the first claim")
				lose("Extend", func() error { return faulty.Extend(e.ctx, c.Key, c.Token, long, false) })
				c.Token, c.TakeOver = token(2), true
				if rec := e.mustReport(c, "another's claim after it"); rec.LeaseLeft <= long/2 {
					e.Errorf("the lease left is %v, want what was asked for", rec.LeaseLeft)
				}
			})
		},
	},
	{
		Name:    "LostCompleteIsFoundAgain",
		Explain: "the answer that the client is about to get must be there for the repeat, and the owner must know that it is",
		needs:   faults,
		run: func(e *env) {
			e.eachLoss(func(c onceward.Claim, faulty onceward.Store, lose func(string, func() error)) {
				e.mustClaim(c, "the first claim")
				lose("Complete", func() error { return faulty.Complete(e.ctx, c.Key, c.Token, answer("done"), long) })
				e.mustReplay(c, "done", "a claim after it")
			})
		},
	},
	{
		Name:    "LostReleaseIsRepeated",
		Explain: "a key that is given back is free for the retry, and giving it back again takes it from nobody",
		needs:   faults,
		run: func(e *env) {
			e.eachLoss(func(c onceward.Claim, faulty onceward.Store, lose func(string, func() error)) {
				e.mustClaim(c, "the first claim")
				lose("Release", func() error { return faulty.Release(e.ctx, c.Key, c.Token) })
				next := c
				next.Token = token(2)
				if rec := e.mustClaim(next, "another's claim after it"); rec.Attempt != 1 {
					e.Errorf("another's claim after it is attempt %d, want 1", rec.Attempt)
				}
				e.want(nil, faulty.Release(e.ctx, c.Key, c.Token), "Release once more")
				e.mustComplete(next, answer("next"))
			})
		},
	},
	{
		Name:    "LostTransactHasOneEffect",
		Explain: "the COMMIT went through and its confirmation did not: the repeat finds the answer, and the order is not made again",
		needs:   faults | transactor,
		run: func(e *env) {
			e.transactor()
			want := 0
			e.eachLoss(func(c onceward.Claim, faulty onceward.Store, lose func(string, func() error)) {
				t, ok := faulty.(onceward.Transactor)
				if !ok {
					e.Fatalf("the store that Config.Faulty makes, %T, is no onceward.Transactor", faulty)
				}
				lose("Transact", func() error {
					rec, ran, err := t.Transact(e.ctx, c, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
						return onceward.Commit, answer("done"), e.cfg.Work(ctx)
					})
					switch {
					case err != nil:
						return err
					case !ran && rec.State == onceward.InProgress: // the server has not noticed yet
						return onceward.ErrInProgress
					}
					e.mustHave(rec, "done", "Transact under its token")
					if rec.Token != c.Token {
						e.Errorf("Transact under its token reports token %x", rec.Token)
					}
					return nil
				})
				e.mustReplay(c, "done", "a claim after it")
				want++
				e.mustCount(want, fmt.Sprintf("after %d requests", want))
			})
		},
	},
}
