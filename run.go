package onceward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// errMaxRuntime is the cause when a handler runs into Config.MaxRuntime.
var errMaxRuntime = errors.New("onceward: the handler ran longer than MaxRuntime")

// run is one execution of a handler under a claim that is ours. The handler has
// a goroutine of its own, so that the answer to the client can be "still
// running" while it goes on.
type run struct {
	*request
	context.Context // the handler's; see Deadline
	cancel          context.CancelCauseFunc
	deadline        time.Time
	token           Token
	capture         capture
	done            chan struct{} // closed when the handler has returned

	panicked any // what it panicked with
	stack    []byte
	aborted  bool // it ended by panic or runtime.Goexit

	mu    sync.Mutex
	timer *time.Timer // the next renewal of the lease; nil after the handler's end
	lost  bool        // the claim is another's
}

// Deadline shows MaxRuntime to the handler.
func (u *run) Deadline() (time.Time, bool) { return u.deadline, true }

// run runs next and answers with what it made of the request.
func (q *request) run(next http.Handler, rec Record) {
	u := &run{request: q, token: rec.Token, done: make(chan struct{})}
	q.attempt = rec.Attempt
	cfg := &q.g.cfg
	// WithoutCancel alone is not enough: httputil.ReverseProxy watches the
	// connection by itself unless the context can be cancelled at all.
	parent := q.r.Context()
	if !cfg.CancelWithClient {
		parent = context.WithoutCancel(parent)
	}
	u.Context, u.cancel = context.WithCancelCause(parent)
	u.deadline = time.Now().Add(cfg.MaxRuntime)
	u.capture.init(q.w, cfg.MaxResponse, &q.g.spool)
	u.capture.tokenFor = u.earlyToken
	u.timer = time.AfterFunc(cfg.Lease/3, u.renew)

	go u.handle(next)

	overtime := time.NewTimer(cfg.MaxRuntime)
	defer overtime.Stop()
	select {
	case <-u.done:
	case <-overtime.C:
		u.cancel(errMaxRuntime)
		if u.capture.detach() {
			// No second copy starts: the lease stays renewed while the goroutine
			// lives, and only its end frees the key.
			q.refuse(fmt.Errorf("%w: %w", &busyError{http.StatusServiceUnavailable, 2 * time.Second}, errMaxRuntime))
			q.g.flights.begin()
			go func() {
				defer q.g.flights.end()
				<-u.done
				u.settleDetached()
			}()
			return
		}
		<-u.done
	}
	u.settle()
}

// handle is the handler's goroutine.
func (u *run) handle(next http.Handler) {
	r := u.r.WithContext(u)
	r.Body = u.body.body()
	r.ContentLength = u.body.size
	r.TransferEncoding = nil
	u.aborted = true
	defer func() {
		if u.aborted {
			if u.panicked = recover(); u.panicked != nil && u.panicked != http.ErrAbortHandler {
				u.stack = debug.Stack()
			}
		}
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll() // net/http does so only for its own copy
		}
		u.body.free()
		close(u.done)
	}()
	next.ServeHTTP(&u.capture, r)
	u.aborted = false
}

