package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// docs: chi whole
func Example() {
	// In memory, for a try; sqlitestore, pgxstore and redisstore outlive the process.
	store := memstore.New(memstore.Config{})
	scope := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil } // who asks: whatever your login knows
	guard, err := onceward.New(store, scope, onceward.Config{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Close(context.Background())

	orders := 0
	shop := chi.NewRouter() // what you have
	shop.Post("/create-order", func(w http.ResponseWriter, r *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d", orders)
	})

	app := chi.Chain(middleware.Recoverer, guard.Handler).Handler(shop) // what is new; your login stands between the two

	server := httptest.NewServer(app) // http.ListenAndServe(":8080", app)
	defer server.Close()
	for range 2 { // the answer was lost, and the client sends the same again
		r, _ := http.NewRequest("POST", server.URL+"/create-order", strings.NewReader(`{"item":"tea"}`))
		r.Header.Set("X-User", "ann")
		r.Header.Set("Idempotency-Key", "7f0c2f3e")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		fmt.Println(resp.StatusCode, string(body), resp.Header.Get("Idempotency-Status"))
	}
	// Output:
	// 201 order 1 executed;key="7f0c2f3e"
	// 201 order 1 replayed;key="7f0c2f3e"
}

// docs: end
