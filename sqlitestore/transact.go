package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
)

// Tx returns the transaction of the work that ctx was made for, nil if there is
// none. What is written through it is committed together with the answer, or not
// at all.
//
// The transaction is shared with other requests, which run before and after this
// one. So Commit and Rollback of the *sql.Tx end only the handle: Rollback undoes
// what the work has done so far, Commit leaves it to the work's verdict. Statements
// that would end the transaction are refused with [ErrShared]; SAVEPOINT, RELEASE
// and ROLLBACK TO nest as usual. Once the work has returned, every statement fails
// with an error that wraps sql.ErrTxDone.
//
// A write that goes past Tx, through the pool, waits for the transaction that it
// is called from: with a pool of one connection until the work's time is over,
// otherwise for the busy timeout of its connection. A setting of the connection
// (PRAGMA, ATTACH, a temporary table) outlives the work: make none.
func Tx(ctx context.Context) *sql.Tx {
	if t := turnOf(ctx); t != nil {
		return t.tx
	}
	return nil
}

// work is what one Transact wants done, and what has become of it.
type work struct {
	claim *onceward.Claim
	do    func(context.Context) (onceward.Verdict, *onceward.Response, error)
	limit time.Duration // of a work whose context has no deadline

	state atomic.Int32
	turns chan *turn // the writer gives the connection to the caller; has room for one

	// The writer's alone.
	unsure bool  // an answer was written in a transaction that did not end well
	failed error // it is not to run again, for this

	// Written by the writer before it answers.
	rec onceward.Record
	ran bool
	err error // the work's own

	kept bool // the caller's alone: the last run asked for its answer to be kept
}

// The states of a work. The writer makes of waiting running, the caller the
// opposite; the caller makes of waiting left.
const (
	waiting int32 = iota // for a turn, or for the commit
	running              // the writer waits for the caller
	left                 // nobody waits: it must not run again
)

// result is what a work returned, ready to be written.
type result struct {
	verdict onceward.Verdict
	resp    *onceward.Response
	encoded []byte
	err     error
	aborted bool // it did not return: panic, runtime.Goexit, or it was never called
}

// Transact implements [onceward.Transactor].
//
// Works run one after another, each under a savepoint of its own, and share a
// commit; no answer is given before that commit has returned. The work runs on
// the caller's goroutine. It holds up every other writer of the file until it
// returns, so it must be short. It is cut off, and everything it wrote rolled back,
// when ctx ends or, if ctx has no deadline, after Config.MaxWork; Transact itself
// returns only when the work has. A cut work that returned Commit or Undo gets an
// error that wraps the context's.
//
// If a work's statements end the shared transaction, it gets an error that wraps
// [ErrShared], and the works that shared it run again, each by itself. They do so
// too when the commit fails.
func (s *Store) Transact(ctx context.Context, c onceward.Claim, do func(context.Context) (onceward.Verdict, *onceward.Response, error)) (onceward.Record, bool, error) {
	if rec, ok := s.lookFirst(ctx, &c); ok {
		return rec, false, nil
	}
	w := &work{claim: &c, do: do, limit: s.maxWork, turns: make(chan *turn, 1)}
	o := &op{ctx: ctx, class: works, work: w}
	o.run = func(tx *tx) (outcome, err error) { return tx.transact(o) }
	err := s.writer.do(o)
	switch {
	case err != nil:
		return onceward.Record{}, false, fmt.Errorf("sqlitestore: transact: %w", err)
	case w.err != nil:
		return onceward.Record{}, false, w.err
	case w.rec.State != 0:
		s.seen.add(c.Key)
	}
	return w.rec, w.ran, nil
}

// perform runs the work in its turn, on the caller's goroutine. If over, the
// turn was cut short and err is the answer; otherwise the answer is still to come.
func (o *op) perform(t *turn) (over bool, err error) {
	w := o.work
	res := result{aborted: true}
	// Deferred, because the work may panic or call runtime.Goexit; both go on.
	defer func() {
		w.kept = res.keeps()
		inTime := t.end(errReturned)
		next := waiting
		if res.aborted || !inTime {
			next = left
		}
		w.state.Store(next) // before the writer sees the result
		if inTime {
			t.result <- res
		}
		t.dispose(res.aborted)
		switch {
		case inTime && res.aborted:
			<-t.settled // whoever sees the panic finds the key free
		case !inTime:
			over = true
			switch {
			case res.keeps():
				err = t.overdue()
			case res.err != nil:
				w.err = res.err
			case !res.aborted:
				w.ran = true
			}
		}
	}()
	if err := o.ctx.Err(); err != nil {
		return true, err // too late to begin
	}
	t.tx, res.err = t.writer.handles.BeginTx(context.WithValue(background, turnKey{}, t), nil)
	if res.err == nil {
		res.verdict, res.resp, res.err = w.do(t.ctx)
		if p := t.panicked.Load(); p != nil {
			panic(*p)
		}
	}
	if res.err == nil && res.verdict != onceward.Abort {
		res.encoded, res.err = encode(res.resp)
	}
	res.aborted = false
	return false, nil
}

