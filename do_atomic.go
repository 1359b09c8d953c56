package onceward

import (
	"context"
	"fmt"
	"net/http"
)

// doingAtomic is one call whose claim, work and result commit together.
type doingAtomic struct {
	transaction
	work func(context.Context) (any, error)
	last *doing // the last time the work ran
}

func (t *doingAtomic) do(ctx context.Context, g *Guard, call Call) outcome {
	claim, err := t.open(ctx, g, call)
	var ok bool
	if t.store, ok = power[Transactor](g.store); !ok && err == nil {
		err = fmt.Errorf("onceward: DoAtomic needs a store that is a Transactor, and %T is none: use Do", unwatched(g.store))
	}
	if err != nil {
		return t.refuseCall(err)
	}
	if err := context.Cause(ctx); err != nil {
		return outcome{err: fmt.Errorf("onceward: nothing was begun: %w", err)}
	}
	t.perform = t.runOnce
	rec, ran, err := t.claim(claim, t.transact)
	switch {
	case err != nil:
		if t.last != nil {
			t.last.tellLostPanic()
		}
		return t.refuseCall(err)
	case !ran:
		return t.replayCall(rec)
	}
	t.g.flights.ran(t.id)
	return t.answerCall(rec)
}

// runOnce runs the work inside the store's transaction that ctx carries.
func (t *doingAtomic) runOnce(ctx context.Context) (Verdict, *Response, error) {
	t.startWork()
	d := &doing{work: t.work}
	d.g, d.r, d.start, d.key, d.id, d.print = t.g, t.r, t.start, t.key, t.id, t.print
	t.last, t.verdict = d, Abort
	d.inside(ctx)
	if !d.within(func() { d.perform(d) }) {
		return Abort, nil, errMaxTransaction
	}
	defer d.cancel(nil)
	if d.aborted {
		return Abort, nil, nil // do lets the panic go on
	}
	code := d.status()
	if !d.keeps(code) {
		return Abort, nil, nil
	}
	resp, err := d.response()
	if err != nil {
		d.err = err
		return Abort, nil, nil
	}
	d.trim(resp)
	t.verdict = Commit
	if code >= http.StatusBadRequest {
		t.verdict = Undo
	}
	return t.verdict, resp, nil
}

// answerCall returns what the work made, now that its fate is durable.
func (t *doingAtomic) answerCall(rec Record) outcome {
	d := t.last
	d.attempt = rec.Attempt
	switch {
	case d.aborted:
		d.log(statusReleased, 0, fmt.Errorf("the function panicked: %v", d.panicked))
		d.goOn()
	case t.verdict == Abort:
		d.log(statusReleased, d.status(), d.err)
	default:
		d.log(statusExecuted, d.status(), nil)
	}
	return outcome{value: d.value, err: d.err}
}
