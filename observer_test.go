package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// ear remembers all that an Observer is told.
type ear struct {
	mu sync.Mutex
	told
}

type told struct {
	decisions []onceward.Decision
	calls     []onceward.StoreCall
	events    []onceward.Event
	contexts  []context.Context
	running   int
	most      int
}

// heard is all until now.
func (e *ear) heard() told {
	e.mu.Lock()
	defer e.mu.Unlock()
	return told{slices.Clone(e.decisions), slices.Clone(e.calls), slices.Clone(e.events), slices.Clone(e.contexts), e.running, e.most}
}

func (e *ear) observer() onceward.Observer {
	run := func(n int) func(context.Context) {
		return func(ctx context.Context) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.contexts = append(e.contexts, ctx)
			e.running += n
			e.most = max(e.most, e.running)
		}
	}
	return onceward.Observer{
		Decided: func(ctx context.Context, d onceward.Decision) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.contexts, e.decisions = append(e.contexts, ctx), append(e.decisions, d)
		},
		Called: func(_ context.Context, c onceward.StoreCall) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.calls = append(e.calls, c)
		},
		Happened: func(ctx context.Context, ev onceward.Event) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.contexts, e.events = append(e.contexts, ctx), append(e.events, ev)
		},
		Began: run(1), Ended: run(-1),
	}
}

// later lets d pass, and whoever had something to do meanwhile has done it.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// outcomes are the decisions' in order, with the status of each.
func (e *ear) outcomes() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, d := range e.decisions {
		all = append(all, fmt.Sprintf("%s %d", d.Outcome, d.Status))
	}
	return strings.Join(all, ", ")
}

func (e *ear) operations() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, c := range e.calls {
		all = append(all, c.Operation)
	}
	return strings.Join(all, " ")
}

// kinds are the events' in order.
func (e *ear) kinds() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, ev := range e.events {
		all = append(all, string(ev.Kind))
	}
	return strings.Join(all, " ")
}

func wantHeard(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: heard %q, want %q", what, got, want)
	}
}

// Requirement 70: what the log says of a decision, the observer is told.
func TestTheObserverHearsEveryDecision(t *testing.T) {
	var e ear
	r := newRig(t, nil, onceward.Config{Observer: e.observer(), Require: true}, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Fail") != "" {
			w.WriteHeader(500)
			return
		}
		created(w, req)
	})
	type traced struct{}
	req := request("a-key-nobody-may-hear", "a-body-nobody-may-hear")
	r.do(req.WithContext(context.WithValue(req.Context(), traced{}, "the request's span")))
	r.post("a-key-nobody-may-hear", "a-body-nobody-may-hear")
	r.post("a-key-nobody-may-hear", "another")
	r.post("k2", "x", "X-Fail", "1")
	r.post("", "x")
	wantHeard(t, "decisions", e.outcomes(), "executed 201, replayed 201, key-reused 422, released 500, key-missing 400")
	wantHeard(t, "events", e.kinds(), "claimed claimed")
	wantHeard(t, "calls", e.operations(), "claim complete claim claim claim release")

	key := onceward.NewKey("ann", "a-key-nobody-may-hear")
	for i, d := range e.heard().decisions[:3] {
		if d.Key != key || d.Method != "POST" || d.Path != "/orders" || d.Took < 0 || (d.Err != nil) != (i == 2) {
			t.Errorf("decision %d is %+v", i, d)
		}
	}
	if e.heard().decisions[0].Attempt != 1 || e.heard().decisions[1].Attempt != 1 || e.heard().decisions[4].Key != (onceward.Key{}) {
		t.Errorf("attempts or keys are wrong: %+v", e.heard().decisions)
	}
	if e.heard().contexts[0].Value(traced{}) != "the request's span" {
		t.Error("the observer is not in the request's span")
	}
	if all := fmt.Sprintf("%+v %+v %+v", e.heard().decisions, e.heard().calls, e.heard().events); strings.Contains(all, "nobody-may-hear") {
		t.Errorf("the observer hears what it may not: %s", all)
	}
	if e.heard().running != 0 || e.heard().most != 1 {
		t.Errorf("%d handlers run at the end and %d did at most, want 0 and 1", e.heard().running, e.heard().most)
	}
}

