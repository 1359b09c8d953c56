package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNewerSchema means that a newer version of this package has changed the
// table: this program must not write to it.
var ErrNewerSchema = errors.New("sqlitestore: the table idempotency_keys was made by a newer version of this package")

// migrations bring the table from version i to i+1. They are never edited once
// released; a new one is added. Times are milliseconds since 1970, UTC.
//
// The table keeps its rowid: rows are added at its end, so that a batch touches
// few pages and completing a row touches the page that claiming it has just
// written. The response stands last, where its overflow pages cost nothing to
// those who read the rest.
var migrations = []string{
	`CREATE TABLE idempotency_keys (
		scope        BLOB    NOT NULL, -- SHA-256 of the scope
		key          BLOB    NOT NULL, -- SHA-256 of the key
		fingerprint  BLOB    NOT NULL, -- version byte, SHA-256 of the request
		method       TEXT    NOT NULL,
		path         TEXT    NOT NULL,
		token        BLOB    NOT NULL, -- whose claim it is
		attempt      INTEGER NOT NULL,
		held         INTEGER NOT NULL, -- 1: nobody may take it over
		created_at   INTEGER NOT NULL, -- first claim
		lease_until  INTEGER NOT NULL,
		keep         INTEGER NOT NULL, -- an abandoned claim counts so long after its lease; negative: for ever
		completed_at INTEGER,          -- NULL: in progress
		status       INTEGER,          -- HTTP status of the answer
		expires_at   INTEGER,          -- from then on the row counts as absent; NULL: never
		response     BLOB,
		PRIMARY KEY (scope, key)
	) STRICT;
	CREATE INDEX idempotency_keys_expires ON idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;`,
	`CREATE TABLE idempotency_audit (
		at     INTEGER NOT NULL,
		who    TEXT    NOT NULL,
		action TEXT    NOT NULL, -- release, complete
		reason TEXT    NOT NULL,
		scope  BLOB    NOT NULL,
		key    BLOB    NOT NULL,
		token  BLOB    NOT NULL -- of the claim that was ended
	) STRICT;
	CREATE INDEX idempotency_audit_key ON idempotency_audit (scope, key);`,
	// What is in progress is little, and asked for again and again by those who watch;
	// without this they would read every record that there is. Its pages are few
	// and always at hand.
	`CREATE INDEX idempotency_keys_open ON idempotency_keys (scope, key) WHERE completed_at IS NULL;`,
}

// Schema returns the statements that make an empty database ready for this version
// of the package. [New] executes them by itself; they are for those whose program
// may not create tables.
func Schema() string {
	var b strings.Builder
	b.WriteString("BEGIN IMMEDIATE;\n" + createVersion + ";\n")
	for _, m := range migrations {
		b.WriteString(m + "\n")
	}
	fmt.Fprintf(&b, "INSERT INTO idempotency_schema VALUES (%d);\nCOMMIT;\n", len(migrations))
	return b.String()
}

// createVersion makes the version's table, which is one of its own because the
// file's user_version belongs to the application.
const createVersion = `CREATE TABLE IF NOT EXISTS idempotency_schema (version INTEGER NOT NULL) STRICT`

// migrate makes the file ready, trying again for as long as patience while
// other processes do the same.
func migrate(ctx context.Context, db *sql.DB, patience time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var pause backoff
	for deadline := time.Now().Add(patience); ; {
		err := migrateOnce(ctx, db)
		if err == nil || !isBusy(err) || time.Now().After(deadline) || !pause.wait(ctx) {
			return err
		}
	}
}

func migrateOnce(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlitestore: migrate: %w", err)
	}
	defer conn.Close()
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode); err != nil {
		return fmt.Errorf("sqlitestore: switch to the write-ahead log: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("sqlitestore: the database cannot have a write-ahead log (its journal_mode is %q): it must be a writable file", mode)
	}
	// Not interruptible from here: a cancelled statement could leave the
	// pool's connection inside a transaction.
	ctx = context.WithoutCancel(ctx)
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("sqlitestore: migrate: %w", err)
	}
	if err := applyMigrations(ctx, conn); err != nil {
		rollback(ctx, conn)
		return err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		rollback(ctx, conn)
		return fmt.Errorf("sqlitestore: migrate: %w", err)
	}
	return nil
}

func applyMigrations(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, createVersion); err != nil {
		return fmt.Errorf("sqlitestore: migrate: %w", err)
	}
	version := 0
	err := conn.QueryRowContext(ctx, "SELECT version FROM idempotency_schema").Scan(&version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("sqlitestore: migrate: %w", err)
	}
	if version > len(migrations) {
		return fmt.Errorf("%w: it has schema version %d, this one knows up to %d; run the newer program", ErrNewerSchema, version, len(migrations))
	}
	if version == len(migrations) {
		return nil
	}
	for i := version; i < len(migrations); i++ {
		if _, err := conn.ExecContext(ctx, migrations[i]); err != nil {
			return fmt.Errorf("sqlitestore: migrate to schema version %d: %w", i+1, err)
		}
	}
	for _, change := range []string{
		"DELETE FROM idempotency_schema",
		fmt.Sprintf("INSERT INTO idempotency_schema VALUES (%d)", len(migrations)),
	} {
		if _, err := conn.ExecContext(ctx, change); err != nil {
			return fmt.Errorf("sqlitestore: migrate: %w", err)
		}
	}
	return nil
}
