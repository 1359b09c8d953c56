package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward"
)

var _ onceward.Auditor = (*Store)(nil)

// Audit implements [onceward.Auditor], in the table idempotency_audit.
func (s *Store) Audit(ctx context.Context, a onceward.Audit) error {
	err := s.writer.do(&op{ctx: ctx, class: claims, run: func(tx *tx) (outcome, err error) {
		_, err = tx.conn.ExecContext(background,
			"INSERT INTO idempotency_audit (at, who, action, reason, scope, key, token) VALUES (?, ?, ?, ?, ?, ?, ?)",
			nowMilli(), a.Who, a.Action, a.Reason, a.Key.Scope[:], a.Key.ID[:], a.Token[:])
		return nil, err
	}})
	if err != nil {
		return fmt.Errorf("sqlitestore: audit: %w", err)
	}
	return nil
}

// Audits implements [onceward.Auditor].
func (s *Store) Audits(ctx context.Context, key onceward.Key, limit int) (all []onceward.Audit, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sqlitestore: audits: %w", err)
		}
	}()
	if s.writer.isClosed() {
		return nil, ErrClosed
	}
	rows, err := s.read.QueryContext(ctx, `SELECT at, who, action, reason, scope, key, token FROM idempotency_audit
		WHERE ?1 OR scope = ?2 AND key = ?3 ORDER BY rowid DESC LIMIT ?4`, key == onceward.Key{}, key.Scope[:], key.ID[:], limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var a onceward.Audit
		var at int64
		var scope, id, token []byte
		if err := rows.Scan(&at, &a.Who, &a.Action, &a.Reason, &scope, &id, &token); err != nil {
			return nil, err
		}
		a.At = time.UnixMilli(at)
		copy(a.Key.Scope[:], scope)
		copy(a.Key.ID[:], id)
		copy(a.Token[:], token)
		all = append(all, a)
	}
	return all, rows.Err()
}
