package onceward

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Observer is told what a [Guard] does, as it happens: for metrics, traces and
// alarms. Package telemetry makes one for OpenTelemetry. It never learns a key or
// a payload: of a key there is what the log has, its hash.
//
// Functions that are nil are not called, and what nobody observes costs nothing.
// They are called from many goroutines at once, in the middle of the work, so they
// are to be quick and may not call the guard. One that panics is recovered and
// logged, and the request goes on as if it had not been called.
//
// ctx is the request's, without its end, where there is a request: a span in it is
// the request's own. It may be called long after the answer.
type Observer struct {
	// Decided is called for every decision, beside its line in the log.
	Decided func(ctx context.Context, d Decision)
	// Called is called after every call of the store. With it unset nothing is
	// measured. It is that of the Config that [New] was given, also for a Guard that
	// [Guard.With] has made.
	Called func(ctx context.Context, c StoreCall)
	// Began and Ended are called around every run of a handler under a claim, on its
	// goroutine: the difference is what is in flight.
	Began, Ended func(ctx context.Context)
	// Happened is called for what is no decision about a request.
	Happened func(ctx context.Context, e Event)
}

// Decision is what was decided about one request. A request has one, and a second
// where the first was not the end: a claim that is lost while the handler runs, a
// handler that returns after its client was told that it still runs.
type Decision struct {
	Key     Key    // the zero Key where none was read
	Outcome string // the log's; empty where the guard decided nothing
	Method  string
	Path    string
	// Route is the pattern of the [http.ServeMux] that was last passed, or the Name of a
	// [Call]; empty where none is known, as for a request that met the guard before any.
	Route string
	// Status is the answer's; 0 where no answer came with the decision: a claim lost,
	// a panic, a handler that returns too late to be heard, a request that runs
	// unguarded.
	Status  int
	Took    time.Duration // since the request came
	Attempt int           // as Record.Attempt; 0 where nothing ran
	Err     error         // why; nil where all is as it should be
}

// StoreCall is one call of the store.
type StoreCall struct {
	// Operation is claim, extend, complete, release, transact, look, forget or sweep.
	Operation string
	// Took is how long it took. Of transact it is without the handler's own time.
	Took time.Duration
	// Err is what it returned. [ErrClaimLost] is an answer, not a failure.
	Err error
}

// Event is what happened besides decisions.
type Event struct {
	Kind    EventKind
	Key     Key   // the zero Key where it concerns none
	Attempt int   // of EventClaimed
	Count   int   // how many; of all but EventSwept 1
	Err     error // why; may be nil
}

// EventKind says what happened.
type EventKind string

// What happens besides decisions.
const (
	EventClaimed       EventKind = "claimed"        // a key was taken, and its handler begins; not under Atomic, which claims at the end
	EventLeaseLost     EventKind = "lease-lost"     // a claim is another's, while its handler ran or when it had ended
	EventRenewalFailed EventKind = "renewal-failed" // a lease could not be renewed in time; it is tried again
	EventRecordedLate  EventKind = "recorded-late"  // an answer that went out unrecorded is recorded now
	EventNeverRecorded EventKind = "never-recorded" // … was never recorded
	EventOverran       EventKind = "overran"        // a handler ran into MaxRuntime or MaxTransaction
	EventUnguarded     EventKind = "unguarded"      // FailOpen: a request runs without its claim
	EventSwept         EventKind = "swept"          // records that were absent are deleted
)

// survive keeps an observer's panic from the request. It is deferred around each
// call of one.
func (c *Config) survive() {
	if p := recover(); p != nil && c.Logger != nil {
		c.Logger.Error("onceward: the observer panicked", "panic", p, "stack", string(debug.Stack()))
	}
}

// observe tells the observer of a decision.
func (q *request) observe(outcome string, status int, err error) {
	told := q.g.cfg.Observer.Decided
	if told == nil {
		return
	}
	defer q.g.cfg.survive()
	route := q.r.Pattern
	if seen := q.route.Load(); seen != nil {
		route = *seen
	}
	told(context.WithoutCancel(q.r.Context()), Decision{
		Key: q.id, Outcome: outcome, Method: q.r.Method, Path: q.r.URL.Path, Route: route,
		Status: status, Took: time.Since(q.start), Attempt: q.attempt, Err: err,
	})
}

// happened tells the observer of an event about the request's key.
func (q *request) happened(kind EventKind, err error) {
	if q.g.cfg.Observer.Happened != nil {
		q.g.happened(context.WithoutCancel(q.r.Context()), Event{Kind: kind, Key: q.id, Attempt: q.attempt, Count: 1, Err: err})
	}
}

func (g *Guard) happened(ctx context.Context, e Event) {
	if told := g.cfg.Observer.Happened; told != nil {
		defer g.cfg.survive()
		told(ctx, e)
	}
}

// claimed is the first line of a run's story. Without it a process that dies in
// the middle would leave none.
func (u *lease) claimed() {
	u.happened(EventClaimed, nil)
	if l := u.g.cfg.Logger; l != nil {
		l.LogAttrs(context.WithoutCancel(u.r.Context()), slog.LevelInfo, "onceward: claimed",
			slog.String("record", u.id.RecordID()), slog.String("scope", u.id.ScopeID()),
			slog.String("method", u.r.Method), slog.String("path", u.r.URL.Path), slog.Int("attempt", u.attempt))
	}
}

