package pgxstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward"
)

// sweepStep is how many records one transaction deletes at most: a claim of a key
// that is being deleted waits for that transaction's end.
const sweepStep = 100

// The clock stands in a subquery because a volatile function is no bound that an
// index can be searched by.
const sweepRows = `DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM idempotency_keys
		WHERE sweep_at <= (SELECT clock_timestamp()) AND expires_at <= (SELECT clock_timestamp())
		ORDER BY sweep_at LIMIT $1::integer FOR UPDATE SKIP LOCKED)) RETURNING scope, key`

// Sweep implements [onceward.Sweeper]. It passes over records that another
// transaction has locked.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	keys, err := s.SweepKeys(ctx, limit)
	return len(keys), err
}

// SweepKeys implements [onceward.KeySweeper].
func (s *Store) SweepKeys(ctx context.Context, limit int) (deleted []onceward.Key, err error) {
	for len(deleted) < limit {
		step := min(sweepStep, limit-len(deleted))
		var gone []onceward.Key
		scan := func(rows pgx.Rows) error {
			var key onceward.Key
			var scope, id []byte
			err := rows.Scan(&scope, &id)
			copy(key.Scope[:], scope)
			copy(key.ID[:], id)
			gone = append(gone, key)
			return err
		}
		err := s.call(ctx, "sweep", s.acquire, func(conn *pgx.Conn) error {
			gone = nil
			_, err := s.ask(ctx, conn, scan, sweepRows, step)
			return err
		})
		if err != nil {
			return deleted, err
		}
		deleted = append(deleted, gone...)
		if len(gone) < step {
			break
		}
	}
	return deleted, nil
}

// Look implements [onceward.Looker].
func (s *Store) Look(ctx context.Context, key onceward.Key) (rec onceward.Record, found bool, err error) {
	err = s.call(ctx, "look", s.acquire, func(conn *pgx.Conn) error {
		var r *row
		if _, err := s.ask(ctx, conn, scanRow(&r), selectRow, key.Scope[:], key.ID[:]); err != nil {
			return err
		}
		if r == nil || r.absent() {
			return nil
		}
		found = true
		rec, err = r.record(key)
		return err
	})
	if err != nil {
		return onceward.Record{}, false, err
	}
	return rec, found, nil
}

// A lock named by one bigint has its halves in classid and objid, and objsubid 1. The
// table is the server's own view of its locks, which everybody may read.
const lookLock = `SELECT count(*) > 0 FROM pg_locks
	WHERE locktype = 'advisory' AND objsubid = 1 AND granted
		AND classid::bigint = (($1::bigint >> 32) & 4294967295) AND objid::bigint = ($1::bigint & 4294967295)
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// LookLock implements [onceward.LockLooker]: it sees the transactions of every process.
// It costs a walk through the locks that the server holds at the time.
func (s *Store) LookLock(ctx context.Context, key onceward.Key) (locked bool, err error) {
	err = s.call(ctx, "look", s.acquire, func(conn *pgx.Conn) error {
		_, err := s.ask(ctx, conn, func(rows pgx.Rows) error { return rows.Scan(&locked) }, lookLock, lockID(s.table, key))
		return err
	})
	return locked, err
}

const listRows = `SELECT clock_timestamp(), scope, key, fingerprint, method, path, token, attempt, held, created_at, lease_until, completed_at, expires_at, coalesce(status, 0)
	FROM idempotency_keys
	WHERE (scope, key) > ($1::bytea, $2::bytea)
		AND ($3::bytea IS NULL OR scope = $3::bytea)
		AND substring(key FROM 1 FOR length($4::bytea)) = $4::bytea
		AND ($5::integer = 0 OR ($5::integer = 2) = (completed_at IS NOT NULL))
		AND (NOT $6::boolean OR completed_at IS NULL AND (held OR lease_until <= clock_timestamp()))
		AND (expires_at IS NULL OR expires_at > clock_timestamp())
	ORDER BY scope, key LIMIT $7::integer`

// List implements [onceward.Lister]. Of an answer the records have the status
// alone; [Store.Look] has it whole.
func (s *Store) List(ctx context.Context, q onceward.Query) (list []onceward.Record, err error) {
	if q.Limit == 0 {
		q.Limit = 100
	}
	var scope []byte
	if q.Scope != nil {
		scope = q.Scope[:]
	}
	prefix := append([]byte{}, q.Prefix...)
	scan := func(rows pgx.Rows) error {
		var (
			r                         row
			key                       onceward.Key
			status                    int
			theScope, theKey, fp, tok []byte
		)
		err := rows.Scan(&r.now, &theScope, &theKey, &fp, &r.method, &r.path, &tok, &r.attempt, &r.held, &r.created, &r.lease, &r.completed, &r.expires, &status)
		if err != nil {
			return err
		}
		copy(key.Scope[:], theScope)
		copy(key.ID[:], theKey)
		copy(r.token[:], tok)
		if err := r.fingerprint.UnmarshalBinary(fp); err != nil {
			return fmt.Errorf("%w: %w", onceward.ErrEncoding, err)
		}
		rec := r.outline(key)
		if rec.State == onceward.Completed {
			rec.Response = &onceward.Response{Status: status}
		}
		list = append(list, rec)
		return nil
	}
	err = s.call(ctx, "list", s.acquire, func(conn *pgx.Conn) error {
		list = nil
		_, err := s.ask(ctx, conn, scan, listRows, q.After.Scope[:], q.After.ID[:], scope, prefix, int(q.State), q.Stuck, q.Limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

const forgetRows = `DELETE FROM idempotency_keys WHERE scope = $1::bytea`

// Forget implements [onceward.Forgetter]. In the context of work that [Store.Transact]
// of a store on the same pool has called, it is part of that transaction; the
// record of the work itself is written afterwards, and stays.
func (s *Store) Forget(ctx context.Context, scope [32]byte) error {
	if t, ok := ctx.Value(txKey{}).(*tx); ok && t.h.pool == s.pool {
		if _, err := t.Exec(ctx, forgetRows, scope[:]); err != nil {
			return fmt.Errorf("pgxstore: forget: %w", err)
		}
		t.h.forgot(scope)
		return nil
	}
	return s.call(ctx, "forget", s.acquire, func(conn *pgx.Conn) error {
		_, err := s.ask(ctx, conn, nil, forgetRows, scope[:])
		return err
	})
}
