package sqlitestore_test

import (
	"context"
	"database/sql"
	"log"
	"net/http"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// The driver is the program's own choice: here it would be imported as
// _ "modernc.org/sqlite".
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:app.db")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // one writer, shared by the application and the store

	store, err := sqlitestore.New(ctx, db, sqlitestore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(ctx)

	scope := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	guard, err := onceward.New(store, scope, onceward.Config{})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", guard.Handler(http.NotFoundHandler()))
}
