package storetest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/onceward/onceward"
)

// transact calls Transact with a work that writes one row and returns verdict and
// an answer. It says how often the work was called.
func (e *env) transact(c onceward.Claim, verdict onceward.Verdict, body string) (rec onceward.Record, ran bool, calls int) {
	e.Helper()
	rec, ran, err := e.transactor().Transact(e.ctx, c, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		calls++
		return verdict, answer(body), e.cfg.Work(ctx)
	})
	if err != nil {
		e.Fatalf("Transact: %v", err)
	}
	return rec, ran, calls
}

// request is claimOf under a key that no other case uses: a store may know of a
// transaction by something that all the stores of one server share.
func (e *env) request(tok onceward.Token) onceward.Claim {
	c := claimOf(tok)
	c.Key = e.key("key-1")
	return c
}

func (e *env) key(name string) onceward.Key { return onceward.NewKey("user-1", e.name+" "+name) }

func (e *env) transactor() onceward.Transactor {
	e.Helper()
	return mustBe[onceward.Transactor](e, "Transactor")
}

// mustRun fails the case unless the work ran.
func (e *env) mustRun(c onceward.Claim, verdict onceward.Verdict, body, when string) onceward.Record {
	e.Helper()
	rec, ran, calls := e.transact(c, verdict, body)
	if !ran || calls == 0 {
		e.Fatalf("%s: Transact says ran=%v (the record is %v), its work was called %d times; want it run", when, ran, rec.State, calls)
	}
	return rec
}

// mustNotRun fails the case unless somebody has the key.
func (e *env) mustNotRun(c onceward.Claim, when string) onceward.Record {
	e.Helper()
	rec, ran, calls := e.transact(c, onceward.Commit, "a second run")
	if ran || calls != 0 {
		e.Fatalf("%s: Transact says ran=%v, its work was called %d times; want the record that has the key", when, ran, calls)
	}
	return rec
}

// mustCount fails the case unless n rows are committed.
func (e *env) mustCount(n int, when string) {
	e.Helper()
	if got := e.cfg.Effects(e.TB, e.store); got != n {
		e.Errorf("%s: %d rows of business data are committed, want %d", when, got, n)
	}
}

