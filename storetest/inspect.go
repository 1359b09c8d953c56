package storetest

import (
	"slices"
	"strconv"

	"github.com/onceward/onceward"
)

// look calls Look, or fails the case if the store cannot.
func (e *env) look(key onceward.Key) (onceward.Record, bool) {
	e.Helper()
	rec, found, err := mustBe[onceward.Looker](e, "Looker").Look(e.ctx, key)
	if err != nil {
		e.Fatalf("Look: %v", err)
	}
	return rec, found
}

var lookCases = []Case{
	{
		Name:    "LookFindsTheRecord",
		Explain: "\"did it arrive?\" is answered from what the store knows, the stored answer included",
		needs:   looker,
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			rec, found := e.look(c.Key)
			if !found || rec.State != onceward.InProgress || rec.Key != c.Key || rec.Token != c.Token || rec.Fingerprint != c.Fingerprint || rec.Path != c.Path || rec.LeaseLeft <= 0 {
				e.Errorf("Look at a claim: found %v, %v; want what the claim said", found, rec.State)
			}
			e.mustComplete(c, answer("done"))
			if rec, found = e.look(c.Key); !found {
				e.Fatalf("Look at an answered key finds nothing")
			}
			e.mustHave(rec, "done", "Look at an answered key")
		},
	},
	{
		Name:    "LookTouchesNothing",
		Explain: "a question is not a request: asked, the key is as it was, whether nobody has it or its owner has died",
		needs:   looker,
		run: func(e *env) {
			absent := claimOf(token(1))
			absent.Key = onceward.NewKey("user-1", "never seen")
			if rec, found := e.look(absent.Key); found {
				e.Errorf("Look at a key that was never seen finds %v", rec.State)
			}
			e.mustClaim(absent, "a claim after Look")
			e.abandoned(claimOf(token(2)))
			if rec, found := e.look(claimOf(token(2)).Key); !found || rec.LeaseLeft > 0 || rec.Attempt != 1 {
				e.Errorf("Look at an abandoned claim: found %v, lease left %v, attempt %d; want the lease over, attempt 1", found, rec.LeaseLeft, rec.Attempt)
			}
			next := claimOf(token(3))
			next.TakeOver = true
			e.mustClaim(next, "a take-over after Look")
		},
	},
	{
		Name:    "LookJudgesExpiry",
		Explain: "what a claim would find free, a look must not call answered",
		needs:   looker,
		run: func(e *env) {
			e.expire(1)
			if rec, found := e.look(onceward.NewKey("user-1", "expired-0")); found {
				e.Errorf("Look at a key whose retention is over finds %v", rec.State)
			}
		},
	},
}

// list calls List, or fails the case if the store cannot.
func (e *env) list(q onceward.Query) []onceward.Record {
	e.Helper()
	records, err := mustBe[onceward.Lister](e, "Lister").List(e.ctx, q)
	if err != nil {
		e.Fatalf("List: %v", err)
	}
	return records
}

// mustList fails the case unless q finds exactly the keys want, in their order.
func (e *env) mustList(q onceward.Query, want []onceward.Key, what string) {
	e.Helper()
	want = slices.SortedFunc(slices.Values(want), onceward.Key.Compare)
	got := keysOf(e.list(q))
	if !slices.Equal(got, want) {
		e.Errorf("List of %s: %d records, want %d, in the order of their keys", what, len(got), len(want))
	}
}

func keysOf(records []onceward.Record) []onceward.Key {
	keys := make([]onceward.Key, len(records))
	for i := range records {
		keys[i] = records[i].Key
	}
	return keys
}

// claimed makes records in progress under n keys of a scope.
func (e *env) claimed(scope string, n int) []onceward.Key {
	e.Helper()
	keys := make([]onceward.Key, n)
	for i := range keys {
		c := claimOf(token(i + 1))
		c.Key = onceward.NewKey(scope, "listed-"+strconv.Itoa(i))
		e.mustClaim(c, "the first claim")
		keys[i] = c.Key
	}
	return keys
}

