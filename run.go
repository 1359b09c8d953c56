package onceward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// errMaxRuntime is the cause when a handler runs into Config.MaxRuntime.
var errMaxRuntime = errors.New("onceward: the handler ran longer than MaxRuntime")

// run is one request that may execute its handler under a claim that is ours.
// The handler has a goroutine of its own, so that the answer to the client can
// be "still running" while it goes on.
//
// A run is one allocation for nearly all that a guarded request needs. It is
// never pooled: a handler that keeps its ResponseWriter too long must not write
// into another person's answer.
type run struct {
	request
	lazyContext // the handler's; it shows MaxRuntime as its deadline
	token       Token
	capture     capture
	next        http.Handler
	seen        http.Request // what the guard still reads while the handler may change its own
	place       url.URL      // seen's
	asked       [len(answerForm)][]string
	recording   lazyContext // of the first Complete

	keepBody func() // called in place of freeing the body; nil: it is this run's
	panicked any    // what the handler panicked with
	stack    []byte
	aborted  bool // it ended by panic or runtime.Goexit

	life    sync.Mutex  // guards what follows
	changed sync.Cond   // ended or over
	mark    mark        // what the handler says of its answer
	ended   bool        // the handler has returned
	over    bool        // MaxRuntime has passed
	settled bool        // no more renewals
	lost    bool        // the claim is another's
	timer   *time.Timer // the next renewal of the lease, or MaxRuntime
	expires time.Time   // when the lease is to be renewed again
}

// Value lets MarkFinal and MarkTransient find the run.
func (u *run) Value(key any) any {
	if _, ok := key.(marked); ok {
		return u
	}
	return u.lazyContext.Value(key)
}

// execute runs next and answers with what it made of the request.
func (u *run) execute(next http.Handler, rec Record) {
	cfg := &u.g.cfg
	u.token, u.attempt, u.next = rec.Token, rec.Attempt, next
	u.claimed()
	// WithoutCancel alone is not enough: httputil.ReverseProxy watches the
	// connection by itself unless the context can be cancelled at all.
	u.parent, u.detached = u.r.Context(), !cfg.CancelWithClient
	u.capture.init(u.w, cfg.MaxResponse, &u.g.spool)
	u.capture.tokenFor = u
	u.capture.unframed = !u.r.ProtoAtLeast(1, 1)
	u.changed.L = &u.life
	r := u.handlers()
	now := time.Now()
	u.deadline = now.Add(cfg.MaxRuntime)
	u.expires = now.Add(cfg.Lease / 3)
	u.life.Lock()
	u.timer = time.AfterFunc(min(cfg.Lease/3, cfg.MaxRuntime), u.tick)

	go u.handle(r)

	for !u.ended && !u.over {
		u.changed.Wait()
	}
	ended := u.ended
	u.life.Unlock()
	if !ended {
		u.happened(EventOverran, errMaxRuntime)
		u.cancel(errMaxRuntime)
		if u.capture.detach() {
			// No second copy starts: the lease stays renewed while the goroutine
			// lives, and only its end frees the key. Somebody waits for that before
			// the client is told, for a refusal can panic.
			u.g.flights.begin()
			go func() {
				defer u.g.flights.end()
				u.waitForHandler()
				u.settleDetached()
			}()
			u.seen.Header = make(http.Header, len(answerForm))
			for i, name := range answerForm {
				if u.asked[i] != nil {
					u.seen.Header[name] = u.asked[i]
				}
			}
			u.refuse(fmt.Errorf("%w: %w", &busyError{http.StatusServiceUnavailable, 2 * time.Second}, errMaxRuntime))
			return
		}
		u.waitForHandler()
	}
	u.settle()
}

func (u *run) waitForHandler() {
	u.life.Lock()
	defer u.life.Unlock()
	for !u.ended {
		u.changed.Wait()
	}
}

// answerForm are the headers that say in which form a refusal is wanted.
var answerForm = [...]string{"Accept", "Accept-Language", "Cookie", "Hx-Request", "Origin", "Outbox-Owner", "Sec-Fetch-Mode"}