var transactCases = []Case{
	{
		Name:    "TransactKeepsBoth",
		Explain: "the work and its answer are committed together: one without the other is a doubled or a lost action",
		needs:   transactor,
		run: func(e *env) {
			c := e.request(token(1))
			e.mustHave(e.mustRun(c, onceward.Commit, "done", "an absent key"), "done", "the record of the run")
			e.mustCount(1, "after Commit")
			e.mustReplay(c, "done", "the next claim")
		},
	},
	{
		Name:    "TransactAbortKeepsNothing",
		Explain: "after a 500 the repeat must be a real one, on data that the failed try did not touch",
		needs:   transactor,
		run: func(e *env) {
			c := e.request(token(1))
			if rec := e.mustRun(c, onceward.Abort, "failed", "an absent key"); rec.State != 0 {
				e.Errorf("the record after Abort is %v, want the zero Record", rec.State)
			}
			e.mustCount(0, "after Abort")
			e.mustClaim(e.request(token(2)), "a claim after Abort")
		},
	},
	{
		Name:    "TransactUndoKeepsTheAnswer",
		Explain: "a refusal is final and the same for every repeat, and leaves nothing of what was written before it",
		needs:   transactor,
		run: func(e *env) {
			c := e.request(token(1))
			e.mustHave(e.mustRun(c, onceward.Undo, "refused", "an absent key"), "refused", "the record of the run")
			e.mustCount(0, "after Undo")
			e.mustReplay(c, "refused", "the next claim")
		},
	},
	{
		Name:    "TransactErrorKeepsNothing",
		Explain: "work that failed is undone, whatever else it returned, and its caller gets the error as it was",
		needs:   transactor,
		run: func(e *env) {
			broken := errors.New("the work failed")
			_, ran, err := e.transactor().Transact(e.ctx, e.request(token(1)), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
				if err := e.cfg.Work(ctx); err != nil {
					return onceward.Abort, nil, err
				}
				return onceward.Commit, answer("wrong"), broken
			})
			if err != broken || ran {
				e.Errorf("Transact says ran=%v and %v, want the work's own error", ran, err)
			}
			e.mustCount(0, "after the error")
			e.mustClaim(e.request(token(2)), "a claim after the error")
		},
	},
	{
		Name:    "TransactPanicKeepsNothing",
		Explain: "a panic undoes its request, goes on where it came from, and stops nobody else's",
		needs:   transactor,
		run: func(e *env) {
			t := e.transactor()
			panicked := func() (p any) {
				defer func() { p = recover() }()
				t.Transact(e.ctx, e.request(token(1)), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
					if err := e.cfg.Work(ctx); err != nil {
						return onceward.Abort, nil, err
					}
					panic("storetest")
				})
				return nil
			}()
			if panicked != "storetest" {
				e.Errorf("the caller of Transact got the panic %v, want the work's own", panicked)
			}
			e.mustCount(0, "after the panic")
			e.mustClaim(e.request(token(2)), "a claim after the panic")
		},
	},
	{
		Name:    "TransactDuplicateIsReplayed",
		Explain: "the repeat gets the first answer and nothing is written again (B083)",
		needs:   transactor,
		run: func(e *env) {
			e.mustRun(e.request(token(1)), onceward.Commit, "first", "an absent key")
			e.mustHave(e.mustNotRun(e.request(token(2)), "a duplicate"), "first", "a duplicate")
		},
	},
	{
		Name:    "TransactOwnTokenSeesItsAnswer",
		Explain: "after a lost confirmation the same call is repeated: what it has committed must not run again",
		needs:   transactor,
		run: func(e *env) {
			e.mustRun(e.request(token(1)), onceward.Commit, "first", "an absent key")
			if rec := e.mustNotRun(e.request(token(1)), "the same call again"); rec.Token != token(1) {
				e.Errorf("the same call again is told of token %x, want its own", rec.Token)
			}
		},
	},
	{
		Name:    "TransactRacersHaveOneEffect",
		Explain: "fifty presses at once are one order, and whoever did not make it is told of the one who did (B002, B016, B085)",
		needs:   transactor,
		run: func(e *env) {
			t := e.transactor()
			var runs atomic.Int32
			race(50, func(i int) {
				c := e.request(token(i + 1))
				rec, ran, err := t.Transact(e.ctx, c, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
					return onceward.Commit, answer("done"), e.cfg.Work(ctx)
				})
				switch {
				case errors.Is(err, onceward.ErrInProgress):
				case err != nil:
					e.Errorf("Transact: %v", err)
				case ran:
					runs.Add(1)
				case rec.State != onceward.Completed && rec.State != onceward.InProgress:
					e.Errorf("Transact did not run and reports %v", rec.State)
				}
			})
			if n := runs.Load(); n != 1 {
				e.Errorf("%d of 50 duplicates at once say that they ran, want 1", n)
			}
			if n := e.cfg.Effects(e.TB, e.store); n > 1 {
				e.Errorf("50 duplicates at once left %d rows, want 1", n)
			}
		},
	},
	{
		Name:    "TransactKeysAreApart",
		Explain: "requests that share a transaction or a server share nothing else: each has its own row and its own answer",
		needs:   transactor,
		run: func(e *env) {
			t := e.transactor()
			race(30, func(i int) {
				c := e.request(token(i + 1))
				c.Key = e.key(string(rune('A' + i)))
				verdict := onceward.Verdict(i % 3)
				rec, ran, err := t.Transact(e.ctx, c, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
					return verdict, answer(string(rune('A' + i))), e.cfg.Work(ctx)
				})
				if err != nil || !ran {
					e.Errorf("Transact of key %d: ran=%v, %v", i, ran, err)
					return
				}
				if verdict != onceward.Abort && (rec.Response == nil || string(rec.Response.Body) != string(rune('A'+i))) {
					e.Errorf("key %d has another's answer: %v", i, rec.Response)
				}
			})
			if e.Failed() {
				return
			}
			e.mustCount(10, "after 10 commits among 30 keys")
		},
	},
	{
		Name:    "TransactMismatchIsReported",
		Explain: "a key used for another request neither runs nor is answered for",
		needs:   transactor,
		run: func(e *env) {
			c := e.request(token(1))
			e.mustRun(c, onceward.Commit, "first", "an absent key")
			other := e.request(token(2))
			other.Fingerprint = fingerprint("another payload")
			if rec := e.mustNotRun(other, "another payload"); rec.State != onceward.Completed || rec.Fingerprint != c.Fingerprint {
				e.Errorf("reported %v with fingerprint %x, want the completed record of the first", rec.State, rec.Fingerprint.Sum[:4])
			}
		},
	},
	{
		Name:    "TransactFactsAreKept",
		Explain: "the record is like any other: the person on call reads its method, path and attempt",
		needs:   transactor,
		run: func(e *env) {
			c := e.request(token(1))
			ran := e.mustRun(c, onceward.Commit, "done", "an absent key")
			for when, rec := range map[string]onceward.Record{
				"the record of the run": ran, "the record that the next claim sees": e.mustReport(e.request(token(2)), "the next claim"),
			} {
				if rec.Key != c.Key || rec.Token != c.Token || rec.Fingerprint != c.Fingerprint || rec.Method != c.Method || rec.Path != c.Path || rec.Attempt != 1 {
					e.Errorf("%s: %s %s, attempt %d, token %x; want what the claim said, attempt 1", when, rec.Method, rec.Path, rec.Attempt, rec.Token)
				}
			}
		},
	},
	{
		Name:    "TransactEndsWithItsWork",
		Explain: "a goroutine that the work left behind must not write into a later request, nor on its own",
		needs:   transactor,
		run: func(e *env) {
			var kept context.Context
			_, _, err := e.transactor().Transact(e.ctx, e.request(token(1)), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
				kept = context.WithoutCancel(ctx)
				return onceward.Commit, answer("done"), nil
			})
			if err != nil {
				e.Fatalf("Transact: %v", err)
			}
			if err := e.cfg.Work(kept); err == nil {
				e.Errorf("a statement after the work had returned was accepted")
			}
			e.mustCount(0, "after a statement that came too late")
		},
	},
	{
		Name:    "TransactKeepIsRetention",
		Explain: "the answer is kept for as long as was asked for, and the key is free after it without a sweep",
		needs:   transactor,
		run: func(e *env) {
			c := e.request(token(1))
			c.Keep = e.unit
			e.mustRun(c, onceward.Commit, "first", "an absent key")
			e.pass(2)
			c.Token = token(2)
			e.mustRun(c, onceward.Commit, "second", "a key whose retention is over")
		},
	},
	{
		Name:    "TransactObeysAnEndedContext",
		Explain: "nobody waits for the answer any more: work done now is work that the person repeats",
		needs:   transactor,
		run: func(e *env) {
			ended, cancel := context.WithCancel(e.ctx)
			cancel()
			_, ran, err := e.transactor().Transact(ended, e.request(token(1)), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
				return onceward.Commit, answer("done"), e.cfg.Work(ctx)
			})
			if err == nil || ran {
				e.Errorf("Transact under an ended context says ran=%v and %v, want an error", ran, err)
			}
			e.mustCount(0, "under an ended context")
		},
	},
	{
		Name:    "TransactCutShortIsHonest",
		Explain: "past its limit a request is rolled back, or it is committed and says so; an error for work that stays is a double",
		needs:   transactor,
		run: func(e *env) {
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			c := e.request(token(1))
			_, ran, err := e.transactor().Transact(ctx, c, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
				err := e.cfg.Work(ctx)
				cancel()
				e.pass(1)
				return onceward.Commit, answer("late"), err
			})
			switch {
			case errors.Is(err, onceward.ErrInProgress): // nobody knows yet; the next call tells
				rec, ran, _ := e.transact(c, onceward.Commit, "late")
				e.mustHave(rec, "late", "the same request again")
				e.Logf("unknown first, then ran=%v", ran)
				e.mustCount(1, "when the outcome is known")
			case err != nil:
				e.mustCount(0, "after an error that says that nothing is kept")
			case ran:
				e.mustCount(1, "after a commit that was confirmed")
			default:
				e.Errorf("Transact of an absent key neither ran nor failed")
			}
		},
	},
}

