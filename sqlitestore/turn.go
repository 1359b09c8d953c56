package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrShared means that a work's statements ended the transaction that it shares
// with other requests, or were refused because they would have. Inside a work use
// SAVEPOINT, RELEASE and ROLLBACK TO, or the *sql.Tx of [Tx].
var ErrShared = errors.New("sqlitestore: the transaction is shared with other requests: only the store begins and ends it")

// ErrInside means that the store was asked, from inside the work of a Transact,
// for something that would wait until that work has returned.
var ErrInside = errors.New("sqlitestore: called from inside Transact, which it would wait for")

var (
	// Both wrap what a finished *sql.Tx answers, so that code which knows that
	// error needs to know no other.
	errReturned = fmt.Errorf("sqlitestore: the work has returned, its transaction takes no more statements: %w", sql.ErrTxDone)
	errOverdue  = fmt.Errorf("sqlitestore: the work's time is over, its transaction takes no more statements: %w", sql.ErrTxDone)
)

// savepoint encloses everything that one work does.
const savepoint = "onceward_request"

// turn is the time that one work has with the batch's connection: the writer
// waits until it is over. It is what keeps a handler's code, and the goroutines
// that the handler leaves behind, from doing harm to a transaction that belongs
// to many.
type turn struct {
	writer *writer
	ctx    context.Context // the work's
	cancel context.CancelFunc
	tx     *sql.Tx // what Tx returns; made by the caller

	result  chan result   // the caller's, if the turn was not cut short; has room for one
	settled chan struct{} // closed when the writer has done what the result asks for
	waited  int64         // how often somebody had waited for a connection before

	// Written by the writer when the turn is over.
	answer result
	cut    bool // the time was over before the work had returned

	ending   atomic.Bool         // end has been called: what waits for mu comes too late
	panicked atomic.Pointer[any] // the first panic of an argument's value

	mu    sync.Mutex  // one call of raw at a time, and none when over is set
	raw   driver.Conn // the batch's own
	over  error       // why there are no more statements
	lost  bool        // the transaction is not there any more
	cause error       // the error of the statement after which it was lost, if it had one
	stmts map[*stmt]struct{}
	rows  map[*rows]struct{}
}

type turnKey struct{}

func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

func newTurn(ctx context.Context, w *writer, limit time.Duration) *turn {
	t := &turn{
		writer: w, result: make(chan result, 1), settled: make(chan struct{}),
		waited: w.db.Stats().WaitCount,
	}
	ctx = context.WithValue(ctx, turnKey{}, t)
	if _, ok := ctx.Deadline(); ok || limit <= 0 {
		t.ctx, t.cancel = context.WithCancel(ctx)
	} else {
		t.ctx, t.cancel = context.WithTimeout(ctx, limit)
	}
	return t
}

// wait returns when the work has returned or its time is over. The connection is
// the writer's again then.
func (t *turn) wait() {
	select {
	case t.answer = <-t.result:
		return
	case <-t.ctx.Done():
	}
	if t.cut = t.end(errOverdue); !t.cut {
		t.answer = <-t.result // it is about to be sent
	}
}

// end closes what is open and takes no more statements. It waits for a statement
// under way, which is never interrupted. It says false if the turn was over.
func (t *turn) end(why error) bool {
	t.ending.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil {
		return false
	}
	t.over = why
	for r := range t.rows {
		r.Rows.Close()
	}
	for s := range t.stmts {
		s.Stmt.Close()
	}
	return true
}

// dispose gives back what database/sql holds for the handle; the turn is over.
func (t *turn) dispose(aborted bool) {
	t.cancel()
	switch {
	case t.tx == nil:
	case len(t.rows) == 0 && !aborted:
		_ = t.tx.Rollback()
	default:
		// It waits until whoever left rows open is done with the last one, and for
		// ever behind a query that panicked within database/sql.
		go func() { _ = t.tx.Rollback() }()
	}
}

func (t *turn) isOpen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over == nil
}

// use is the one way to the raw connection. What is called with it gets a context
// that cannot end: an interrupted write would destroy everybody's transaction.
// several says that the statement may be more than one.
func (t *turn) use(ctx context.Context, several bool, call func(context.Context) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over != nil:
		return t.over
	case t.ending.Load():
		return errReturned
	case t.lost:
		return t.lostError()
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case ctx.Err() != nil:
		return ctx.Err()
	}
	err := call(context.WithoutCancel(ctx))
	if err != nil && err != driver.ErrSkip || several {
		t.probe(err)
	}
	return err
}

// probe finds out whether the transaction is still there after a statement that
// may have ended it: an error can (a full disk, ON CONFLICT ROLLBACK), and so can
// a COMMIT behind a semicolon. What the handler did next would be committed by
// itself, with no record of it. Inside a transaction BEGIN fails and changes
// nothing; t.mu is held.
func (t *turn) probe(cause error) {
	if rawExec(t.raw, "BEGIN") != nil {
		return
	}
	_ = rawExec(t.raw, "ROLLBACK")
	t.lost, t.cause = true, cause
}

func (t *turn) lostError() error {
	if t.cause != nil {
		return fmt.Errorf("%w; it ended with: %w", ErrShared, t.cause)
	}
	return ErrShared
}

// overdue is the error for a work that kept the connection for too long.
func (t *turn) overdue() error {
	err := t.ctx.Err()
	if s := t.writer.db.Stats(); s.MaxOpenConnections > 0 && s.WaitCount > t.waited {
		return fmt.Errorf("the work had not returned when its time was over (the pool has %d connections and somebody waited for one: a write that does not go through sqlitestore.Tx waits for itself): %w",
			s.MaxOpenConnections, err)
	}
	return fmt.Errorf("the work had not returned when its time was over: %w", err)
}

// rawExec runs one statement without arguments on a driver's connection.
func rawExec(c driver.Conn, query string) error {
	if e, ok := c.(driver.ExecerContext); ok {
		if _, err := e.ExecContext(background, query, nil); err != driver.ErrSkip {
			return err
		}
	}
	s, err := rawPrepare(background, c, query)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = rawStmtExec(background, s, nil)
	return err
}

func rawPrepare(ctx context.Context, c driver.Conn, query string) (driver.Stmt, error) {
	if p, ok := c.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	return c.Prepare(query)
}

func rawStmtExec(ctx context.Context, s driver.Stmt, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := s.(driver.StmtExecContext); ok {
		return e.ExecContext(ctx, args)
	}
	values, err := unnamed(args)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 all that an old driver has
	return s.Exec(values)
}

func rawStmtQuery(ctx context.Context, s driver.Stmt, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := s.(driver.StmtQueryContext); ok {
		return q.QueryContext(ctx, args)
	}
	values, err := unnamed(args)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 all that an old driver has
	return s.Query(values)
}

func unnamed(args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, arg := range args {
		if arg.Name != "" {
			return nil, errors.New("sqlitestore: the driver has no named arguments")
		}
		values[i] = arg.Value
	}
	return values, nil
}
