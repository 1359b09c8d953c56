package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/onceward/onceward/sqlitestore"
)

// sqlLedger keeps the orders in a table. Each method is one statement, so there
// is nothing between looking and acting; the unique index, not a look before the
// insert, is what makes an external id one of a kind.
//
// The pool has one connection, which the keys' store needs too, for the keys of
// everybody at once. database/sql gives a free connection to any one of those
// who wait for it; among a hundred orders the store would wait too long. So one
// order at a time asks for it, and the store has every second turn.
type sqlLedger struct {
	db   *sql.DB
	turn chan struct{}
}

func (l *sqlLedger) row(ctx context.Context, query string, args ...any) (order, error) {
	// Under guard.Atomic the order is written in the transaction that commits its
	// answer too.
	if tx := sqlitestore.Tx(ctx); tx != nil {
		return scan(tx.QueryRowContext(ctx, query, args...))
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return order{}, ctx.Err()
	}
	defer func() { <-l.turn }()
	return scan(l.db.QueryRowContext(ctx, query, args...))
}

const (
	schema = `CREATE TABLE IF NOT EXISTS orders (
	seq         INTEGER PRIMARY KEY,
	id          TEXT NOT NULL UNIQUE,
	user        TEXT NOT NULL,
	external_id TEXT NOT NULL DEFAULT '',
	item        TEXT NOT NULL,
	qty         INTEGER NOT NULL,
	status      TEXT NOT NULL,
	file_sha256 TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS orders_external_id ON orders (user, external_id) WHERE external_id <> '';`

	columns = `id, user, external_id, item, qty, status, file_sha256`
)

func newSQLLedger(ctx context.Context, db *sql.DB) (*sqlLedger, error) {
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	return &sqlLedger{db, make(chan struct{}, 1)}, nil
}

type scanner interface{ Scan(...any) error }

func scan(row scanner) (o order, err error) {
	err = row.Scan(&o.ID, &o.User, &o.ExternalID, &o.Item, &o.Qty, &o.Status, &o.FileSHA256)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoOrder
	}
	return o, err
}

func (l *sqlLedger) place(ctx context.Context, o order) (order, bool, error) {
	kept, err := l.row(ctx,
		`INSERT INTO orders (`+columns+`) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (user, external_id) WHERE external_id <> '' DO NOTHING RETURNING `+columns,
		o.ID, o.User, o.ExternalID, o.Item, o.Qty, o.Status, o.FileSHA256)
	if !errors.Is(err, errNoOrder) {
		return kept, true, err
	}
	kept, err = l.row(ctx,
		`SELECT `+columns+` FROM orders WHERE user = ? AND external_id = ?`, o.User, o.ExternalID)
	return kept, false, err
}

func (l *sqlLedger) all(ctx context.Context) (_ []order, err error) {
	rows, err := l.db.QueryContext(ctx, `SELECT `+columns+` FROM orders ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	orders := []order{}
	for rows.Next() {
		o, err := scan(rows)
		if err != nil {
			return nil, err
		}
		orders = append(orders, o)
	}
	return orders, rows.Err()
}

func (l *sqlLedger) find(ctx context.Context, user, id string) (order, error) {
	return l.row(ctx, `SELECT `+columns+` FROM orders WHERE user = ? AND id = ?`, user, id)
}

func (l *sqlLedger) replace(ctx context.Context, wish order) (order, error) {
	return l.row(ctx, `UPDATE orders SET item = ?, qty = ? WHERE user = ? AND id = ? RETURNING `+columns,
		wish.Item, wish.Qty, wish.User, wish.ID)
}

func (l *sqlLedger) cancel(ctx context.Context, user, id string) (order, error) {
	return l.row(ctx, `UPDATE orders SET status = 'cancelled' WHERE user = ? AND id = ? RETURNING `+columns, user, id)
}

func (l *sqlLedger) remove(ctx context.Context, user, id string) error {
	_, err := l.row(ctx, `DELETE FROM orders WHERE user = ? AND id = ? RETURNING `+columns, user, id)
	if errors.Is(err, errNoOrder) {
		return nil
	}
	return err
}
