package onceward_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

func TestARepeatGetsTheStoredAnswerAndRunsNothing(t *testing.T) { // S18, S23, B041, B049, B052, B058
	r := newRig(t, nil, onceward.Config{}, created)
	first := r.post("key-abc-123", "x")
	want(t, first, 201, "executed")
	if first.Header().Get("Idempotency-Replayed") != "" {
		t.Error("the first answer calls itself a replay")
	}
	second := r.post("key-abc-123", "x")
	want(t, second, 201, "replayed")
	if second.Header().Get("Idempotency-Replayed") != "1" {
		t.Error("the replay is not marked")
	}
	if first.Body.String() != second.Body.String() || first.Body.String() != "made x" {
		t.Errorf("bodies differ: %q, %q", first.Body, second.Body)
	}
	if got := second.Header()["Link"]; len(got) != 2 || got[1] != "</b,c>; rel=\"b\"" {
		t.Errorf("header lines differ: %q", got)
	}
	if got, want := second.Header().Get("Idempotency-Status"), `replayed;key="key-abc-123"`; got != want {
		t.Errorf("status %q, want %q", got, want)
	}
	r.wantRuns(1)
}

func TestAnotherRequestUnderTheSameKeyIsRefusedAndChangesNothing(t *testing.T) { // S29, R6, B055, B079
	r := newRig(t, nil, onceward.Config{}, created)
	want(t, r.post("k", "A"), 201, "executed")
	want(t, r.post("k", "B"), 422, "key-reused")
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Method = "PUT" },
		func(r *http.Request) { r.URL.Path = "/other" },
		func(r *http.Request) { r.URL.RawQuery = "q=1" },
		func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
	} {
		req := request("k", "A")
		change(req)
		want(t, r.do(req), 422, "key-reused")
	}
	want(t, r.post("k", "A"), 201, "replayed")
	r.wantRuns(1)
}

func TestRequestsWithoutAKeyPassUntouchedUnlessOneIsRequired(t *testing.T) { // B053
	r := newRig(t, nil, onceward.Config{}, created)
	for range 2 {
		want(t, r.post("", "x"), 201, "")
	}
	form := request("", "a=1&b=2", "Content-Type", "application/x-www-form-urlencoded")
	if w := r.do(form); w.Body.String() != "made a=1&b=2" {
		t.Errorf("a form without a key reached the handler as %q", w.Body)
	}
	r.wantRuns(3)
	strict := newRig(t, nil, onceward.Config{Require: true}, created)
	want(t, strict.post("", "x"), 400, "key-missing")
	req := request("", "")
	req.Method = "GET"
	want(t, strict.do(req), 201, "")
}

func TestAHandlersFailureFreesTheKey(t *testing.T) { // S27, R1, R10, B029, B043
	for _, status := range []int{500, 502, 503, 401, 403, 407, 408, 421, 423, 425, 429, 307, 308} {
		fail := true
		r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if fail {
				w.WriteHeader(status)
			}
		})
		want(t, r.post("k", ""), status, "released")
		fail = false
		w := r.post("k", "")
		want(t, w, 200, "executed")
		if w.Header().Get("Idempotency-Replayed") != "" {
			t.Errorf("after %d: a real run calls itself a replay", status)
		}
		r.wantRuns(2)
	}
}

func TestFinalAnswersAreKept(t *testing.T) { // B041
	for _, status := range []int{200, 201, 202, 204, 301, 302, 303, 400, 404, 406, 409, 410, 412, 413, 422} {
		r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
		want(t, r.post("k", ""), status, "executed")
		want(t, r.post("k", ""), status, "replayed")
		r.wantRuns(1)
	}
}

func TestAPanicFreesTheKeyAndGoesOn(t *testing.T) { // R1, B029
	boom := true
	r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if boom {
			_, _ = io.WriteString(w, "half")
			panic("boom")
		}
	})
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v, want the handler's own panic", v)
			}
		}()
		r.post("k", "")
		t.Error("the panic was swallowed")
	}()
	boom = false
	want(t, r.post("k", ""), 200, "executed")
}

func TestASecondRequestWhileTheFirstRunsGets409OrWaits(t *testing.T) { // S24, B008, B028
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, req *http.Request) {
			<-release
			created(w, req)
		})
		first := make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- r.post("k", "x") }()
		synctest.Wait()
		busy := r.post("k", "x")
		want(t, busy, 409, "in-progress")
		if got := busy.Header().Get("Retry-After"); got != "2" {
			t.Errorf("Retry-After %q, want 2", got)
		}
		if ct := busy.Header().Get("Content-Type"); ct != "application/problem+json" || !strings.Contains(busy.Body.String(), `"urn:onceward:problem:in-progress"`) {
			t.Errorf("%s: %s", ct, busy.Body)
		}
		want(t, r.post("k", "other"), 422, "key-reused") // the mismatch is told first

		start := time.Now()
		want(t, r.post("k", "x", "Prefer", "respond-async, wait=3"), 409, "in-progress")
		if got := time.Since(start); got < 3*time.Second || got > 4*time.Second {
			t.Errorf("Prefer: wait=3 waited %v", got)
		}
		start = time.Now()
		page := r.post("k", "x", "Sec-Fetch-Mode", "navigate", "Accept-Language", "ru")
		want(t, page, 409, "in-progress")
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("a navigation waited %v, want MaxWait", got)
		}
		if !strings.Contains(page.Body.String(), `lang="ru"`) {
			t.Errorf("a navigation got %q", page.Body)
		}

		waiter := make(chan *httptest.ResponseRecorder, 8)
		for range 8 {
			go func() { waiter <- r.post("k", "x", "Prefer", "wait=9") }()
		}
		synctest.Wait()
		start = time.Now()
		close(release)
		want(t, <-first, 201, "executed")
		for range 8 {
			want(t, <-waiter, 201, "replayed")
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("waiters were polled for %v instead of woken", got)
		}
		r.wantRuns(1)
	})
}

