package pgxstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward"
)

const (
	// maxRuns is how often the work of one request is run at most.
	maxRuns = 6
	// grace is how long the outcome of a COMMIT is searched for whose answer was
	// lost, also past the caller's deadline.
	grace = 2 * time.Second
)

const (
	// tryLock takes the key for the transaction, or says at once that another has
	// it. started tells later whether it is still the same transaction. The time
	// limit is the server's own: where the process is stopped, or its machine gone
	// without a word, nobody else would end the transaction and free the key.
	tryLock = `SELECT pg_try_advisory_xact_lock($1::bigint), now(), set_config('idle_in_transaction_session_timeout', $2::text, true)`

	// lockOrFail is tryLock for a transaction that is good for nothing without it.
	lockOrFail = `SELECT (CASE WHEN pg_try_advisory_xact_lock($1::bigint) THEN '1' ELSE 'taken' END)::integer`

	// sameTx is 1, or fails the statement if $8 is not NULL and not the beginning of
	// this transaction.
	sameTx   = same + `$8` + andOnly
	same     = `(CASE WHEN coalesce(`
	andOnly  = `::timestamptz = now(), true) THEN '1' ELSE 'another transaction' END)::integer`
	stillOne = `SELECT ` + same + `$1` + andOnly

	// finishFresh adds the finished record. A statement that fails takes along the
	// COMMIT that follows it.
	finishFresh = `INSERT INTO idempotency_keys (scope, key, fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, completed_at, status, expires_at, sweep_at, response)
		VALUES ($1::bytea, $2::bytea, $3::bytea, $4::text, $5::text, $6::bytea,
			` + sameTx + `,
			false, now(), clock_timestamp(), $7::bigint, clock_timestamp(), $9::integer,
			CASE WHEN $7::bigint >= 0 THEN clock_timestamp() + $7::bigint * interval '1 microsecond' END,
			CASE WHEN $7::bigint >= 0 THEN date_trunc('minute', clock_timestamp() + $7::bigint * interval '1 microsecond') END,
			$10::bytea)`

	// finishSeen puts it in the place of the row that was seen, and fails if that
	// has changed since.
	finishSeen = `WITH done AS (UPDATE idempotency_keys SET fingerprint = $3::bytea, method = $4::text, path = $5::text, token = $6::bytea,
			attempt = $11::integer, held = false, created_at = $12::timestamptz, lease_until = clock_timestamp(), keep = $7::bigint,
			completed_at = clock_timestamp(), status = $9::integer, response = $10::bytea,
			expires_at = CASE WHEN $7::bigint >= 0 THEN clock_timestamp() + $7::bigint * interval '1 microsecond' END,
			sweep_at = CASE WHEN $7::bigint >= 0 THEN date_trunc('minute', clock_timestamp() + $7::bigint * interval '1 microsecond') END
		WHERE scope = $1::bytea AND key = $2::bytea AND token = $13::bytea AND lease_until = $14::timestamptz AND completed_at IS NOT DISTINCT FROM $15::timestamptz
		RETURNING 1)
		SELECT ` + sameTx + `, 1 / count(*) FROM done`
)

// running are the keys whose work this process runs in a transaction. A duplicate
// that arrives meanwhile is told so without a connection.
type running struct {
	mu   sync.Mutex
	keys map[onceward.Key]int
}

func (r *running) has(key onceward.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[key] > 0
}

// add counts: the lock may already be the next one's while the last one still
// finds out what became of his COMMIT.
func (r *running) add(key onceward.Key) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.keys[key]--; r.keys[key] == 0 {
			delete(r.keys, key)
		}
	}
}

// again is an error that was answered by undoing everything, and after which the
// next try begins with looking who has the key.
type again struct{ error }

func (e again) Unwrap() error { return e.error }

