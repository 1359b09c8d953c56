package stores_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/onceward/onceward/sqlitestore"
)

// openPool opens a pool on file; its DSN sets nothing that the store must set.
func openPool(t testing.TB, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// openStore opens a store on db and closes it before db is closed.
func openStore(t testing.TB, db *sql.DB, cfg sqlitestore.Config) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.New(context.Background(), db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}
