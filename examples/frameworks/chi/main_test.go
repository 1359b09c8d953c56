package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/examples/frameworks/internal/halfanswer"
	"github.com/onceward/onceward/memstore"
)

// What docs/frameworks.md warns of: a panic in the middle of the answer. Inside of
// the guard the Recoverer makes half of an answer a whole one, which is kept.
func TestTheRecovererStandsOutsideOfTheGuard(t *testing.T) {
	silence(t)
	for name, c := range map[string]struct {
		order func(guard func(http.Handler) http.Handler) []func(http.Handler) http.Handler
		again string
	}{
		"inside": {func(guard func(http.Handler) http.Handler) []func(http.Handler) http.Handler {
			return []func(http.Handler) http.Handler{guard, middleware.Recoverer}
		}, "replayed"},
		"outside": {func(guard func(http.Handler) http.Handler) []func(http.Handler) http.Handler {
			return []func(http.Handler) http.Handler{middleware.Recoverer, guard}
		}, "executed"},
	} {
		t.Run(name, func(t *testing.T) {
			guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = guard.Close(context.Background()) })
			broken := true
			r := chi.NewRouter()
			r.Use(c.order(guard.Handler)...)
			r.Post("/", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "half of ")
				if broken {
					panic("in the middle")
				}
			})
			send := func() *httptest.ResponseRecorder {
				r2 := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
				r2.Header.Set("Idempotency-Key", "k")
				w := httptest.NewRecorder()
				r.ServeHTTP(w, r2)
				return w
			}
			send()
			broken = false
			if status := send().Header().Get("Idempotency-Status"); !strings.HasPrefix(status, c.again) {
				t.Errorf("the repeat is %s, want %s", status, c.again)
			}
		})
	}
}

// silence keeps the Recoverer's stack off the tests' output.
func silence(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stderr
	os.Stderr = null
	t.Cleanup(func() {
		os.Stderr = was
		_ = null.Close()
	})
}

// An error that comes when half of the answer is written: that half is not kept, and
// the client does not take it for the whole.
func TestAnErrorBehindHalfOfAnAnswerCutsItOff(t *testing.T) {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = guard.Close(context.Background()) })
	var half halfanswer.Handler
	r := chi.NewRouter()
	r.Use(guard.Handler)
	r.Method(http.MethodPost, "/", handler(func(w http.ResponseWriter, _ *http.Request) error { return half.Write(w) }))
	if err := halfanswer.Check(r, &half); err != nil {
		t.Error(err)
	}
}
