package onceward_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

func TestAnotherScopeIsAnotherRecord(t *testing.T) { // S26, B077
	r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "for "+r.Header.Get("X-User"))
	})
	want(t, r.post("k", ""), 200, "executed")
	w := r.post("k", "", "X-User", "bob")
	want(t, w, 200, "executed")
	if w.Body.String() != "for bob" {
		t.Errorf("bob got %q", w.Body)
	}
}

func TestAnEmptyScopeFailsLoudlyAndRunsNothing(t *testing.T) { // S32, R13
	var log strings.Builder
	r := newRig(t, nil, onceward.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, created)
	want(t, r.post("k", "", "X-User", ""), 500, "")
	r.wantRuns(0)
	if !strings.Contains(log.String(), "inside authentication") || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log does not say what is wrong: %s", log.String())
	}
	want(t, r.post("", "", "X-User", ""), 201, "") // no key: the scope is nobody's business
}

func TestAScopeFunctionCanRefuseInItsOwnWords(t *testing.T) {
	guard, err := onceward.New(memstore.New(memstore.Config{}), func(*http.Request) (string, error) {
		return "", &onceward.ProblemError{Status: 412, Type: "urn:x:owner", Header: http.Header{"Outbox-Status": {"owner"}}}
	}, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close(context.Background())
	w := httptest.NewRecorder()
	guard.Handler(http.HandlerFunc(created)).ServeHTTP(w, request("k", ""))
	want(t, w, 412, "")
	if w.Header().Get("Outbox-Status") != "owner" || !strings.Contains(w.Body.String(), "urn:x:owner") {
		t.Errorf("header %v, body %q", w.Header(), w.Body)
	}
}

func TestAScopeFunctionKnowsTheKeyWhereverItStands(t *testing.T) {
	var header, body string
	guard, err := onceward.New(memstore.New(memstore.Config{}), func(r *http.Request) (string, error) {
		header, body = r.Header.Get("Idempotency-Key"), onceward.KeyInBody(r.Context())
		return "u", nil
	}, onceward.Config{KeyFrom: func(r *http.Request) (string, error) {
		text, err := io.ReadAll(r.Body)
		return string(text), err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close(context.Background())
	for _, c := range []struct {
		name, header, body string
		r                  *http.Request
	}{
		{"header", "k1", "", request("k1", "")},
		{"header and field", "k2", "", request("k2", "_key=k2", "Content-Type", "application/x-www-form-urlencoded")},
		{"field", "", "k3", request("", "a=1&_key=k3", "Content-Type", "application/x-www-form-urlencoded")},
		{"KeyFrom", "", "k4", request("", "k4")},
	} {
		header, body = "", ""
		w := httptest.NewRecorder()
		guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if k := onceward.KeyInBody(r.Context()); k != "" {
				t.Errorf("%s: the handler is told %q", c.name, k)
			}
			created(w, r)
		})).ServeHTTP(w, c.r)
		want(t, w, 201, "executed")
		if header != c.header || body != c.body {
			t.Errorf("%s: header %q, body %q", c.name, header, body)
		}
	}
}
