package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward"
)

// Look implements [onceward.Looker]. Inside a work it reads what the work has
// written.
func (s *Store) Look(ctx context.Context, key onceward.Key) (onceward.Record, bool, error) {
	if s.writer.isClosed() {
		return onceward.Record{}, false, fmt.Errorf("sqlitestore: look: %w", ErrClosed)
	}
	var r *row
	var err error
	if s.writer.inside(ctx) {
		r, err = readRow(Tx(ctx).QueryContext(ctx, selectRow, key.Scope[:], key.ID[:]))
	} else {
		r, err = readRow(s.look.QueryContext(ctx, key.Scope[:], key.ID[:]))
	}
	now := nowMilli()
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return onceward.Record{}, false, nil
	case err != nil:
		return onceward.Record{}, false, fmt.Errorf("sqlitestore: look: %w", err)
	case r.absent(now):
		return onceward.Record{}, false, nil
	}
	rec, err := r.record(key, now)
	if err != nil {
		return onceward.Record{}, false, fmt.Errorf("sqlitestore: look: %w", err)
	}
	return rec, true, nil
}

// List implements [onceward.Lister]. Of a response it knows the status alone: the
// rest stands with the body.
func (s *Store) List(ctx context.Context, q onceward.Query) ([]onceward.Record, error) {
	if s.writer.isClosed() {
		return nil, fmt.Errorf("sqlitestore: list: %w", ErrClosed)
	}
	records, err := s.list(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: list: %w", err)
	}
	return records, nil
}

func (s *Store) list(ctx context.Context, q onceward.Query) ([]onceward.Record, error) {
	now := nowMilli()
	query, args := listQuery(q, now)
	ask := s.read.QueryContext
	if s.writer.inside(ctx) {
		ask = Tx(ctx).QueryContext
	}
	rows, err := ask(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var records []onceward.Record
	for rows.Next() {
		var (
			key             onceward.Key
			r               row
			scope, id       sql.RawBytes
			fp, token       sql.RawBytes
			status          sql.NullInt64
			completedStatus onceward.Response
		)
		err := rows.Scan(&scope, &id, &fp, &r.method, &r.path, &token, &r.attempt, &r.held, &r.created, &r.lease, &r.completed, &status)
		if err != nil {
			return nil, err
		}
		copy(key.Scope[:], scope)
		copy(key.ID[:], id)
		copy(r.token[:], token)
		if err := r.fingerprint.UnmarshalBinary(fp); err != nil {
			return nil, fmt.Errorf("%w: %w", onceward.ErrEncoding, err)
		}
		if r.completed.Valid {
			completedStatus.Status = int(status.Int64)
			r.response = &completedStatus
		}
		rec, err := r.record(key, now)
		if err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	return records, rows.Err()
}

// listQuery goes along the primary key, which sorts as Key.Compare does, or along the
// index of what is in progress, which sorts alike and has little in it.
func listQuery(q onceward.Query, now int64) (string, []any) {
	where, index := []string{"(expires_at IS NULL OR expires_at > ?)"}, ""
	args := []any{now}
	and := func(condition string, more ...any) {
		where, args = append(where, condition), append(args, more...)
	}
	if q.Scope != nil {
		and("scope = ?", q.Scope[:])
	}
	if q.After != (onceward.Key{}) {
		and("(scope, key) > (?, ?)", q.After.Scope[:], q.After.ID[:])
	}
	if len(q.Prefix) > 0 {
		and("key >= ?", q.Prefix)
		if end := after(q.Prefix); end != nil {
			and("key < ?", end)
		}
	}
	switch q.State {
	case onceward.Completed:
		and("completed_at IS NOT NULL")
	case onceward.InProgress:
		and("completed_at IS NULL")
	}
	if q.Stuck {
		and("completed_at IS NULL AND (held OR lease_until <= ?)", now)
	}
	if q.Stuck || q.State == onceward.InProgress {
		index = " INDEXED BY idempotency_keys_open"
	}
	if q.Limit <= 0 {
		q.Limit = 100
	}
	args = append(args, q.Limit)
	return `SELECT scope, key, fingerprint, method, path, token, attempt, held, created_at, lease_until, completed_at, status
		FROM idempotency_keys` + index + ` WHERE ` + strings.Join(where, " AND ") + ` ORDER BY scope, key LIMIT ?`, args
}

// after is the first key that no longer begins with prefix; nil: there is none.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// forgetStep is how many records of a scope one batch deletes at most.
const forgetStep = 512

// Forget implements [onceward.Forgetter]. Inside a work of this store it takes
// part in its transaction; elsewhere a scope with very many records goes in steps,
// each durable by itself, and after an error the same call goes on.
func (s *Store) Forget(ctx context.Context, scope [32]byte) error {
	if s.writer.inside(ctx) {
		if _, err := Tx(ctx).ExecContext(ctx, "DELETE FROM idempotency_keys WHERE scope = ?", scope[:]); err != nil {
			return fmt.Errorf("sqlitestore: forget: %w", err)
		}
		return nil
	}
	for n := int64(forgetStep); n == forgetStep; {
		err := s.writer.do(&op{ctx: ctx, class: claims, run: func(tx *tx) (outcome, err error) {
			n, err = tx.exec(qForget, scope[:], forgetStep)
			return nil, err
		}})
		if err != nil {
			return fmt.Errorf("sqlitestore: forget: %w", err)
		}
	}
	return nil
}

// absent says whether the row counts as absent.
func (r *row) absent(now int64) bool { return r.expires.Valid && r.expires.Int64 <= now }
