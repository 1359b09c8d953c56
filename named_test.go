package onceward_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// Requirement 66: a handler that hands its work on knows under which name it runs, the
// same at each repeat, and another for another request.
func TestAHandlerKnowsTheNameOfItsRequest(t *testing.T) {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close(context.Background())
	type name struct {
		key onceward.Key
		fp  onceward.Fingerprint
		ok  bool
	}
	var seen []name
	type inner struct{}
	h := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n name
		n.key, n.fp, n.ok = onceward.Named(context.WithValue(r.Context(), inner{}, 1))
		seen = append(seen, n)
		w.WriteHeader(http.StatusServiceUnavailable) // released: the repeat runs
	}))
	for _, c := range []struct{ key, body string }{{"k", "a"}, {"k", "a"}, {"k", "b"}, {"", "a"}} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(c.body))
		if c.key != "" {
			r.Header.Set("Idempotency-Key", c.key)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	want := onceward.NewKey("unscoped", "k")
	if len(seen) != 4 || !seen[0].ok || seen[0].key != want || seen[1] != seen[0] || seen[2].key != want || seen[2].fp == seen[0].fp || seen[3].ok {
		t.Errorf("%v", seen)
	}
	if _, _, ok := onceward.Named(t.Context()); ok {
		t.Error("there is a name outside a guard")
	}
}
