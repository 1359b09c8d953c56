package onceward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
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
	lease
	capture  capture
	next     http.Handler
	seen     http.Request // what the guard still reads while the handler may change its own
	place    url.URL      // seen's
	asked    [len(answerForm)][]string
	keepBody func() // called in place of freeing the body; nil: it is this run's
}

// execute runs next and answers with what it made of the request.
func (u *run) execute(next http.Handler, rec Record) {
	cfg := &u.g.cfg
	u.next = next
	u.own(rec)
	u.claimed()
	u.capture.init(u.w, cfg.MaxResponse, &u.g.spool)
	u.capture.tokenFor = u
	u.capture.unframed = !u.r.ProtoAtLeast(1, 1)
	r := u.handlers()
	u.begin()

	go u.handle(r)

	u.life.Lock()
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
				u.wait()
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
		u.wait()
	}
	u.settle()
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
			u.caught(recover())
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
		u.end()
	}()
	u.next.ServeHTTP(&u.capture, r)
	u.aborted = false
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
		token := u.abandon(0)
		c.buf.free()
		u.log(token, 0, fmt.Errorf("the handler panicked: %v", u.panicked))
		u.panicOn(token)
	case c.code == 0:
		// It obeyed its cancelled context and wrote nothing: that is no answer,
		// least of all an empty 200.
		cause := context.Cause(u)
		if u.abandon(0) == statusUnknown {
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
		token := u.abandon(0)
		u.log(token, c.code, errors.New("the answer is shorter than its Content-Length"))
		if c.early {
			panic(http.ErrAbortHandler)
		}
		c.finish(statusValue(token, u.key))
		return
	}
	if !u.keeps(c.code) {
		token := u.abandon(c.code)
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

// settleDetached ends the claim of a handler whose client was told long ago
// that it still runs. Nothing it made was sent, so nothing of it is kept.
func (u *run) settleDetached() {
	token := u.abandon(0)
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

// panicOn lets the handler's panic go on. Whatever recovers from it outside answers
// with what w had before, and tells what became of the key. Of an answer that is
// half out it must not make a whole one, so that is cut off.
func (u *run) panicOn(token string) {
	c := &u.capture
	if c.early {
		if u.stack != nil {
			u.tellPanic()
		}
		panic(http.ErrAbortHandler)
	}
	c.takeBack()
	c.w.Header()[StatusHeader] = []string{statusValue(token, u.key)}
	u.repanic()
}
