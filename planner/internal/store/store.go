// Package store opens the planner's one database file and brings its tables up
// to date. What the rows mean is the business of the packages account and task;
// the table of idempotency keys, in the same file, is sqlitestore's.
package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver, under the name "sqlite"

	"github.com/onceward/onceward/sqlitestore"
)

// File is the database's name in the data folder.
const File = "planner.db"

//go:embed migrations/*.sql
var migrations embed.FS

// DB is the planner's database. It is safe for concurrent use.
//
// SQLite has one writer at a time. Write therefore has exactly one connection,
// and all who write share it (the guard's key store too): they queue for it in
// this process, in memory, instead of meeting each other as "database is
// locked". Each transaction on it is BEGIN IMMEDIATE, since a deferred one that
// reads first and then writes fails at once, whatever the busy timeout says.
// Nobody may hold it while a page is drawn or while waiting for somebody else
// who needs it.
//
// Read is a small pool beside it that cannot write. In WAL mode its readers see
// everything committed and never wait for the writer.
type DB struct {
	Write, Read *sql.DB

	// turn lets one transaction at a time ask for the connection. database/sql
	// gives a free connection to any of those who wait, not to the first; among a
	// hundred transactions the one batch of the key store, which all of them
	// wait for, would starve.
	turn chan struct{}
}

// readers is enough to keep two or three cores busy with pages.
const readers = 4

// Open opens folder/planner.db, making folder and file where they are missing,
// and applies the migrations that it does not have yet. Commits are durable
// (synchronous=FULL): what was answered survives a power cut.
func Open(ctx context.Context, folder string) (*DB, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("planner: making the data folder: %w", err)
	}
	path, err := filepath.Abs(filepath.Join(folder, File))
	if err != nil {
		return nil, fmt.Errorf("planner: finding the database: %w", err)
	}
	db := &DB{turn: make(chan struct{}, 1)}
	if db.Write, err = open(path, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"); err != nil {
		return nil, err
	}
	db.Write.SetMaxOpenConns(1)
	if err := db.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Write.Close())
	}
	if db.Read, err = open(path, "query_only(1)"); err != nil {
		return nil, errors.Join(err, db.Write.Close())
	}
	db.Read.SetMaxOpenConns(readers)
	db.Read.SetMaxIdleConns(readers)
	return db, nil
}

func open(path string, pragmas ...string) (*sql.DB, error) {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": append([]string{"busy_timeout(5000)"}, pragmas...)}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("planner: opening the database: %w", err)
	}
	return db, nil
}

func (db *DB) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("planner: reading the migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db.Write, files)
	if err != nil {
		return fmt.Errorf("planner: reading the migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("planner: migrating the database: %w", err)
	}
	return nil
}

// Close closes both pools; the last connection to close folds the WAL into the
// file.
func (db *DB) Close() error {
	return errors.Join(db.Read.Close(), db.Write.Close())
}

// Reader reads: the committed data, or, inside a change that the guard's
// transaction carries, what this change has written as well.
type Reader interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Reader is what ctx reads with.
func (db *DB) Reader(ctx context.Context) Reader {
	if tx := sqlitestore.Tx(ctx); tx != nil {
		return tx
	}
	return db.Read
}

// Tx runs work in one BEGIN IMMEDIATE transaction on the writer: all of it is
// committed when work returns nil, and nothing otherwise. The error is work's
// own, so that errors.Is sees what it returned.
//
// Inside a change that the guard's transaction carries, work is a part of that
// one: it is committed with the change's answer, and undone with it.
func (db *DB) Tx(ctx context.Context, work func(*sql.Tx) error) error {
	if tx := sqlitestore.Tx(ctx); tx != nil {
		return work(tx)
	}
	select {
	case db.turn <- struct{}{}:
		defer func() { <-db.turn }()
	case <-ctx.Done():
		return fmt.Errorf("planner: waiting to write: %w", context.Cause(ctx))
	}
	tx, err := db.Write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("planner: beginning a transaction: %w", err)
	}
	if err := work(tx); err != nil {
		_ = tx.Rollback() // the first error is the one to tell
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("planner: committing: %w", err)
	}
	return nil
}

// Secret returns the secret of that name, 32 random bytes, made at the first
// call and the same ever after.
func (db *DB) Secret(ctx context.Context, name string) ([]byte, error) {
	fresh := make([]byte, 32)
	rand.Read(fresh)
	var secret []byte
	err := db.Write.QueryRowContext(ctx,
		`INSERT INTO meta (name, value) VALUES (?, ?)
		 ON CONFLICT (name) DO UPDATE SET value = value RETURNING value`, "secret."+name, fresh).Scan(&secret)
	if err != nil {
		return nil, fmt.Errorf("planner: reading the secret %q: %w", name, err)
	}
	return secret, nil
}

// Ready tells whether the database answers.
func (db *DB) Ready(ctx context.Context) error {
	var n int
	return db.Read.QueryRowContext(ctx, `SELECT count(*) FROM meta`).Scan(&n)
}
