package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// nextVersion makes every record look like one of a later version of this package.
type nextVersion struct{ onceward.Store }

func (n nextVersion) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	rec, claimed, err := n.Store.Claim(ctx, c)
	rec.Fingerprint.Version++
	return rec, claimed, err
}

func TestOnlyAStoreThatDoesNotAnswerFailsOpen(t *testing.T) {
	store := memstore.New(memstore.Config{})
	r := newRig(t, store, onceward.Config{}, created)
	want(t, r.post("k", "x"), 201, "executed")
	later := newRig(t, nextVersion{store}, onceward.Config{FailOpen: true}, created)
	want(t, later.post("k", "x"), 503, "unavailable") // a rolling deploy: never a second run
	later.wantRuns(0)
	if err := r.guard.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed := newRig(t, store, onceward.Config{FailOpen: true}, created)
	if err := closed.guard.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, closed.post("k2", "x"), 503, "unavailable")
	closed.wantRuns(0)
}

func TestAStrangersErrorTextGoesToTheLogOnly(t *testing.T) {
	var log strings.Builder
	r := newRig(t, nil, onceward.Config{
		Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		KeyFrom: func(*http.Request) (string, error) { return "", errors.New("pq: password of user bob") },
	}, created)
	w := r.post("", "x")
	want(t, w, 400, "key-invalid")
	if strings.Contains(w.Body.String(), "bob") || !strings.Contains(log.String(), "bob") {
		t.Errorf("answer %q, log %q", w.Body, log.String())
	}
}

func TestARefusalWithoutAProperStatusIs500(t *testing.T) {
	for _, status := range []int{0, 42, 200, 700} {
		guard, err := onceward.New(memstore.New(memstore.Config{}), func(*http.Request) (string, error) {
			return "", &onceward.ProblemError{Status: status}
		}, onceward.Config{})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		guard.Handler(http.HandlerFunc(created)).ServeHTTP(w, request("k", ""))
		want(t, w, 500, "")
		_ = guard.Close(t.Context())
	}
}

func TestALargeBodyInWhichNoKeyCanBeLookedForPassesWhole(t *testing.T) {
	cfg := onceward.Config{MaxRequest: 8, KeyFrom: func(r *http.Request) (string, error) { return "", nil }}
	r := newRig(t, nil, cfg, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", b, err)
	})
	for _, chunked := range []bool{false, true} {
		req := request("", "0123456789")
		if chunked {
			req.ContentLength = -1
		}
		w := r.do(req)
		want(t, w, 200, "")
		if w.Body.String() != "0123456789 <nil>" {
			t.Errorf("chunked %v: %q", chunked, w.Body)
		}
	}
}

// hanging is a store whose Complete and Extend never answer by themselves.
type hanging struct{ onceward.Store }

func (hanging) Complete(ctx context.Context, _ onceward.Key, _ onceward.Token, _ *onceward.Response, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hanging) Extend(ctx context.Context, _ onceward.Key, _ onceward.Token, _ time.Duration, _ bool) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAHangingStoreHoldsTheAnswerBackForOneStoreTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hanging{memstore.New(memstore.Config{})}, onceward.Config{StoreTimeout: 3 * time.Second, Lease: 10 * time.Second}, created)
		start := time.Now()
		want(t, r.post("k", "x"), 201, "executed;unrecorded")
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("the answer waited %v", got)
		}
		time.Sleep(time.Minute)
	})
}
