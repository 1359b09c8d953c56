package operation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/onceward/onceward"
)

// Work does one job. It obeys ctx, which ends with the job's time or with the
// runner. A [*Failure] is what the owner is told; any other error is told as
// [FailedSilently] and logged.
type Work func(ctx context.Context, job Job) (Result, error)

// LocalConfig tunes a [Local]. The zero value is usable.
type LocalConfig struct {
	// Running is how many works run at one time; others wait. Zero means as many as
	// there are processors.
	Running int
	// Timeout bounds a work, from its beginning. Zero means 15 min.
	Timeout time.Duration
	// Retention is how long a finished operation is remembered. It should be no
	// shorter than the guard's. Zero means 24 h.
	Retention time.Duration
	// Kept is how many operations are remembered at most; beyond that Submit fails
	// until some are forgotten. Zero means 10 000.
	Kept int
	// Logger is told where each work begins and how it ends, under the id of the record
	// that the request has in the guard's log, with the error whose text its owner does
	// not see. Nil means none.
	Logger *slog.Logger
}

// Local is a [Runner] that does its work in goroutines of this process, and an
// honest one: what it knows dies with the process. With [Config.Records] on a store
// that does not, the status of an operation from before a restart is unknown, and
// its repeat begins nothing. Without, there is no such operation, and a guard whose
// store died too begins it anew.
//
// Its work begins at once. Use it under onceward.Guard.Handler and not under Atomic:
// a transaction that is rolled back does not undo it.
type Local struct {
	works map[string]Work
	cfg   LocalConfig
	slots chan struct{}
	ctx   context.Context
	stop  context.CancelFunc

	mu     sync.Mutex // guards what follows
	closed bool
	known  map[onceward.Key]*local
	swept  time.Time
	all    sync.WaitGroup
}

// local is one operation of a Local.
type local struct {
	op          Operation // guarded by Local.mu
	fingerprint onceward.Fingerprint
	done        chan struct{} // closed when op is no longer pending
}

var (
	_ Runner             = (*Local)(nil)
	_ Waiter             = (*Local)(nil)
	_ onceward.Forgetter = (*Local)(nil)
)

// NewLocal returns a runner that knows these works by their kinds. The caller ends it
// with Close.
func NewLocal(works map[string]Work, cfg LocalConfig) (*Local, error) {
	if cfg.Running < 0 || cfg.Timeout < 0 || cfg.Retention < 0 || cfg.Kept < 0 {
		return nil, errors.New("onceward: operation.NewLocal: nothing in LocalConfig can be negative")
	}
	if cfg.Running == 0 {
		cfg.Running = runtime.GOMAXPROCS(0)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 15 * time.Minute
	}
	if cfg.Retention == 0 {
		cfg.Retention = 24 * time.Hour
	}
	if cfg.Kept == 0 {
		cfg.Kept = 10_000
	}
	l := &Local{works: make(map[string]Work, len(works)), cfg: cfg, slots: make(chan struct{}, cfg.Running), known: map[onceward.Key]*local{}}
	for kind, work := range works {
		if work == nil {
			return nil, fmt.Errorf("onceward: operation.NewLocal: the work %q is nil", kind)
		}
		l.works[kind] = work
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l, nil
}

// Close cancels what runs, waits for it as long as ctx allows, and refuses further
// jobs. What has not begun never does.
func (l *Local) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	ended := make(chan struct{})
	go func() { l.all.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("onceward: operation: close: %w", context.Cause(ctx))
	}
}

