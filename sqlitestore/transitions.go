package sqlitestore

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward"
)

// query numbers the statements that a batch may need.
type query int

const (
	qInsert query = iota
	qSelect
	qRewrite
	qExtend
	qComplete
	qRelease
	qSweep
	qForget
	qSavepoint
	qRollbackTo
	qReleaseSavepoint
	qAnswer
	statements int = iota
)

const selectRow = `SELECT fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, completed_at, expires_at, response
	FROM idempotency_keys WHERE scope = ?1 AND key = ?2`

// alive ends the WHERE of what only the owner of a record in progress may do.
const alive = ` WHERE scope = ?1 AND key = ?2 AND token = ?3 AND completed_at IS NULL AND (expires_at IS NULL OR expires_at > ?4)`

var queries = [statements]string{
	qInsert: `INSERT INTO idempotency_keys
		(scope, key, fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, expires_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING`,
	qSelect: selectRow,
	qRewrite: `UPDATE idempotency_keys
		SET fingerprint = ?3, method = ?4, path = ?5, token = ?6, attempt = ?7, held = ?8, created_at = ?9, lease_until = ?10,
			keep = ?11, expires_at = ?12, completed_at = NULL, status = NULL, response = NULL
		WHERE scope = ?1 AND key = ?2`,
	qExtend: `UPDATE idempotency_keys
		SET lease_until = ?5, held = max(held, ?6),
			expires_at = CASE WHEN max(held, ?6) OR keep < 0 THEN NULL ELSE ?5 + keep + 1 END` + alive,
	qComplete: `UPDATE idempotency_keys
		SET completed_at = ?4, status = ?5, expires_at = ?6, response = ?7, held = 0` + alive,
	qRelease: `DELETE FROM idempotency_keys WHERE scope = ?1 AND key = ?2 AND token = ?3 AND completed_at IS NULL`,
	qSweep: `DELETE FROM idempotency_keys WHERE rowid IN
		(SELECT rowid FROM idempotency_keys WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2) RETURNING scope, key`,
	qForget: `DELETE FROM idempotency_keys WHERE rowid IN
		(SELECT rowid FROM idempotency_keys WHERE scope = ?1 LIMIT ?2)`,
	qSavepoint:        "SAVEPOINT " + savepoint,
	qRollbackTo:       "ROLLBACK TO " + savepoint,
	qReleaseSavepoint: "RELEASE " + savepoint,
	qAnswer: `INSERT INTO idempotency_keys
		(scope, key, fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, completed_at, status, expires_at, response)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, 0, ?10, ?11, ?12, ?13)
		ON CONFLICT (scope, key) DO UPDATE SET
			fingerprint = excluded.fingerprint, method = excluded.method, path = excluded.path, token = excluded.token,
			attempt = excluded.attempt, held = 0, created_at = excluded.created_at, lease_until = excluded.lease_until, keep = 0,
			completed_at = excluded.completed_at, status = excluded.status, expires_at = excluded.expires_at, response = excluded.response`,
}

// row is a record as the table has it. Times are milliseconds since 1970.
type row struct {
	fingerprint          onceward.Fingerprint
	method, path         string
	token                onceward.Token
	attempt              int
	held                 bool
	created, lease, keep int64
	completed, expires   sql.NullInt64
	response             *onceward.Response // nil unless completed
	damaged              error              // why response cannot be read
}

// readRow reads what selectRow found; sql.ErrNoRows if there is no row.
func readRow(rows *sql.Rows, err error) (*row, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return nil, err
		}
		return nil, sql.ErrNoRows
	}
	var r row
	var fp, token, response sql.RawBytes // the driver's memory: a body is copied once less
	err = rows.Scan(&fp, &r.method, &r.path, &token, &r.attempt, &r.held, &r.created, &r.lease, &r.keep, &r.completed, &r.expires, &response)
	if err != nil {
		return nil, err
	}
	if err := r.fingerprint.UnmarshalBinary(fp); err != nil {
		return nil, fmt.Errorf("%w: %w", onceward.ErrEncoding, err)
	}
	copy(r.token[:], token)
	if r.completed.Valid {
		r.response = new(onceward.Response)
		r.damaged = r.response.UnmarshalBinary(response)
	}
	return &r, rows.Close()
}

// step is what a claim makes of a row that exists.
type step int

const (
	report   step = iota // somebody has it
	restart              // the row counts as absent
	repeat               // the claim is this one already
	takeOver             // its lease is over and the claim may displace it
)

// judge is the contract's table for Claim, for a row that exists.
func (r *row) judge(c *onceward.Claim, now int64) step {
	switch {
	case r.absent(now):
		return restart
	case r.completed.Valid || r.fingerprint != c.Fingerprint:
		return report
	case r.token == c.Token:
		return repeat
	case c.TakeOver && !r.held && r.lease <= now:
		return takeOver
	}
	return report
}