// Transact implements [onceward.Transactor]. The work gets its transaction from
// [Tx].
//
// When ctx ends, the transaction is rolled back and its connection given back even
// if the work does not obey; Transact itself returns when the work has. The key is
// an advisory lock of the transaction, so that a duplicate is told at once, by
// whatever process it comes to, and holds no connection while it waits. If the
// answer to COMMIT is lost, the outcome is searched for under c.Token, if need be
// for two seconds past the end of ctx.
//
// Where a statement of the work has failed and the work has not rolled back to a
// savepoint before it, PostgreSQL refuses everything that follows; with the
// verdict Commit that is an error, with Undo it does not matter.
func (s *Store) Transact(ctx context.Context, c onceward.Claim, work func(context.Context) (onceward.Verdict, *onceward.Response, error)) (onceward.Record, bool, error) {
	if !s.enter() {
		return onceward.Record{}, false, fmt.Errorf("pgxstore: transact: %w", ErrClosed)
	}
	defer s.calls.Done()
	if s.running.has(c.Key) {
		return elsewhere(&c), false, nil
	}
	if rec, ok := s.replay(ctx, &c); ok {
		return rec, false, nil
	}
	runs := 0
	counted := func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		runs++
		return work(ctx)
	}
	for try := 1; ; try++ {
		rec, ran, err := s.transact(ctx, &c, counted)
		var undone again
		if !errors.As(err, &undone) {
			if rec.State == onceward.Completed {
				s.answered.add(c.Key)
			}
			return rec, ran, err
		}
		if runs == maxRuns || try == maxTries || !pause(ctx, try) {
			return onceward.Record{}, false, fmt.Errorf("pgxstore: transact: undone after %d runs, at last by: %w", runs, undone.error)
		}
	}
}

// replay answers from a plain read what this process has met before and needs no
// transaction. Whatever else it finds it leaves to one.
func (s *Store) replay(ctx context.Context, c *onceward.Claim) (rec onceward.Record, ok bool) {
	if !s.answered.has(c.Key) {
		return rec, false
	}
	conn, release, err := s.acquire(ctx)
	if err != nil {
		return rec, false
	}
	defer release()
	var r *row
	if _, err := s.ask(ctx, conn.Conn(), scanRow(&r), selectRow, c.Key.Scope[:], c.Key.ID[:]); err != nil || r == nil || r.judge(c) != report {
		return rec, false
	}
	rec, err = r.record(c.Key)
	return rec, err == nil
}

// elsewhere is what is known of a key that another transaction holds: only that.
func elsewhere(c *onceward.Claim) onceward.Record {
	return onceward.Record{
		Key: c.Key, Fingerprint: c.Fingerprint, Method: c.Method, Path: c.Path,
		State: onceward.InProgress, Attempt: 1, LeaseLeft: max(c.Lease, time.Second),
	}
}

// transact is one transaction. Its errors are wrapped but for the work's own.
func (s *Store) transact(ctx context.Context, c *onceward.Claim, work func(context.Context) (onceward.Verdict, *onceward.Response, error)) (rec onceward.Record, ran bool, err error) {
	conn, release, err := s.acquire(ctx)
	if err != nil {
		return rec, false, fmt.Errorf("pgxstore: transact: %w", err)
	}
	h := &handle{pool: s.pool, conn: conn.Conn(), release: release}
	defer h.end() // whatever happens: a panic of the work too

	o, err := s.open(ctx, h.conn, c)
	switch {
	case err != nil && repeatable(err, h.conn.IsClosed()) && ctx.Err() == nil:
		return rec, false, again{err}
	case err != nil:
		return rec, false, fmt.Errorf("pgxstore: transact: %w", err)
	case o.seen != nil && o.seen.judge(c) == report:
		if rec, err = o.seen.record(c.Key); err != nil {
			err = fmt.Errorf("pgxstore: transact: %w", err)
		}
		return rec, false, err
	case !o.locked:
		return elsewhere(c), false, nil
	}

	defer s.running.add(c.Key)()
	expired := make(chan struct{})
	alarm := context.AfterFunc(ctx, func() {
		defer close(expired)
		h.expire()
	})
	quiet := func() bool {
		if alarm() {
			return true
		}
		<-expired
		return false
	}
	returned := false
	defer func() {
		if !returned {
			h.stop()
			quiet()
		}
	}()
	verdict, resp, err := work(context.WithValue(ctx, txKey{}, &tx{h: h}))
	returned = true
	// In this order, here and above: the statement that stop waits for may be one of
	// a goroutine that the work has left behind, and the alarm is what ends it.
	h.stop()
	inTime := quiet()

	var status byte // of a connection that is still this work's
	if inTime {
		status = h.conn.PgConn().TxStatus()
	}
	switch {
	case h.ended:
		return rec, false, fmt.Errorf("pgxstore: transact: %w", errors.Join(ErrTxEnded, err))
	case !inTime && err != nil:
		return rec, false, err
	case !inTime:
		return rec, false, fmt.Errorf("pgxstore: transact: %w", context.Cause(ctx))
	case h.conn.IsClosed() && !h.cut:
		return rec, false, again{errLost}
	case h.retry != nil && (status == 'E' || verdict == onceward.Abort || err != nil):
		return rec, false, again{h.retry}
	case err != nil:
		if ended := s.undo(ctx, h.conn, o); ended != nil {
			err = fmt.Errorf("pgxstore: transact: %w", errors.Join(ended, err))
		}
		return rec, false, err
	case verdict == onceward.Abort:
		if err := s.undo(ctx, h.conn, o); err != nil {
			return rec, false, fmt.Errorf("pgxstore: transact: %w", err)
		}
		return rec, true, nil
	case h.broken:
		return rec, false, fmt.Errorf("pgxstore: transact: %w", errBroken)
	case h.conn.IsClosed():
		return rec, false, fmt.Errorf("pgxstore: transact: a statement of the work was cancelled, which has undone it: %w", errLost)
	case verdict == onceward.Commit && status == 'E':
		return rec, false, fmt.Errorf("pgxstore: transact: a statement of the work has failed, so that nothing can be committed: %w", h.failed)
	case verdict == onceward.Undo:
		if err := s.undo(ctx, h.conn, o); err != nil {
			return rec, false, fmt.Errorf("pgxstore: transact: %w", err)
		}
		if h.conn.IsClosed() {
			return rec, false, again{errLost}
		}
		o.started = nil
	}
	if verdict == onceward.Commit && slices.Contains(h.scopes, c.Key.Scope) {
		o.seen = nil
	}
	rec, err = s.finish(ctx, h.conn, c, o, resp)
	var lost unanswered
	if errors.As(err, &lost) {
		h.end() // the search may need the place of this connection in the pool
		rec, err = s.resolve(ctx, c, rec, lost.error)
	}
	return rec, err == nil, err
}

