package onceward_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// tell sends requests under one key and prints each answer's status and the header
// that marks a replay.
func tell(cfg onceward.Config, app http.HandlerFunc, header, mark string, bodies ...string) {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, cfg)
	if err != nil {
		panic(err)
	}
	defer guard.Close(context.Background())
	h := guard.Handler(app)
	for _, body := range bodies {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader(body))
		if header != "" {
			r.Header.Set(header, `"0a1b"`)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Header().Get(mark))))
	}
}

// as400 writes refusals the way both Stripe and YooKassa do: a reused key is 400.
func as400(kind string) func(http.ResponseWriter, *http.Request, onceward.Problem) {
	return func(w http.ResponseWriter, _ *http.Request, p onceward.Problem) {
		status := p.Status
		if status == http.StatusUnprocessableEntity {
			status = http.StatusBadRequest
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"type": kind, "message": p.Title}})
	}
}

// Stripe v1 keeps whatever the endpoint answered once it had begun, 500 included,
// and guards POST alone.
func ExampleConfig_asStripe() {
	cfg := onceward.Config{
		Methods:        []string{"POST"},
		ReplayedHeader: "Idempotent-Replayed",
		Error:          as400("idempotency_error"),
	}
	app := func(w http.ResponseWriter, r *http.Request) {
		onceward.MarkFinal(r.Context())
		w.WriteHeader(500)
	}
	tell(cfg, app, "Idempotency-Key", "Idempotent-Replayed", "amount=1", "amount=1", "amount=2")
	// Output:
	// 500
	// 500 true
	// 400
}

// draft-ietf-httpapi-idempotency-key-header-07, for a resource that requires a key.
func ExampleConfig_asDraft07() {
	cfg := onceward.Config{Require: true}
	app := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }
	tell(cfg, app, "", "Content-Type", "amount=1")
	tell(cfg, app, "Idempotency-Key", "Idempotency-Replayed", "amount=1", "amount=1", "amount=2")
	// Output:
	// 400 application/problem+json
	// 201
	// 201 1
	// 422
}

// YooKassa names the header otherwise, wants it for every POST and DELETE, and
// leaves the result of a 500 open: the client repeats it under its key.
func ExampleConfig_asYooKassa() {
	cfg := onceward.Config{
		Header:  "Idempotence-Key",
		Methods: []string{"POST", "DELETE"},
		Require: true,
		Error:   as400("invalid_request"),
	}
	failing := true
	app := func(w http.ResponseWriter, _ *http.Request) {
		if failing {
			failing = false
			w.WriteHeader(500)
			return
		}
		w.WriteHeader(200)
	}
	tell(cfg, app, "Idempotence-Key", "Idempotency-Replayed", "{}", "{}", "{}", "{1}")
	// Output:
	// 500
	// 200
	// 200 1
	// 400
}