func TestTheObserverHearsTheRouteOfAMuxOutsideTheGuardOrInside(t *testing.T) {
	var e ear
	guard, err := onceward.New(memstore.New(memstore.Config{}), byUser, onceward.Config{Observer: e.observer(), SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close(t.Context())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", created)
	inside := &rig{t: t, guard: guard, h: guard.Handler(mux)}
	inside.post("k1", "x")
	inside.post("k1", "x")
	around := http.NewServeMux()
	around.Handle("POST /{what}", guard.Handler(http.HandlerFunc(created)))
	outside := &rig{t: t, guard: guard, h: around}
	outside.post("k2", "x")
	outside.post("k2", "x")
	var routes []string
	for _, d := range e.heard().decisions {
		routes = append(routes, d.Route)
	}
	// A replay passes no mux inside the guard.
	if !slices.Equal(routes, []string{"POST /orders", "", "POST /{what}", "POST /{what}"}) {
		t.Errorf("the routes are %q", routes)
	}
}

func TestTheObserverHearsOfFunctionsByTheirName(t *testing.T) {
	var e ear
	r := newRig(t, nil, onceward.Config{Observer: e.observer()}, created)
	for range 2 {
		_, _, err := onceward.Do(t.Context(), r.guard, onceward.Call{Scope: "billing", Key: "m1", Name: "charge"}, func(context.Context) (int, error) { return 7, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, d := range e.heard().decisions {
		if d.Method != "DO" || d.Route != "charge" || d.Outcome != []string{"executed", "replayed"}[i] || d.Key != onceward.NewKey("billing", "m1") {
			t.Errorf("decision %d is %+v", i, d)
		}
	}
	if now := e.heard(); len(now.decisions) != 2 || now.running != 0 || now.most != 1 {
		t.Errorf("heard %d decisions, %d run and %d did at most", len(now.decisions), now.running, now.most)
	}
}

func TestTheObserverHearsWhatHappensAfterTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ear
		store := &faulty{Store: memstore.New(memstore.Config{}), complete: failing(3)}
		var log strings.Builder
		r := newRig(t, store, onceward.Config{Observer: e.observer(), Logger: slog.New(slog.NewTextHandler(&log, nil))}, created)
		want(t, r.post("k", "x"), 201, "executed;unrecorded")
		wantHeard(t, "at first", e.kinds(), "claimed")
		later(5 * time.Second)
		wantHeard(t, "then", e.kinds(), "claimed recorded-late")
		wantHeard(t, "decisions", e.outcomes(), "executed;unrecorded 201")

		store.complete = failing(1 << 30)
		want(t, r.post("k2", "x"), 201, "executed;unrecorded")
		later(time.Minute)
		wantHeard(t, "then", e.kinds(), "claimed recorded-late claimed never-recorded")
		if last := e.heard().events[len(e.heard().events)-1]; last.Err == nil || last.Key != onceward.NewKey("ann", "k2") {
			t.Errorf("the last event is %+v", last)
		}
		for i, words := range []string{"recorded late", "never recorded"} {
			id := onceward.NewKey("ann", []string{"k", "k2"}[i]).RecordID()
			if !slices.ContainsFunc(strings.Split(log.String(), "\n"), func(line string) bool {
				return strings.Contains(line, words) && strings.Contains(line, "record="+id)
			}) {
				t.Errorf("no line of %s says %q:\n%s", id, words, &log)
			}
		}
	})
}

func TestTheObserverHearsOfLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ear
		store := &faulty{Store: memstore.New(memstore.Config{}), extend: failing(2)}
		r := newRig(t, store, onceward.Config{Observer: e.observer()}, func(w http.ResponseWriter, req *http.Request) {
			time.Sleep(15 * time.Second)
			created(w, req)
		})
		want(t, r.post("k", "x"), 201, "executed") // two renewals fail, the third does not
		wantHeard(t, "renewals", e.kinds(), "claimed renewal-failed renewal-failed")

		e = ear{}
		store.extend = func() error { return onceward.ErrClaimLost }
		r.post("k2", "x")
		wantHeard(t, "a loss", e.kinds(), "claimed lease-lost")
		wantHeard(t, "its decisions", e.outcomes(), "claim-lost 0, claim-lost 201")

		// Nobody renewed before the answer was to be kept.
		e = ear{}
		store.extend, store.complete = nil, func() error { return onceward.ErrClaimLost }
		r.post("k3", "x")
		wantHeard(t, "a late loss", e.kinds(), "claimed lease-lost")
		wantHeard(t, "its decisions", e.outcomes(), "claim-lost 201")
	})
}

