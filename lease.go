package onceward

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// lease is a claim that is ours while its work runs, be the work a handler's or
// a function's ([Do]). It is the context of that work: it shows MaxRuntime as its
// deadline and ends with the claim. The work has a goroutine of its own.
type lease struct {
	request
	lazyContext
	token     Token
	recording lazyContext // of the first Complete

	panicked any // what the work panicked with
	stack    []byte
	aborted  bool // it ended by panic or runtime.Goexit
	told     bool // its panic is in the log; guarded by life

	life    sync.Mutex  // guards what follows
	changed sync.Cond   // ended, over or left
	mark    mark        // what the work says of its answer
	ended   bool        // it has returned
	over    bool        // MaxRuntime has passed
	left    bool        // who called Do does not wait any more
	ending  bool        // its answer is being recorded
	settled bool        // no more renewals
	lost    bool        // the claim is another's
	timer   *time.Timer // the next renewal of the lease, or MaxRuntime
	expires time.Time   // when the lease is to be renewed again
}

// own makes the claim of rec this lease's.
func (u *lease) own(rec Record) {
	u.token, u.attempt = rec.Token, rec.Attempt
	// WithoutCancel alone is not enough: httputil.ReverseProxy watches the
	// connection by itself unless the context can be cancelled at all.
	u.parent, u.detached = u.r.Context(), !u.g.cfg.CancelWithClient
	u.changed.L = &u.life
}

// inside makes u the context of work in a transaction whose context is ctx.
func (u *lease) inside(ctx context.Context) {
	u.parent, u.enforced, u.deadline = ctx, true, time.Now().Add(u.g.cfg.MaxTransaction)
	if d, ok := ctx.Deadline(); ok && d.Before(u.deadline) {
		u.deadline = d
	}
	u.changed.L = &u.life
}

// begin starts the clocks: of the lease's renewal, and of MaxRuntime.
func (u *lease) begin() {
	cfg, now := &u.g.cfg, time.Now()
	u.deadline = now.Add(cfg.MaxRuntime)
	u.expires = now.Add(cfg.Lease / 3)
	u.life.Lock()
	defer u.life.Unlock()
	u.timer = time.AfterFunc(min(cfg.Lease/3, cfg.MaxRuntime), u.tick)
}

// caught keeps what the work panicked with.
func (u *lease) caught(panicked any) {
	if u.panicked = panicked; panicked != nil && panicked != http.ErrAbortHandler {
		u.stack = debug.Stack()
	}
}

// end tells that the work has returned.
func (u *lease) end() {
	u.life.Lock()
	defer u.life.Unlock()
	u.ended = true
	u.changed.Broadcast()
}

// Value lets MarkFinal and MarkTransient find the run.
func (u *lease) Value(key any) any {
	if _, ok := key.(marked); ok {
		return u
	}
	return u.lazyContext.Value(key)
}

// waitUntil waits for one of ended, over and left; u.life is held when it is asked.
func (u *lease) waitUntil(it func() bool) {
	u.life.Lock()
	defer u.life.Unlock()
	for !it() {
		u.changed.Wait()
	}
}

func (u *lease) wait() { u.waitUntil(func() bool { return u.ended }) }

// tick renews the lease when it is due and tells when MaxRuntime has passed.
func (u *lease) tick() {
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
func (u *lease) renew() time.Duration {
	err := u.g.once(func(ctx context.Context) error {
		return u.g.store.Extend(ctx, u.id, u.token, u.g.cfg.Lease, false)
	})
	u.life.Lock()
	defer u.life.Unlock()
	switch {
	case err == nil || u.settled || u.ending && errors.Is(err, ErrClaimLost):
		return u.g.cfg.Lease / 3 // what was recorded meanwhile has no lease
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
func (u *lease) stopRenewing() (lost bool) {
	u.life.Lock()
	defer u.life.Unlock()
	u.settled = true
	u.timer.Stop()
	return u.lost
}

// complete records the answer. When the store cannot, the attempt goes on
// behind the client's answer while the claim may still be ours; the claim is
// not released, for the work is done.
func (u *lease) complete(resp *Response) error {
	u.life.Lock()
	lost := u.lost
	u.ending = true // the lease stays renewed: the store may take longer than it lasts
	u.life.Unlock()
	if lost {
		u.stopRenewing()
		u.leave()
		return ErrClaimLost
	}
	u.g.bound(&u.recording, u.r)
	err := u.g.store.Complete(&u.recording, u.id, u.token, resp, u.g.cfg.kept())
	u.recording.cancel(nil)
	u.stopRenewing()
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

// abandon ends a claim without an answer that is kept: the key is freed, so that the
// retry is a real one, or held where nobody may retry. code is the answer's, 0
// where there is none. It returns what is said of it.
func (u *lease) abandon(code int) (token string) {
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

func (u *lease) leave() { u.g.flights.ran(u.id) }

// expire tells that the handler's time is over.
func (u *lease) expire() {
	u.life.Lock()
	defer u.life.Unlock()
	u.over = true
	u.changed.Broadcast()
}

// repanic lets the panic go on where net/http expects it.
func (u *lease) repanic() {
	if u.panicked == nil { // runtime.Goexit
		panic(http.ErrAbortHandler)
	}
	if u.stack != nil {
		u.tellPanic()
	}
	panic(u.panicked)
}

// within runs work on a goroutine of its own until it ends or its transaction's time
// is over. ended false: it is told to stop, and nobody hears what it makes.
func (u *lease) within(work func()) (ended bool) {
	u.g.flights.begin() // Close waits for work that outlives its transaction
	u.life.Lock()
	u.timer = time.AfterFunc(time.Until(u.deadline), u.expire)
	u.life.Unlock()
	go func() {
		defer u.g.flights.end()
		work()
		if u.overdue() {
			u.tellLostPanic()
		}
	}()
	u.waitUntil(func() bool { ended = u.ended; return u.ended || u.over })
	u.timer.Stop()
	if !ended {
		u.happened(EventOverran, errMaxTransaction)
		u.cancel(errMaxTransaction)
	}
	return ended
}

// tellLostPanic logs the panic of work that is given up. It is called when it is
// given up and when it has ended, whichever comes last finds something to tell.
func (u *lease) tellLostPanic() {
	u.life.Lock()
	tell := u.ended && u.stack != nil && !u.told
	u.told = u.told || tell
	u.life.Unlock()
	if tell {
		u.tellPanic()
	}
}

// overdue reports whether the work ran into its limit.
func (u *lease) overdue() bool {
	u.life.Lock()
	defer u.life.Unlock()
	return u.over
}

// tellPanic logs a panic that nobody can be given any more.
func (u *lease) tellPanic() {
	u.g.logger(slog.LevelError, "onceward: a handler panicked", "record", u.id.RecordID(), "panic", u.panicked, "stack", string(u.stack))
}
