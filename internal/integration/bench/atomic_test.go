package bench

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/sqlitestore"
)

// An order under Atomic (one insert of the handler's, the key and the stored
// answer in one transaction) against the same handler that commits its insert by
// itself, with one connection that all take in turn, and with one for each client.
func BenchmarkSQLiteAtomic(b *testing.B) {
	for _, conns := range []int{1, 32} {
		b.Run(fmt.Sprintf("pool-of-%d", conns), func(b *testing.B) {
			db := openSQLite(b, conns)
			if _, err := db.Exec(createOrdersSQLite); err != nil {
				b.Fatal(err)
			}
			guard := guardOf(b, sqliteStore(b, db))
			guarded := guard.Atomic(shop(func(ctx context.Context, item string, qty int) (int64, error) {
				done, err := sqlitestore.Tx(ctx).ExecContext(ctx, insertSQLite, item, qty)
				if err != nil {
					return 0, err
				}
				return done.LastInsertId()
			}))
			bare := shop(func(ctx context.Context, item string, qty int) (int64, error) {
				return insertAlone(ctx, db, item, qty)
			})
			atomic := &side{name: "atomic", request: ordering(guarded)}
			alone := &side{name: "bare", request: ordering(bare)}
			inTurn(b, 32, atomic, alone)
			reportRates(b, atomic, alone)
			b.ReportMetric(float64(atomic.quantile(.99))/float64(atomic.quantile(.5)), "p99/p50")
		})
	}
}

func insertAlone(ctx context.Context, db *sql.DB, item string, qty int) (int64, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	done, err := tx.ExecContext(ctx, insertSQLite, item, qty)
	if err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	return done.LastInsertId()
}

func insertAlonePostgres(ctx context.Context, pool *pgxpool.Pool, item string, qty int) (id int64, err error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx)
	if err := tx.QueryRow(ctx, insertPostgres, item, qty).Scan(&id); err != nil {
		return 0, err
	}
	return id, tx.Commit(ctx)
}

// The same on PostgreSQL.
func BenchmarkPostgresAtomic(b *testing.B) {
	for _, clients := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("clients-%d", clients), func(b *testing.B) {
			pool := pgPool(b, postgresDSN(b), clients, nil)
			if _, err := pool.Exec(context.Background(), createOrdersPostgres); err != nil {
				b.Fatal(err)
			}
			guard := guardOf(b, pgStore(b, pool))
			guarded := guard.Atomic(shop(func(ctx context.Context, item string, qty int) (id int64, err error) {
				err = pgxstore.Tx(ctx).QueryRow(ctx, insertPostgres, item, qty).Scan(&id)
				return id, err
			}))
			bare := shop(func(ctx context.Context, item string, qty int) (int64, error) {
				return insertAlonePostgres(ctx, pool, item, qty)
			})
			atomic := &side{name: "atomic", request: ordering(guarded)}
			alone := &side{name: "bare", request: ordering(bare)}
			inTurn(b, clients, atomic, alone)
			reportRates(b, atomic, alone)
		})
	}
}
