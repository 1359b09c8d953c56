package riveroperation

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
)

// Work does one job, or says how: what takes long it does itself, outside of any
// transaction; what it writes into the database it returns as [Outcome.Write]. It may
// be called again for the same job, after an error or the death of a worker, and must
// obey ctx. An *operation.Failure is final and is what the owner is told; after any
// other error River tries again, until the job's attempts are used up.
type Work[TTx any] func(ctx context.Context, job operation.Job) (Outcome[TTx], error)

// Outcome is how a work ends.
type Outcome[TTx any] struct {
	// Result is what the status shows of it.
	Result operation.Result
	// Write puts the work's effect into the database, in the transaction that makes
	// the operation complete: once, however often the work was done. If it fails the
	// operation is not complete, and its error is the work's. It should be quick. Nil:
	// there is nothing to write.
	Write func(ctx context.Context, tx TTx) error
}

// args is a job of ours in River's table: which operation it belongs to. What the work
// needs to know is in the operation's row, where it can be forgotten.
type args struct {
	Scope string `json:"scope"`
	ID    string `json:"id"`
	kind  string
}

func argsOf(kind string, key onceward.Key) args {
	return args{Scope: hex.EncodeToString(key.Scope[:]), ID: hex.EncodeToString(key.ID[:]), kind: kind}
}

// Kind implements river.JobArgs.
func (a args) Kind() string { return kindPrefix + a.kind }

const kindPrefix = "operation."

func (a args) key() (key onceward.Key, err error) {
	for _, part := range []struct {
		to   []byte
		text string
	}{{key.Scope[:], a.Scope}, {key.ID[:], a.ID}} {
		if n, err := hex.Decode(part.to, []byte(part.text[:min(len(part.text), 64)])); err != nil || n != 32 {
			return key, errors.New("riveroperation: the job names no operation")
		}
	}
	return key, nil
}

// worker is River's view of a work.
type worker[TTx any] struct {
	river.WorkerDefaults[args]
	runner *Runner[TTx]
	work   Work[TTx]
}

var (
	errForgotten = errors.New("riveroperation: the operation was forgotten")
	errEnded     = errors.New("riveroperation: somebody else has ended the operation")
)

// Work implements river.Worker.
func (w *worker[TTx]) Work(ctx context.Context, job *river.Job[args]) error {
	r := w.runner
	key, err := job.Args.key()
	if err != nil {
		return river.JobCancel(err)
	}
	try := &try{log: r.told(key, job.ID, strings.TrimPrefix(job.Kind, kindPrefix)).With("attempt", job.Attempt), start: time.Now()}
	found, ok, err := r.table.load(ctx, r.db.Pool(), key)
	switch {
	case err != nil:
		try.ended(slog.LevelWarn, "not-begun", err)
		return err
	case !ok:
		try.ended(slog.LevelInfo, "forgotten", nil)
		return river.JobCancel(errForgotten)
	case found.state != operation.Pending:
		try.ended(slog.LevelInfo, "ended-before", nil)
		return nil // done by one who was believed dead, or done but for River's own row
	}
	try.log.Info("riveroperation: a try begins")
	defer r.woken.wake(key)
	panicked, err := r.attempt(ctx, w.work, job, operation.Job{Key: key, Fingerprint: found.fingerprint, Kind: found.kind, Input: found.input})
	if panicked != nil {
		try.ended(slog.LevelError, "panicked", fmt.Errorf("%v\n%s", panicked.value, panicked.stack))
		if job.Attempt >= job.MaxAttempts {
			_ = r.fail(ctx, key, operation.FailedSilently)
		}
		panic(panicked.value) // River sees to it
	}
	switch {
	case err == nil:
		try.ended(slog.LevelInfo, "complete", nil)
		return nil
	case errors.Is(err, errEnded):
		try.ended(slog.LevelInfo, "ended-by-another", nil)
		return nil
	case errors.Is(err, errForgotten):
		try.ended(slog.LevelInfo, "forgotten", nil)
		return river.JobCancel(errForgotten)
	case r.stopping.Load():
		try.ended(slog.LevelInfo, "given-back", err)
		return river.JobSnooze(0) // not the work's fault
	}
	final := errors.As(err, new(*operation.Failure))
	failure := operation.FailureOf(err)
	if errors.Is(context.Cause(ctx), river.ErrJobCancelledRemotely) {
		final, failure = true, operation.Cancelled
	}
	if final || job.Attempt >= job.MaxAttempts {
		try.ended(slog.LevelWarn, "failed", err)
		// Should this fail, River's row says the same.
		if err := r.fail(ctx, key, failure); err != nil {
			r.cfg.Logger.Warn("riveroperation: a failure was not written down", "record", key.RecordID(), "error", err)
		}
	} else {
		try.ended(slog.LevelWarn, "to-be-tried-again", err)
	}
	if final {
		return river.JobCancel(err)
	}
	return err
}