var listCases = []Case{
	{
		Name:    "ListGoesThroughAll",
		Explain: "page by page the person on call sees each record once, none twice and none left out",
		needs:   lister,
		run: func(e *env) {
			all := append(e.claimed("user-1", 5), e.claimed("user-2", 4)...)
			slices.SortFunc(all, onceward.Key.Compare)
			var got []onceward.Key
			q := onceward.Query{Limit: 4}
			for page := 0; ; page++ {
				records := e.list(q)
				if len(records) > q.Limit || page > 5 {
					e.Fatalf("page %d has %d records, the limit is %d", page, len(records), q.Limit)
				}
				if len(records) == 0 {
					break
				}
				got = append(got, keysOf(records)...)
				q.After = got[len(got)-1]
			}
			if !slices.Equal(got, all) {
				e.Errorf("the pages hold %d records, want %d, each once and in the order of their keys", len(got), len(all))
			}
		},
	},
	{
		Name:    "ListOfAScope",
		Explain: "whoever asks for one account's keys is shown no other's",
		needs:   lister,
		run: func(e *env) {
			mine := e.claimed("user-1", 3)
			e.claimed("user-2", 3)
			e.mustList(onceward.Query{Scope: &mine[0].Scope}, mine, "one scope")
		},
	},
	{
		Name:    "ListOfAPrefix",
		Explain: "a log line has the first digits of a key: they must be enough to find its record",
		needs:   lister,
		run: func(e *env) {
			keys := e.claimed("user-1", 5)
			last := claimOf(token(9))
			last.Key.Scope = keys[0].Scope
			for i := range last.Key.ID {
				last.Key.ID[i] = 0xff // no key follows it
			}
			e.mustClaim(last, "the first claim")
			for _, key := range append(keys, last.Key) {
				for _, n := range []int{8, 32} {
					e.mustList(onceward.Query{Prefix: key.ID[:n]}, []onceward.Key{key}, "a prefix")
				}
			}
		},
	},
	{
		Name:    "ListOfAState",
		Explain: "what still runs and what is answered are two questions",
		needs:   lister,
		run: func(e *env) {
			keys := e.claimed("user-1", 4)
			for i, key := range keys[2:] {
				e.want(nil, e.store.Complete(e.ctx, key, token(i+3), answer("done"), long), "Complete by the owner")
			}
			e.mustList(onceward.Query{State: onceward.InProgress}, keys[:2], "what is in progress")
			e.mustList(onceward.Query{State: onceward.Completed}, keys[2:], "what is completed")
		},
	},
	{
		Name:    "ListOfTheStuck",
		Explain: "the keys that wait for somebody: their lease is over or they are held",
		needs:   lister,
		run: func(e *env) {
			keys := e.claimed("user-1", 4)
			e.want(nil, e.store.Extend(e.ctx, keys[0], token(1), 0, false), "Extend to zero")
			e.want(nil, e.store.Extend(e.ctx, keys[1], token(2), long, true), "Extend with hold")
			e.want(nil, e.store.Extend(e.ctx, keys[3], token(4), 0, false), "Extend to zero")
			e.want(nil, e.store.Complete(e.ctx, keys[3], token(4), answer("done"), long), "Complete by the owner")
			e.mustList(onceward.Query{Stuck: true}, keys[:2], "what is stuck")
		},
	},
	{
		Name:    "ListLeavesOutTheAbsent",
		Explain: "a record that counts as absent is no answer to \"what is there\", swept or not",
		needs:   lister,
		run: func(e *env) {
			e.expire(2)
			alive := e.claimed("user-1", 2)
			e.mustList(onceward.Query{}, alive, "everything")
		},
	},
	{
		Name:    "ListHasNoBodies",
		Explain: "a list of a hundred answers must not be a hundred megabytes, nor show what they say",
		needs:   lister,
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			resp := answer("secret")
			resp.Status = 201
			e.mustComplete(c, resp)
			records := e.list(onceward.Query{})
			if len(records) != 1 || records[0].State != onceward.Completed || records[0].Response == nil {
				e.Fatalf("List of one answered key: %d records", len(records))
			}
			rec := records[0]
			if len(rec.Response.Body) != 0 || rec.Response.Status != 201 || rec.Token != c.Token || rec.Fingerprint != c.Fingerprint || rec.Method != c.Method || rec.Path != c.Path || rec.Attempt != 1 {
				e.Errorf("listed with status %d, a body of %d bytes, %s %s; want the record without its body", rec.Response.Status, len(rec.Response.Body), rec.Method, rec.Path)
			}
		},
	},
	{
		Name:    "ListStopsAtAHundred",
		Explain: "a question without a limit must not read ten million records",
		needs:   lister,
		run: func(e *env) {
			e.claimed("user-1", 101)
			if n := len(e.list(onceward.Query{})); n != 100 {
				e.Errorf("List without a limit returns %d of 101 records, want 100", n)
			}
		},
	},
}

