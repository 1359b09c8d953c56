package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/onceward/onceward"
)

// class orders the requests within a batch. What a running handler needs to
// keep its claim goes before what begins new work, so that load loses no lease.
type class int

const (
	urgent  class = iota // Extend, Complete, Release
	claims               // Claim
	sweeps               // Sweep
	works                // Transact: last, for nobody knows how long one takes
	classes int   = iota
)

// op is one caller's request. run does it inside a batch's transaction: outcome
// is the answer that the caller gets once the batch is committed; err voids the
// whole batch. run may be called again, in another transaction.
type op struct {
	ctx     context.Context
	class   class
	size    int // bytes to write, roughly
	run     func(tx *tx) (outcome, err error)
	work    *work // of the class works alone
	outcome error
	done    chan error
}

// writer is the one goroutine that writes. It takes what has gathered while it
// was busy, runs it in one transaction, and answers when that is committed.
type writer struct {
	db       *sql.DB
	patience time.Duration
	maxBatch int
	settled  connMark // the connection whose settings were checked last
	handles  *sql.DB  // makes what works see of a batch's connection

	wake    chan struct{}   // has room for one
	hard    context.Context // ends when nothing more may begin
	cancel  context.CancelFunc
	stopped chan struct{}

	mu     sync.Mutex // guards what follows
	queue  [classes][]*op
	closed bool
}

// maxBatchBytes ends a batch of large answers early: its one fsync would take
// longer than the requests behind it should wait.
const maxBatchBytes = 4 << 20

// enough ends a batch of works: so long after the first of its answers was ready
// no further work begins, and the answers leave.
const enough = 10 * time.Millisecond

func newWriter(db *sql.DB, patience time.Duration, maxBatch int) *writer {
	w := &writer{
		db: db, patience: patience, maxBatch: maxBatch, handles: handles(),
		wake: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	w.hard, w.cancel = context.WithCancel(context.Background())
	return w
}

// inside says that ctx is that of a work which has this writer's connection.
func (w *writer) inside(ctx context.Context) bool {
	t := turnOf(ctx)
	return t != nil && t.writer == w && t.isOpen()
}

// do hands o to the writer and waits for its answer or for the end of o.ctx. When
// it is a work's turn, the work runs here.
func (w *writer) do(o *op) error {
	if err := o.ctx.Err(); err != nil {
		return err
	}
	if w.inside(o.ctx) {
		return ErrInside
	}
	o.done = make(chan error, 1)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.queue[o.class] = append(w.queue[o.class], o)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	var turns chan *turn
	if o.work != nil {
		turns = o.work.turns
	}
	for {
		select {
		case err := <-o.done:
			return err
		case t := <-turns:
			if over, err := o.perform(t); over {
				return err
			}
			continue
		case <-o.ctx.Done():
		}
		select {
		case err := <-o.done: // both at once: the answer says more
			return err
		default:
			return o.leave()
		}
	}
}

func (w *writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *writer) close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	select {
	case <-w.stopped:
		return nil
	case <-ctx.Done():
	}
	w.cancel()
	return fmt.Errorf("sqlitestore: close: %w", ctx.Err())
}

// run is the writer's goroutine. It ends when the writer is closed and has
// nothing more to do, or at once after the batch in hand if it was cancelled.
func (w *writer) run() {
	defer close(w.stopped)
	defer w.cancel()
	for {
		w.gather()
		batch := w.take(nil)
		switch {
		case w.hard.Err() != nil:
			finish(batch, ErrClosed)
			if len(batch) == 0 {
				return
			}
		case len(batch) > 0:
			w.write(batch)
		case w.isClosed():
			// Closed first, then seen empty: nothing can follow.
			if batch = w.take(nil); len(batch) == 0 {
				return
			}
			w.write(batch)
		default:
			select {
			case <-w.wake:
			case <-w.hard.Done():
			}
		}
	}
}

// gather lets the callers who have just been answered run, as long as that
// brings new requests: they then share this commit instead of the next one.
// It waits for nobody.
func (w *writer) gather() {
	for before := -1; ; {
		w.mu.Lock()
		n := 0
		for i := range w.queue {
			n += len(w.queue[i])
		}
		w.mu.Unlock()
		if n == 0 || n == before || n >= w.maxBatch {
			return
		}
		before = n
		runtime.Gosched()
	}
}

// take fills batch up from the queue, in the order of the classes. An op that
// joins a batch in hand goes before the ops of later classes in it.
func (w *writer) take(batch []*op) []*op {
	var sorted [classes][]*op
	n, size := 0, 0
	for _, o := range batch {
		sorted[o.class] = append(sorted[o.class], o)
		n++
		size += o.size
	}
	w.mu.Lock()
	for c := range w.queue {
		k := 0
		for _, o := range w.queue[c] {
			if n >= w.maxBatch || n > 0 && size+o.size > maxBatchBytes {
				break
			}
			sorted[c] = append(sorted[c], o)
			n++
			k++
			size += o.size
		}
		w.queue[c] = append(w.queue[c][:0], w.queue[c][k:]...)
		clear(w.queue[c][len(w.queue[c]):cap(w.queue[c])])
	}
	w.mu.Unlock()
	batch = batch[:0]
	for c := range sorted {
		batch = append(batch, sorted[c]...)
	}
	return batch
}

