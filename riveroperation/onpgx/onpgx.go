// Package onpgx is PostgreSQL for package riveroperation, through a pgx pool that may
// be the application's own and pgxstore's. Under onceward.Guard.Atomic on pgxstore
// long work is accepted in the request's transaction.
package onpgx

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/riveroperation"
)

// Pool is the database behind pool.
func Pool(pool *pgxpool.Pool) riveroperation.Database[pgx.Tx] {
	return &database{pool: pool, driver: riverpgxv5.New(pool)}
}

type database struct {
	pool   *pgxpool.Pool
	driver *riverpgxv5.Driver
}

func (d *database) Driver() riverdriver.Driver[pgx.Tx] { return d.driver }

func (d *database) Joined(ctx context.Context) (pgx.Tx, bool) {
	tx := pgxstore.Tx(ctx)
	return tx, tx != nil
}

func (d *database) InTx(ctx context.Context, work func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, d.pool, work)
}

func (d *database) Tx(tx pgx.Tx) riveroperation.Statements { return statements{tx} }

func (d *database) Pool() riveroperation.Statements { return statements{d.pool} }

func (d *database) Now() string {
	return `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
}

func (d *database) Tables() []string {
	return []string{
		// Two processes that create a table at the same time disturb each other in spite
		// of IF NOT EXISTS.
		`SELECT pg_advisory_xact_lock(7233173838382982250)`,
		`CREATE TABLE IF NOT EXISTS onceward_operations (
			scope       bytea  NOT NULL,
			id          bytea  NOT NULL,
			fingerprint bytea  NOT NULL,
			kind        text   NOT NULL,
			input       bytea  NOT NULL,
			job_id      bigint NOT NULL,
			state       text   NOT NULL CHECK (state IN ('pending', 'complete', 'failed')),
			result      bytea,
			created_at  bigint NOT NULL,
			finished_at bigint CHECK ((finished_at IS NULL) = (state = 'pending')),
			PRIMARY KEY (scope, id)
		)`,
		`CREATE INDEX IF NOT EXISTS onceward_operations_finished ON onceward_operations (finished_at) WHERE finished_at IS NOT NULL`,
		`CREATE INDEX IF NOT EXISTS onceward_operations_pending ON onceward_operations (job_id) WHERE state = 'pending'`,
	}
}

// querier is what a pool and a transaction have in common.
type querier interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

type statements struct{ querier }

func (s statements) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := s.querier.Exec(ctx, query, args...)
	if err != nil {
		return 0, fmt.Errorf("onpgx: %w", err)
	}
	return tag.RowsAffected(), nil
}

func (s statements) Query(ctx context.Context, row func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := s.querier.Query(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("onpgx: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return fmt.Errorf("onpgx: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("onpgx: %w", err)
	}
	return nil
}
