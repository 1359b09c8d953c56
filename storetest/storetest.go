// Package storetest is the suite that every [onceward.Store] must pass.
//
// A store's own test calls [Run] with a constructor. Each case is one sentence
// of the contract that onceward.Store states; a case that fails prints what goes
// wrong for people when a store gets that sentence wrong.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Config{
//			New: func(t testing.TB) onceward.Store { return mystore.New(…) },
//		})
//	}
//
// The optional powers have their cases too, and so has what a lost connection leaves
// behind. A store that lacks one says so in its
// Config; one that is a [onceward.Transactor] also says how to write a row of
// business data and how to count the rows.
//
// The suite imports testing and is for test files only.
package storetest

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
)

// Config says how to make the store and which honest differences it has.
type Config struct {
	// New makes a store that holds no record. It is called once per case, and
	// what it opens it closes with t.Cleanup. Required.
	New func(t testing.TB) onceward.Store

	// FakeTime runs each case in a testing/synctest bubble, where leases and
	// retentions pass in no time. It needs a store that reads the clock from
	// package time and does no I/O.
	FakeTime bool

	// Unit is the shortest time that the suite waits for in real time: a lease
	// of one Unit must be over after two. Cases run in parallel and take up to
	// 25 units each, more only on a machine that is too slow for that. Zero means 40 ms; a store behind a slow network may
	// need more. Without meaning with FakeTime.
	Unit time.Duration

	// Work writes one row of business data in the transaction that ctx carries
	// inside Transact. Effects counts such rows, in the file or schema of the store
	// that New made; it sees what is committed. Both are required unless
	// NoTransactor is set.
	Work    func(ctx context.Context) error
	Effects func(t testing.TB, store onceward.Store) int

	// Faulty makes a second store on the records of the store that New made, whose
	// connections lose makes fail: a proxy between the client and its server, or a
	// driver around the driver. What it opens it closes with t.Cleanup. Required
	// unless NoFaults is set.
	Faulty func(t testing.TB, store onceward.Store) (faulty onceward.Store, lose Lose)

	// NoFaults leaves out the cases about what a lost connection leaves behind. It is
	// for stores that have none, such as one in memory.
	NoFaults bool

	// Each of these leaves out the cases about an optional power. By default a
	// store that lacks the power fails them.
	NoSweeper    bool // onceward.Sweeper
	NoTransactor bool // onceward.Transactor
	NoLooker     bool // onceward.Looker
	NoLister     bool // onceward.Lister
	NoForgetter  bool // onceward.Forgetter
}

// power is a set of optional interfaces.
type power uint8

const (
	sweeper power = 1 << iota
	transactor
	looker
	lister
	forgetter
	faults // no interface: connections that can fail
)

// lacks are the powers that the store is said not to have.
func (cfg *Config) lacks() (p power) {
	for has, no := range map[power]bool{
		sweeper: cfg.NoSweeper, transactor: cfg.NoTransactor, looker: cfg.NoLooker, lister: cfg.NoLister, forgetter: cfg.NoForgetter,
		faults: cfg.NoFaults,
	} {
		if no {
			p |= has
		}
	}
	return p
}

// Run runs every case as a subtest of t.
func Run(t *testing.T, cfg Config) {
	if cfg.New == nil {
		t.Fatal("storetest: Config.New is missing")
	}
	for _, c := range Cases() {
		if c.needs&cfg.lacks() != 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if cfg.FakeTime {
				synctest.Test(t, func(t *testing.T) { c.Test(t, cfg) })
				return
			}
			t.Parallel()
			c.Test(t, cfg)
		})
	}
}

// Case is one sentence of the contract.
type Case struct {
	Name    string // a test's name
	Explain string // what breaks for people when a store gets it wrong

	run   func(e *env)
	needs power
}

// Cases lists the suite in the order in which Run runs it.
func Cases() []Case {
	var all []Case
	for _, part := range [][]Case{
		claimCases, leaseCases, holdCases, completeCases, answerCases, releaseCases,
		expiryCases, sweepCases, raceCases,
		transactCases, takeOverCases, lookCases, listCases, forgetCases, lostCases,
	} {
		all = append(all, part...)
	}
	return all
}

// Test runs the case on t, which may be a recorder: that is how the suite tests
// itself. With cfg.FakeTime it must be called inside a bubble.
func (c Case) Test(t testing.TB, cfg Config) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("why it matters: %s", c.Explain)
		}
	}()
	unit := cfg.Unit
	if unit <= 0 {
		unit = 40 * time.Millisecond
	}
	if cfg.FakeTime {
		unit = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+100*unit)
	defer cancel()
	if c.needs&transactor != 0 && (cfg.Work == nil || cfg.Effects == nil) {
		t.Fatal("storetest: Config.Work and Config.Effects are missing; a store that has no transactions says so with Config.NoTransactor")
	}
	if c.needs&faults != 0 && cfg.Faulty == nil {
		t.Fatal("storetest: Config.Faulty is missing; a store without connections says so with Config.NoFaults")
	}
	c.run(&env{TB: t, name: c.Name, cfg: cfg, store: cfg.New(t), ctx: ctx, unit: unit})
}