// write brings a batch to its end: every op in it is answered, or is back in the
// queue.
func (w *writer) write(batch []*op) {
	batch, err := w.try(batch, true)
	switch {
	case err == nil:
		return
	case errors.As(err, new(notBegun)):
		finish(batch, err)
		return
	case len(batch) == 1:
		w.fail(batch[0], err)
		return
	}
	// One op has voided the batch for all, so each stands for itself now, as long
	// as transactions can be had.
	for i, o := range batch {
		if o.work != nil && o.work.failed != nil && !o.work.unsure {
			o.done <- o.work.failed
			continue
		}
		one, err := w.try(batch[i:i+1:i+1], false)
		switch {
		case errors.As(err, new(notBegun)):
			finish(batch[i:], err)
			return
		case err != nil:
			w.fail(one[0], err)
		}
	}
}

// fail answers an op that has failed by itself. If it may have been committed in
// spite of that, it is looked up.
func (w *writer) fail(o *op, err error) {
	if o.work != nil {
		if o.work.failed == nil {
			o.work.failed = err
		}
		err = o.work.failed
		if o.work.unsure {
			if _, lookErr := w.try([]*op{o}, false); lookErr == nil {
				return
			}
		}
	}
	finish([]*op{o}, err)
}

// notBegun is an error that is nobody's in particular: there was no transaction.
type notBegun struct{ error }

func (e notBegun) Unwrap() error { return e.error }

// try runs the batch, again and again while another process holds the write lock,
// for as long as the store is patient. What has gathered meanwhile may join. It
// returns the ops that have not been answered, and why.
func (w *writer) try(batch []*op, join bool) ([]*op, error) {
	var pause backoff
	for deadline := time.Now().Add(w.patience); ; {
		batch = dropAbandoned(batch)
		if len(batch) == 0 {
			return nil, nil
		}
		var err error
		batch, err = w.once(batch, deadline)
		switch {
		case err == nil:
			return nil, nil
		case !isBusy(err):
			return batch, err
		case time.Now().After(deadline) || !pause.wait(w.hard):
			return batch, notBegun{fmt.Errorf("another connection holds the write lock: %w", err)}
		}
		if join {
			batch = w.take(batch)
		}
	}
}

// once runs the batch in one transaction. Nobody is answered unless it has been
// committed. What it did not come to is in the queue again; what it did come to is
// returned with the error that undid it.
func (w *writer) once(batch []*op, deadline time.Time) ([]*op, error) {
	tx, err := w.begin(deadline)
	if err != nil {
		return batch, notBegun{err}
	}
	var ready time.Time
	for i, o := range batch {
		if o.class == works && !ready.IsZero() && time.Since(ready) > enough {
			w.putBack(batch[i:])
			batch = batch[:i]
			break
		}
		// Asked again here: the lock may have been long in coming.
		if o.abandoned() {
			o.outcome = o.ctx.Err()
			continue
		}
		if o.outcome, err = o.run(tx); err != nil {
			tx.rollback()
			w.putBack(batch[i+1:])
			return batch[:i+1], err
		}
		if ready.IsZero() && o.class != sweeps {
			ready = time.Now()
		}
	}
	if err := tx.commit(); err != nil {
		return batch, err
	}
	for _, o := range batch {
		o.done <- o.outcome
	}
	return nil, nil
}

// putBack makes ops the first in the queue again.
func (w *writer) putBack(ops []*op) {
	if len(ops) == 0 {
		return
	}
	var sorted [classes][]*op
	for _, o := range ops {
		sorted[o.class] = append(sorted[o.class], o)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range sorted {
		if len(sorted[c]) > 0 {
			w.queue[c] = append(sorted[c], w.queue[c]...)
		}
	}
}

// abandoned says that o is not worth doing because its caller has gone: a claim
// that nobody hears of would lock its key for a lease. What an owner sent is done
// all the same; it is right under its token whether or not he still waits.
func (o *op) abandoned() bool {
	switch {
	case o.class == urgent:
		return false
	case o.work != nil && o.work.unsure:
		return false // it may be done
	}
	return o.ctx.Err() != nil
}

func dropAbandoned(batch []*op) []*op {
	kept := batch[:0]
	for _, o := range batch {
		if o.abandoned() {
			o.done <- o.ctx.Err()
			continue
		}
		kept = append(kept, o)
	}
	return kept
}

func finish(batch []*op, err error) {
	for _, o := range batch {
		if o.work != nil && o.work.unsure {
			o.done <- fmt.Errorf("%w: %w", onceward.ErrInProgress, err)
			continue
		}
		o.done <- err
	}
}
