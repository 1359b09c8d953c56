package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/examples/frameworks/internal/halfanswer"
	"github.com/onceward/onceward/memstore"
)

func newGuard(t *testing.T) *onceward.Guard {
	t.Helper()
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = guard.Close(context.Background()) })
	return guard
}

func post(h http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// What docs/frameworks.md warns of, and that guarded does not do it.
func TestWrapMiddlewareStoresAnEmpty200ForAnError(t *testing.T) {
	for name, c := range map[string]struct {
		middleware func(func(http.Handler) http.Handler) echo.MiddlewareFunc
		status     int
	}{
		"echo.WrapMiddleware": {echo.WrapMiddleware, http.StatusOK},
		"guarded":             {guarded, http.StatusConflict},
	} {
		t.Run(name, func(t *testing.T) {
			e := echo.New()
			e.HTTPErrorHandler = answerError
			e.Use(c.middleware(newGuard(t).Handler))
			e.POST("/", func(*echo.Context) error { return echo.NewHTTPError(http.StatusConflict, "sold out") })
			for _, outcome := range []string{"executed", "replayed"} {
				w := post(e)
				if status := w.Header().Get("Idempotency-Status"); w.Code != c.status || !strings.HasPrefix(status, outcome) {
					t.Errorf("answered %d %q %s, want %d %s", w.Code, w.Body, status, c.status, outcome)
				}
			}
		})
	}
}

// An error that comes when half of the answer is written: that half is not kept, and
// the client does not take it for the whole.
func TestAnErrorBehindHalfOfAnAnswerCutsItOff(t *testing.T) {
	var half halfanswer.Handler
	e := echo.New()
	e.HTTPErrorHandler = answerError
	e.Use(middleware.Recover(), guarded(newGuard(t).Handler))
	e.POST("/", func(c *echo.Context) error { return half.Write(c.Response()) })
	if err := halfanswer.Check(e, &half); err != nil {
		t.Error(err)
	}
}