// settledLate ends the story of an answer that went out before it was recorded.
func (u *lease) settledLate(err error) {
	if err != nil {
		u.happened(EventNeverRecorded, err)
		u.g.logger(slog.LevelError, "onceward: an answer was never recorded", "record", u.id.RecordID(), "error", err)
		return
	}
	u.happened(EventRecordedLate, nil)
	u.g.logger(slog.LevelInfo, "onceward: an answer was recorded late", "record", u.id.RecordID())
}

// began and finished stand around a handler, on its goroutine.
func (u *lease) began() {
	if told := u.g.cfg.Observer.Began; told != nil {
		defer u.g.cfg.survive()
		told(context.WithoutCancel(u.r.Context()))
	}
}

// finished also notes the pattern of a ServeMux inside the guard, which writes it
// to the request that it is given.
func (u *lease) finished(pattern string) {
	o := &u.g.cfg.Observer
	if o.Decided != nil && pattern != "" {
		route := pattern // a variable of its own, or it would be allocated for nobody
		u.route.Store(&route)
	}
	if o.Ended != nil {
		defer u.g.cfg.survive()
		o.Ended(context.WithoutCancel(u.r.Context()))
	}
}

// watched is a store whose calls are observed. It has no powers of its own: they
// are found by [power], on the store within.
type watched struct {
	Store
	cfg *Config
}

// watch returns a store that tells c's observer of its calls, or the store itself
// where nobody asks.
func (c *Config) watch(store Store) Store {
	if c.Observer.Called == nil {
		return store
	}
	return &watched{store, c}
}

// power finds an optional power of a store that may be watched.
func power[P any](store Store) (P, bool) {
	p, ok := unwatched(store).(P)
	return p, ok
}

func unwatched(store Store) Store {
	if w, ok := store.(*watched); ok {
		return w.Store
	}
	return store
}

// called tells the observer of a call that began at start. It is used where there
// is one alone.
func (c *Config) called(ctx context.Context, operation string, took time.Duration, err error) {
	if told := c.Observer.Called; told != nil {
		defer c.survive()
		told(context.WithoutCancel(ctx), StoreCall{operation, took, err})
	}
}

// put is the call of Transact. The handler's time is its own, and so are its
// failures.
func (t *transaction) put(ctx context.Context, c Claim, work func(context.Context) (Verdict, *Response, error)) (Record, bool, error) {
	if t.g.cfg.Observer.Called == nil {
		return t.store.Transact(ctx, c, work)
	}
	var inside atomic.Int64
	var failed atomic.Bool
	start := time.Now()
	rec, ran, err := t.store.Transact(ctx, c, func(ctx context.Context) (Verdict, *Response, error) {
		began := time.Now()
		verdict, resp, err := work(ctx)
		inside.Add(int64(time.Since(began)))
		failed.Store(err != nil)
		return verdict, resp, err
	})
	took, cause := time.Since(start)-time.Duration(inside.Load()), err
	if failed.Load() {
		cause = nil
	}
	t.g.cfg.called(ctx, "transact", took, cause)
	return rec, ran, err
}

// sweepOnce is one call of Sweep, observed and logged.
func (g *Guard) sweepOnce(s Sweeper, limit int) (n int) {
	var keys []Key
	teller, tells := s.(KeySweeper)
	tells = tells && g.cfg.Logger != nil && g.cfg.Logger.Enabled(context.Background(), slog.LevelDebug)
	err := g.once(func(ctx context.Context) (err error) {
		start := time.Now()
		if tells {
			keys, err = teller.SweepKeys(ctx, limit)
			n = len(keys)
		} else {
			n, err = s.Sweep(ctx, limit)
		}
		g.cfg.called(ctx, "sweep", time.Since(start), err)
		return err
	})
	for _, key := range keys {
		g.logger(slog.LevelDebug, "onceward: swept", "record", key.RecordID(), "scope", key.ScopeID())
	}
	if n > 0 {
		g.happened(context.Background(), Event{Kind: EventSwept, Count: n})
	}
	if err != nil {
		g.logger(slog.LevelWarn, "onceward: sweep failed", "error", err)
	}
	return n
}

func (w *watched) Claim(ctx context.Context, c Claim) (Record, bool, error) {
	start := time.Now()
	rec, claimed, err := w.Store.Claim(ctx, c)
	w.cfg.called(ctx, "claim", time.Since(start), err)
	return rec, claimed, err
}

func (w *watched) Extend(ctx context.Context, key Key, tok Token, lease time.Duration, hold bool) error {
	start := time.Now()
	err := w.Store.Extend(ctx, key, tok, lease, hold)
	w.cfg.called(ctx, "extend", time.Since(start), err)
	return err
}

func (w *watched) Complete(ctx context.Context, key Key, tok Token, resp *Response, retain time.Duration) error {
	start := time.Now()
	err := w.Store.Complete(ctx, key, tok, resp, retain)
	w.cfg.called(ctx, "complete", time.Since(start), err)
	return err
}

func (w *watched) Release(ctx context.Context, key Key, tok Token) error {
	start := time.Now()
	err := w.Store.Release(ctx, key, tok)
	w.cfg.called(ctx, "release", time.Since(start), err)
	return err
}
