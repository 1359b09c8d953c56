package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNewerSchema means that a newer version of this package has changed the
// table: this program must not write to it.
var ErrNewerSchema = errors.New("pgxstore: the table idempotency_keys was made by a newer version of this package")

// migrations bring the table from version i to i+1. They are never edited once
// released; a new one is added.
//
// A claim is written once and rewritten once, by its answer. So that the second
// version fits on the page of the first and no index is touched (a HOT update),
// half of each page is kept free, and no indexed column changes with it:
// sweep_at is a lower bound of expires_at, rounded down to the minute, which the
// answer nearly always leaves as it is. Autovacuum comes early, because rows go
// at the rate at which they come.
var migrations = []string{
	`CREATE TABLE idempotency_keys (
	scope        bytea       NOT NULL, -- SHA-256 of the scope
	key          bytea       NOT NULL, -- SHA-256 of the key
	fingerprint  bytea       NOT NULL, -- version byte, SHA-256 of the request
	method       text        NOT NULL,
	path         text        NOT NULL,
	token        bytea       NOT NULL, -- whose claim it is
	attempt      integer     NOT NULL,
	held         boolean     NOT NULL, -- nobody may take it over
	created_at   timestamptz NOT NULL, -- first claim
	lease_until  timestamptz NOT NULL,
	keep         bigint      NOT NULL, -- microseconds: an abandoned claim counts so long after its lease; negative: for ever
	completed_at timestamptz,          -- NULL: in progress
	status       integer,              -- HTTP status of the answer
	expires_at   timestamptz,          -- from then on the row counts as absent; NULL: never
	sweep_at     timestamptz,          -- not worth sweeping before; NULL: never
	response     bytea,
	PRIMARY KEY (scope, key)
) WITH (
	fillfactor = 50,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
	autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05,
	autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_threshold = 1000
);
ALTER TABLE idempotency_keys ALTER COLUMN response SET STORAGE EXTERNAL;
CREATE INDEX idempotency_keys_sweep ON idempotency_keys (sweep_at) WHERE sweep_at IS NOT NULL;
`,
	`CREATE TABLE idempotency_audit (
	id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at     timestamptz NOT NULL,
	who    text        NOT NULL,
	action text        NOT NULL, -- release, complete
	reason text        NOT NULL,
	scope  bytea       NOT NULL,
	key    bytea       NOT NULL,
	token  bytea       NOT NULL -- of the claim that was ended
);
CREATE INDEX idempotency_audit_key ON idempotency_audit (scope, key);
`,
}

const (
	createVersion = "CREATE TABLE IF NOT EXISTS idempotency_schema (version integer NOT NULL);\n"
	// The number names the table: all processes that migrate wait for each other.
	migrationLock = 0x6f6e63657761
)

// Schema returns the statements that make an empty database ready for this
// version of the package. [New] executes them by itself; they are for those whose
// program may not create tables.
func Schema() string {
	var b strings.Builder
	b.WriteString("BEGIN;\n" + createVersion)
	for _, m := range migrations {
		b.WriteString(m)
	}
	fmt.Fprintf(&b, "INSERT INTO idempotency_schema VALUES (%d);\nCOMMIT;\n", len(migrations))
	return b.String()
}

// migrate makes the database ready. A database that is ready already is only
// read, so that the program needs no right to change it.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	var encoding string
	if err := pool.QueryRow(ctx, "SELECT current_setting('server_encoding')").Scan(&encoding); err != nil {
		return fmt.Errorf("pgxstore: migrate: %w", err)
	}
	if encoding != "UTF8" && encoding != "SQL_ASCII" {
		return fmt.Errorf("pgxstore: the database is encoded as %s, and the path of a request may have letters that it cannot keep; it must be UTF8", encoding)
	}
	return retried(ctx, func() (bool, error) {
		return false, pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return applyMigrations(ctx, tx)
		})
	})
}

func applyMigrations(ctx context.Context, tx pgx.Tx) error {
	version, err := 0, error(nil)
	var there bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass('idempotency_schema') IS NOT NULL").Scan(&there); err != nil {
		return fmt.Errorf("pgxstore: migrate: %w", err)
	}
	if there {
		if version, err = schemaVersion(ctx, tx); err != nil || version == len(migrations) {
			return err
		}
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", int64(migrationLock)); err != nil {
		return fmt.Errorf("pgxstore: migrate: %w", err)
	}
	// Several statements in one text need the simple protocol, whatever the pool's mode is.
	run := func(text string) error {
		_, err := tx.Conn().PgConn().Exec(ctx, text).ReadAll()
		return err
	}
	// Not to_regclass: that may remember, until the session has locked some table,
	// that there was none.
	if err := run(createVersion); err != nil {
		return fmt.Errorf("pgxstore: migrate: %w", err)
	}
	if version, err = schemaVersion(ctx, tx); err != nil || version == len(migrations) {
		return err
	}
	for i := version; i < len(migrations); i++ {
		if err := run(migrations[i]); err != nil {
			return fmt.Errorf("pgxstore: migrate to schema version %d: %w", i+1, err)
		}
	}
	err = run(fmt.Sprintf("DELETE FROM idempotency_schema; INSERT INTO idempotency_schema VALUES (%d)", len(migrations)))
	if err != nil {
		return fmt.Errorf("pgxstore: migrate: %w", err)
	}
	return nil
}

// schemaVersion is zero where the package has never been.
func schemaVersion(ctx context.Context, tx pgx.Tx) (version int, err error) {
	if err := tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM idempotency_schema").Scan(&version); err != nil {
		return 0, fmt.Errorf("pgxstore: migrate: %w", err)
	}
	if version > len(migrations) {
		return 0, fmt.Errorf("%w: it has schema version %d, this one knows up to %d; run the newer program", ErrNewerSchema, version, len(migrations))
	}
	return version, nil
}
