package onceward

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"time"
)

// Call names one piece of work for [Do]: whose it is, which, and what.
type Call struct {
	// Scope says whose key Key is, as a [ScopeFunc] does: the account that the
	// work is for, or the queue that it came from. It may not be empty.
	Scope string
	// Key is the work's own name, the same on every try: the message's id, the
	// day of a nightly run. The rules are those of [ParseKey]: 1 to MaxKeyLength
	// characters of printable ASCII.
	Key string
	// Name says what is done, for people and logs. It is in the fingerprint: the
	// same key under another Name is [ErrKeyReused].
	Name string
	// Input is what the work is about. It is in the fingerprint too: the same key
	// with another Input is ErrKeyReused. Nothing else is done with it, and the
	// caller may not change it before Do returns. Config.CanonicalJSON and
	// Config.Volatile count.
	Input []byte
	// Wait is how long a repeat waits for the first call while that one runs,
	// Config.MaxWait at most. Zero means not at all, unless Config.Wait is set:
	// ErrInProgress at once.
	Wait time.Duration
}

// Do is the guard for work that is no HTTP request: a message of a queue that may
// be delivered twice, a nightly run that two machines begin. The first call of a
// key runs work; its result is in the store before Do returns it, and every later
// call gets that result and runs nothing:
//
//	total, replayed, err := onceward.Do(ctx, guard, onceward.Call{
//		Scope: "billing", Key: msg.ID, Name: "charge", Input: msg.Body,
//	}, func(ctx context.Context) (int, error) { … })
//
// Everything is as with [Guard.Handler]: the lease, its renewal, MaxRuntime, the
// policies for what nobody knows, the log. work gets a context that ends with the
// claim and outlives ctx: when ctx ends, Do returns at once, work goes on, and a
// later call gets its result. With Config.CancelWithClient the work's context
// ends with ctx, and Do waits for it to return. Where HTTP would have a method
// the record and the log have DO, with Name as the path, and the status is 200
// for a result, 422 for a final error and 500 for any other.
//
// T is kept as JSON, a []byte as it is. The first call returns what work
// returned, a replay what JSON kept of it. A result that is larger than
// Config.MaxResponse, or that JSON cannot say, is not kept: the work still
// counts as done, and later calls get [ErrResultOmitted].
//
// An error of work is returned as it is and nothing is kept: the next call is a
// real one (under [Hold] it is not; then the error is also [ErrOutcomeUnknown]).
// A [*FinalError] anywhere in it, or [MarkFinal], makes it a result: it is kept
// and replayed. A panic frees the key and goes on in the caller. With an error
// the result is T's zero value.
//
// Do's own errors are for errors.Is: [ErrInProgress], [ErrKeyReused],
// [ErrOutcomeUnknown], [ErrKeyExpired], [ErrKeyMissing], [ErrKeyInvalid],
// [ErrTooLarge] (Input over Config.MaxRequest), [ErrUnavailable]. [RetryAfter]
// tells after which of them to try again.
func Do[T any](ctx context.Context, g *Guard, call Call, work func(context.Context) (T, error)) (result T, replayed bool, err error) {
	d := &doing{work: func(ctx context.Context) (any, error) { return work(ctx) }}
	return resultOf[T](d.do(ctx, g, call))
}

// DoAtomic is Do under [Guard.Atomic]: the claim, what work writes through the
// store's transaction (sqlitestore.Tx, pgxstore.Tx) and the kept result commit
// together. A final error undoes what work wrote and is kept; any other error and
// a panic roll back everything, the key too. work has Config.MaxTransaction, and
// may be run again from its start where the database reports a conflict. DoAtomic
// waits for the end of the transaction also when ctx ends. A result that JSON
// cannot say is an error, and nothing is done.
//
// The store of g has to be a [Transactor].
func DoAtomic[T any](ctx context.Context, g *Guard, call Call, work func(context.Context) (T, error)) (result T, replayed bool, err error) {
	t := &doingAtomic{work: func(ctx context.Context) (any, error) { return work(ctx) }}
	return resultOf[T](t.do(ctx, g, call))
}

