package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/planner/internal/store"
)

func open(t *testing.T, folder string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// A second start finds the tables and the secret that the first one made, in a
// folder whose name needs escaping in a URI.
func TestASecondStartFindsWhatTheFirstOneMade(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "моя папка 100%?#")
	db := open(t, folder)
	if err := db.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	first, err := db.Secret(t.Context(), "owner")
	if err != nil {
		t.Fatal(err)
	}
	again, err := db.Secret(t.Context(), "owner")
	if err != nil || !bytes.Equal(first, again) || len(first) != 32 {
		t.Fatalf("secret %x, then %x, %v", first, again, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, folder)
	if third, err := db.Secret(t.Context(), "owner"); err != nil || !bytes.Equal(first, third) {
		t.Fatalf("after a restart the secret is %x, %v; it was %x", third, err, first)
	}
}

func TestTheWriterIsDurableAndTheReadersCannotWrite(t *testing.T) {
	db := open(t, t.TempDir())
	var mode string
	var sync, keys int
	for q, to := range map[string]any{"PRAGMA journal_mode": &mode, "PRAGMA synchronous": &sync, "PRAGMA foreign_keys": &keys} {
		if err := db.Write.QueryRow(q).Scan(to); err != nil {
			t.Fatal(q, err)
		}
	}
	if mode != "wal" || sync != 2 || keys != 1 {
		t.Errorf("journal_mode %s, synchronous %d, foreign_keys %d; want wal, 2 (FULL), 1", mode, sync, keys)
	}
	if _, err := db.Read.Exec(`INSERT INTO meta (name, value) VALUES ('x', x'00')`); err == nil {
		t.Error("a reader could write")
	}
}

// R15, B091: transactions that read before they write queue for the writer; with
// BEGIN DEFERRED most of them fail at once with "database is locked".
func TestTransactionsThatReadThenWriteNeverFailAsLocked(t *testing.T) {
	folder := t.TempDir()
	db, other := open(t, folder), open(t, folder) // two processes' worth of pools
	if _, err := db.Write.Exec(`INSERT INTO meta (name, value) VALUES ('n', '0')`); err == nil {
		t.Fatal("a STRICT table took a text for a blob")
	}
	if _, err := db.Write.Exec(`INSERT INTO meta (name, value) VALUES ('n', x'')`); err != nil {
		t.Fatal(err)
	}
	const each = 20
	var wg sync.WaitGroup
	for i := range 8 {
		d := db
		if i%2 == 1 {
			d = other
		}
		wg.Go(func() {
			for range each {
				err := d.Tx(t.Context(), func(tx *sql.Tx) error {
					var v []byte
					if err := tx.QueryRow(`SELECT value FROM meta WHERE name = 'n'`).Scan(&v); err != nil {
						return err
					}
					_, err := tx.Exec(`UPDATE meta SET value = ? WHERE name = 'n'`, append(v, '.'))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var v []byte
	if err := db.Read.QueryRow(`SELECT value FROM meta WHERE name = 'n'`).Scan(&v); err != nil || len(v) != 8*each {
		t.Errorf("%d of %d updates are there, %v", len(v), 8*each, err)
	}
}

func TestATransactionThatFailsLeavesNothing(t *testing.T) {
	db := open(t, t.TempDir())
	refused := errors.New("refused")
	err := db.Tx(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.Exec(`INSERT INTO meta (name, value) VALUES ('half', x'01')`); err != nil {
			return err
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	var n int
	if err := db.Read.QueryRow(`SELECT count(*) FROM meta WHERE name = 'half'`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows are left, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Tx(ctx, func(*sql.Tx) error { return nil }); err == nil || !strings.HasPrefix(err.Error(), "planner: ") {
		t.Errorf("a transaction on a cancelled context: %v", err)
	}
}
