package onceward_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward"
)

// What frameworks do around a guard: something recovers from a handler's panic and
// answers for it.

// recovering answers a panic as recovery middlewares do, and keeps what it got.
func recovering(next http.Handler, got *any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			*got = recover()
			if *got == http.ErrAbortHandler {
				panic(*got)
			}
			if *got != nil {
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, "sorry")
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// Also B029. The answer of whatever recovers has nothing of the handler's, and says
// that the key is free.
func TestWhoRecoversOutsideOfTheGuardTellsThatTheKeyIsFree(t *testing.T) {
	broken := true
	r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("Location", "/orders/1")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "half of ")
		if broken {
			panic("in the middle")
		}
		fmt.Fprint(w, strings.Repeat("x", 992))
	})
	var got any
	h := recovering(r.h, &got)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request("k", ""))
	if w.Code != 500 || w.Body.String() != "sorry" || w.Header().Get("Location") != "" || w.Header().Get("Content-Length") != "" {
		t.Errorf("answered %d %q %v", w.Code, w.Body, w.Header())
	}
	if status := w.Header().Get("Idempotency-Status"); status != `released;key="k"` || got != "in the middle" {
		t.Errorf("Idempotency-Status: %s, recovered from %v", status, got)
	}
	broken = false
	w = httptest.NewRecorder()
	h.ServeHTTP(w, request("k", ""))
	if status := w.Header().Get("Idempotency-Status"); w.Code != 201 || status != `executed;key="k"` || r.runs.Load() != 2 {
		t.Errorf("the repeat was answered %d %s after %d runs", w.Code, status, r.runs.Load())
	}
}

// Half of the answer is out, under "executed": whatever recovers must not end it
// as if it were whole.
func TestWhoRecoversOutsideOfTheGuardCannotEndHalfAnAnswer(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "half of ")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		panic("in the middle")
	})
	var got any
	srv := httptest.NewServer(recovering(r.h, &got))
	t.Cleanup(srv.Close)
	resp, body, err := send(t, srv.URL, "k", "")
	if err == nil {
		t.Errorf("the client takes %q for the whole: %v", body, resp.Header)
	}
	srv.Close() // its handlers have returned
	if got != http.ErrAbortHandler {
		t.Errorf("recovered from %v", got)
	}
}

// gin's writer takes every writer for one.
func TestTheWriterIsACloseNotifierThatNeverTells(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-w.(interface{ CloseNotify() <-chan bool }).CloseNotify():
			t.Error("the client has left, it says")
		default:
		}
	})
	if w := r.post("k", ""); w.Code != 200 {
		t.Errorf("answered %d", w.Code)
	}
}
