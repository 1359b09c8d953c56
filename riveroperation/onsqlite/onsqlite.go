// Package onsqlite is SQLite for package riveroperation, through database/sql: the
// caller brings the driver and the pool, which may be the application's own and
// sqlitestore's. Under onceward.Guard.Atomic on sqlitestore long work is accepted in
// the request's transaction.
//
// SQLite has one writer at a time, and River asks for it now and then: to look for
// jobs, to elect a leader. With a pool of one connection (SetMaxOpenConns(1)) it takes
// its turn in the process instead of meeting "database is locked". There set
// river.Config.PollOnly, or River looks for news 20 times a second on that one
// connection, and FetchPollInterval to how long a job may wait to be seen. The pool's
// transactions should be BEGIN IMMEDIATE (with modernc.org/sqlite: _txlock=immediate).
package onsqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riversqlite"

	"github.com/onceward/onceward/riveroperation"
	"github.com/onceward/onceward/sqlitestore"
)

// Pool is the database behind db. Where there is a second pool for reading, give it
// as read: looking at an operation then waits for no writer. Nil means db.
func Pool(db, read *sql.DB) riveroperation.Database[*sql.Tx] {
	if read == nil {
		read = db
	}
	return &database{db: db, read: read, driver: riversqlite.New(db)}
}

type database struct {
	db, read *sql.DB
	driver   *riversqlite.Driver
}

func (d *database) Driver() riverdriver.Driver[*sql.Tx] { return d.driver }

func (d *database) Joined(ctx context.Context) (*sql.Tx, bool) {
	tx := sqlitestore.Tx(ctx)
	return tx, tx != nil
}

func (d *database) InTx(ctx context.Context, work func(*sql.Tx) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("onsqlite: begin: %w", err)
	}
	done := false
	defer func() {
		if !done { // an error or a panic
			_ = tx.Rollback()
		}
	}()
	if err := work(tx); err != nil {
		return err
	}
	done = true
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("onsqlite: commit: %w", err)
	}
	return nil
}

func (d *database) Tx(tx *sql.Tx) riveroperation.Statements { return statements{tx} }

func (d *database) Pool() riveroperation.Statements { return statements{d.read} }

// Now is by the calendar of SQLite 3.37; unixepoch('subsec') came later.
func (d *database) Now() string {
	return `CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)`
}

func (d *database) Tables() []string {
	return []string{
		`CREATE TABLE IF NOT EXISTS onceward_operations (
			scope       BLOB    NOT NULL,
			id          BLOB    NOT NULL,
			fingerprint BLOB    NOT NULL,
			kind        TEXT    NOT NULL,
			input       BLOB    NOT NULL,
			job_id      INTEGER NOT NULL,
			state       TEXT    NOT NULL CHECK (state IN ('pending', 'complete', 'failed')),
			result      BLOB,
			created_at  INTEGER NOT NULL,
			finished_at INTEGER CHECK ((finished_at IS NULL) = (state = 'pending')),
			PRIMARY KEY (scope, id)
		) STRICT`,
		`CREATE INDEX IF NOT EXISTS onceward_operations_finished ON onceward_operations (finished_at) WHERE finished_at IS NOT NULL`,
		`CREATE INDEX IF NOT EXISTS onceward_operations_pending ON onceward_operations (job_id) WHERE state = 'pending'`,
	}
}

// querier is what a pool and a transaction have in common.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type statements struct{ querier }

// numbered makes $1 into ?1, which is how SQLite writes it.
func numbered(query string) string { return strings.ReplaceAll(query, "$", "?") }

func (s statements) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := s.ExecContext(ctx, numbered(query), args...)
	if err != nil {
		return 0, fmt.Errorf("onsqlite: %w", err)
	}
	return res.RowsAffected()
}

func (s statements) Query(ctx context.Context, row func(scan func(...any) error) error, query string, args ...any) (err error) {
	rows, err := s.QueryContext(ctx, numbered(query), args...)
	if err != nil {
		return fmt.Errorf("onsqlite: %w", err)
	}
	defer func() {
		if end := errors.Join(rows.Err(), rows.Close()); err == nil && end != nil {
			err = fmt.Errorf("onsqlite: %w", end)
		}
	}()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return fmt.Errorf("onsqlite: %w", err)
		}
	}
	return nil
}