// record is what a caller may see of the row.
func (r *row) record(key onceward.Key, now int64) (onceward.Record, error) {
	rec := onceward.Record{
		Key: key, Fingerprint: r.fingerprint, Method: r.method, Path: r.path,
		Token: r.token, State: onceward.InProgress, Attempt: r.attempt, Held: r.held,
		LeaseLeft: time.Duration(r.lease-now) * time.Millisecond,
		Age:       time.Duration(max(0, now-r.created)) * time.Millisecond,
	}
	if r.completed.Valid {
		rec.State = onceward.Completed
		rec.LeaseLeft = 0
		rec.Age = time.Duration(max(0, now-r.completed.Int64)) * time.Millisecond
		rec.Response = r.response
		if r.damaged != nil {
			return onceward.Record{}, r.damaged
		}
	}
	return rec, nil
}

// setLease starts the lease anew and says when the row becomes absent by itself:
// once its lease has been over for longer than its keep.
func (r *row) setLease(now int64, lease time.Duration) {
	r.lease = now + milli(lease)
	r.expires = sql.NullInt64{}
	if r.keep >= 0 && !r.held {
		r.expires = sql.NullInt64{Int64: r.lease + r.keep + 1, Valid: true}
	}
}

// claim is Claim within a batch. Most claims are first ones, so it inserts
// before it looks: the lock is held, nothing can come between.
func (t *tx) claim(c *onceward.Claim) (rec onceward.Record, claimed bool, outcome, err error) {
	now := nowMilli()
	fresh := row{
		fingerprint: c.Fingerprint, method: c.Method, path: c.Path, token: c.Token,
		attempt: 1, created: now, keep: milli(c.Keep),
	}
	if c.Keep < 0 {
		fresh.keep = -1 // rounding up would make zero of the last millisecond
	}
	fresh.setLease(now, c.Lease)
	n, err := t.put(qInsert, c.Key, &fresh)
	if err != nil {
		return rec, false, nil, err
	}
	r := &fresh
	if n == 0 {
		if r, err = t.row(c.Key); errors.Is(err, onceward.ErrEncoding) {
			return rec, false, err, nil
		} else if err != nil {
			return rec, false, nil, err
		}
		switch r.judge(c, now) {
		case report:
			rec, outcome = r.record(c.Key, now)
			return rec, false, outcome, nil
		case restart:
			r = &fresh
		case repeat:
			// The caller did not hear the first answer. Its lease began then;
			// what it is promised now must hold from now.
			if now+milli(c.Lease) > r.lease {
				r.setLease(now, c.Lease)
			}
		case takeOver:
			r.token = c.Token
			r.attempt++
			r.keep = fresh.keep
			r.setLease(now, c.Lease)
		}
		if _, err = t.put(qRewrite, c.Key, r); err != nil {
			return rec, false, nil, err
		}
	}
	rec, outcome = r.record(c.Key, now)
	return rec, outcome == nil, outcome, nil
}

// put writes the whole of a row in progress.
func (t *tx) put(q query, key onceward.Key, r *row) (int64, error) {
	fp, err := r.fingerprint.MarshalBinary()
	if err != nil {
		return 0, err
	}
	return t.exec(q, key.Scope[:], key.ID[:], fp, r.method, r.path, r.token[:], r.attempt, r.held, r.created, r.lease, r.keep, r.expires)
}

func (t *tx) row(key onceward.Key) (*row, error) {
	s, err := t.stmt(qSelect)
	if err != nil {
		return nil, err
	}
	return readRow(s.QueryContext(background, key.Scope[:], key.ID[:]))
}

func (t *tx) extend(key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) (outcome, err error) {
	now := nowMilli()
	n, err := t.exec(qExtend, key.Scope[:], key.ID[:], tok[:], now, now+milli(lease), hold)
	if err == nil && n == 0 {
		outcome = onceward.ErrClaimLost
	}
	return outcome, err
}

func (t *tx) complete(key onceward.Key, tok onceward.Token, status int, encoded []byte, retain time.Duration) (outcome, err error) {
	now := nowMilli()
	n, err := t.exec(qComplete, key.Scope[:], key.ID[:], tok[:], now, status, now+milli(retain), encoded)
	if err != nil || n > 0 {
		return nil, err
	}
	r, err := t.row(key)
	switch {
	case errors.Is(err, sql.ErrNoRows) || errors.Is(err, onceward.ErrEncoding):
		return onceward.ErrClaimLost, nil
	case err != nil:
		return nil, err
	case r.completed.Valid && r.token == tok && !r.absent(now):
		return nil, nil // this token's, a moment ago
	}
	return onceward.ErrClaimLost, nil
}

func (t *tx) release(key onceward.Key, tok onceward.Token) error {
	_, err := t.exec(qRelease, key.Scope[:], key.ID[:], tok[:])
	return err
}

func (t *tx) sweep(limit int) (keys []onceward.Key, err error) {
	s, err := t.stmt(qSweep)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(background, nowMilli(), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var key onceward.Key
		var scope, id sql.RawBytes
		if err := rows.Scan(&scope, &id); err != nil {
			return nil, err
		}
		copy(key.Scope[:], scope)
		copy(key.ID[:], id)
		keys = append(keys, key)
	}
	return keys, rows.Err()
}
