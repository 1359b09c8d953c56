package onceward_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// orphan leaves a claim of the given request behind, as a process does that dies
// in the middle of its handler. It returns the store.
func orphan(t testing.TB, cfg onceward.Config, key, body string) onceward.Store {
	t.Helper()
	store := memstore.New(memstore.Config{})
	r := newRig(t, deaf{store}, cfg, created)
	r.post(key, body)
	return store
}

// deaf is a store whose process dies right after its first claim: nothing that
// comes later reaches it.
type deaf struct{ onceward.Store }

func (deaf) Extend(context.Context, onceward.Key, onceward.Token, time.Duration, bool) error {
	return onceward.ErrClaimLost
}
func (deaf) Complete(context.Context, onceward.Key, onceward.Token, *onceward.Response, time.Duration) error {
	return onceward.ErrClaimLost
}
func (deaf) Release(context.Context, onceward.Key, onceward.Token) error { return nil }

func TestUnderRerunAnAbandonedRequestRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, orphan(t, onceward.Config{}, "k", "1"), onceward.Config{}, created)
		want(t, r.post("k", "1"), 409, "in-progress")
		time.Sleep(31 * time.Second)
		want(t, r.post("k", "1"), 201, "executed")
	})
}

func TestUnderHoldAnAbandonedRequestNeverRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onceward.Config{Unknown: onceward.Hold}
		r := newRig(t, orphan(t, cfg, "k", "1"), cfg, created)
		want(t, r.post("k", "1"), 409, "in-progress")
		for _, pause := range []time.Duration{31 * time.Second, 25 * time.Hour, 1000 * time.Hour} {
			time.Sleep(pause)
			w := r.post("k", "1")
			want(t, w, 409, "outcome-unknown")
			if w.Header().Get("Retry-After") != "" || !strings.Contains(w.Body.String(), "urn:onceward:problem:outcome-unknown") {
				t.Errorf("%v %s", w.Header(), w.Body)
			}
		}
		want(t, r.post("k", "2"), 422, "key-reused")
		r.wantRuns(0)
	})
}

func TestUnderHoldAFailureOfTheHandlerHoldsTheKey(t *testing.T) {
	for name, app := range map[string]http.HandlerFunc{
		"500":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) },
		"panic": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "1234")
		},
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, onceward.Config{Unknown: onceward.Hold}, app)
			func() {
				defer func() { _ = recover() }()
				w := r.post("k", "1")
				want(t, w, w.Code, "outcome-unknown")
			}()
			want(t, r.post("k", "1"), 409, "outcome-unknown")
			r.wantRuns(1)
		})
	}
}

func TestUnderHoldARefusalOfTheMomentFreesTheKey(t *testing.T) {
	r := newRig(t, nil, onceward.Config{Unknown: onceward.Hold}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Mark") != "" {
			onceward.MarkTransient(r.Context())
			w.WriteHeader(500)
			return
		}
		w.WriteHeader(429)
	})
	want(t, r.post("k", "1"), 429, "released")
	want(t, r.post("k", "1"), 429, "released")
	want(t, r.post("k2", "1", "X-Mark", "1"), 500, "released")
	want(t, r.post("k2", "1", "X-Mark", "1"), 500, "released")
	r.wantRuns(4)
}