// unanswered is an error that leaves open whether the transaction was committed.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

var errLost = errors.New("the connection was lost in the middle of the work")

// opened is what the first flight of a transaction has brought.
type opened struct {
	locked  bool
	started *time.Time // now() of the transaction; nil: it has been rolled back
	seen    *row
}

// open begins a transaction, tries to take the key and looks at its row, in one
// flight. The look must be a statement of its own after the lock: within the same
// one it could miss what the last holder has just committed. Where even a later
// statement sees no more than the first (REPEATABLE READ) it may miss that too,
// and the finishing statement finds out. Under SERIALIZABLE a look within the
// transaction would make all transactions whose keys are neighbours in the index
// undo each other, so it stands before.
func (s *Store) open(ctx context.Context, conn *pgx.Conn, c *onceward.Claim) (o opened, err error) {
	var idle *string // NULL leaves the setting as it is
	if deadline, ok := ctx.Deadline(); ok {
		limit := strconv.FormatInt(max(0, time.Until(deadline).Milliseconds())+1000, 10)
		idle = &limit
	}
	batch := &pgx.Batch{}
	lock := func(rows pgx.Rows) error {
		_, err := readAll(rows, func(rows pgx.Rows) error {
			return rows.Scan(&o.locked, &o.started, nil)
		})
		return err
	}
	look := func(rows pgx.Rows) error {
		_, err := readAll(rows, scanRow(&o.seen))
		return err
	}
	if s.apart {
		batch.Queue(beginReadCommitted + " READ ONLY")
		batch.Queue(selectRow, c.Key.Scope[:], c.Key.ID[:])
		batch.Queue("COMMIT")
		batch.Queue(s.begin)
		batch.Queue(tryLock, lockID(s.table, c.Key), idle)
		return o, flight(ctx, conn, batch, nil, look, nil, nil, lock)
	}
	batch.Queue(s.begin)
	batch.Queue(tryLock, lockID(s.table, c.Key), idle)
	batch.Queue(selectRow, c.Key.Scope[:], c.Key.ID[:])
	return o, flight(ctx, conn, batch, nil, lock, look)
}

// lockID names a key of a table among the database's advisory locks. Two keys of
// one name would only see each other in progress.
func lockID(table uint32, key onceward.Key) int64 {
	return int64(binary.BigEndian.Uint64(key.ID[:]) ^ bits.RotateLeft64(binary.BigEndian.Uint64(key.Scope[:]), 32) ^ uint64(table)<<16)
}

// undo rolls the work back, and says if that was no longer possible.
func (s *Store) undo(ctx context.Context, conn *pgx.Conn, o opened) error {
	if conn.PgConn().TxStatus() == 'T' && !conn.IsClosed() {
		batch := &pgx.Batch{}
		batch.Queue(stillOne, o.started)
		batch.Queue("ROLLBACK")
		if err := flight(ctx, conn, batch, nil, nil); code(err) == invalidText {
			return ErrTxEnded
		}
	}
	rollback(conn)
	return nil
}

