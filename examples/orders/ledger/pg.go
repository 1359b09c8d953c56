package ledger

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/pgxstore"
)

// pgLedger keeps the orders in Postgres. As in sqlLedger unique indexes are what
// makes an id and an external id one of a kind; whoever is about to change an
// order locks its row first.
type pgLedger struct{ pool *pgxpool.Pool }

const pgSchema = `CREATE TABLE IF NOT EXISTS orders (
	seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id          text NOT NULL,
	"user"      text NOT NULL,
	external_id text NOT NULL DEFAULT '',
	item        text NOT NULL,
	qty         bigint NOT NULL,
	status      text NOT NULL,
	revision    text NOT NULL,
	file_sha256 text NOT NULL DEFAULT '',
	placed_as   text NOT NULL,
	UNIQUE ("user", id)
);
CREATE UNIQUE INDEX IF NOT EXISTS orders_external_id ON orders ("user", external_id) WHERE external_id <> ''`

const pgColumns = `id, "user", external_id, item, qty, status, revision, file_sha256, placed_as`

func newPG(ctx context.Context, pool *pgxpool.Pool) (*pgLedger, error) {
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
func (l *pgLedger) row(ctx context.Context, query string, args ...any) (o Order, err error) {
	if tx := pgxstore.Tx(ctx); tx != nil {
		return l.scan(tx.QueryRow(ctx, query, args...))
	}
	for {
		o, err = l.scan(l.pool.QueryRow(ctx, query, args...))
		if !again(err) {
			return o, err
		}
	}
}

// transact runs work in a transaction: under guard.Atomic in that of the answer.
func (l *pgLedger) transact(ctx context.Context, work func(pgx.Tx) error) error {
	if tx := pgxstore.Tx(ctx); tx != nil {
		return work(tx)
	}
	for {
		if err := pgx.BeginFunc(ctx, l.pool, work); !again(err) {
			return err
		}
	}
}

// again tells a refusal that asks for the same transaction once more: it has left
// nothing.
func again(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == serializationFailure || refused.Code == deadlock)
}

const (
	serializationFailure = "40001"
	deadlock             = "40P01"
)

func (l *pgLedger) scan(row pgx.Row) (o Order, err error) {
	err = row.Scan(&o.ID, &o.User, &o.ExternalID, &o.Item, &o.Qty, &o.Status, &o.Revision, &o.FileSHA256, &o.PlacedAs)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNoOrder
	}
	return o, err
}

func (l *pgLedger) Place(ctx context.Context, o Order) (Order, bool, error) {
	for {
		kept, err := l.row(ctx,
			`INSERT INTO orders (`+pgColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING `+pgColumns,
			o.ID, o.User, o.ExternalID, o.Item, o.Qty, o.Status, o.Revision, o.FileSHA256, o.PlacedAs)
		if !errors.Is(err, ErrNoOrder) {
			return kept, err == nil, err
		}
		kept, err = l.row(ctx,
			`SELECT `+pgColumns+` FROM orders WHERE "user" = $1 AND (id = $2 OR external_id <> '' AND external_id = $3)
			ORDER BY id = $2 DESC LIMIT 1`, o.User, o.ID, o.ExternalID)
		if !errors.Is(err, ErrNoOrder) {
			return kept, false, err
		}
		// Removed between the two: then there is room for it.
	}
}

func (l *pgLedger) All(ctx context.Context) ([]Order, error) {
	rows, err := l.pool.Query(ctx, `SELECT `+pgColumns+` FROM orders ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	orders, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o Order, err error) {
		return o, row.Scan(&o.ID, &o.User, &o.ExternalID, &o.Item, &o.Qty, &o.Status, &o.Revision, &o.FileSHA256, &o.PlacedAs)
	})
	if orders == nil {
		orders = []Order{}
	}
	return orders, err
}

func (l *pgLedger) Find(ctx context.Context, user, id string) (Order, error) {
	return l.row(ctx, `SELECT `+pgColumns+` FROM orders WHERE "user" = $1 AND id = $2`, user, id)
}

// change locks the order's row before it looks. Whoever comes meanwhile waits, and
// then sees what is left: without FOR UPDATE two that add one to 5 would both
// write 6.
func (l *pgLedger) Change(ctx context.Context, user, id string, how func(*Order) error) (o Order, err error) {
	err = l.transact(ctx, func(tx pgx.Tx) error {
		was, err := l.scan(tx.QueryRow(ctx,
			`SELECT `+pgColumns+` FROM orders WHERE "user" = $1 AND id = $2 FOR UPDATE`, user, id))
		if err != nil {
			o = was
			return err
		}
		if o, err = was.changed(how); err != nil || o == was {
			return err
		}
		if o.Status == Removed {
			_, err = tx.Exec(ctx, `DELETE FROM orders WHERE "user" = $1 AND id = $2`, user, id)
		} else {
			_, err = tx.Exec(ctx, `UPDATE orders SET item = $1, qty = $2, status = $3, revision = $4 WHERE "user" = $5 AND id = $6`,
				o.Item, o.Qty, o.Status, o.Revision, user, id)
		}
		return err
	})
	return o, err
}