var takeOverCases = []Case{
	{
		Name:    "TransactTakesOverTheAbandoned",
		Explain: "a key that another worker died with is not lost: the repeat runs, and the dead worker's token is worth nothing",
		needs:   transactor,
		run: func(e *env) {
			old := e.request(token(1))
			e.abandoned(old)
			c := e.request(token(2))
			c.TakeOver = true
			if rec := e.mustRun(c, onceward.Commit, "done", "an abandoned key"); rec.Attempt != 2 || rec.Token != c.Token {
				e.Errorf("the take-over is attempt %d, want 2", rec.Attempt)
			}
			e.want(onceward.ErrClaimLost, e.store.Complete(e.ctx, old.Key, old.Token, answer("old"), long), "Complete by the displaced owner")
		},
	},
	{
		Name:    "TransactReportsALiveClaim",
		Explain: "work that still runs elsewhere, under a lease, must not run here as well",
		needs:   transactor,
		run: func(e *env) {
			e.mustClaim(e.request(token(1)), "the first claim")
			c := e.request(token(2))
			c.TakeOver = true
			if rec := e.mustNotRun(c, "a key that is leased"); rec.State != onceward.InProgress || rec.Token != token(1) || rec.LeaseLeft <= 0 {
				e.Errorf("reported %v, token %x, lease left %v; want the live claim", rec.State, rec.Token, rec.LeaseLeft)
			}
		},
	},
	{
		Name:    "TransactTakeOverIsAskedFor",
		Explain: "where an unknown outcome must not be run again, Transact does not either",
		needs:   transactor,
		run: func(e *env) {
			e.abandoned(e.request(token(1)))
			if rec := e.mustNotRun(e.request(token(2)), "an abandoned key"); rec.State != onceward.InProgress {
				e.Errorf("reported %v, want the abandoned claim", rec.State)
			}
		},
	},
	{
		Name:    "TransactTakesNoOtherRequestOver",
		Explain: "another request must never take the place of one that died under this key",
		needs:   transactor,
		run: func(e *env) {
			e.abandoned(e.request(token(1)))
			c := e.request(token(2))
			c.TakeOver = true
			c.Fingerprint = fingerprint("another payload")
			e.mustNotRun(c, "another payload on an abandoned key")
		},
	},
	{
		Name:    "TransactObeysAHold",
		Explain: "a held key waits for a decision; no repeat may run its work meanwhile",
		needs:   transactor,
		run: func(e *env) {
			c := e.request(token(1))
			e.mustClaim(c, "the first claim")
			e.want(nil, e.store.Extend(e.ctx, c.Key, c.Token, 0, true), "Extend with hold")
			c.Token, c.TakeOver = token(2), true
			if rec := e.mustNotRun(c, "a held key"); !rec.Held {
				e.Errorf("the held record is reported as not held")
			}
		},
	},
	{
		Name:    "TransactTakesPartInForget",
		Explain: "an account is deleted together with its keys, or with neither: a failed deletion must not open them for a second run",
		needs:   transactor | forgetter,
		run: func(e *env) {
			f := mustBe[onceward.Forgetter](e, "Forgetter")
			other := e.request(token(1))
			other.Key = onceward.NewKey("user-2", e.name)
			e.mustRun(other, onceward.Commit, "theirs", "an absent key")
			for i, verdict := range []onceward.Verdict{onceward.Abort, onceward.Commit} {
				_, ran, err := e.transactor().Transact(e.ctx, e.request(token(2+i)), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
					return verdict, answer("deleted"), f.Forget(ctx, other.Key.Scope)
				})
				if err != nil || !ran {
					e.Fatalf("Transact with Forget in it: ran=%v, %v", ran, err)
				}
				if verdict == onceward.Abort {
					e.mustReplay(other, "theirs", "a record that was forgotten in an aborted transaction")
				}
			}
			other.Token = token(9)
			e.mustClaim(other, "a key that was forgotten in a committed transaction")
		},
	},
}
