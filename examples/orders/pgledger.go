package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/pgxstore"
)

// pgLedger keeps the orders in Postgres. As in sqlLedger each method is one
// statement, and a unique index is what makes an external id one of a kind.
type pgLedger struct{ pool *pgxpool.Pool }

const pgSchema = `CREATE TABLE IF NOT EXISTS orders (
	seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id          text NOT NULL UNIQUE,
	"user"      text NOT NULL,
	external_id text NOT NULL DEFAULT '',
	item        text NOT NULL,
	qty         bigint NOT NULL,
	status      text NOT NULL,
	file_sha256 text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX IF NOT EXISTS orders_external_id ON orders ("user", external_id) WHERE external_id <> ''`

const pgColumns = `id, "user", external_id, item, qty, status, file_sha256`

func newPGLedger(ctx context.Context, pool *pgxpool.Pool) (*pgLedger, error) {
	// IF NOT EXISTS alone lets two processes that start at once fail.
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('examples/orders'))`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, pgSchema)
		return err
	})
	return &pgLedger{pool}, err
}

// row runs one statement: under guard.Atomic in the transaction that commits the
// answer too, and which the guard runs again where the database asks for it.
func (l *pgLedger) row(ctx context.Context, query string, args ...any) (o order, err error) {
	if tx := pgxstore.Tx(ctx); tx != nil {
		return l.scan(tx.QueryRow(ctx, query, args...))
	}
	for {
		o, err = l.scan(l.pool.QueryRow(ctx, query, args...))
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != serializationFailure && refused.Code != deadlock {
			return o, err
		}
		// The statement was its whole transaction and has left nothing.
	}
}

const (
	serializationFailure = "40001"
	deadlock             = "40P01"
)

func (l *pgLedger) scan(row pgx.Row) (o order, err error) {
	err = row.Scan(&o.ID, &o.User, &o.ExternalID, &o.Item, &o.Qty, &o.Status, &o.FileSHA256)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errNoOrder
	}
	return o, err
}

func (l *pgLedger) place(ctx context.Context, o order) (order, bool, error) {
	for {
		kept, err := l.row(ctx,
			`INSERT INTO orders (`+pgColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT ("user", external_id) WHERE external_id <> '' DO NOTHING RETURNING `+pgColumns,
			o.ID, o.User, o.ExternalID, o.Item, o.Qty, o.Status, o.FileSHA256)
		if !errors.Is(err, errNoOrder) {
			return kept, true, err
		}
		kept, err = l.row(ctx, `SELECT `+pgColumns+` FROM orders WHERE "user" = $1 AND external_id = $2`, o.User, o.ExternalID)
		if !errors.Is(err, errNoOrder) {
			return kept, false, err
		}
		// Deleted between the two: then there is room for it.
	}
}

func (l *pgLedger) all(ctx context.Context) ([]order, error) {
	rows, err := l.pool.Query(ctx, `SELECT `+pgColumns+` FROM orders ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	orders, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o order, err error) {
		return o, row.Scan(&o.ID, &o.User, &o.ExternalID, &o.Item, &o.Qty, &o.Status, &o.FileSHA256)
	})
	if orders == nil {
		orders = []order{}
	}
	return orders, err
}

func (l *pgLedger) find(ctx context.Context, user, id string) (order, error) {
	return l.row(ctx, `SELECT `+pgColumns+` FROM orders WHERE "user" = $1 AND id = $2`, user, id)
}

func (l *pgLedger) replace(ctx context.Context, wish order) (order, error) {
	return l.row(ctx, `UPDATE orders SET item = $1, qty = $2 WHERE "user" = $3 AND id = $4 RETURNING `+pgColumns,
		wish.Item, wish.Qty, wish.User, wish.ID)
}

func (l *pgLedger) cancel(ctx context.Context, user, id string) (order, error) {
	return l.row(ctx, `UPDATE orders SET status = 'cancelled' WHERE "user" = $1 AND id = $2 RETURNING `+pgColumns, user, id)
}

func (l *pgLedger) remove(ctx context.Context, user, id string) error {
	_, err := l.row(ctx, `DELETE FROM orders WHERE "user" = $1 AND id = $2 RETURNING `+pgColumns, user, id)
	if errors.Is(err, errNoOrder) {
		return nil
	}
	return err
}