// renew keeps the claim ours while the handler runs.
func (u *run) renew() {
	err := u.g.once(func(ctx context.Context) error {
		return u.g.store.Extend(ctx, u.id, u.token, u.g.cfg.Lease, false)
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer == nil {
		return
	}
	switch {
	case err == nil:
		u.timer.Reset(u.g.cfg.Lease / 3)
	case errors.Is(err, ErrClaimLost):
		u.lost = true
		u.cancel(ErrClaimLost)
		u.log("claim-lost", 0, err)
	default:
		u.g.logger(slog.LevelWarn, "onceward: a lease was not renewed", "record", u.id.RecordID(), "error", err)
		u.timer.Reset(max(u.g.cfg.Lease/10, time.Millisecond))
	}
}

// stopRenewing ends the renewals and tells whether the claim was lost.
func (u *run) stopRenewing() (lost bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer != nil {
		u.timer.Stop()
		u.timer = nil
	}
	return u.lost
}

// settle ends the claim as the handler's answer asks, then sends that answer:
// the record is complete before the client sees a first byte.
func (u *run) settle() {
	defer u.cancel(nil)
	c := &u.capture
	switch {
	case u.aborted:
		u.release()
		c.buf.free()
		u.log(statusReleased, 0, fmt.Errorf("the handler panicked: %v", u.panicked))
		u.repanic()
	case c.silent() && u.Context.Err() != nil:
		// It obeyed its cancelled context and wrote nothing: that is no answer,
		// least of all an empty 200.
		cause := context.Cause(u.Context)
		u.release()
		if errors.Is(cause, errMaxRuntime) {
			u.refuse(fmt.Errorf("%w: %w", &busyError{http.StatusServiceUnavailable, 2 * time.Second}, cause))
		} else {
			u.refuse(fmt.Errorf("%w: %w", &busyError{http.StatusConflict, 2 * time.Second}, cause))
		}
	case c.silent():
		c.WriteHeader(http.StatusOK)
		fallthrough
	default:
		u.answer()
	}
}

func (u *run) answer() {
	c := &u.capture
	if !c.whole() {
		// The handler promised more than it wrote: the client will see a broken
		// transfer, and nothing of it is kept.
		u.release()
		u.log(statusReleased, c.code, errors.New("the answer is shorter than its Content-Length"))
		if c.early {
			panic(http.ErrAbortHandler)
		}
		c.finish(statusValue(statusReleased, u.key))
		return
	}
	if !stored(c.code) {
		u.release()
		c.finish(statusValue(statusReleased, u.key))
		u.log(statusReleased, c.code, nil)
		return
	}
	err := u.complete(c.response())
	if err == nil {
		c.finish(statusValue(statusExecuted, u.key))
		u.log(statusExecuted, c.code, nil)
		return
	}
	// The work is done and its answer is true, whether it is kept or not.
	c.finish(statusValue(statusExecuted+";unrecorded", u.key))
	if errors.Is(err, ErrClaimLost) {
		u.log("claim-lost", c.code, err)
	} else {
		u.log("unrecorded", c.code, err)
	}
}

// complete records the answer. When the store cannot, the attempt goes on
// behind the client's answer while the claim may still be ours; the claim is
// not released, for the work is done.
func (u *run) complete(resp *Response) error {
	record := func(ctx context.Context) error {
		return u.g.store.Complete(ctx, u.id, u.token, resp, u.g.cfg.Retention)
	}
	lost := u.stopRenewing()
	if lost {
		u.leave()
		return ErrClaimLost
	}
	err := u.g.once(record)
	if err == nil || errors.Is(err, ErrClaimLost) {
		u.leave()
		return err
	}
	_ = u.g.once(func(ctx context.Context) error { // time for the repeats
		return u.g.store.Extend(ctx, u.id, u.token, u.g.cfg.Lease, false)
	})
	u.g.later(record, func(err error) {
		u.leave()
		if err != nil {
			u.g.logger(slog.LevelError, "onceward: an answer was never recorded", "record", u.id.RecordID(), "error", err)
		}
	})
	return err
}

// release frees the key, so that the retry is a real one.
func (u *run) release() {
	u.stopRenewing()
	free := func(ctx context.Context) error { return u.g.store.Release(ctx, u.id, u.token) }
	if err := u.g.once(free); err != nil {
		u.g.later(free, func(error) { u.leave() })
		return
	}
	u.leave()
}

func (u *run) leave() { u.g.flights.leave(u.id, true) }

// settleDetached ends the claim of a handler whose client was told long ago
// that it still runs. Nothing it made was sent, so nothing of it is kept.
func (u *run) settleDetached() {
	u.release()
	u.cancel(nil)
	u.log(statusReleased, 0, errMaxRuntime)
	if u.stack != nil {
		u.g.logger(slog.LevelError, "onceward: a handler past MaxRuntime panicked", "record", u.id.RecordID(), "panic", u.panicked, "stack", string(u.stack))
	}
}

// earlyToken is the status of an answer that must go out before it can be
// completed. It is read at the answer's clean end only, and that waits for the
// completion.
func (u *run) earlyToken(code int) string {
	if stored(code) {
		return statusValue(statusExecuted, u.key)
	}
	return statusValue(statusReleased, u.key)
}

// repanic lets the panic go on where net/http expects it.
func (u *run) repanic() {
	if u.panicked == nil { // runtime.Goexit
		panic(http.ErrAbortHandler)
	}
	if u.stack != nil {
		u.g.logger(slog.LevelError, "onceward: a handler panicked", "record", u.id.RecordID(), "panic", u.panicked, "stack", string(u.stack))
	}
	panic(u.panicked)
}
