package ledger

import (
	"context"
	"database/sql"
	"errors"

	"github.com/onceward/onceward/sqlitestore"
)

// sqlLedger keeps the orders in a table. Unique indexes, not a look before the
// insert, are what makes an id and an external id one of a kind. SQLite has no
// lock on a row: a change is written only where the revision is still the one
// that was read.
//
// The pool has one connection, which the keys' store needs too, for the keys of
// everybody at once. database/sql gives a free connection to any one of those
// who wait for it; among a hundred orders the store would wait too long. So one
// order at a time asks for it, and the store has every second turn.
type sqlLedger struct {
	db   *sql.DB
	turn chan struct{}
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// work runs statements: under guard.Atomic in the transaction that commits the
// answer too.
func (l *sqlLedger) work(ctx context.Context, work func(querier) error) error {
	if tx := sqlitestore.Tx(ctx); tx != nil {
		return work(tx)
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	return work(l.db)
}

const (
	schema = `CREATE TABLE IF NOT EXISTS orders (
	seq         INTEGER PRIMARY KEY,
	id          TEXT NOT NULL,
	user        TEXT NOT NULL,
	external_id TEXT NOT NULL DEFAULT '',
	item        TEXT NOT NULL,
	qty         INTEGER NOT NULL,
	status      TEXT NOT NULL,
	revision    TEXT NOT NULL,
	file_sha256 TEXT NOT NULL DEFAULT '',
	placed_as   TEXT NOT NULL,
	UNIQUE (user, id)
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS orders_external_id ON orders (user, external_id) WHERE external_id <> '';`

	columns = `id, user, external_id, item, qty, status, revision, file_sha256, placed_as`
)

func newSQL(ctx context.Context, db *sql.DB) (*sqlLedger, error) {
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	return &sqlLedger{db, make(chan struct{}, 1)}, nil
}

type scanner interface{ Scan(...any) error }

func scan(row scanner) (o Order, err error) {
	err = row.Scan(&o.ID, &o.User, &o.ExternalID, &o.Item, &o.Qty, &o.Status, &o.Revision, &o.FileSHA256, &o.PlacedAs)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoOrder
	}
	return o, err
}

func (l *sqlLedger) Place(ctx context.Context, o Order) (kept Order, placed bool, err error) {
	err = l.work(ctx, func(q querier) error {
		for {
			kept, err = scan(q.QueryRowContext(ctx,
				`INSERT INTO orders (`+columns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING `+columns,
				o.ID, o.User, o.ExternalID, o.Item, o.Qty, o.Status, o.Revision, o.FileSHA256, o.PlacedAs))
			if placed = err == nil; !errors.Is(err, ErrNoOrder) {
				return err
			}
			kept, err = scan(q.QueryRowContext(ctx,
				`SELECT `+columns+` FROM orders WHERE user = ?1 AND (id = ?2 OR external_id <> '' AND external_id = ?3)
				ORDER BY id = ?2 DESC LIMIT 1`, o.User, o.ID, o.ExternalID))
			if !errors.Is(err, ErrNoOrder) {
				return err
			}
			// Removed between the two, by another process: then there is room for it.
		}
	})
	return kept, placed, err
}

func (l *sqlLedger) All(ctx context.Context) (_ []Order, err error) {
	rows, err := l.db.QueryContext(ctx, `SELECT `+columns+` FROM orders ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	orders := []Order{}
	for rows.Next() {
		o, err := scan(rows)
		if err != nil {
			return nil, err
		}
		orders = append(orders, o)
	}
	return orders, rows.Err()
}

func (l *sqlLedger) Find(ctx context.Context, user, id string) (o Order, err error) {
	err = l.work(ctx, func(q querier) error {
		o, err = l.read(ctx, q, user, id)
		return err
	})
	return o, err
}

func (l *sqlLedger) read(ctx context.Context, q querier, user, id string) (Order, error) {
	return scan(q.QueryRowContext(ctx, `SELECT `+columns+` FROM orders WHERE user = ? AND id = ?`, user, id))
}

func (l *sqlLedger) Change(ctx context.Context, user, id string, how func(*Order) error) (o Order, err error) {
	err = l.work(ctx, func(q querier) error {
		for {
			was, err := l.read(ctx, q, user, id)
			if err != nil {
				return err
			}
			if o, err = was.changed(how); err != nil || o == was {
				return err
			}
			if o.Status == Removed {
				_, err = scan(q.QueryRowContext(ctx,
					`DELETE FROM orders WHERE user = ? AND id = ? AND revision = ? RETURNING `+columns, user, id, was.Revision))
			} else {
				_, err = scan(q.QueryRowContext(ctx,
					`UPDATE orders SET item = ?, qty = ?, status = ?, revision = ?
					WHERE user = ? AND id = ? AND revision = ? RETURNING `+columns,
					o.Item, o.Qty, o.Status, o.Revision, user, id, was.Revision))
			}
			if !errors.Is(err, ErrNoOrder) {
				return err
			}
			// Another process was quicker: look again.
		}
	})
	return o, err
}