// inTime runs f with a key of its own and a time of n units that calls in a row
// must not outlast. On a machine so slow that they did, f says false and is run
// again with twice the time.
func (e *env) inTime(n int, f func(c onceward.Claim, d time.Duration) bool) {
	e.Helper()
	for range 6 {
		c := claimOf(token(1))
		c.Key = onceward.NewKey("user-1", "in-time-"+strconv.Itoa(n))
		if f(c, time.Duration(n)*e.unit) {
			return
		}
		n *= 2
	}
	e.Fatalf("two calls in a row take longer than %v", time.Duration(n/2)*e.unit)
}

// long is a time that no case outlives.
const long = time.Hour

// env is what a case works with.
type env struct {
	testing.TB
	name  string // the case's
	cfg   Config
	store onceward.Store
	ctx   context.Context
	unit  time.Duration

	strangers int
}

// mustBe returns the store's optional power T, or fails the case.
func mustBe[T any](e *env, name string) T {
	e.Helper()
	p, ok := e.store.(T)
	if !ok {
		e.Fatalf("%T is no onceward.%s; a store that is none says so with Config.No%s", e.store, name, name)
	}
	return p
}

// pass lets n units go by.
func (e *env) pass(n int) { time.Sleep(time.Duration(n) * e.unit) }

// claimOf is the request that most cases send: one key, one payload, a lease
// and a keep that do not end by themselves.
func claimOf(tok onceward.Token) onceward.Claim {
	return onceward.Claim{
		Key:         onceward.NewKey("user-1", "key-1"),
		Fingerprint: fingerprint("payload"),
		Method:      "POST",
		Path:        "/orders",
		Token:       tok,
		Lease:       long,
		Keep:        long,
	}
}

func fingerprint(payload string) onceward.Fingerprint {
	return onceward.Fingerprint{Version: 1, Sum: onceward.NewKey("", payload).ID}
}

// token makes distinct tokens; its first byte is often zero on purpose.
func token(n int) onceward.Token {
	return onceward.Token{14: byte(n >> 8), 15: byte(n)}
}

func answer(body string) *onceward.Response {
	return &onceward.Response{
		Status: 200,
		Header: map[string][]string{"Content-Type": {"text/plain"}},
		Body:   []byte(body),
	}
}

// claim asks and fails the case on an error.
func (e *env) claim(c onceward.Claim) (onceward.Record, bool) {
	e.Helper()
	rec, claimed, err := e.store.Claim(e.ctx, c)
	if err != nil {
		e.Fatalf("Claim: %v", err)
	}
	return rec, claimed
}

// mustClaim asks and fails the case unless the answer is "you run".
func (e *env) mustClaim(c onceward.Claim, when string) onceward.Record {
	e.Helper()
	rec, claimed := e.claim(c)
	if !claimed {
		e.Fatalf("%s: Claim reported a record that is %v (attempt %d), want it claimed", when, rec.State, rec.Attempt)
	}
	return rec
}

// mustReport asks and fails the case unless somebody has the key.
func (e *env) mustReport(c onceward.Claim, when string) onceward.Record {
	e.Helper()
	rec, claimed := e.claim(c)
	if claimed {
		e.Fatalf("%s: Claim was granted (attempt %d), want the record that has the key", when, rec.Attempt)
	}
	return rec
}

// mustComplete stores an answer that outlives the case.
func (e *env) mustComplete(c onceward.Claim, resp *onceward.Response) {
	e.Helper()
	e.want(nil, e.store.Complete(e.ctx, c.Key, c.Token, resp, long), "Complete by the owner")
}

// mustReplay fails the case unless c, asked under a token that was never used
// before, is answered with the body want.
func (e *env) mustReplay(c onceward.Claim, want, when string) {
	e.Helper()
	c.Token = onceward.Token{15: 1, 0: byte(e.strangers >> 8), 1: byte(e.strangers), 2: 1}
	e.strangers++
	e.mustHave(e.mustReport(c, when), want, when)
}

// mustHave fails the case unless rec is completed with the body want.
func (e *env) mustHave(rec onceward.Record, want, when string) {
	e.Helper()
	switch {
	case rec.State != onceward.Completed:
		e.Fatalf("%s: the record is %v, want %v", when, rec.State, onceward.Completed)
	case rec.Response == nil:
		e.Fatalf("%s: the record is completed and has no Response", when)
	case string(rec.Response.Body) != want:
		e.Errorf("%s: the body is %q, want %q", when, rec.Response.Body, want)
	}
}

// abandoned claims c with a lease of one unit and lets the lease end.
func (e *env) abandoned(c onceward.Claim) onceward.Record {
	e.Helper()
	c.Lease = e.unit
	rec := e.mustClaim(c, "the first claim")
	e.pass(2)
	return rec
}

// displaced abandons one claim and has it taken over: it returns the old
// owner's claim and the new one's.
func (e *env) displaced() (old, owner onceward.Claim) {
	e.Helper()
	old, owner = claimOf(token(1)), claimOf(token(2))
	e.abandoned(old)
	owner.TakeOver = true
	e.mustClaim(owner, "the take-over")
	e.pass(1)
	return old, owner
}

// want compares errors with errors.Is; nil wants nil.
func (e *env) want(want, got error, what string) {
	e.Helper()
	if !is(got, want) {
		e.Fatalf("%s: got error %v, want %v", what, got, want)
	}
}

func is(got, want error) bool {
	if want == nil {
		return got == nil
	}
	return errors.Is(got, want)
}
