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

// The order and its answer are committed together: killed at any point, the
// program has both or neither, and the client's retry settles which.
func ExampleTx() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:app.db?_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := sqlitestore.New(ctx, db, sqlitestore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(ctx)

	scope := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	guard, err := onceward.New(store, scope, onceward.Config{Require: true})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("POST /create-order", guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx := sqlitestore.Tx(r.Context())
		_, err := tx.ExecContext(r.Context(), "INSERT INTO orders (item) VALUES (?)", r.FormValue("item"))
		if err != nil {
			http.Error(w, "try again", http.StatusInternalServerError) // nothing is kept
			return
		}
		w.WriteHeader(http.StatusCreated)
	})))
}