func TestAWaiterRunsTheRequestItselfWhenTheFirstFails(t *testing.T) { // B019, B056
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var n atomic.Int64
		r := newRig(t, nil, onceward.Config{Wait: true}, func(w http.ResponseWriter, req *http.Request) {
			if n.Add(1) == 1 {
				<-release
				w.WriteHeader(500)
			}
		})
		first, second := make(chan *httptest.ResponseRecorder), make(chan *httptest.ResponseRecorder)
		go func() { first <- r.post("k", "x") }()
		synctest.Wait()
		go func() { second <- r.post("k", "x") }()
		synctest.Wait()
		close(release)
		want(t, <-first, 500, "released")
		want(t, <-second, 200, "executed")
	})
}

func TestTheHandlerRunsToItsEndWhenTheClientIsGone(t *testing.T) { // B034, B035
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, req *http.Request) {
			time.Sleep(3 * time.Second)
			if err := req.Context().Err(); err != nil {
				t.Errorf("the handler's context ended with its client: %v", err)
			}
			created(w, req)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.do(request("k", "x").WithContext(ctx))
		want(t, r.post("k", "x"), 201, "replayed")
	})
}

func TestPastMaxRuntimeTheClientIsToldAndNoSecondCopyStarts(t *testing.T) { // B031
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t, nil, onceward.Config{MaxRuntime: 5 * time.Second, Lease: 3 * time.Second}, func(w http.ResponseWriter, req *http.Request) {
			if _, ok := req.Context().Deadline(); !ok {
				t.Error("the handler cannot see its deadline")
			}
			select {
			case <-release:
				return // the second run
			default:
			}
			<-release // a handler that does not obey its context
			if req.Context().Err() == nil {
				t.Error("the context was not cancelled")
			}
			if _, err := io.WriteString(w, "late"); !errors.Is(err, http.ErrHandlerTimeout) {
				t.Errorf("a late write: %v", err)
			}
		})
		w := r.post("k", "x")
		want(t, w, 503, "in-progress")
		time.Sleep(time.Minute) // many leases later
		want(t, r.post("k", "x"), 409, "in-progress")
		r.wantRuns(1)
		close(release)
		synctest.Wait()
		w = r.post("k", "x") // free again
		want(t, w, 200, "executed")
		r.wantRuns(2)
	})
}

func TestAHandlerThatObeysItsContextAndWritesNothingIsNoEmpty200(t *testing.T) { // design: an empty 200 is never stored
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, onceward.Config{CancelWithClient: true}, func(w http.ResponseWriter, req *http.Request) {
			<-req.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(t, r.do(request("k", "x").WithContext(ctx)), 409, "in-progress")
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(t, r.do(request("k", "x").WithContext(ctx)), 409, "in-progress")
		r.wantRuns(2) // it was released, not stored
	})
}

func TestALostClaimCancelsTheHandlerAndAnAnswerAlreadyMadeIsStillSent(t *testing.T) { // R5, B020
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: memstore.New(memstore.Config{})}
		store.extend = func() error { return onceward.ErrClaimLost }
		silent := true
		r := newRig(t, store, onceward.Config{Lease: 3 * time.Second}, func(w http.ResponseWriter, req *http.Request) {
			<-req.Context().Done()
			if cause := context.Cause(req.Context()); !errors.Is(cause, onceward.ErrClaimLost) {
				t.Errorf("cause %v", cause)
			}
			if !silent {
				w.WriteHeader(201)
			}
		})
		want(t, r.post("k1", "x"), 409, "in-progress")
		silent = false
		w := r.post("k2", "x")
		want(t, w, 201, "executed;unrecorded")
		want(t, r.post("k2", "x"), 409, "in-progress") // its claim was not released
	})
}