// handlers gives the handler the request, and leaves to the guard what it still
// needs of it: past MaxRuntime both go on, and a handler may change its header
// and its URL at any time.
func (u *run) handlers() *http.Request {
	r := u.r.WithContext(u)
	r.Body = u.body.body()
	r.ContentLength = u.body.size
	r.TransferEncoding = nil

	u.seen, u.place = *u.r, *u.r.URL
	u.seen.URL = &u.place
	for i, name := range answerForm {
		u.asked[i] = u.r.Header[name]
	}
	u.r = &u.seen
	return r
}

// handle is the handler's goroutine.
func (u *run) handle(r *http.Request) {
	u.aborted = true
	u.began()
	defer func() {
		if u.aborted {
			if u.panicked = recover(); u.panicked != nil && u.panicked != http.ErrAbortHandler {
				u.stack = debug.Stack()
			}
		}
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll() // net/http does so only for its own copy
		}
		if u.keepBody != nil {
			u.keepBody()
		} else {
			u.body.free()
		}
		u.finished(r.Pattern)
		u.life.Lock()
		u.ended = true
		u.changed.Broadcast()
		u.life.Unlock()
	}()
	u.next.ServeHTTP(&u.capture, r)
	u.aborted = false
}

// tick renews the lease when it is due and tells when MaxRuntime has passed.
func (u *run) tick() {
	u.life.Lock()
	now := time.Now()
	if !u.over && !now.Before(u.deadline) {
		u.over = true
		u.changed.Broadcast()
	}
	due := !u.settled && !u.lost && !now.Before(u.expires)
	u.life.Unlock()
	var pause time.Duration
	if due {
		pause = u.renew()
	}
	u.life.Lock()
	defer u.life.Unlock()
	if due {
		u.expires = time.Now().Add(pause)
	}
	next := time.Until(u.expires)
	if u.lost {
		next = time.Until(u.deadline)
	} else if !u.over {
		next = min(next, time.Until(u.deadline))
	}
	if !u.settled && !(u.lost && u.over) {
		u.timer.Reset(max(next, 0))
	}
}

// renew keeps the claim ours and says when to do so again.
func (u *run) renew() time.Duration {
	err := u.g.once(func(ctx context.Context) error {
		return u.g.store.Extend(ctx, u.id, u.token, u.g.cfg.Lease, false)
	})
	u.life.Lock()
	defer u.life.Unlock()
	switch {
	case err == nil || u.settled:
		return u.g.cfg.Lease / 3
	case errors.Is(err, ErrClaimLost):
		u.lost = true
		u.cancel(ErrClaimLost)
		u.happened(EventLeaseLost, err)
		u.log(outcomeClaimLost, 0, err)
		return u.g.cfg.Lease
	}
	u.happened(EventRenewalFailed, err)
	u.g.logger(slog.LevelWarn, "onceward: a lease was not renewed", "record", u.id.RecordID(), "error", err)
	return max(u.g.cfg.Lease/10, time.Millisecond)
}

// stopRenewing ends the renewals and tells whether the claim was lost.
func (u *run) stopRenewing() (lost bool) {
	u.life.Lock()
	defer u.life.Unlock()
	u.settled = true
	u.timer.Stop()
	return u.lost
}

// settle ends the claim as the handler's answer asks, then sends that answer:
// the record is complete before the client sees a first byte.
func (u *run) settle() {
	defer u.cancel(nil)
	c := &u.capture
	if !u.aborted && c.silent() && u.Err() == nil {
		c.WriteHeader(http.StatusOK)
	}
	c.seal()
	switch {
	case u.aborted:
		token := u.end(0)
		c.buf.free()
		u.log(token, 0, fmt.Errorf("the handler panicked: %v", u.panicked))
		u.repanic()
	case c.code == 0:
		// It obeyed its cancelled context and wrote nothing: that is no answer,
		// least of all an empty 200.
		cause := context.Cause(u)
		if u.end(0) == statusUnknown {
			u.refuse(fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause))
		} else if errors.Is(cause, errMaxRuntime) {
			u.refuse(fmt.Errorf("%w: %w", &busyError{http.StatusServiceUnavailable, 2 * time.Second}, cause))
		} else {
			u.refuse(fmt.Errorf("%w: %w", &busyError{http.StatusConflict, 2 * time.Second}, cause))
		}
	default:
		u.answer()
	}
}