// RetryAfter says how long to wait before the same call, under the same key, is
// worth another try. Zero: it is not, or err is none of this package's.
func RetryAfter(err error) time.Duration { return refusalOf(err).retryAfter }

// methodDo stands where HTTP has a method.
const methodDo = "DO"

// open makes the request that the guard's machinery asks for.
func (q *request) open(ctx context.Context, g *Guard, call Call) (Claim, error) {
	q.g, q.start, q.key, q.patient = g, time.Now(), call.Key, call.Wait
	r := &http.Request{Method: methodDo, Pattern: call.Name, URL: &url.URL{Path: call.Name}, Header: http.Header{}}
	q.r = r.WithContext(ctx)
	if call.Scope == "" {
		return Claim{}, errors.New("onceward: Call.Scope is empty")
	}
	if call.Key == "" {
		return Claim{}, ErrKeyMissing
	}
	if err := validKey(call.Key); err != nil {
		return Claim{}, err
	}
	if int64(len(call.Input)) > g.cfg.MaxRequest {
		return Claim{}, fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, g.cfg.MaxRequest)
	}
	q.id = NewKey(call.Scope, call.Key)
	q.body = &q.store
	q.body.mem, q.body.size = call.Input, int64(len(call.Input))
	return q.bid(g.cfg.fingerprintCall(q.id, call)), nil
}

// refuseCall logs a refusal and returns it.
func (q *request) refuseCall(err error) outcome {
	if cause := context.Cause(q.r.Context()); cause != nil && errors.Is(err, ErrInProgress) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	f := refusalOf(err)
	q.log(f.token, f.status, err)
	return outcome{err: err}
}

// replayCall hands out the kept result.
func (q *request) replayCall(rec Record) outcome {
	q.attempt = rec.Attempt
	q.log(statusReplayed, rec.Response.Status, nil)
	return outcome{stored: rec.Response}
}

// doing is one call that may run its work under a claim that is ours.
type doing struct {
	lease
	work  func(context.Context) (any, error)
	value any // what it returned
	err   error
}

func (d *doing) do(ctx context.Context, g *Guard, call Call) outcome {
	claim, err := d.open(ctx, g, call)
	if err != nil {
		return d.refuseCall(err)
	}
	if err := context.Cause(ctx); err != nil {
		return outcome{err: fmt.Errorf("onceward: nothing was begun: %w", err)}
	}
	rec, claimed, err := d.claim(claim, d.ask)
	switch {
	case errors.Is(err, errUnreachable) && g.cfg.FailOpen:
		d.happened(EventUnguarded, err)
		d.log(statusUnavailable, 0, fmt.Errorf("it runs unguarded: %w", err))
		value, err := d.work(ctx)
		return outcome{value: value, err: err}
	case err != nil:
		return d.refuseCall(err)
	case !claimed:
		return d.replayCall(rec)
	}
	return d.execute(rec)
}

// execute runs the work and returns what became of it, or that it still runs.
func (d *doing) execute(rec Record) outcome {
	d.own(rec)
	d.claimed()
	d.begin()
	caller := d.r.Context()
	if d.detached {
		stop := context.AfterFunc(caller, d.leaveAlone)
		defer stop()
	}
	go d.perform(d)

	d.waitUntil(func() bool { return d.ended || d.over || d.left })
	d.life.Lock()
	ended, over := d.ended, d.over
	d.life.Unlock()
	if ended {
		o := d.settle()
		d.goOn()
		return o
	}
	d.g.flights.begin()
	go func() {
		defer d.g.flights.end()
		d.waitUntil(func() bool { return d.ended || d.over })
		d.cancelIfOver()
		d.wait()
		d.settle()
		if d.stack != nil {
			d.tellPanic()
		}
	}()
	if over {
		return d.refuseCall(fmt.Errorf("%w: %w", &busyError{http.StatusServiceUnavailable, 2 * time.Second}, errMaxRuntime))
	}
	return d.refuseCall(&busyError{http.StatusConflict, 2 * time.Second})
}

// leaveAlone tells that nobody waits for the work any more.
func (d *doing) leaveAlone() {
	d.life.Lock()
	defer d.life.Unlock()
	d.left = true
	d.changed.Broadcast()
}

