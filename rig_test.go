package onceward_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// rig is a guard around a handler, called without a network.
type rig struct {
	t     testing.TB
	guard *onceward.Guard
	h     http.Handler
	runs  atomic.Int64 // how often the handler was entered
}

func newRig(t testing.TB, store onceward.Store, cfg onceward.Config, app http.HandlerFunc) *rig {
	t.Helper()
	if store == nil {
		store = memstore.New(memstore.Config{})
	}
	cfg.SweepEvery = -1
	guard, err := onceward.New(store, byUser, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, guard: guard}
	r.h = guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.runs.Add(1)
		app(w, req)
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := guard.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

func byUser(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }

// post sends a body under a key as user ann. Pairs of header names and values
// follow.
func (r *rig) post(key, body string, header ...string) *httptest.ResponseRecorder {
	return r.do(request(key, body, header...))
}

func request(key, body string, header ...string) *http.Request {
	req := httptest.NewRequest("POST", "/orders", strings.NewReader(body))
	req.Header.Set("X-User", "ann")
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

func (r *rig) do(req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.h.ServeHTTP(w, req)
	return w
}

// want checks an answer's status and the start of its Idempotency-Status.
func want(t testing.TB, w *httptest.ResponseRecorder, status int, token string) {
	t.Helper()
	got := w.Header().Get("Idempotency-Status")
	if w.Code != status || got != token && !strings.HasPrefix(got, token+";") || (token == "") != (got == "") {
		t.Fatalf("got %d with Idempotency-Status %q, want %d with %q; body %q", w.Code, got, status, token, w.Body)
	}
}

func (r *rig) wantRuns(n int64) {
	r.t.Helper()
	if got := r.runs.Load(); got != n {
		r.t.Fatalf("the handler ran %d times, want %d", got, n)
	}
}

func created(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Location", "/orders/1")
	w.Header().Add("Link", "</a>; rel=a")
	w.Header().Add("Link", "</b,c>; rel=\"b\"")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(append([]byte("made "), body...))
}