func TestCloseWaitsForWhatRunsAndRefusesNewWork(t *testing.T) { // S48
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, req *http.Request) { <-release })
		first := make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- r.post("k", "x") }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.guard.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close did not wait: %v", err)
		}
		want(t, r.post("k2", "x"), 503, "unavailable")
		close(release)
		want(t, <-first, 200, "executed")
		if err := r.guard.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestEveryDecisionIsOneLogLineWithTheRecordsID(t *testing.T) { // S70
	var log strings.Builder
	r := newRig(t, nil, onceward.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, created)
	r.post("secret-key", "x")
	r.post("secret-key", "x")
	r.post("secret-key", "y")
	id := onceward.NewKey("ann", "secret-key").RecordID()
	if n := strings.Count(log.String(), "msg=onceward record="+id); n != 3 {
		t.Errorf("%d lines of decisions name the record, want 3:\n%s", n, &log)
	}
	if first, _, _ := strings.Cut(log.String(), "\n"); !strings.Contains(first, `msg="onceward: claimed" record=`+id) {
		t.Errorf("the story begins with %s", first)
	}
	for _, outcome := range []string{"executed", "replayed", "key-reused"} {
		if !strings.Contains(log.String(), "outcome="+outcome) {
			t.Errorf("no line says %s", outcome)
		}
	}
	if strings.Contains(log.String(), "secret-key") {
		t.Error("the log has the raw key")
	}
}

func TestConfigNamesTheFieldThatIsWrong(t *testing.T) {
	for field, cfg := range map[string]onceward.Config{
		"Lease":      {Lease: -1},
		"MaxRequest": {MaxRequest: -1},
		"Methods":    {Methods: []string{"GET"}},
		"Header":     {Header: "no header"},
	} {
		_, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, cfg)
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Config.%s: %v", field, err)
		}
	}
	if _, err := onceward.New(nil, onceward.Unscoped, onceward.Config{}); err == nil {
		t.Error("a guard without a store was made")
	}
	if _, err := onceward.New(memstore.New(memstore.Config{}), nil, onceward.Config{}); err == nil {
		t.Error("a guard without a scope was made")
	}
}

// A record that cannot be read is a record: the work may be done already.
func TestARecordThatCannotBeReadNeverFailsOpen(t *testing.T) {
	store := &faulty{Store: memstore.New(memstore.Config{}), claim: func() error { return onceward.ErrEncoding }}
	r := newRig(t, store, onceward.Config{FailOpen: true}, created)
	want(t, r.post("k", "x"), 503, "unavailable")
	r.wantRuns(0)
}

func TestARefusalThatPanicsDoesNotHoldTheKeyForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		broken := true
		cfg := onceward.Config{MaxRuntime: time.Second, Error: func(w http.ResponseWriter, _ *http.Request, p onceward.Problem) {
			if broken {
				panic(http.ErrAbortHandler) // as a writer outside does when the client has gone
			}
			w.WriteHeader(p.Status)
		}}
		r := newRig(t, nil, cfg, func(w http.ResponseWriter, _ *http.Request) { <-release })
		func() {
			defer func() { _ = recover() }()
			r.post("k", "x")
		}()
		broken = false
		close(release)
		time.Sleep(time.Hour)
		want(t, r.post("k", "x"), 200, "executed")
	})
}

func TestAHandlerPastMaxRuntimeMayStillChangeItsRequest(t *testing.T) {
	stop := make(chan struct{})
	cfg := onceward.Config{MaxRuntime: 20 * time.Millisecond, Error: func(w http.ResponseWriter, r *http.Request, p onceward.Problem) {
		if r.Header.Get("HX-Request") != "true" || r.Header.Get("Accept-Language") != "ru" {
			t.Errorf("the refusal cannot tell for whom it is: %v", r.Header)
		}
		w.WriteHeader(p.Status)
	}}
	r := newRig(t, nil, cfg, func(w http.ResponseWriter, req *http.Request) {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				req.Header.Set("X-Mine", strconv.Itoa(i)) // the map is the handler's as long as it runs
			}
		}
	})
	want(t, r.post("k", "x", "HX-Request", "true", "Accept-Language", "ru"), 503, "in-progress")
	close(stop)
}

func TestACrowdOfWaitersStillTakesOverWhatADeadProcessLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(memstore.Config{})
		dead := &saver{Store: mem}
		newRig(t, dead, onceward.Config{}, created).post("k", "x")
		// The same claim, by a process that is gone; its lease ends while they wait.
		claim := dead.claim
		other := memstore.New(memstore.Config{})
		claim.Lease = 2 * time.Second
		if _, ok, err := other.Claim(t.Context(), claim); err != nil || !ok {
			t.Fatal(ok, err)
		}
		r := newRig(t, &slow{other, 50 * time.Millisecond}, onceward.Config{Wait: true}, created)
		var done sync.WaitGroup
		codes := make([]int, 300)
		for i := range codes {
			done.Go(func() {
				time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				codes[i] = r.post("k", "x").Code
			})
		}
		done.Wait()
		for i, code := range codes {
			if code != 201 {
				t.Fatalf("waiter %d got %d: nobody took the claim over", i, code)
			}
		}
		r.wantRuns(1)
	})
}

// saver remembers the last claim that was made.
type saver struct {
	onceward.Store
	claim onceward.Claim
}

func (s *saver) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	s.claim = c
	return s.Store.Claim(ctx, c)
}

// slow is a store behind a network.
type slow struct {
	onceward.Store
	pause time.Duration
}

func (s *slow) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	time.Sleep(s.pause)
	rec, claimed, err := s.Store.Claim(ctx, c)
	time.Sleep(s.pause)
	return rec, claimed, err
}
