package pgxstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward"
)

// Parameters are cast where they stand, because some of the pool's modes send
// them without their types. Durations are microseconds. The clock is always
// clock_timestamp(): now() is the moment at which a transaction began.
const (
	columns = `fingerprint, method, path, token, attempt, held, created_at, lease_until, completed_at, expires_at, response`

	selectRow = `SELECT false, clock_timestamp(), ` + columns + ` FROM idempotency_keys WHERE scope = $1::bytea AND key = $2::bytea`

	// claimRow takes a key that nobody has, or reads the row of who has it, in one
	// statement. The row is read as it was when the statement began: if another
	// was inserting it just then, neither half finds anything. A conflict takes no
	// lock and no transaction id.
	claimRow = `WITH fresh AS (
		INSERT INTO idempotency_keys (scope, key, fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, expires_at, sweep_at)
		VALUES ($1::bytea, $2::bytea, $3::bytea, $4::text, $5::text, $6::bytea, 1, false, clock_timestamp(),
			clock_timestamp() + $7::bigint * interval '1 microsecond', $8::bigint,` + expiry + `)
		ON CONFLICT (scope, key) DO NOTHING
		RETURNING created_at, lease_until)
	SELECT true, clock_timestamp(), $3::bytea, ''::text, ''::text, $6::bytea, 1, false, created_at, lease_until, NULL::timestamptz, NULL::timestamptz, NULL::bytea FROM fresh
	UNION ALL ` + selectRow

	// expiry is expires_at and sweep_at of a claim with lease $7 and keep $8.
	expiry = `
			CASE WHEN $8::bigint >= 0 THEN clock_timestamp() + ($7::bigint * interval '1 microsecond') + ($8::bigint * interval '1 microsecond') END,
			CASE WHEN $8::bigint >= 0 THEN date_trunc('minute', clock_timestamp() + (least($7::bigint, 0) * interval '1 microsecond') + ($8::bigint * interval '1 microsecond')) END`

	// What follows compares with the row that was seen and sets it only if it is
	// still that one.
	returning = ` RETURNING true, clock_timestamp(), ` + columns

	restartRow = `UPDATE idempotency_keys SET fingerprint = $3::bytea, method = $4::text, path = $5::text, token = $6::bytea, attempt = 1, held = false,
			created_at = clock_timestamp(), lease_until = clock_timestamp() + $7::bigint * interval '1 microsecond', keep = $8::bigint,
			(expires_at, sweep_at) = ROW(` + expiry + `),
			completed_at = NULL, status = NULL, response = NULL
		WHERE scope = $1::bytea AND key = $2::bytea AND token = $9::bytea AND expires_at <= clock_timestamp()` + returning

	takeOverRow = `UPDATE idempotency_keys SET token = $4::bytea, attempt = attempt + 1,
			lease_until = clock_timestamp() + $5::bigint * interval '1 microsecond', keep = $6::bigint,
			expires_at = CASE WHEN $6::bigint >= 0 THEN clock_timestamp() + ($5::bigint * interval '1 microsecond') + ($6::bigint * interval '1 microsecond') END,
			sweep_at = CASE WHEN $6::bigint >= 0 THEN date_trunc('minute', clock_timestamp() + (least($5::bigint, 0) * interval '1 microsecond') + ($6::bigint * interval '1 microsecond')) END
		WHERE scope = $1::bytea AND key = $2::bytea AND fingerprint = $3::bytea AND token = $7::bytea AND NOT held
			AND lease_until <= clock_timestamp()` + alive + returning

	repeatRow = `UPDATE idempotency_keys SET
			lease_until = greatest(lease_until, clock_timestamp() + $4::bigint * interval '1 microsecond'),
			expires_at = CASE WHEN NOT held AND keep >= 0 THEN greatest(lease_until, clock_timestamp() + $4::bigint * interval '1 microsecond') + keep * interval '1 microsecond' END
		WHERE scope = $1::bytea AND key = $2::bytea AND token = $3::bytea` + alive + returning

	extendRow = `UPDATE idempotency_keys SET
			lease_until = clock_timestamp() + $4::bigint * interval '1 microsecond', held = held OR $5::boolean,
			expires_at = CASE WHEN NOT (held OR $5::boolean) AND keep >= 0
				THEN clock_timestamp() + ($4::bigint * interval '1 microsecond') + keep * interval '1 microsecond' END,
			sweep_at = CASE WHEN NOT (held OR $5::boolean) THEN sweep_at END
		WHERE scope = $1::bytea AND key = $2::bytea AND token = $3::bytea` + alive

	completeRow = `UPDATE idempotency_keys SET completed_at = clock_timestamp(), held = false, status = $4::integer, response = $5::bytea,
			expires_at = clock_timestamp() + $6::bigint * interval '1 microsecond',
			sweep_at = date_trunc('minute', clock_timestamp() + $6::bigint * interval '1 microsecond')
		WHERE scope = $1::bytea AND key = $2::bytea AND token = $3::bytea` + alive

	releaseRow = `DELETE FROM idempotency_keys WHERE scope = $1::bytea AND key = $2::bytea AND token = $3::bytea AND completed_at IS NULL`

	// alive ends the WHERE of what may only be done to a claim that counts.
	alive = ` AND completed_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())`
)

