package pgxstore_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/pgxstore"
)

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db/app") // the application's own
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	store, err := pgxstore.New(ctx, pool, pgxstore.Config{})
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

// An order, and the note that its key has been answered, in one transaction.
func ExampleTx() {
	createOrder := func(ctx context.Context, item string) error {
		_, err := pgxstore.Tx(ctx).Exec(ctx, "INSERT INTO orders (item) VALUES ($1)", item)
		return err
	}
	var store *pgxstore.Store // from pgxstore.New

	handle := func(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
		return store.Transact(ctx, c, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			if err := createOrder(ctx, "notebook"); err != nil {
				return onceward.Abort, nil, err
			}
			return onceward.Commit, &onceward.Response{Status: http.StatusCreated}, nil
		})
	}
	_ = handle
}

// What an administrator executes for a program that may not create tables.
func ExampleSchema() {
	for line := range strings.Lines(pgxstore.Schema()) {
		if strings.HasPrefix(line, "CREATE") {
			fmt.Println(strings.TrimRight(line, " (\n"))
		}
	}
	// Output:
	// CREATE TABLE IF NOT EXISTS idempotency_schema (version integer NOT NULL);
	// CREATE TABLE idempotency_keys
	// CREATE INDEX idempotency_keys_sweep ON idempotency_keys (sweep_at) WHERE sweep_at IS NOT NULL;
	// CREATE TABLE idempotency_audit
	// CREATE INDEX idempotency_audit_key ON idempotency_audit (scope, key);
}