func (d *doing) cancelIfOver() {
	d.life.Lock()
	over := d.over && !d.ended
	d.life.Unlock()
	if over {
		d.happened(EventOverran, errMaxRuntime)
		d.cancel(errMaxRuntime)
	}
}

// perform is the work's goroutine.
func (d *doing) perform(ctx context.Context) {
	d.aborted = true
	d.began()
	defer func() {
		if d.aborted {
			d.caught(recover())
		}
		d.finished("")
		d.end()
	}()
	d.value, d.err = d.work(ctx)
	d.aborted = false
}

// status is what the work's end would be over HTTP. An error that MarkFinal made
// final is made a FinalError, as its replay will be.
func (d *doing) status() int {
	final := (*FinalError)(nil)
	switch {
	case d.err == nil:
		return http.StatusOK
	case errors.As(d.err, &final):
		return http.StatusUnprocessableEntity
	case d.keeps(http.StatusInternalServerError):
		d.err = &FinalError{Message: textOf(d.err), cause: d.err}
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// response is what is kept of the work's end.
func (d *doing) response() (*Response, error) {
	if final := (*FinalError)(nil); errors.As(d.err, &final) {
		return finalResponse(&FinalError{Code: final.Code, Message: textOf(d.err), Data: final.Data}), nil
	}
	return encodeResult(d.value)
}

// settle ends the claim as the work's end asks.
func (d *doing) settle() outcome {
	defer d.cancel(nil)
	if d.aborted {
		token := d.abandon(0)
		d.log(token, 0, fmt.Errorf("the function panicked: %v", d.panicked))
		return outcome{}
	}
	code := d.status()
	if !d.keeps(code) {
		return d.giveUp(code)
	}
	resp, err := d.response()
	if err != nil {
		d.g.logger(slog.LevelError, "onceward: a result cannot be kept; it counts as done", "record", d.id.RecordID(), "error", err)
		resp = &Response{Status: code, BodyOmitted: true}
	}
	d.trim(resp)
	switch err = d.complete(resp); {
	case err == nil:
		d.log(statusExecuted, code, nil)
	case errors.Is(err, ErrClaimLost):
		d.log(outcomeClaimLost, code, err)
	default:
		d.log(statusExecuted+";unrecorded", code, err)
	}
	// The work is done and its result is true, whether it is kept or not.
	return outcome{value: d.value, err: d.err}
}

// giveUp ends a claim whose result is not kept.
func (d *doing) giveUp(code int) outcome {
	cause := context.Cause(d)
	token := d.abandon(code)
	d.log(token, code, d.err)
	switch {
	case d.err == nil:
	case token == statusUnknown:
		d.err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, d.err)
	case errors.Is(cause, ErrClaimLost):
		d.err = fmt.Errorf("%w: %w: %w", &busyError{http.StatusConflict, 2 * time.Second}, ErrClaimLost, d.err)
	}
	return outcome{value: d.value, err: d.err}
}

// goOn lets the work's panic go on in the caller.
func (d *doing) goOn() {
	switch {
	case !d.aborted:
	case d.panicked == nil: // runtime.Goexit
		runtime.Goexit()
	default:
		d.repanic()
	}
}

// fingerprintCall hashes what makes a call the same call.
func (c *Config) fingerprintCall(key Key, call Call) Fingerprint {
	fp := Fingerprint{Version: versionBytes}
	b := append(make([]byte, 0, 256), key.ID[:]...)
	b = appendString(b, methodDo)
	b = appendString(b, call.Name)
	if c.CanonicalJSON || c.Volatile != nil {
		fp.Version = versionJSON
		if what, ok := canonicalJSON(call.Input, c.volatile); ok {
			fp.Sum = sum(append(b, 'j'), what)
			return fp
		}
	}
	fp.Sum = sum(append(b, 'b'), call.Input)
	return fp
}

func sum(head, rest []byte) (s [32]byte) {
	h := sha256.New()
	h.Write(head)
	h.Write(rest)
	h.Sum(s[:0])
	return s
}