func TestResolveAsksTheBusinessDataWhatBecameOfIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		resp   *onceward.Response
		err    error
		status int
		token  string
		then   string // of a further repeat
		runs   int64
	}{
		{"it was done", &onceward.Response{Status: 201, Body: []byte("found")}, nil, 201, "replayed", "replayed", 0},
		{"it was not done", nil, nil, 201, "executed", "replayed", 1},
		{"nobody knows", nil, errors.New("the bank does not answer"), 409, "outcome-unknown", "outcome-unknown", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				cfg := onceward.Config{Unknown: onceward.Resolve, Resolve: func(r *http.Request, rec onceward.Record) (*onceward.Response, error) {
					asked++
					if body, _ := io.ReadAll(r.Body); string(body) != "1" || rec.Path != "/orders" || rec.Attempt != 1 {
						t.Errorf("Resolve sees %q and %+v", body, rec)
					}
					return c.resp, c.err
				}}
				r := newRig(t, orphan(t, cfg, "k", "1"), cfg, created)
				want(t, r.post("k", "1"), 409, "in-progress")
				if asked != 0 {
					t.Error("it was asked while the lease ran")
				}
				time.Sleep(31 * time.Second)
				want(t, r.post("k", "1"), c.status, c.token)
				w := r.post("k", "1")
				want(t, w, c.status, c.then)
				r.wantRuns(c.runs)
			})
		})
	}
}

func TestAfterItsRetentionATombstoneAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, onceward.Config{Retention: time.Hour, Tombstone: 24 * time.Hour}, created)
		want(t, r.post("k", "1"), 201, "executed")
		time.Sleep(59 * time.Minute)
		want(t, r.post("k", "1"), 201, "replayed")
		time.Sleep(2 * time.Minute)
		want(t, r.post("k", "1"), 422, "key-expired")
		time.Sleep(24 * time.Hour)
		want(t, r.post("k", "1"), 201, "executed")
	})
}

func TestMarkFinalKeepsAnyAnswer(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context()) // as a framework does
		defer cancel()
		onceward.MarkTransient(ctx)
		onceward.MarkFinal(ctx)
		w.WriteHeader(500)
	})
	want(t, r.post("k", "1"), 500, "executed")
	want(t, r.post("k", "1"), 500, "replayed")
	onceward.MarkFinal(context.Background()) // outside a guard: nothing
}

func TestWithGivesSomeRoutesAConfigurationOfTheirOwn(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, created)
	strict, err := r.guard.With(func(c *onceward.Config) { c.Require = true })
	if err != nil {
		t.Fatal(err)
	}
	want(t, r.post("k", "1"), 201, "executed")
	r.h = strict.Handler(http.HandlerFunc(created))
	want(t, r.post("", "1"), 400, "key-missing")
	want(t, r.post("k", "1"), 201, "replayed") // one store
	if _, err := r.guard.With(func(c *onceward.Config) { c.Lease = -1 }); err == nil {
		t.Error("a wrong configuration was taken")
	}
	if err := strict.Close(t.Context()); err != nil { // closes both
		t.Fatal(err)
	}
	want(t, r.post("k2", "1"), 503, "unavailable")
}

func TestPoliciesThatContradictEachOtherAreRefused(t *testing.T) {
	resolve := func(*http.Request, onceward.Record) (*onceward.Response, error) { return nil, nil }
	own := func(*http.Request) ([]byte, error) { return nil, nil }
	for name, cfg := range map[string]onceward.Config{
		"Resolve":     {Unknown: onceward.Resolve},
		"Unknown":     {Resolve: resolve},
		"Fingerprint": {Fingerprint: own, CanonicalJSON: true},
		"Tombstone":   {Tombstone: -1},
	} {
		if _, err := onceward.New(memstore.New(memstore.Config{}), byUser, cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// broken is a store whose driver panics.
type broken struct {
	onceward.Store
	calls int
}

func (b *broken) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	if b.calls++; b.calls == 1 {
		panic("a driver's own fault")
	}
	return b.Store.Claim(ctx, c)
}

func TestAStoreThatPanicsLeavesNoKeyBehind(t *testing.T) {
	r := newRig(t, &broken{Store: memstore.New(memstore.Config{})}, onceward.Config{}, created)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was kept from the server")
			}
		}()
		r.post("k", "1")
	}()
	want(t, r.post("k", "1"), 201, "executed")
	if err := r.guard.Close(t.Context()); err != nil { // nothing is under way
		t.Error(err)
	}
}
