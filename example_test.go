package onceward_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

func Example() {
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.DiscardHandler))
	mux, orders := http.NewServeMux(), new(atomic.Int64)
	// README begins.
	store := memstore.New(memstore.Config{}) // or sqlitestore.New(ctx, db, …): it outlives the process
	user := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	guard, err := onceward.New(store, user, onceward.Config{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Close(context.Background())

	mux.Handle("POST /create-order", guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := orders.Add(1) // once for each Idempotency-Key, however often it arrives
		fmt.Fprintf(w, "order %d", n)
	})))
	// README ends.

	for range 2 { // the answer to the first was lost
		r := httptest.NewRequest("POST", "/create-order", strings.NewReader(`{"item":"book"}`))
		r.Header.Set("X-User", "ann")
		r.Header.Set("Idempotency-Key", "4b7c")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Body, w.Header().Get("Idempotency-Status"))
	}
	// Output:
	// order 1 executed;key="4b7c"
	// order 1 replayed;key="4b7c"
}