// errExited is a work that ended its goroutine, as testing.T.FailNow does.
var errExited = errors.New("riveroperation: the work called runtime.Goexit")

type panicked struct {
	value any
	stack []byte
}

// attempt does the work and writes its effect, on a goroutine of its own: with that of
// River's a work that ends it would take away a worker for good, and the job would
// count as running.
func (r *Runner[TTx]) attempt(ctx context.Context, work Work[TTx], job *river.Job[args], what operation.Job) (p *panicked, err error) {
	err = errExited
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if value := recover(); value != nil {
				p = &panicked{value, debug.Stack()}
			}
		}()
		done, problem := work(ctx, what)
		if problem == nil {
			problem = r.complete(ctx, job, what.Key, done)
		}
		err = problem
	}()
	<-ended
	return p, err
}

// try is one try of a job, for the log: two lines that grep of the record's id finds
// behind the request's own.
type try struct {
	log   *slog.Logger
	start time.Time
}

// told is the log for one operation: a line of it has the name of the record under which
// the guard has logged the request.
func (r *Runner[TTx]) told(key onceward.Key, job int64, kind string) *slog.Logger {
	return r.cfg.Logger.With("record", key.RecordID(), "operation", operation.Operation{Key: key}.ID(), "job", job, "kind", kind)
}

// ended writes what became of it, in one word.
func (t *try) ended(level slog.Level, outcome string, err error) {
	all := []any{"outcome", outcome, "ms", float64(time.Since(t.start).Microseconds()) / 1000}
	if err != nil {
		all = append(all, "error", err)
	}
	t.log.Log(context.Background(), level, "riveroperation: a try ended", all...)
}

// complete is the one transaction in which the work's effect, its result and the
// job's end are written.
func (r *Runner[TTx]) complete(ctx context.Context, job *river.Job[args], key onceward.Key, done Outcome[TTx]) error {
	o := outcome{Value: done.Result.Value, Location: done.Result.Location}
	return r.db.InTx(ctx, func(tx TTx) error {
		// First, because it locks the row: whoever else is here waits, and finds the
		// operation ended.
		ours, err := r.table.end(ctx, r.db.Tx(tx), key, operation.Complete, o)
		if err != nil {
			return err
		}
		if !ours {
			if _, there, err := r.table.load(ctx, r.db.Tx(tx), key); err == nil && !there {
				return errForgotten
			}
			return errEnded
		}
		if done.Write != nil {
			if err := done.Write(ctx, tx); err != nil {
				return fmt.Errorf("riveroperation: writing the effect of operation %s: %w", key.RecordID(), err)
			}
		}
		// If River has given the job to somebody else meanwhile this changes nothing,
		// and that one finds the operation ended.
		_, err = river.JobCompleteTx[riverdriver.Driver[TTx]](ctx, tx, job)
		if errors.Is(err, river.ErrNotFound) {
			err = nil
		}
		return err
	})
}

// fail makes the operation failed, if it is still pending. The work's own time may be
// over.
func (r *Runner[TTx]) fail(ctx context.Context, key onceward.Key, f operation.Failure) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return r.db.InTx(ctx, func(tx TTx) error {
		_, err := r.table.end(ctx, r.db.Tx(tx), key, operation.Failed, outcome{Type: f.Type, Title: f.Title, Detail: f.Detail})
		return err
	})
}

// waiters are those in this process who wait for an operation.
type waiters struct {
	mu sync.Mutex
	at map[onceward.Key]*waiter // guarded by mu
}

type waiter struct {
	n    int
	done chan struct{}
}

// wait returns a channel that is closed when the operation may have ended.
func (w *waiters) wait(key onceward.Key) (done <-chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.at[key]
	if at == nil {
		at = &waiter{done: make(chan struct{})}
		w.at[key] = at
	}
	at.n++
	return at.done, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if at.n--; at.n == 0 && w.at[key] == at {
			delete(w.at, key)
		}
	}
}

func (w *waiters) wake(key onceward.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.at[key]; at != nil {
		close(at.done)
		delete(w.at, key)
	}
}