// finish writes the finished record and commits, in one flight; where the work
// has been undone, in a transaction of the record's own.
func (s *Store) finish(ctx context.Context, conn *pgx.Conn, c *onceward.Claim, o opened, resp *onceward.Response) (rec onceward.Record, err error) {
	if resp == nil {
		return rec, errors.New("pgxstore: transact: the work has returned no response to keep")
	}
	encoded, err := resp.MarshalBinary()
	if err != nil {
		return rec, fmt.Errorf("pgxstore: transact: %w", err)
	}
	fp, err := c.Fingerprint.MarshalBinary()
	if err != nil {
		return rec, fmt.Errorf("pgxstore: transact: %w", err)
	}
	rec = onceward.Record{
		Key: c.Key, Fingerprint: c.Fingerprint, Method: storable(c.Method), Path: storable(c.Path),
		Token: c.Token, State: onceward.Completed, Attempt: 1, Response: resp,
	}
	query := finishFresh
	args := []any{c.Key.Scope[:], c.Key.ID[:], fp, rec.Method, rec.Path, c.Token[:], keepMicros(c.Keep), o.started, resp.Status, encoded}
	if o.seen != nil {
		created := o.seen.created
		switch o.seen.judge(c) {
		case restart:
			created = o.seen.now
		case takeOver:
			rec.Attempt = o.seen.attempt + 1
		case repeat:
			rec.Attempt = o.seen.attempt
		}
		query = finishSeen
		args = append(args, rec.Attempt, created, o.seen.token[:], o.seen.lease, o.seen.completed)
	}
	batch := &pgx.Batch{}
	var readers []func(pgx.Rows) error
	if o.started == nil {
		batch.Queue(beginReadCommitted)
		batch.Queue(lockOrFail, lockID(s.table, c.Key))
		readers = append(readers, nil, nil)
	}
	batch.Queue(query, args...)
	batch.Queue("COMMIT")
	err = flight(ctx, conn, batch, append(readers, nil, nil)...)
	switch {
	case err == nil:
		return rec, nil
	case conn.IsClosed() || code(err) == completionUnknown:
		return rec, unanswered{err}
	case code(err) == invalidText && o.started == nil:
		return onceward.Record{}, again{err} // another has the key by now
	case code(err) == invalidText:
		return onceward.Record{}, fmt.Errorf("pgxstore: transact: %w", ErrTxEnded)
	case undone(err), keyTaken(err), code(err) == divisionByZero:
		return onceward.Record{}, again{err}
	}
	return onceward.Record{}, fmt.Errorf("pgxstore: transact: %w", err)
}

// keyTaken says that another record has come first; a conflict in a table of the
// application (a deferred constraint) is no such thing.
func keyTaken(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == uniqueViolation && pg.TableName == "idempotency_keys"
}

// resolve finds out what became of a COMMIT whose answer was lost. Looking alone
// would be a guess, for the server may still be committing: only when the lock of
// the transaction is free has it ended, and what it has not left was undone.
func (s *Store) resolve(ctx context.Context, c *onceward.Claim, rec onceward.Record, lost error) (onceward.Record, error) {
	searching, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	for try := 1; ; try++ {
		o, err := s.peek(searching, c)
		if err == nil {
			switch {
			case o.seen != nil && o.seen.token == c.Token && o.seen.completed != nil:
				return rec, nil
			case o.locked && ctx.Err() != nil:
				return onceward.Record{}, fmt.Errorf("pgxstore: transact: undone, its connection was lost: %w", lost)
			case o.locked:
				return onceward.Record{}, again{lost}
			}
		}
		if !pause(searching, try) {
			return onceward.Record{}, fmt.Errorf("pgxstore: transact: %w: the answer to COMMIT was lost: %w", onceward.ErrInProgress, lost)
		}
	}
}

// peek is open in a transaction that is READ COMMITTED and ends at once.
func (s *Store) peek(ctx context.Context, c *onceward.Claim) (o opened, err error) {
	conn, release, err := s.acquireUrgent(ctx)
	if err != nil {
		return o, err
	}
	defer release()
	defer rollback(conn.Conn())
	look := Store{begin: beginReadCommitted, table: s.table}
	return look.open(ctx, conn.Conn(), c)
}