// leave is for a caller whose context has ended while he waited.
func (o *op) leave() error {
	err := o.ctx.Err()
	if o.work == nil {
		return err
	}
	if !o.work.state.CompareAndSwap(waiting, left) {
		o.perform(<-o.work.turns) // which only gives the connection back
	}
	if o.work.kept {
		// The work has run, and its commit is under way.
		return fmt.Errorf("%w: %w", onceward.ErrInProgress, err)
	}
	return err
}

func encode(resp *onceward.Response) ([]byte, error) {
	if resp == nil {
		return nil, errors.New("sqlitestore: transact: the work returned no response to keep")
	}
	encoded, err := resp.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: transact: %w", err)
	}
	return encoded, nil
}

func (r *result) keeps() bool {
	return !r.aborted && r.err == nil && r.verdict != onceward.Abort
}

// errVoid means that a work has ended the batch's transaction; work.failed says
// more.
var errVoid = errors.New("sqlitestore: a work ended the transaction")

// transact is one work's part of a batch.
func (t *tx) transact(o *op) (outcome, err error) {
	w := o.work
	if !w.unsure {
		switch {
		case w.failed != nil:
			return w.failed, nil
		case w.state.Load() == left:
			return o.ctx.Err(), nil
		}
	}
	now := nowMilli()
	next := row{
		fingerprint: w.claim.Fingerprint, method: w.claim.Method, path: w.claim.Path, token: w.claim.Token,
		attempt: 1, created: now,
	}
	r, err := t.row(w.claim.Key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case errors.Is(err, onceward.ErrEncoding):
		return err, nil
	case err != nil:
		return nil, err
	case w.unsure && r.completed.Valid && r.token == w.claim.Token:
		// That commit succeeded, whatever it was said to have done.
		w.rec, outcome = r.record(w.claim.Key, now)
		w.ran, w.err = true, nil
		return outcome, nil
	default:
		switch r.judge(w.claim, now) {
		case report:
			w.rec, outcome = r.record(w.claim.Key, now)
			w.ran, w.err = false, nil
			return outcome, nil
		case repeat:
			next.attempt, next.created = r.attempt, r.created
		case takeOver:
			next.attempt, next.created = r.attempt+1, r.created
		}
	}
	w.unsure = false
	if w.failed != nil {
		return w.failed, nil
	}
	return t.giveTurn(o, &next)
}

// giveTurn hands the connection to the caller and does what the work's verdict
// asks for. r is the row to be written if there is an answer to keep.
func (t *tx) giveTurn(o *op, r *row) (outcome, err error) {
	w := o.work
	if _, err := t.exec(qSavepoint); err != nil {
		return nil, err
	}
	if !w.state.CompareAndSwap(waiting, running) {
		_, err := t.exec(qReleaseSavepoint)
		return o.ctx.Err(), err
	}
	turn := newTurn(o.ctx, t.writer, w.limit)
	defer close(turn.settled)
	err = t.conn.Raw(func(raw any) error {
		turn.raw = raw.(driver.Conn)
		w.turns <- turn
		turn.wait()
		return nil
	})
	res := &turn.answer
	switch {
	case turn.lost:
		w.failed = turn.lostError()
		return nil, errVoid
	case turn.cut:
		w.failed = errOverdue
		res.aborted = true
	case err != nil:
		return nil, err
	}
	if !res.keeps() || res.verdict == onceward.Undo {
		_, err = t.exec(qRollbackTo)
	}
	if err == nil {
		_, err = t.exec(qReleaseSavepoint)
	}
	switch {
	case err != nil && isNoSavepoint(err):
		w.failed = fmt.Errorf("%w: %w", ErrShared, err)
		return nil, errVoid
	case err != nil:
		return nil, err
	case turn.cut:
		return errOverdue, nil
	}
	// The savepoint was still there, so the work is inside the transaction. The
	// record is written only now: behind a lost one it would stand alone.
	w.rec, w.ran, w.err = onceward.Record{}, res.err == nil, res.err
	if !res.keeps() {
		return nil, nil
	}
	now := nowMilli()
	r.completed = sql.NullInt64{Int64: now, Valid: true}
	r.expires = sql.NullInt64{Int64: now + milli(w.claim.Keep), Valid: true}
	r.lease, r.response = now, res.resp
	w.unsure = true
	if err := t.putAnswer(w.claim.Key, r, res.encoded); err != nil {
		return nil, err
	}
	w.rec, outcome = r.record(w.claim.Key, now)
	return outcome, nil
}

// isNoSavepoint knows SQLite's text; the code is that of any SQL error.
func isNoSavepoint(err error) bool { return strings.Contains(err.Error(), "no such savepoint") }

// putAnswer writes a completed row, over whatever row the key has.
func (t *tx) putAnswer(key onceward.Key, r *row, encoded []byte) error {
	fp, err := r.fingerprint.MarshalBinary()
	if err != nil {
		return err
	}
	_, err = t.exec(qAnswer, key.Scope[:], key.ID[:], fp, r.method, r.path, r.token[:], r.attempt, r.created, r.lease,
		r.completed, r.response.Status, r.expires, encoded)
	return err
}
