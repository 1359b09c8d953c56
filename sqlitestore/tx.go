package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// tx is one batch's transaction on a borrowed connection. Its statements are
// prepared when the batch first needs them and are used for all of the batch.
type tx struct {
	writer *writer
	conn   *sql.Conn
	stmts  [statements]*sql.Stmt
}

// background is the context of every statement of a batch: a statement that has
// begun is never interrupted, because an interrupted write destroys the
// transaction of everybody who shares it.
var background = context.Background()

// begin borrows a connection and takes the write lock at once. A transaction
// that reads first and writes later fails without waiting when somebody else
// wrote in between, whatever the busy timeout is (B091).
func (w *writer) begin(deadline time.Time) (*tx, error) {
	ctx, cancel := context.WithDeadline(w.hard, deadline.Add(time.Second))
	defer cancel()
	conn, err := w.db.Conn(ctx)
	if err != nil {
		switch {
		case w.hard.Err() != nil:
			return nil, ErrClosed
		case ctx.Err() != nil:
			// Not wrapped: it is not the caller's context that has ended.
			return nil, errors.New("no connection: the pool had none to give in time")
		}
		return nil, fmt.Errorf("no connection: %w", err)
	}
	if err := w.settle(conn); err != nil {
		conn.Close()
		return nil, err
	}
	if _, err := conn.ExecContext(background, "BEGIN IMMEDIATE"); err != nil {
		if !isBusy(err) {
			rollback(background, conn) // it may have begun in spite of the error
		}
		conn.Close()
		return nil, err
	}
	return &tx{writer: w, conn: conn}, nil
}

func (t *tx) commit() error {
	t.closeStatements()
	if _, err := t.conn.ExecContext(background, "COMMIT"); err != nil {
		rollback(background, t.conn)
		t.conn.Close()
		return err
	}
	t.conn.Close()
	return nil
}

func (t *tx) rollback() {
	t.closeStatements()
	rollback(background, t.conn)
	t.conn.Close()
}

func (t *tx) closeStatements() {
	for _, s := range t.stmts {
		if s != nil {
			s.Close()
		}
	}
}

// rollback ends whatever transaction conn is in. Some errors have ended it
// already, and ROLLBACK fails then; so does it if the connection is broken. The
// pool must not get back a connection inside a transaction, so in doubt it is
// thrown away.
func rollback(ctx context.Context, conn *sql.Conn) {
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// connMark remembers a driver's connection. Holding on to it keeps its address
// from being used for another.
type connMark struct{ conn any }

// settle makes sure that a commit on conn is on the disk when it returns.
func (w *writer) settle(conn *sql.Conn) error {
	var raw any
	err := conn.Raw(func(c any) error {
		raw = c
		return nil
	})
	if err != nil {
		return err
	}
	comparable := reflect.TypeOf(raw).Comparable()
	if comparable && raw == w.settled.conn {
		return nil
	}
	w.settled.conn = nil
	var synchronous int
	if err := conn.QueryRowContext(background, "PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	const full = 2
	if synchronous < full {
		if _, err := conn.ExecContext(background, "PRAGMA synchronous=FULL"); err != nil {
			return err
		}
	}
	if comparable {
		w.settled.conn = raw
	}
	return nil
}

func (t *tx) stmt(q query) (*sql.Stmt, error) {
	if t.stmts[q] == nil {
		s, err := t.conn.PrepareContext(background, queries[q])
		if err != nil {
			return nil, err
		}
		t.stmts[q] = s
	}
	return t.stmts[q], nil
}

// exec says how many rows q changed.
func (t *tx) exec(q query, args ...any) (int64, error) {
	s, err := t.stmt(q)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(background, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
