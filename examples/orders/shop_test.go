package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward/examples/orders/ledger"
)

// ask sends a request to a shop that nothing guards.
func ask(t *testing.T, h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Requirement 68. What holds on every store is tested from outside; here are the
// headers.
func TestAnOrdersETagIsItsRevision(t *testing.T) {
	_, orders, closeAll, err := ledger.Open(t.Context(), "memory:", "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	h := routes(&shop{orders, func(*http.Request) (string, error) { return "", nil }})
	created := ask(t, h, "POST", "/create-order", `{"item":"tea","qty":1}`)
	tag, at := created.Header().Get("ETag"), created.Header().Get("Location")
	if got := ask(t, h, "GET", at, ""); got.Code != 200 || got.Header().Get("ETag") != tag || len(tag) < 10 {
		t.Errorf("created with %s, read as %d with %s", tag, got.Code, got.Header().Get("ETag"))
	}
	for _, c := range []struct {
		name, value string
		want        int
	}{
		{"If-None-Match", tag, 304},
		{"If-None-Match", "W/" + tag, 304},
		{"If-None-Match", "*", 304},
		{"If-None-Match", `"another"`, 200},
		{"If-None-Match", `not a tag`, 200}, // reading does no harm
		{"If-Match", tag, 200},
		{"If-Match", "W/" + tag, 412},
		{"If-Match", `"another"`, 412},
	} {
		got := ask(t, h, "GET", at, "", c.name, c.value)
		if got.Code != c.want || got.Header().Get("ETag") != tag || c.want == 304 && got.Body.Len() > 0 {
			t.Errorf("GET with %s: %s is %d %v %s", c.name, c.value, got.Code, got.Header(), got.Body)
		}
	}
	for _, c := range []struct{ method, path string }{{"PUT", at}, {"DELETE", at}, {"POST", at + "/cancel"}, {"POST", at + "/add"}} {
		got := ask(t, h, c.method, c.path, `{"item":"jam","qty":2}`, "If-Match", "5")
		if got.Code != 400 || !strings.Contains(got.Body.String(), "If-Match") {
			t.Errorf("%s with a condition that is none: %d %s", c.method, got.Code, got.Body)
		}
	}
	changed := ask(t, h, "PUT", at, `{"item":"tea","qty":2}`, "If-Match", tag)
	if now := changed.Header().Get("ETag"); changed.Code != 200 || now == tag || now == "" {
		t.Errorf("changed: %d %s", changed.Code, now)
	}
}
