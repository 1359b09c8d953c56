package onceward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// errMaxTransaction is the cause when a handler runs into Config.MaxTransaction.
var errMaxTransaction = errors.New("onceward: the handler ran longer than MaxTransaction")

// Atomic wraps next like [Guard.Handler], but the claim, what next writes through
// the store's transaction (sqlitestore.Tx, pgxstore.Tx) and the kept answer
// commit together: a crash, a 5xx or a panic at any point leaves all of it or
// nothing, and no outcome is unknown. What next does elsewhere (mail, payments)
// is not undone with it.
//
// A 2xx or 3xx commits. An answer from 400 on that would be kept undoes what next
// wrote and is kept. Anything else rolls back everything, the key too. next may
// run again from its start, with the same request, when the database reports a
// conflict. It has MaxTransaction; Flush is not supported, for nothing is sent
// before the commit.
//
// A request without a key passes through untouched, without a transaction: where
// next needs one, set Config.Require. FailOpen has no meaning here. Atomic panics if the store
// is no [Transactor].
func (g *Guard) Atomic(next http.Handler) http.Handler {
	store, ok := power[Transactor](g.store)
	if !ok {
		panic(fmt.Sprintf("onceward: Atomic needs a store that is a Transactor, and %T is none: use Handler", unwatched(g.store)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.cfg.guards(r.Method) {
			next.ServeHTTP(w, r)
			return
		}
		t := &transaction{request: request{g: g, w: w, r: r, start: time.Now()}, store: store, next: next}
		t.serve()
	})
}

// transaction is one request whose claim, work and answer commit together.
type transaction struct {
	request
	store   Transactor
	next    http.Handler
	perform func(context.Context) (Verdict, *Response, error) // does the work once
	run     *run                                              // the last time the handler ran
	verdict Verdict
	working bool // the flight counts it as running
	// holders are those who still read the body: the request, and a handler that
	// outlives it.
	holders atomic.Int32
}

func (t *transaction) serve() {
	t.holders.Add(1)
	defer t.freeBody()
	t.perform = t.work
	claim, ok := t.admit(t.next)
	if !ok {
		return
	}
	rec, ran, err := t.claim(claim, t.transact)
	switch {
	case err != nil:
		t.takeBack()
		if t.run != nil {
			t.run.tellLostPanic()
		}
		t.refuse(err)
	case !ran:
		t.takeBack()
		t.replay(rec)
	default:
		t.g.flights.ran(t.id)
		t.attempt = rec.Attempt
		t.answer()
	}
}

// freeBody ends one holder's use of the body.
func (t *transaction) freeBody() {
	if t.holders.Add(-1) == 0 {
		t.body.free()
	}
}

// transact puts the claim and its work to the store.
func (t *transaction) transact(c Claim) (rec Record, ran bool, err error) {
	var asking lazyContext
	t.g.bound(&asking, t.r)
	// The limit of the work comes on top of the wait for its turn.
	asking.deadline = asking.deadline.Add(t.g.cfg.MaxTransaction)
	asking.detached = !t.g.cfg.CancelWithClient
	defer asking.cancel(nil)
	defer func() {
		if t.working {
			t.g.flights.worked(t.id)
			t.working = false
		}
	}()
	c.Keep = t.g.cfg.kept()
	returned := false
	defer func() {
		if !returned { // a store may let a panic of the work's out only now
			t.takeBack()
		}
	}()
	rec, ran, err = t.put(&asking, c, t.perform)
	returned = true
	switch {
	case err == nil:
		return rec, ran, nil
	case errors.Is(err, ErrInProgress):
		return rec, false, fmt.Errorf("%w: %w", &busyError{http.StatusServiceUnavailable, 2 * time.Second}, err)
	case errors.Is(err, ErrUnavailable):
		return rec, false, err
	}
	return rec, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// startWork tells those who wait that the work has begun.
func (t *transaction) startWork() {
	if !t.working {
		t.g.flights.working(t.id)
		t.working = true
	}
}

// takeBack undoes what an earlier run of the handler has done to the answer.
func (t *transaction) takeBack() {
	if t.run != nil {
		t.run.capture.takeBack()
		t.run.capture.buf.free()
	}
}

// work runs the handler once, inside the store's transaction that ctx carries.
func (t *transaction) work(ctx context.Context) (Verdict, *Response, error) {
	t.takeBack()
	t.startWork()
	cfg := &t.g.cfg
	// A copy, so that a second run sees the request as it came.
	u := &run{lease: lease{request: request{g: t.g, w: t.w, r: t.r.Clone(ctx), start: t.start, key: t.key, id: t.id, print: t.print, body: t.body}}}
	t.run, t.verdict = u, Abort
	u.next = t.next
	u.inside(ctx)
	u.capture.init(t.w, cfg.MaxResponse, &t.g.spool)
	u.capture.together = true
	u.keepBody = t.freeBody
	r := u.handlers()

	t.holders.Add(1)
	if !u.within(func() { u.handle(r) }) {
		u.capture.takeBack()
		return Abort, nil, errMaxTransaction
	}
	return t.judge(u)
}

// judge says what a handler that has returned asks for.
func (t *transaction) judge(u *run) (Verdict, *Response, error) {
	defer u.cancel(nil)
	c := &u.capture
	if !u.aborted && c.silent() && u.Err() == nil {
		c.WriteHeader(http.StatusOK)
	}
	c.seal()
	switch {
	case u.aborted:
		return Abort, nil, nil // serve lets the panic go on
	case c.failed != nil:
		return Abort, nil, c.failed
	case c.code == 0:
		return Abort, nil, fmt.Errorf("%w: the handler gave no answer: %w", ErrUnavailable, context.Cause(u))
	case !c.whole():
		return Abort, nil, nil
	case !u.keeps(c.code):
		return Abort, nil, nil
	}
	resp := c.response()
	if c.code < http.StatusBadRequest {
		t.verdict = Commit
	} else {
		t.verdict = Undo
	}
	return t.verdict, &resp, nil
}

// answer sends what the handler made, now that its fate is durable.
func (t *transaction) answer() {
	u := t.run
	c := &u.capture
	u.attempt = t.attempt
	switch {
	case u.aborted:
		c.buf.free()
		u.log(statusReleased, 0, fmt.Errorf("the handler panicked: %v", u.panicked))
		u.panicOn(statusReleased)
	case t.verdict == Abort:
		c.finish(statusValue(statusReleased, u.key))
		u.log(statusReleased, c.code, nil)
	default:
		c.finish(statusValue(statusExecuted, u.key))
		u.log(statusExecuted, c.code, nil)
	}
}
