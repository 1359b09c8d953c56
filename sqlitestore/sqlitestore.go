// Package sqlitestore keeps the records of [onceward.Guard] in a SQLite file.
//
// It speaks database/sql only: the caller brings the driver (SQLite 3.37 or
// newer) and the pool, which may be the application's own. Several processes on
// one machine may share the file; a file on a network share is not safe with
// SQLite at all.
//
// Durability: a claim, an answer and a release are on the disk (fsync) when the
// call returns: write-ahead log, synchronous=FULL. The store switches the file
// to the write-ahead log, and raises synchronous to FULL on each connection that
// it borrows and leaves it so; nothing else of a connection is changed.
//
// Requests that arrive together share a commit, and with it one fsync: one
// goroutine of the store writes, and nobody is answered before the COMMIT that
// holds his answer has returned. The connection is borrowed for one batch at a
// time, so a pool of one (SetMaxOpenConns(1), the usual way to have one writer)
// serves the application and the store in turn. While the application holds that
// connection the store waits: a handler must not keep a transaction open while
// it waits for another keyed request. And since database/sql gives a free
// connection to any of those who wait, not to the first, an application with
// many handlers lets one of them at a time ask for it (a channel of one), or the
// store's one batch, for which they all wait, is starved.
//
// [Store.Transact], which onceward.Guard.Atomic uses, puts the application's own
// writes, made through [Tx], into that commit: the records are in the application's
// file. The works of those who arrive together run one after another in one
// transaction, each under a savepoint of its own, so that many share one fsync and
// each still keeps or loses all of what it did. A slow one delays every other write
// to the file until it returns or its time is over: that is what it costs to have
// one writer. Work that takes long stands under Guard.Handler or is handed to a
// queue in the same transaction.
//
// Times are the wall clock's, because processes share them through the file: set
// back by an hour, it prolongs leases and retentions by that hour.
package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/wall"
)

// ErrClosed is the answer to every call after Close.
var ErrClosed = errors.New("sqlitestore: the store is closed")

// Config tunes a Store. The zero value is right for nearly everybody.
type Config struct {
	// Read is a second pool on the same file. Claims that only have to look
	// (a replay, a key that is in progress) look through it and do not wait
	// for the writer. By default they look through the first pool.
	Read *sql.DB
	// Patience is how long a batch is tried again while another process holds
	// the write lock, or while the pool has no connection, before its callers
	// get an error. A caller whose context ends sooner leaves sooner. Zero
	// means 5 seconds; negative: try once.
	Patience time.Duration
	// MaxBatch is how many requests share a commit at most. Zero means 256;
	// negative: 1, each request has a commit of its own.
	MaxBatch int
	// MaxWork is how long the work of a Transact may keep the transaction, and
	// with it every other writer, if its context has no deadline. Zero means 5
	// seconds; negative: for ever.
	MaxWork time.Duration
}

// Store implements [onceward.Store] with all its optional powers. It is safe for
// concurrent use. Close it before the pool.
type Store struct {
	writer  *writer
	read    *sql.DB
	look    *sql.Stmt
	seen    seen
	maxWork time.Duration
	behind  atomic.Int32 // sweeps in a row that did not catch up
}

var (
	_ onceward.Store      = (*Store)(nil)
	_ onceward.Transactor = (*Store)(nil)
	_ onceward.Looker     = (*Store)(nil)
	_ onceward.Lister     = (*Store)(nil)
	_ onceward.Forgetter  = (*Store)(nil)
	_ onceward.KeySweeper = (*Store)(nil)
)

// New makes the table idempotency_keys in db's file, or brings it to the form
// that this version needs, and starts the store's writer. It fails with
// [ErrNewerSchema] if a newer version of the package has been there, and if db
// is no file (":memory:" would be another database for each connection). The
// context is for New alone.
func New(ctx context.Context, db *sql.DB, cfg Config) (*Store, error) {
	if cfg.Read == nil {
		cfg.Read = db
	}
	switch {
	case cfg.Patience == 0:
		cfg.Patience = 5 * time.Second
	case cfg.Patience < 0:
		cfg.Patience = 0
	}
	switch {
	case cfg.MaxBatch == 0:
		cfg.MaxBatch = 256
	case cfg.MaxBatch < 0:
		cfg.MaxBatch = 1
	}
	if cfg.MaxWork == 0 {
		cfg.MaxWork = 5 * time.Second
	}
	if err := migrate(ctx, db, max(cfg.Patience, time.Second)); err != nil {
		return nil, err
	}
	look, err := cfg.Read.PrepareContext(ctx, selectRow)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: prepare: %w", err)
	}
	s := &Store{
		writer: newWriter(db, cfg.Patience, cfg.MaxBatch),
		read:   cfg.Read, look: look, maxWork: cfg.MaxWork,
	}
	go s.writer.run()
	return s, nil
}

// Close refuses new calls, lets what is under way be committed, and ends the
// writer. If ctx ends first, what has not begun fails with ErrClosed and Close
// returns the context's error; the batch that is being written then ends by
// itself. Close does not close the pools. Closing again is harmless.
func (s *Store) Close(ctx context.Context) error {
	err := s.writer.close(ctx)
	for _, c := range []io.Closer{s.look, s.writer.handles} {
		if closeErr := c.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("sqlitestore: close: %w", closeErr)
		}
	}
	return err
}

