package riveroperation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
)

// Config is what a [Runner] does, and how. Works is required.
type Config[TTx any] struct {
	// Works are what can be asked for, by kind. A kind is 1 to 60 of a–z, 0–9, _ and -,
	// and begins with a letter. River knows it as "operation." and the kind.
	Works map[string]Work[TTx]
	// River is the client's configuration. The works are added to its Workers. Without
	// Queues this process accepts work and leaves it to others. Its Logger is Logger by
	// default.
	River river.Config
	// Insert tells, if it is set, how River is to run a job: its queue, its priority,
	// its attempts. Nil means River's defaults.
	Insert func(job operation.Job) *river.InsertOpts
	// Retention is how long a finished operation is remembered, with its input and its
	// result. Zero means 7 days.
	Retention time.Duration
	// SweepEvery is the mean time between sweeps while the runner works. Zero means 10
	// min; negative: never.
	SweepEvery time.Duration
	// Logger is told of each try of a job, where it begins and how it ends, under the
	// id of the record that the request has in the guard's log; of sweeps that fail;
	// and is River's. Nil means none.
	Logger *slog.Logger
}

// Runner implements operation.Runner and operation.Waiter on River, and
// onceward.Forgetter. It is safe for concurrent use.
type Runner[TTx any] struct {
	db     Database[TTx]
	table  table
	cfg    Config[TTx]
	client *river.Client[TTx]
	woken  waiters

	mu       sync.Mutex // guards what follows
	started  bool
	stop     context.CancelFunc
	swept    chan struct{}
	stopping atomic.Bool
}

var _ interface {
	operation.Runner
	operation.Waiter
	onceward.Forgetter
} = (*Runner[any])(nil)

var kindPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,59}$`)

// Migrate makes River's tables and ours, or brings them up to date. As with River's
// own migrations one process at a time may do so.
func Migrate[TTx any](ctx context.Context, db Database[TTx]) error {
	migrator, err := rivermigrate.New(db.Driver(), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("riveroperation: migrate: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("riveroperation: migrate River: %w", err)
	}
	err = db.InTx(ctx, func(tx TTx) error {
		for _, text := range db.Tables() {
			if _, err := db.Tx(tx).Exec(ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("riveroperation: migrate: %w", err)
	}
	return nil
}

// New returns a runner on a database that [Migrate] has seen. It starts nothing.
func New[TTx any](db Database[TTx], cfg Config[TTx]) (*Runner[TTx], error) {
	switch {
	case db == nil:
		return nil, errors.New("riveroperation: New needs a database")
	case len(cfg.Works) == 0:
		return nil, errors.New("riveroperation: Config.Works is empty")
	case cfg.Retention < 0:
		return nil, fmt.Errorf("riveroperation: Config.Retention is negative: %v", cfg.Retention)
	}
	if cfg.Retention == 0 {
		cfg.Retention = 7 * 24 * time.Hour
	}
	if cfg.SweepEvery == 0 {
		cfg.SweepEvery = 10 * time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.River.Logger == nil {
		cfg.River.Logger = cfg.Logger
	}
	if cfg.River.Workers == nil {
		cfg.River.Workers = river.NewWorkers()
	}
	cfg.Works = maps.Clone(cfg.Works)
	r := &Runner[TTx]{db: db, table: newTable(db.Now()), cfg: cfg, woken: waiters{at: map[onceward.Key]*waiter{}}}
	for _, kind := range slices.Sorted(maps.Keys(cfg.Works)) {
		if !kindPattern.MatchString(kind) || cfg.Works[kind] == nil {
			return nil, fmt.Errorf("riveroperation: Config.Works has %q, which is no kind or has no work", kind)
		}
		river.AddWorkerArgs(cfg.River.Workers, args{kind: kind}, &worker[TTx]{runner: r, work: cfg.Works[kind]})
	}
	var err error
	if r.client, err = river.NewClient(db.Driver(), &cfg.River); err != nil {
		return nil, fmt.Errorf("riveroperation: %w", err)
	}
	return r, nil
}

// Client is River's, for jobs of one's own and for cancelling one of ours.
func (r *Runner[TTx]) Client() *river.Client[TTx] { return r.client }

// Start begins to work, until Stop; ctx is for the beginning alone.
func (r *Runner[TTx]) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started {
		return errors.New("riveroperation: started already")
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("riveroperation: start: %w", err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	if err := r.client.Start(context.WithoutCancel(ctx)); err != nil {
		stop()
		return fmt.Errorf("riveroperation: start: %w", err)
	}
	r.started, r.stop, r.swept = true, stop, make(chan struct{})
	r.stopping.Store(false)
	go r.sweepNowAndThen(life)
	return nil
}

// Stop lets the works that run come to their end, as long as ctx allows; then it
// cancels them, gives their jobs back without counting the try, and waits for them.
// It returns ctx's error if it had to. Without Start it does nothing.
func (r *Runner[TTx]) Stop(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started {
		return nil
	}
	r.stop()
	<-r.swept
	err := r.client.Stop(ctx)
	if err != nil {
		r.stopping.Store(true)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, r.client.StopAndCancel(end))
	}
	r.started = false
	if err != nil {
		return fmt.Errorf("riveroperation: stop: %w", err)
	}
	return nil
}

// Submit implements operation.Runner. It joins the transaction of
// onceward.Guard.Atomic; in the same transaction as the job's row it inserts River's
// job.
func (r *Runner[TTx]) Submit(ctx context.Context, job operation.Job) (op operation.Operation, err error) {
	if r.cfg.Works[job.Kind] == nil {
		return op, fmt.Errorf("riveroperation: there is no work of kind %q", job.Kind)
	}
	submit := func(tx TTx) error {
		op, err = r.submit(ctx, tx, job)
		return err
	}
	if tx, ok := r.db.Joined(ctx); ok {
		err = submit(tx)
	} else {
		err = r.db.InTx(ctx, submit)
	}
	if err != nil {
		return operation.Operation{}, fmt.Errorf("riveroperation: submit: %w", err)
	}
	return op, nil
}

func (r *Runner[TTx]) submit(ctx context.Context, tx TTx, job operation.Job) (op operation.Operation, err error) {
	fp, err := job.Fingerprint.MarshalBinary()
	if err != nil {
		return op, err
	}
	input := job.Input
	if input == nil {
		input = []byte{}
	}
	s := r.db.Tx(tx)
	scope, id := job.Key.Scope[:], job.Key.ID[:]
	n, err := s.Exec(ctx, r.table.insert, scope, id, fp, job.Kind, input)
	if err != nil {
		return op, err
	}
	if n == 1 {
		var opts *river.InsertOpts
		if r.cfg.Insert != nil {
			opts = r.cfg.Insert(job)
		}
		inserted, err := r.client.InsertTx(ctx, tx, argsOf(job.Kind, job.Key), opts)
		if err != nil {
			return op, err
		}
		if _, err := s.Exec(ctx, r.table.setJob, scope, id, inserted.Job.ID); err != nil {
			return op, err
		}
	}
	found, ok, err := r.table.load(ctx, s, job.Key)
	if err != nil {
		return op, err
	}
	if !ok { // it was forgotten in between, or the isolation does not show it
		return op, fmt.Errorf("%w: the operation cannot be seen", onceward.ErrUnavailable)
	}
	if err := operation.SameRequest(found.fingerprint, job.Fingerprint); err != nil {
		return op, err
	}
	if n == 1 {
		return found.operation(), nil
	}
	return r.judge(ctx, s, found,
		func() (*rivertype.JobRow, error) { return r.client.JobGetTx(ctx, tx, found.jobID) },
		func(f operation.Failure, at time.Time) (bool, error) {
			ours, err := r.table.giveUp(ctx, s, found.key, f, at)
			if ours {
				r.gaveUp(found, f)
			}
			return ours, err
		})
}

// Look implements operation.Runner.
func (r *Runner[TTx]) Look(ctx context.Context, key onceward.Key) (operation.Operation, error) {
	found, ok, err := r.table.load(ctx, r.db.Pool(), key)
	if err != nil {
		return operation.Operation{}, err
	}
	if !ok {
		return operation.Operation{}, operation.ErrNotFound
	}
	return r.judge(ctx, r.db.Pool(), found,
		func() (*rivertype.JobRow, error) { return r.client.JobGet(ctx, found.jobID) },
		func(f operation.Failure, at time.Time) (bool, error) { return r.giveUp(ctx, found, f, at), nil })
}

// giveUp writes a failure down that a look has found in River's row, and says whether
// nobody else has ended the operation. The answer is right without it, so it does not
// wait long for a writer, nor at all in a transaction, which may hold the only one.
func (r *Runner[TTx]) giveUp(ctx context.Context, found row, f operation.Failure, at time.Time) bool {
	if _, joined := r.db.Joined(ctx); joined {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	ours := true
	err := r.db.InTx(ctx, func(tx TTx) (err error) {
		ours, err = r.table.giveUp(ctx, r.db.Tx(tx), found.key, f, at)
		return err
	})
	if err != nil {
		r.cfg.Logger.Warn("riveroperation: a failure was not written down", "record", found.key.RecordID(), "error", err)
		return true
	}
	if ours {
		r.gaveUp(found, f)
	}
	return ours
}

// gaveUp is the end of an operation's story that no try has told: River knew it alone.
func (r *Runner[TTx]) gaveUp(found row, f operation.Failure) {
	outcome := "given-up"
	if f == operation.Cancelled {
		outcome = "cancelled"
	}
	r.told(found.key, found.jobID, found.kind).Warn("riveroperation: an operation has failed without a try", "outcome", outcome)
}

// rescued is what River writes as the error of a try whose worker was never heard of
// again.
const rescued = "Stuck job rescued"

// judge is what a row and its job say together. While the row is pending, River knows
// more than the row. It reads through s alone: a transaction may hold the only
// connection there is. A failure that only River's row tells goes into ours by giveUp,
// which says whether it was still pending: River deletes its row long before ours is
// forgotten.
func (r *Runner[TTx]) judge(ctx context.Context, s Statements, found row,
	job func() (*rivertype.JobRow, error), giveUp func(operation.Failure, time.Time) (bool, error),
) (operation.Operation, error) {
	op := found.operation()
	if found.state != operation.Pending {
		return op, nil
	}
	j, err := job()
	if errors.Is(err, rivertype.ErrNotFound) {
		op.State = operation.Unknown
		return op, nil
	}
	if err != nil {
		return op, fmt.Errorf("riveroperation: looking for the job of operation %s: %w", found.key.RecordID(), err)
	}
	if j.FinalizedAt == nil {
		return op, nil
	}
	// River is through with it, so the row may have changed since it was read.
	if again, ok, err := r.table.load(ctx, s, found.key); err != nil {
		return op, err
	} else if ok && again.state != operation.Pending {
		return again.operation(), nil
	}
	op.Finished = time.UnixMilli(j.FinalizedAt.UnixMilli()) // as our row keeps it
	failure := operation.FailedSilently
	switch {
	case j.State == rivertype.JobStateCancelled:
		failure = operation.Cancelled
	case j.State != rivertype.JobStateDiscarded,
		len(j.Errors) > 0 && strings.HasPrefix(j.Errors[len(j.Errors)-1].Error, rescued):
		op.State = operation.Unknown
		return op, nil
	}
	ours, err := giveUp(failure, op.Finished)
	if err != nil {
		return op, err
	}
	if !ours { // somebody has ended it just now
		if again, ok, err := r.table.load(ctx, s, found.key); err != nil {
			return op, err
		} else if ok && again.state != operation.Pending {
			return again.operation(), nil
		}
	}
	op.State, op.Failure = operation.Failed, &failure
	return op, nil
}

// firstLook is how long the look with which a wait begins may take when the time to
// wait is over.
const firstLook = 5 * time.Second

// Wait implements operation.Waiter. A work that ends in this process wakes; those of
// other processes are found by asking, once a second at last.
func (r *Runner[TTx]) Wait(ctx context.Context, key onceward.Key) (operation.Operation, error) {
	woken, leave := r.woken.wait(key)
	defer leave()
	// There is a status to tell also when the time to wait is over already; but a
	// database that does not answer may not hold the caller.
	look, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(firstLook, cancel) })()
	op, err := r.Look(look, key)
	if err != nil {
		return op, err
	}
	return operation.Poll(ctx, op, r.Look, woken)
}

// Forget implements onceward.Forgetter: the scope's operations are gone, with their
// inputs and results. It joins the transaction of onceward.Guard.Atomic. A work that
// runs meanwhile is not stopped, but writes nothing any more. What River keeps of
// the jobs until it cleans up are hashes.
func (r *Runner[TTx]) Forget(ctx context.Context, scope [32]byte) error {
	forget := func(tx TTx) error {
		_, err := r.db.Tx(tx).Exec(ctx, r.table.forget, scope[:])
		return err
	}
	var err error
	if tx, ok := r.db.Joined(ctx); ok {
		err = forget(tx)
	} else {
		err = r.db.InTx(ctx, forget)
	}
	if err != nil {
		return fmt.Errorf("riveroperation: forget: %w", err)
	}
	return nil
}

func (r *Runner[TTx]) sweepNowAndThen(ctx context.Context) {
	defer close(r.swept)
	if r.cfg.SweepEvery < 0 {
		return
	}
	for {
		pause := r.cfg.SweepEvery/2 + rand.N(r.cfg.SweepEvery)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		for {
			n, err := r.Sweep(ctx, 500)
			if err != nil && ctx.Err() == nil {
				r.cfg.Logger.Warn("riveroperation: sweep failed", "error", err)
			}
			if n < 500 {
				break
			}
		}
	}
}

// Sweep forgets at most limit operations whose retention is over, and says how many.
// A runner that was started does so now and then.
func (r *Runner[TTx]) Sweep(ctx context.Context, limit int) (n int, err error) {
	ms := r.cfg.Retention.Milliseconds()
	err = r.db.InTx(ctx, func(tx TTx) error {
		deleted, err := r.db.Tx(tx).Exec(ctx, r.table.sweep, ms, limit)
		n = int(deleted)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("riveroperation: sweep: %w", err)
	}
	lost, err := r.sweepLost(ctx, ms, limit-n)
	return n + lost, err
}

// sweepLost forgets operations that stay pending because River has given them up or
// lost their job.
func (r *Runner[TTx]) sweepLost(ctx context.Context, ms int64, limit int) (n int, err error) {
	type old struct {
		scope, id []byte
		job       int64
	}
	const step = 100
	last := int64(-1)
	for n < limit {
		var olds []old
		err := r.db.Pool().Query(ctx, func(scan func(...any) error) error {
			var o old
			defer func() { olds = append(olds, o) }()
			return scan(&o.scope, &o.id, &o.job)
		}, r.table.stuck, ms, last, step)
		if err != nil {
			return n, fmt.Errorf("riveroperation: sweep: %w", err)
		}
		for _, o := range olds {
			last = o.job
			j, err := r.client.JobGet(ctx, o.job)
			if err != nil && !errors.Is(err, rivertype.ErrNotFound) {
				return n, fmt.Errorf("riveroperation: sweep: %w", err)
			}
			if err == nil && j.FinalizedAt == nil {
				continue // it is still to be done
			}
			err = r.db.InTx(ctx, func(tx TTx) error {
				_, err := r.db.Tx(tx).Exec(ctx, r.table.drop, o.scope, o.id)
				return err
			})
			if err != nil {
				return n, fmt.Errorf("riveroperation: sweep: %w", err)
			}
			n++
		}
		if len(olds) < step {
			break
		}
	}
	return n, nil
}