// Submit implements [Runner].
func (l *Local) Submit(_ context.Context, job Job) (Operation, error) {
	work := l.works[job.Kind]
	if work == nil {
		return Operation{}, fmt.Errorf("onceward: operation: there is no work of kind %q", job.Kind)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.known[job.Key]; known != nil && !l.over(known) {
		if err := SameRequest(known.fingerprint, job.Fingerprint); err != nil {
			return Operation{}, err
		}
		return known.op, nil
	}
	if l.closed {
		return Operation{}, errors.New("onceward: operation: the runner is closed")
	}
	l.sweep()
	if len(l.known) >= l.cfg.Kept {
		return Operation{}, fmt.Errorf("onceward: operation: %d operations are remembered, there is no room for another", len(l.known))
	}
	n := &local{op: Operation{Key: job.Key, Kind: job.Kind, State: Pending, Created: time.Now()}, fingerprint: job.Fingerprint, done: make(chan struct{})}
	l.known[job.Key] = n
	l.all.Go(func() { l.run(n, work, job) })
	return n.op, nil
}

// SameRequest compares the fingerprints of two jobs of one key, for a [Runner]: nil
// if they are equal or one is zero, else an error that wraps onceward.ErrKeyReused.
// Of two versions nobody can tell, and the error wraps onceward.ErrUnavailable.
func SameRequest(known, next onceward.Fingerprint) error {
	var none onceward.Fingerprint
	switch {
	case known == next || known == none || next == none:
		return nil
	case known.Version != next.Version:
		return fmt.Errorf("%w: the operation has fingerprint version %d", onceward.ErrUnavailable, known.Version)
	}
	return fmt.Errorf("%w: there is an operation of this key", onceward.ErrKeyReused)
}

// run waits for a slot and does the work.
func (l *Local) run(n *local, work Work, job Job) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-l.ctx.Done():
		l.finish(n, time.Now(), Result{}, context.Cause(l.ctx))
		return
	}
	begun := time.Now()
	l.tell(slog.LevelInfo, "onceward: an operation begins", n)
	ctx, cancel := context.WithTimeout(l.ctx, l.cfg.Timeout)
	defer cancel()
	result, err := Result{}, errors.New("the work called runtime.Goexit")
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the work panicked: %v\n%s", p, debug.Stack())
		}
		l.finish(n, begun, result, err)
	}()
	result, err = work(ctx, job)
}

func (l *Local) finish(n *local, begun time.Time, result Result, err error) {
	l.mu.Lock()
	n.op.Finished = time.Now()
	n.op.State, n.op.Result = Complete, result
	switch {
	case err != nil && l.ctx.Err() != nil:
		n.op.State, n.op.Result = Unknown, Result{} // it may have been in the middle
	case err != nil:
		f := FailureOf(err)
		n.op.State, n.op.Result, n.op.Failure = Failed, Result{}, &f
	}
	state, took := n.op.State, n.op.Finished.Sub(begun)
	close(n.done)
	l.mu.Unlock()
	args := []any{"outcome", string(state), "ms", float64(took.Microseconds()) / 1000}
	level := slog.LevelInfo
	if err != nil {
		level, args = slog.LevelError, append(args, "error", err)
	}
	l.tell(level, "onceward: an operation ended", n, args...)
}

// tell writes a line of an operation's story, which one grep finds behind its request's.
func (l *Local) tell(level slog.Level, msg string, n *local, args ...any) {
	if l.cfg.Logger != nil {
		l.cfg.Logger.Log(context.Background(), level, msg, append([]any{"record", n.op.Key.RecordID(), "kind", n.op.Kind}, args...)...)
	}
}

// over tells whether a finished operation counts as forgotten.
func (l *Local) over(n *local) bool {
	return n.op.State != Pending && time.Since(n.op.Finished) > l.cfg.Retention
}

// sweep forgets what is over, once a minute at most, since it looks at all of them.
func (l *Local) sweep() {
	if len(l.known) < l.cfg.Kept && time.Since(l.swept) < time.Minute {
		return
	}
	l.swept = time.Now()
	for key, n := range l.known {
		if l.over(n) {
			delete(l.known, key)
		}
	}
}

// Look implements [Runner].
func (l *Local) Look(_ context.Context, key onceward.Key) (Operation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.known[key]
	if n == nil || l.over(n) {
		return Operation{}, ErrNotFound
	}
	return n.op, nil
}

// Wait implements [Waiter].
func (l *Local) Wait(ctx context.Context, key onceward.Key) (Operation, error) {
	l.mu.Lock()
	n := l.known[key]
	l.mu.Unlock()
	if n != nil {
		select {
		case <-n.done:
		case <-ctx.Done():
		}
	}
	return l.Look(ctx, key)
}

// Forget implements [onceward.Forgetter]: nobody can ask for the scope's operations
// any more. What runs goes on to its end.
func (l *Local) Forget(_ context.Context, scope [32]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.known {
		if key.Scope == scope {
			delete(l.known, key)
		}
	}
	return nil
}