// forget calls Forget, or fails the case if the store cannot.
func (e *env) forget(scope [32]byte) {
	e.Helper()
	e.want(nil, mustBe[onceward.Forgetter](e, "Forgetter").Forget(e.ctx, scope), "Forget")
}

var forgetCases = []Case{
	{
		Name:    "ForgetDeletesTheScope",
		Explain: "a deleted account leaves nothing: no answer, no claim, however it stands",
		needs:   forgetter,
		run: func(e *env) {
			keys := e.claimed("user-1", 4)
			e.want(nil, e.store.Complete(e.ctx, keys[0], token(1), answer("done"), long), "Complete by the owner")
			e.want(nil, e.store.Extend(e.ctx, keys[1], token(2), 0, true), "Extend with hold")
			e.want(nil, e.store.Extend(e.ctx, keys[2], token(3), 0, false), "Extend to zero")
			e.forget(keys[0].Scope)
			for i, key := range keys {
				c := claimOf(token(20 + i))
				c.Key = key
				if rec := e.mustClaim(c, "a key that was forgotten"); rec.Attempt != 1 {
					e.Errorf("a key that was forgotten is claimed as attempt %d, want 1", rec.Attempt)
				}
			}
		},
	},
	{
		Name:    "ForgetKeepsOtherScopes",
		Explain: "one account's deletion must not open the keys of another",
		needs:   forgetter,
		run: func(e *env) {
			gone := e.claimed("user-2", 1)
			c := claimOf(token(9))
			e.mustClaim(c, "the first claim")
			e.mustComplete(c, answer("mine"))
			e.forget(gone[0].Scope)
			e.mustReplay(c, "mine", "another scope after Forget")
		},
	},
	{
		Name:    "ForgottenOwnerHasLost",
		Explain: "a request that runs while its account is deleted must not bring the account's record back",
		needs:   forgetter,
		run: func(e *env) {
			c := claimOf(token(1))
			e.mustClaim(c, "the first claim")
			e.forget(c.Key.Scope)
			e.want(onceward.ErrClaimLost, e.store.Complete(e.ctx, c.Key, c.Token, answer("late"), long), "Complete of a forgotten claim")
			e.want(onceward.ErrClaimLost, e.store.Extend(e.ctx, c.Key, c.Token, long, false), "Extend of a forgotten claim")
		},
	},
	{
		Name:    "ForgetOfNothingIsNil",
		Explain: "deleting an account that never sent a key is no error, and deleting twice neither",
		needs:   forgetter,
		run: func(e *env) {
			e.forget(onceward.NewKey("nobody", "").Scope)
			e.forget(onceward.NewKey("nobody", "").Scope)
		},
	},
}