// row is a record as the table has it, and the server's clock when it was read.
type row struct {
	written            bool // this call has just written it
	now                time.Time
	fingerprint        onceward.Fingerprint
	method, path       string
	token              onceward.Token
	attempt            int
	held               bool
	created, lease     time.Time
	completed, expires *time.Time
	response           []byte
}

// scanRow reads one row of columns, if there is one.
func scanRow(r **row) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var (
			n         row
			fp, token []byte
		)
		err := rows.Scan(&n.written, &n.now, &fp, &n.method, &n.path, &token, &n.attempt, &n.held, &n.created, &n.lease, &n.completed, &n.expires, &n.response)
		if err != nil {
			return err
		}
		if err := n.fingerprint.UnmarshalBinary(fp); err != nil {
			return fmt.Errorf("%w: %w", onceward.ErrEncoding, err)
		}
		copy(n.token[:], token)
		if *r == nil || n.written {
			*r = &n
		}
		return nil
	}
}

// absent says that the row does not count any more.
func (r *row) absent() bool { return r.expires != nil && !r.expires.After(r.now) }

// step is what a claim makes of the row that it met.
type step int

const (
	report   step = iota // somebody has the key
	restart              // the row counts as absent: begin anew in its place
	takeOver             // the lease is over and the claim may displace it
	repeat               // it is this very claim
)

func (r *row) judge(c *onceward.Claim) step {
	switch {
	case r.absent():
		return restart
	case r.fingerprint != c.Fingerprint, r.completed != nil:
		return report
	case r.token == c.Token:
		return repeat
	case c.TakeOver && !r.held && !r.lease.After(r.now):
		return takeOver
	}
	return report
}

// outline is the record without its response.
func (r *row) outline(key onceward.Key) onceward.Record {
	rec := onceward.Record{
		Key: key, Fingerprint: r.fingerprint, Method: r.method, Path: r.path,
		Token: r.token, State: onceward.InProgress, Attempt: r.attempt, Held: r.held,
		LeaseLeft: r.lease.Sub(r.now), Age: max(0, r.now.Sub(r.created)),
	}
	if r.completed != nil {
		rec.State, rec.LeaseLeft, rec.Age = onceward.Completed, 0, max(0, r.now.Sub(*r.completed))
	}
	return rec
}

func (r *row) record(key onceward.Key) (onceward.Record, error) {
	rec := r.outline(key)
	if rec.State == onceward.Completed {
		rec.Response = new(onceward.Response)
		if err := rec.Response.UnmarshalBinary(r.response); err != nil {
			return onceward.Record{}, err
		}
	}
	return rec, nil
}

// Claim implements [onceward.Store].
func (s *Store) Claim(ctx context.Context, c onceward.Claim) (rec onceward.Record, claimed bool, err error) {
	err = s.call(ctx, "claim", s.acquire, func(conn *pgx.Conn) error {
		r, mine, err := s.claim(ctx, conn, &c)
		if err != nil {
			return err
		}
		claimed = mine
		rec, err = r.record(c.Key)
		return err
	})
	if err != nil {
		return onceward.Record{}, false, err
	}
	if rec.State == onceward.Completed {
		s.answered.add(c.Key)
	}
	return rec, claimed, nil
}

