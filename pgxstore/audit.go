package pgxstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward"
)

var _ onceward.Auditor = (*Store)(nil)

// Audit implements [onceward.Auditor], in the table idempotency_audit. After a lost
// connection it may stand there twice.
func (s *Store) Audit(ctx context.Context, a onceward.Audit) error {
	return s.call(ctx, "audit", s.acquire, func(conn *pgx.Conn) error {
		_, err := s.ask(ctx, conn, nil, `INSERT INTO idempotency_audit (at, who, action, reason, scope, key, token)
			VALUES (clock_timestamp(), $1::text, $2::text, $3::text, $4::bytea, $5::bytea, $6::bytea)`,
			a.Who, a.Action, a.Reason, a.Key.Scope[:], a.Key.ID[:], a.Token[:])
		return err
	})
}

// Audits implements [onceward.Auditor].
func (s *Store) Audits(ctx context.Context, key onceward.Key, limit int) (all []onceward.Audit, err error) {
	scan := func(rows pgx.Rows) error {
		var a onceward.Audit
		var scope, id, token []byte
		if err := rows.Scan(&a.At, &a.Who, &a.Action, &a.Reason, &scope, &id, &token); err != nil {
			return err
		}
		copy(a.Key.Scope[:], scope)
		copy(a.Key.ID[:], id)
		copy(a.Token[:], token)
		all = append(all, a)
		return nil
	}
	err = s.call(ctx, "audits", s.acquire, func(conn *pgx.Conn) error {
		all = nil
		_, err := s.ask(ctx, conn, scan, `SELECT at, who, action, reason, scope, key, token FROM idempotency_audit
			WHERE $1::boolean OR scope = $2::bytea AND key = $3::bytea ORDER BY id DESC LIMIT $4::integer`,
			key == onceward.Key{}, key.Scope[:], key.ID[:], limit)
		return err
	})
	return all, err
}