func (u *run) answer() {
	c := &u.capture
	if !c.whole() {
		// The handler promised more than it wrote: the client will see a broken
		// transfer, and nothing of it is kept.
		token := u.end(0)
		u.log(token, c.code, errors.New("the answer is shorter than its Content-Length"))
		if c.early {
			panic(http.ErrAbortHandler)
		}
		c.finish(statusValue(token, u.key))
		return
	}
	if !u.keeps(c.code) {
		token := u.end(c.code)
		c.finish(statusValue(token, u.key))
		u.log(token, c.code, nil)
		return
	}
	resp := c.response()
	err := u.complete(&resp)
	if err == nil {
		c.finish(statusValue(statusExecuted, u.key))
		u.log(statusExecuted, c.code, nil)
		return
	}
	// The work is done and its answer is true, whether it is kept or not.
	c.finish(statusValue(statusExecuted+";unrecorded", u.key))
	if errors.Is(err, ErrClaimLost) {
		u.log(outcomeClaimLost, c.code, err)
	} else {
		u.log(statusExecuted+";unrecorded", c.code, err)
	}
}

// complete records the answer. When the store cannot, the attempt goes on
// behind the client's answer while the claim may still be ours; the claim is
// not released, for the work is done.
func (u *run) complete(resp *Response) error {
	lost := u.stopRenewing()
	if lost {
		u.leave()
		return ErrClaimLost
	}
	u.g.bound(&u.recording, u.r)
	err := u.g.store.Complete(&u.recording, u.id, u.token, resp, u.g.cfg.kept())
	u.recording.cancel(nil)
	if err == nil || errors.Is(err, ErrClaimLost) {
		if err != nil {
			u.happened(EventLeaseLost, err)
		}
		u.leave()
		return err
	}
	// The answer goes out now, so what is recorded later must not share with it.
	kept := Response{Status: resp.Status, Header: resp.Header.Clone(), Body: slices.Clone(resp.Body), BodyOmitted: resp.BodyOmitted}
	record := func(ctx context.Context) error {
		// The lease gives the repeats their time; a late owner completes without.
		_ = u.g.store.Extend(ctx, u.id, u.token, u.g.cfg.Lease, false)
		return u.g.store.Complete(ctx, u.id, u.token, &kept, u.g.cfg.kept())
	}
	u.g.later(record, func(err error) {
		u.leave()
		u.settledLate(err)
	})
	return err
}

// end ends a claim without an answer that is kept: the key is freed, so that the
// retry is a real one, or held where nobody may retry. code is the answer's, 0
// where there is none. It returns what is said of it.
func (u *run) end(code int) (token string) {
	u.stopRenewing()
	token = statusReleased
	call := func(ctx context.Context) error { return u.g.store.Release(ctx, u.id, u.token) }
	if u.holds(code) {
		token = statusUnknown
		call = func(ctx context.Context) error { return u.g.store.Extend(ctx, u.id, u.token, 0, true) }
	}
	if err := u.g.once(call); err != nil && !errors.Is(err, ErrClaimLost) {
		u.g.later(call, func(error) { u.leave() })
	} else {
		u.leave()
	}
	return token
}

func (u *run) leave() { u.g.flights.ran(u.id) }

// settleDetached ends the claim of a handler whose client was told long ago
// that it still runs. Nothing it made was sent, so nothing of it is kept.
func (u *run) settleDetached() {
	token := u.end(0)
	u.cancel(nil)
	u.log(token, 0, errMaxRuntime)
	if u.stack != nil {
		u.g.logger(slog.LevelError, "onceward: a handler past MaxRuntime panicked", "record", u.id.RecordID(), "panic", u.panicked, "stack", string(u.stack))
	}
}

// tokenFor is the status of an answer that must go out before it can be
// completed. It is read at the answer's clean end only, and that waits for the
// completion. Where no end can be seen it promises nothing, and the client asks
// again.
func (u *run) tokenFor(code int) string {
	switch {
	case u.keeps(code) && !u.capture.endless:
		return statusValue(statusExecuted, u.key)
	case u.holds(code):
		return statusValue(statusUnknown, u.key)
	}
	return statusValue(statusReleased, u.key)
}

// repanic lets the panic go on where net/http expects it.
func (u *run) repanic() {
	if u.panicked == nil { // runtime.Goexit
		panic(http.ErrAbortHandler)
	}
	if u.stack != nil {
		u.tellPanic()
	}
	panic(u.panicked)
}
