package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// What docs/frameworks.md warns of, and that guarded does not do it.
func TestTheAdaptorsHTTPMiddlewareKeepsAnEmptyAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		middleware func(func(http.Handler) http.Handler) fiber.Handler
		again      string
	}{
		"adaptor.HTTPMiddleware": {adaptor.HTTPMiddleware, ""},
		"guarded":                {guarded, "an order"},
	} {
		t.Run(name, func(t *testing.T) {
			guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = guard.Close(context.Background()) })
			app := fiber.New()
			app.Use(c.middleware(guard.Handler))
			app.Post("/", func(c fiber.Ctx) error { return c.SendString("an order") })
			for i, want := range []string{"an order", c.again} {
				r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
				r.Header.Set("Idempotency-Key", "k")
				resp, err := app.Test(r)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(body) != want || err != nil {
					t.Errorf("answer %d is %q, want %q: %v", i+1, body, want, err)
				}
			}
		})
	}
}

// A stream that breaks off is no answer: fasthttp would put the error's text in its
// place, and the guard would keep it.
func TestAStreamThatBreaksOffIsNotKept(t *testing.T) {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = guard.Close(context.Background()) })
	app := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, _ error) error { return c.SendStatus(http.StatusInternalServerError) }})
	app.Use(guarded(guard.Handler))
	runs := 0
	app.Post("/", func(c fiber.Ctx) error {
		if runs++; runs == 1 {
			return c.SendStream(io.MultiReader(strings.NewReader("an or"), iotest.ErrReader(errors.New("password=hunter2"))))
		}
		return c.SendStream(strings.NewReader("an order"))
	})
	for i, want := range []struct {
		status  int
		outcome string
		body    string
	}{{500, "released", "Internal Server Error"}, {200, "executed", "an order"}, {200, "replayed", "an order"}} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", "k")
		resp, err := app.Test(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if outcome, _, _ := strings.Cut(resp.Header.Get("Idempotency-Status"), ";"); resp.StatusCode != want.status || outcome != want.outcome || string(body) != want.body || err != nil {
			t.Errorf("answer %d is %d %s %q (%v), want %v", i+1, resp.StatusCode, outcome, body, err, want)
		}
	}
	if runs != 2 {
		t.Errorf("it ran %d times", runs)
	}
}

// fasthttp uses a request's memory for the next one; what the guard keeps of it is
// its own.
func TestNothingOfARequestIsTheServersMemory(t *testing.T) {
	var kept *http.Request
	app := fiber.New()
	app.Use(guarded(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if kept == nil {
				kept = r
			}
			next.ServeHTTP(w, r)
		})
	}))
	app.All("/*", func(c fiber.Ctx) error { return c.SendString("ok") })
	for _, path := range []string{"/first?q=1", "/other?q=2"} {
		r := httptest.NewRequest(http.MethodPut, path, strings.NewReader("body of "+path))
		r.Header["X-Twice"] = []string{"a " + path, "b " + path}
		resp, err := app.Test(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	body, err := io.ReadAll(kept.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{kept.Method, kept.URL.Path, kept.URL.RawQuery, string(body), strings.Join(kept.Header["X-Twice"], ",")}
	if want := "PUT /first q=1 body of /first?q=1 a /first?q=1,b /first?q=1"; strings.Join(got, " ") != want {
		t.Errorf("the guard has %q, want %q", got, want)
	}
}