// claim asks until the answer is one that stands: where neither the insert nor
// the read finds anything, or the row has changed since it was seen, somebody else
// was quicker and the question is put anew.
func (s *Store) claim(ctx context.Context, conn *pgx.Conn, c *onceward.Claim) (r *row, mine bool, err error) {
	fp, err := c.Fingerprint.MarshalBinary()
	if err != nil {
		return nil, false, err
	}
	method, path := storable(c.Method), storable(c.Path)
	lease, keep := micros(c.Lease), keepMicros(c.Keep)
	if s.answered.has(c.Key) { // then nothing has to be inserted, most likely
		if _, err := s.ask(ctx, conn, scanRow(&r), selectRow, c.Key.Scope[:], c.Key.ID[:]); err != nil {
			return nil, false, err
		}
		if r != nil && r.judge(c) == report {
			return r, false, nil
		}
	}
	for try := 1; ; try++ {
		r = nil
		if _, err := s.ask(ctx, conn, scanRow(&r), claimRow, c.Key.Scope[:], c.Key.ID[:], fp, method, path, c.Token[:], lease, keep); err != nil {
			return nil, false, err
		}
		switch {
		case r == nil:
		case r.written:
			r.method, r.path = method, path
			return r, true, nil
		default:
			seen := r
			scan := scanRow(&r)
			r = nil
			switch seen.judge(c) {
			case report:
				return seen, false, nil
			case restart:
				_, err = s.ask(ctx, conn, scan, restartRow, c.Key.Scope[:], c.Key.ID[:], fp, method, path, c.Token[:], lease, keep, seen.token[:])
			case takeOver:
				_, err = s.ask(ctx, conn, scan, takeOverRow, c.Key.Scope[:], c.Key.ID[:], fp, c.Token[:], lease, keep, seen.token[:])
			case repeat:
				// The caller did not hear the first answer. Its lease began then;
				// what it is promised now must hold from now.
				if !seen.lease.Before(seen.now.Add(c.Lease)) {
					return seen, true, nil
				}
				_, err = s.ask(ctx, conn, scan, repeatRow, c.Key.Scope[:], c.Key.ID[:], c.Token[:], lease)
			}
			if err != nil || r != nil {
				return r, err == nil, err
			}
		}
		if !pause(ctx, try) {
			return nil, false, context.Cause(ctx)
		}
	}
}

// storable is text as the server accepts it.
func storable(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// Extend implements [onceward.Store].
func (s *Store) Extend(ctx context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	return s.call(ctx, "extend", s.acquireUrgent, func(conn *pgx.Conn) error {
		n, err := s.ask(ctx, conn, nil, extendRow, key.Scope[:], key.ID[:], tok[:], micros(lease), hold)
		if err == nil && n == 0 {
			err = onceward.ErrClaimLost
		}
		return err
	})
}

// Complete implements [onceward.Store].
func (s *Store) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	encoded, err := resp.MarshalBinary()
	if err != nil {
		return fmt.Errorf("pgxstore: complete: %w", err)
	}
	s.answered.add(key)
	return s.call(ctx, "complete", s.acquireUrgent, func(conn *pgx.Conn) error {
		n, err := s.ask(ctx, conn, nil, completeRow, key.Scope[:], key.ID[:], tok[:], resp.Status, encoded, micros(retain))
		if err != nil || n > 0 {
			return err
		}
		var r *row
		if _, err := s.ask(ctx, conn, scanRow(&r), selectRow, key.Scope[:], key.ID[:]); err != nil {
			return err
		}
		if r == nil || r.completed == nil || r.token != tok || r.absent() {
			return onceward.ErrClaimLost
		}
		return nil // this token's, a moment ago
	})
}

// Release implements [onceward.Store].
func (s *Store) Release(ctx context.Context, key onceward.Key, tok onceward.Token) error {
	return s.call(ctx, "release", s.acquireUrgent, func(conn *pgx.Conn) error {
		_, err := s.ask(ctx, conn, nil, releaseRow, key.Scope[:], key.ID[:], tok[:])
		return err
	})
}