// Claim implements [onceward.Store].
func (s *Store) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	if rec, ok := s.lookFirst(ctx, &c); ok {
		return rec, false, nil
	}
	var (
		rec     onceward.Record
		claimed bool
	)
	err := s.writer.do(&op{ctx: ctx, class: claims, run: func(tx *tx) (outcome, err error) {
		rec, claimed, outcome, err = tx.claim(&c)
		return outcome, err
	}})
	if err != nil {
		return onceward.Record{}, false, fmt.Errorf("sqlitestore: claim: %w", err)
	}
	s.seen.add(c.Key)
	return rec, claimed, nil
}

// lookFirst answers a claim that needs no write from a plain read. A first
// request always needs one, so only keys that this process has met before are
// looked up; anything that is not plain sailing is left to the writer.
func (s *Store) lookFirst(ctx context.Context, c *onceward.Claim) (onceward.Record, bool) {
	if !s.seen.has(c.Key) || s.writer.isClosed() || s.writer.inside(ctx) {
		return onceward.Record{}, false
	}
	r, err := readRow(s.look.QueryContext(ctx, c.Key.Scope[:], c.Key.ID[:]))
	if err != nil {
		return onceward.Record{}, false
	}
	now := nowMilli()
	if r.judge(c, now) != report {
		return onceward.Record{}, false
	}
	rec, err := r.record(c.Key, now)
	return rec, err == nil
}

// Extend implements [onceward.Store].
func (s *Store) Extend(ctx context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	err := s.writer.do(&op{ctx: ctx, class: urgent, run: func(tx *tx) (outcome, err error) {
		return tx.extend(key, tok, lease, hold)
	}})
	if err != nil {
		return fmt.Errorf("sqlitestore: extend: %w", err)
	}
	return nil
}

// Complete implements [onceward.Store].
func (s *Store) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	// Encoded here, in the caller's goroutine: the writer has no time for it,
	// and the caller may use its buffers again when this returns.
	encoded, err := resp.MarshalBinary()
	if err != nil {
		return fmt.Errorf("sqlitestore: complete: %w", err)
	}
	status := resp.Status
	err = s.writer.do(&op{ctx: ctx, class: urgent, size: len(encoded), run: func(tx *tx) (outcome, err error) {
		return tx.complete(key, tok, status, encoded, retain)
	}})
	if err != nil {
		return fmt.Errorf("sqlitestore: complete: %w", err)
	}
	return nil
}

// Release implements [onceward.Store].
func (s *Store) Release(ctx context.Context, key onceward.Key, tok onceward.Token) error {
	err := s.writer.do(&op{ctx: ctx, class: urgent, run: func(tx *tx) (outcome, err error) {
		return nil, tx.release(key, tok)
	}})
	if err != nil {
		return fmt.Errorf("sqlitestore: release: %w", err)
	}
	return nil
}

// sweepStep is how many records one batch deletes at most: few enough that the
// requests in the same batch do not feel it.
const sweepStep = 16

// A swept record's pages are anywhere in the file, so that sweeping fills the log,
// which is carried over into the file (a checkpoint) while everybody waits, with far
// more of it than claims do. A sweep therefore rests after each step, four times as
// long as the step took. One that does not catch up rests less and less.
const (
	restOfSweep = 4
	longestRest = 20 * time.Millisecond
	// hurry is after how many sweeps in a row that found more than they were to
	// delete the rests are halved: some twenty seconds of a guard's.
	hurry = 64
)

// Sweep implements [onceward.Sweeper]. It lets claims in between: to delete 500
// records takes about a second of a busy store.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	keys, err := s.SweepKeys(ctx, limit)
	return len(keys), err
}

// SweepKeys implements [onceward.KeySweeper].
func (s *Store) SweepKeys(ctx context.Context, limit int) ([]onceward.Key, error) {
	deleted, err := s.sweep(ctx, limit)
	switch {
	case len(deleted) >= limit:
		s.behind.Add(1)
	case err == nil: // it has caught up
		s.behind.Store(0)
	}
	return deleted, err
}

func (s *Store) sweep(ctx context.Context, limit int) (deleted []onceward.Key, err error) {
	rests := restOfSweep >> min(s.behind.Load()/hurry, 8)
	for len(deleted) < limit {
		begun := time.Now()
		step := min(sweepStep, limit-len(deleted))
		var gone []onceward.Key
		err := s.writer.do(&op{ctx: ctx, class: sweeps, run: func(tx *tx) (_, err error) {
			gone, err = tx.sweep(step)
			return nil, err
		}})
		if err != nil {
			return deleted, fmt.Errorf("sqlitestore: sweep: %w", err)
		}
		deleted = append(deleted, gone...)
		if len(gone) < step || len(deleted) == limit {
			break
		}
		select {
		case <-time.After(min(time.Duration(rests)*time.Since(begun), longestRest)):
		case <-ctx.Done():
			return deleted, fmt.Errorf("sqlitestore: sweep: %w", context.Cause(ctx))
		}
	}
	return deleted, nil
}

// nowMilli is the store's clock: milliseconds since 1970, as in the table.
func nowMilli() int64 { return wall.Now().UnixMilli() }

// milli rounds up, so that no lease is shorter than what was asked for. A
// time.Duration is at most 292 years: sums of a few do not overflow.
func milli(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}
