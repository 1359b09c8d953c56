package onceward_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// asked is what Status answers to a user about a key.
func asked(t *testing.T, h http.Handler, user, key string) (int, onceward.StatusReport) {
	t.Helper()
	r := httptest.NewRequest("GET", "/idempotency/"+key, nil)
	r.Header.Set("X-User", user)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var report onceward.StatusReport
	if w.Code == 200 {
		if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
	}
	return w.Code, report
}

// Requirement 71.
func TestStatusTellsWhatBecameOfAKeyAndRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t, nil, onceward.Config{Unknown: onceward.Hold}, func(w http.ResponseWriter, req *http.Request) {
			switch req.URL.Query().Get("do") {
			case "wait":
				<-release
			case "fail":
				w.WriteHeader(500)
				return
			}
			created(w, req)
		})
		mux := http.NewServeMux()
		mux.Handle("GET /idempotency/{key}", r.guard.Status())
		send := func(key, do string) *httptest.ResponseRecorder {
			req := request(key, "1")
			req.URL.RawQuery = "do=" + do
			return r.do(req)
		}
		send("done", "")
		send("failed", "fail")
		go send("running", "wait")
		synctest.Wait()
		time.Sleep(3 * time.Second)
		for _, c := range []struct {
			user, key string
			want      onceward.StatusReport
		}{
			{"ann", "never", onceward.StatusReport{State: "absent"}},
			{"ann", "done", onceward.StatusReport{State: "complete", Code: 201, Age: 3, Method: "POST", Path: "/orders"}},
			{"bob", "done", onceward.StatusReport{State: "absent"}},
			{"ann", "failed", onceward.StatusReport{State: "unknown", Age: 3, Method: "POST", Path: "/orders"}},
			{"ann", "running", onceward.StatusReport{State: "in-progress", Age: 3, Method: "POST", Path: "/orders"}},
		} {
			if code, got := asked(t, mux, c.user, c.key); code != 200 || got != c.want {
				t.Errorf("%s of %s: %d %+v, want %+v", c.key, c.user, code, got, c.want)
			}
		}
		r.wantRuns(3)
		close(release)
	})
}

func TestStatusRefusesWhatItCannotTell(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, created)
	h := r.guard.Status()
	if code, _ := asked(t, h, "ann", strings.Repeat("k", 256)); code != 400 {
		t.Errorf("a key too long: %d", code)
	}
	if code, _ := asked(t, h, "", "k"); code != 500 { // outside authentication
		t.Errorf("no scope: %d", code)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/idempotency/k", nil))
	if w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
}

func TestForgetDeletesWhatAScopeHasAndNothingElse(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, created)
	want(t, r.post("k", "1"), 201, "executed")
	want(t, r.post("k", "1", "X-User", "bob"), 201, "executed")
	if err := r.guard.Forget(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	want(t, r.post("k", "1"), 201, "executed")
	want(t, r.post("k", "1", "X-User", "bob"), 201, "replayed")
	if err := r.guard.Forget(t.Context(), ""); err == nil {
		t.Error("everybody who has no name was forgotten")
	}
}

// bare has none of the optional powers.
type bare struct{ onceward.Store }

func TestWhatAStoreCannotDoIsSaidAtOnce(t *testing.T) {
	r := newRig(t, bare{memstore.New(memstore.Config{})}, onceward.Config{}, created)
	if err := r.guard.Forget(context.Background(), "ann"); err == nil || !strings.Contains(err.Error(), "Forgetter") {
		t.Error(err)
	}
	defer func() {
		if got, ok := recover().(string); !ok || !strings.Contains(got, "Looker") {
			t.Errorf("recovered %q", got)
		}
	}()
	r.guard.Status()
}

func TestStatusFindsAKeyWithASlash(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, created)
	want(t, r.post("a/b", "1"), 201, "executed")
	if code, report := asked(t, r.guard.Status(), "ann", "a%2Fb"); code != 200 || report.State != "complete" {
		t.Errorf("a/b: %d %+v", code, report)
	}
	if code, report := asked(t, r.guard.Status(), "ann", "b"); code != 200 || report.State != "absent" {
		t.Errorf("b: %d %+v", code, report)
	}
}

// A transaction has nothing in the store until it commits, but its own process
// knows of it.
func TestStatusTellsOfATransactionAtWork(t *testing.T) {
	store := newLedger()
	guard, err := onceward.New(struct {
		*ledger
		onceward.Looker
	}{store, store.Store.(onceward.Looker)}, byUser, onceward.Config{SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	in, out := make(chan struct{}), make(chan struct{})
	r := &rig{t: t, guard: guard, h: guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		close(in)
		<-out
		created(w, req)
	}))}
	done := make(chan struct{})
	go func() { defer close(done); want(t, r.post("k", "1"), 201, "executed") }()
	<-in
	if code, report := asked(t, guard.Status(), "ann", "k"); code != 200 || report.State != "in-progress" {
		t.Errorf("at work: %d %+v", code, report)
	}
	close(out)
	<-done
	if err := guard.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