func TestTheObserverHearsOfATakeoverAndOfASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ear
		store := memstore.New(memstore.Config{})
		guard, err := onceward.New(store, byUser, onceward.Config{Observer: e.observer(), Retention: time.Hour, SweepEvery: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer guard.Close(t.Context())
		r := &rig{t: t, guard: guard, h: guard.Handler(http.HandlerFunc(created))}
		r.post("k", "x")
		id := onceward.NewKey("ann", "k")
		rec, _, err := store.Look(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		later(2 * time.Hour)
		wantHeard(t, "a sweep", e.kinds(), "claimed swept")
		if swept := e.heard().events[1]; swept.Count != 1 || swept.Key != (onceward.Key{}) {
			t.Errorf("heard of %+v", swept)
		}
		if !strings.HasSuffix(e.operations(), "sweep sweep") {
			t.Errorf("the calls are %q", e.operations())
		}

		// Another process took the key, and died.
		e = ear{}
		_, claimed, err := store.Claim(t.Context(), onceward.Claim{Key: id, Fingerprint: rec.Fingerprint, Token: onceward.Token{1}, Keep: 24 * time.Hour})
		if err != nil || !claimed {
			t.Fatal(claimed, err)
		}
		want(t, r.post("k", "x"), 201, "executed")
		if first := e.heard().events[0]; first.Kind != onceward.EventClaimed || first.Attempt != 2 || first.Key != id {
			t.Errorf("heard of %+v", first)
		}
	})
}

func TestTheObserverHearsOfHandlersThatOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ear
		r := newRig(t, nil, onceward.Config{Observer: e.observer(), MaxRuntime: time.Second}, func(http.ResponseWriter, *http.Request) {
			time.Sleep(3 * time.Second)
		})
		want(t, r.post("k", "x"), 503, "in-progress")
		later(5 * time.Second)
		wantHeard(t, "events", e.kinds(), "claimed overran")
		wantHeard(t, "decisions", e.outcomes(), "in-progress 503, released 0")
		if e.heard().running != 0 {
			t.Errorf("%d handlers run", e.heard().running)
		}
	})
}

func TestTheObserverHearsOfRequestsThatRunUnguarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ear
		store := &faulty{Store: memstore.New(memstore.Config{}), claim: failing(3)}
		r := newRig(t, store, onceward.Config{Observer: e.observer(), FailOpen: true}, created)
		want(t, r.post("k", "x"), 201, "")
		synctest.Wait()
		wantHeard(t, "events", e.kinds(), "unguarded")
		wantHeard(t, "decisions", e.outcomes(), "unavailable 0")
		if e.heard().calls[0].Err == nil || e.heard().calls[0].Operation != "claim" {
			t.Errorf("the first call is %+v", e.heard().calls[0])
		}
	})
}

// The store's time under Atomic is without the handler's, and the handler's
// failures are not the store's.
func TestTheObserverTellsTheStoreFromTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e ear
		store := newLedger()
		guard, err := onceward.New(store, byUser, onceward.Config{Observer: e.observer(), SweepEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer guard.Close(context.Background())
		r := &rig{t: t, guard: guard, h: guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			time.Sleep(3 * time.Second)
			if req.Header.Get("X-Deaf") != "" {
				time.Sleep(10 * time.Second)
			}
			created(w, req)
		}))}
		want(t, r.post("k", "x"), 201, "executed")
		want(t, r.post("k2", "x", "X-Deaf", "1"), 503, "unavailable")
		store.broken = errors.New("the disk is full")
		want(t, r.post("k3", "x"), 503, "unavailable")
		wantHeard(t, "calls", e.operations(), "transact transact transact")
		for i, c := range e.heard().calls {
			if c.Took != 0 || (c.Err != nil) != (i == 2) {
				t.Errorf("call %d is %+v", i, c)
			}
		}
		wantHeard(t, "events", e.kinds(), "overran")
		later(10 * time.Second)                            // the deaf one ends
		if e.heard().running != 0 || e.heard().most != 2 { // it was at work beside the last
			t.Errorf("%d handlers run and %d did at most, want 0 and 2", e.heard().running, e.heard().most)
		}
	})
}

func TestAnObserverThatPanicsBreaksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := func(context.Context) { panic("the observer is broken") }
		var log strings.Builder
		store := &faulty{Store: memstore.New(memstore.Config{}), complete: failing(3)}
		r := newRig(t, store, onceward.Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Observer: onceward.Observer{
				Decided:  func(ctx context.Context, _ onceward.Decision) { bad(ctx) },
				Called:   func(ctx context.Context, _ onceward.StoreCall) { bad(ctx) },
				Happened: func(ctx context.Context, _ onceward.Event) { bad(ctx) },
				Began:    bad, Ended: bad,
			},
		}, created)
		want(t, r.post("k", "x"), 201, "executed;unrecorded")
		later(5 * time.Second) // it is recorded, though the observer panics then too
		want(t, r.post("k", "x"), 201, "replayed")
		want(t, r.post("k", "y"), 422, "key-reused")
		r.wantRuns(1)
		if !strings.Contains(log.String(), "the observer is broken") {
			t.Error("nobody is told of it")
		}
	})
}

// What a store can do is found through the watch around it.
func TestAnObservedStoreKeepsItsPowers(t *testing.T) {
	var e ear
	guard, err := onceward.New(memstore.New(memstore.Config{}), byUser, onceward.Config{Observer: e.observer(), SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close(t.Context())
	guard.Status()
	if err := guard.Forget(t.Context(), "ann"); err != nil {
		t.Error(err)
	}
	wantHeard(t, "calls", e.operations(), "forget")
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "memstore.Store is none") {
			t.Errorf("Atomic over a store that is no Transactor says %q", said)
		}
	}()
	guard.Atomic(http.NotFoundHandler())
}

// A record's last line is for those who ask for it, and then it has the record's id.
func TestASweptRecordIsNamedInTheLogForDebuggingOnly(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		synctest.Test(t, func(t *testing.T) {
			var e ear
			var log strings.Builder
			guard, err := onceward.New(memstore.New(memstore.Config{}), byUser, onceward.Config{
				Observer: e.observer(), Retention: time.Hour, SweepEvery: time.Minute,
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})),
			})
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{t: t, guard: guard, h: guard.Handler(http.HandlerFunc(created))}
			for _, key := range []string{"a", "b", "c"} {
				r.post(key, "x")
			}
			time.Sleep(2 * time.Hour)
			if err := guard.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			swept := 0
			for _, ev := range e.heard().events {
				if ev.Kind == onceward.EventSwept {
					swept += ev.Count
				}
			}
			if swept != 3 {
				t.Errorf("heard of %d swept records, want 3", swept)
			}
			for _, key := range []string{"a", "b", "c"} {
				line := `msg="onceward: swept" record=` + onceward.NewKey("ann", key).RecordID()
				if strings.Contains(log.String(), line) != (level == slog.LevelDebug) {
					t.Errorf("at level %v the log is\n%s", level, &log)
				}
			}
		})
	}
}

func ExampleObserver() {
	var refused int
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{
		Observer: onceward.Observer{Decided: func(_ context.Context, d onceward.Decision) {
			if d.Outcome == "key-reused" {
				refused++
			}
		}},
	})
	if err != nil {
		panic(err)
	}
	defer guard.Close(context.Background())
	h := guard.Handler(http.HandlerFunc(created))
	for _, body := range []string{"tea", "tea", "coffee"} {
		r := httptest.NewRequest("POST", "/orders", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "k")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	fmt.Println(refused)
	// Output: 1
}
