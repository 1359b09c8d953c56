package operation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/operation"
)

func who(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }

type service struct {
	t   *testing.T
	ops *operation.Operations
	h   http.Handler
}

// serve is a service on any runner; POST / asks for the work "work" with the body's
// text as its input.
func serve(t *testing.T, runner operation.Runner, store onceward.Store, cfg operation.Config) *service {
	t.Helper()
	guard, err := onceward.New(store, who, onceward.Config{Require: true, SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guard.Close(context.Background()) })
	ops, err := operation.New(runner, who, cfg)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /{$}", ops.Repeats(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ops.Accept(w, r, "work", []byte(r.URL.Query().Get("do")))
	}))))
	mux.Handle("/operations/{id}", ops)
	return &service{t, ops, mux}
}

func (s *service) send(method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("X-User", "anna")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w
}

func state(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var v struct{ State string }
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	return v.State
}

func local(t *testing.T, work operation.Work, cfg operation.LocalConfig) *operation.Local {
	t.Helper()
	l, err := operation.NewLocal(map[string]operation.Work{"work": work}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// Requirement 66, in memory: accepted, pending, complete; the repeat says how it stands
// now and begins nothing.
func TestTheRepeatSaysHowItStandsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		l := local(t, func(ctx context.Context, _ operation.Job) (operation.Result, error) {
			ran++
			time.Sleep(time.Minute)
			return operation.Result{Location: "/reports/1"}, nil
		}, operation.LocalConfig{})
		s := serve(t, l, memstore.New(memstore.Config{}), operation.Config{})
		first := s.send("POST", "/?do=x", "Idempotency-Key", "k", "Prefer", "wait=1, Respond-Async")
		to := first.Header().Get("Location")
		if first.Code != 202 || state(t, first) != "pending" || first.Header().Get("Retry-After") != "2" || first.Header().Get("Preference-Applied") != "respond-async" {
			t.Fatalf("%d %v %s", first.Code, first.Header(), first.Body)
		}
		time.Sleep(30 * time.Second)
		for _, w := range []*httptest.ResponseRecorder{s.send("POST", "/?do=x", "Idempotency-Key", "k"), s.send("GET", to)} {
			if state(t, w) != "pending" || w.Header().Get("Retry-After") != "2" {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
		}
		time.Sleep(31 * time.Second)
		repeat := s.send("POST", "/?do=x", "Idempotency-Key", "k")
		if repeat.Code != 202 || state(t, repeat) != "complete" || repeat.Header().Get("Location") != to || repeat.Header().Get("Retry-After") != "" ||
			repeat.Header().Get("Idempotency-Status") != `replayed;key="k"` || repeat.Header().Get("Preference-Applied") != "" || !strings.Contains(repeat.Body.String(), `"location":"/reports/1"`) {
			t.Errorf("%d %v %s", repeat.Code, repeat.Header(), repeat.Body)
		}
		if got := repeat.Header()["Vary"]; len(got) != 1 {
			t.Errorf("Vary: %q", got)
		}
		if w := s.send("POST", "/?do=y", "Idempotency-Key", "k"); w.Code != 422 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := s.send("HEAD", to); w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := s.send("DELETE", to); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		if ran != 1 {
			t.Errorf("it ran %d times", ran)
		}
	})
}

// The long poll ends with the work, with its own time, with the client, and when the
// server stops; whichever is first.
func TestAWaitEndsWithTheWorkOrItsTime(t *testing.T) {
	for _, wakes := range []bool{true, false} {
		t.Run(fmt.Sprint("woken ", wakes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := local(t, func(ctx context.Context, _ operation.Job) (operation.Result, error) {
					time.Sleep(time.Minute)
					return operation.Result{}, nil
				}, operation.LocalConfig{})
				var runner operation.Runner = l
				if !wakes {
					runner = struct{ operation.Runner }{l}
				}
				s := serve(t, runner, memstore.New(memstore.Config{}), operation.Config{MaxWait: 20 * time.Second})
				to := s.send("POST", "/", "Idempotency-Key", "k").Header().Get("Location")
				begin := time.Now()
				wait := func(query string, headers ...string) (string, time.Duration) {
					at := time.Now()
					w := s.send("GET", to+query, headers...)
					return state(t, w), time.Since(at)
				}
				for _, c := range []struct {
					query, prefer string
					want          time.Duration
				}{{"", "", 0}, {"?wait=0", "", 0}, {"?wait=-1", "", 0}, {"?wait=x", "", 0}, {"?wait=3", "", 3 * time.Second}, {"", "wait=4", 4 * time.Second}, {"?wait=4000", "", 20 * time.Second}} {
					if st, took := wait(c.query, "Prefer", c.prefer); st != "pending" || took != c.want {
						t.Errorf("%q, %q: %s after %v, want %v", c.query, c.prefer, st, took, c.want)
					}
				}
				wait("?wait=20")
				st, _ := wait("?wait=20")
				took := time.Since(begin)
				if st != "complete" || took < time.Minute || took > time.Minute+time.Second || wakes && took != time.Minute {
					t.Errorf("%s after %v", st, took)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		l := local(t, func(ctx context.Context, _ operation.Job) (operation.Result, error) {
			<-ctx.Done()
			return operation.Result{}, ctx.Err()
		}, operation.LocalConfig{})
		s := serve(t, l, memstore.New(memstore.Config{}), operation.Config{})
		to := s.send("POST", "/", "Idempotency-Key", "k").Header().Get("Location")
		time.AfterFunc(3*time.Second, s.ops.Close)
		at := time.Now()
		if w := s.send("GET", to+"?wait=20"); state(t, w) != "pending" || time.Since(at) != 3*time.Second {
			t.Errorf("%s after %v", w.Body, time.Since(at))
		}
	})
}

// counting is a runner that has to be asked, and counts how often it was.
type counting struct {
	operation.Runner
	looks atomic.Int64
	fails atomic.Bool
}

func (c *counting) Look(ctx context.Context, key onceward.Key) (operation.Operation, error) {
	c.looks.Add(1)
	if c.fails.Load() {
		panic("the database is gone")
	}
	return c.Runner.Look(ctx, key)
}

// Thousands may wait for one operation; behind them one asks. Who leaves takes nobody
// along, and when the last one has left nobody asks any more.
func TestHoweverManyWaitOneAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runner := &counting{Runner: local(t, func(context.Context, operation.Job) (operation.Result, error) {
			time.Sleep(time.Minute)
			return operation.Result{}, nil
		}, operation.LocalConfig{})}
		s := serve(t, runner, memstore.New(memstore.Config{}), operation.Config{MaxWait: time.Hour})
		to := s.send("POST", "/", "Idempotency-Key", "k").Header().Get("Location")
		const many = 1000
		var all sync.WaitGroup
		states := make(chan string, 2*many)
		for i := range many {
			all.Go(func() { states <- state(t, s.send("GET", to+"?wait="+[]string{"30", "100"}[i%2])) })
		}
		time.Sleep(31 * time.Second) // half of them have left
		if asked := runner.looks.Load(); asked > many+40 {
			t.Errorf("the runner was asked %d times for %d who wait 30 s", asked, many)
		}
		all.Wait()
		got := map[string]int{}
		for range many {
			got[<-states]++
		}
		if got["pending"] != many/2 || got["complete"] != many/2 {
			t.Errorf("answered %v", got)
		}

		to = s.send("POST", "/", "Idempotency-Key", "k2").Header().Get("Location")
		s.send("GET", to+"?wait=5")
		before := runner.looks.Load()
		time.Sleep(20 * time.Second)
		if asked := runner.looks.Load(); asked != before {
			t.Errorf("nobody waits, and the runner was asked %d times more", asked-before)
		}
		time.AfterFunc(time.Second+time.Millisecond, func() { runner.fails.Store(true) })
		if w := s.send("GET", to+"?wait=5"); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "gone") {
			t.Errorf("a runner that panics: %d %s", w.Code, w.Body)
		}
		runner.fails.Store(false)
		if w := s.send("GET", to+"?wait=100"); state(t, w) != "complete" {
			t.Errorf("then: %d %s", w.Code, w.Body)
		}
	})
}

// What a process knew is unknown to the next one, which says so and begins nothing;
// what was never accepted is not there.
func TestAfterARestartALocalOperationIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		ran := 0
		work := func(context.Context, operation.Job) (operation.Result, error) { ran++; return operation.Result{}, nil }
		before := serve(t, local(t, work, operation.LocalConfig{}), store, operation.Config{Records: store})
		to := before.send("POST", "/", "Idempotency-Key", "k").Header().Get("Location")
		synctest.Wait()
		after := serve(t, local(t, work, operation.LocalConfig{}), store, operation.Config{Records: store})
		if w := after.send("GET", to+"?wait=9"); w.Code != 200 || state(t, w) != "unknown" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := after.send("POST", "/", "Idempotency-Key", "k"); w.Code != 202 || state(t, w) != "unknown" || w.Header().Get("Location") != to {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := after.send("GET", to, "X-User", "boris"); w.Code != 404 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := after.send("GET", to, "X-User", ""); w.Code != 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		// Where nobody remembers, the repeat's stored answer is still true.
		forgetful := serve(t, local(t, work, operation.LocalConfig{}), store, operation.Config{})
		if w := forgetful.send("POST", "/", "Idempotency-Key", "k"); w.Code != 202 || w.Header().Get("Location") != to || state(t, w) != "pending" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if ran != 1 {
			t.Errorf("it ran %d times", ran)
		}
	})
}

// Requirement 66: a failure is told in its own words or in none, a panic too; what was
// cut off when the process ended is unknown.
func TestALocalFailureTellsNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := local(t, func(ctx context.Context, job operation.Job) (operation.Result, error) {
			switch string(job.Input) {
			case "own":
				return operation.Result{}, fmt.Errorf("hunter2: %w", &operation.Failure{Title: "No paper"})
			case "panic":
				panic("hunter2")
			case "cut":
				<-ctx.Done()
			}
			return operation.Result{}, errors.New("hunter2")
		}, operation.LocalConfig{Running: 4, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s := serve(t, l, memstore.New(memstore.Config{}), operation.Config{})
		for do, title := range map[string]string{"own": "No paper", "panic": "The work could not be done", "wrong": "The work could not be done"} {
			w := s.send("GET", s.send("POST", "/?do="+do, "Idempotency-Key", do).Header().Get("Location")+"?wait=5")
			if w.Code != 200 || w.Header().Get("Content-Type") != "application/problem+json" || state(t, w) != "failed" ||
				!strings.Contains(w.Body.String(), `"title":"`+title+`"`) || !strings.Contains(w.Body.String(), `"type":"urn:onceward:problem:operation-failed"`) ||
				strings.Contains(w.Body.String(), "hunter2") || strings.Contains(w.Body.String(), `"status"`) {
				t.Errorf("%s: %d %s", do, w.Code, w.Body)
			}
		}
		cut := s.send("POST", "/?do=cut", "Idempotency-Key", "cut").Header().Get("Location")
		synctest.Wait()
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w := s.send("GET", cut); state(t, w) != "unknown" {
			t.Errorf("%s", w.Body)
		}
		if w := s.send("POST", "/", "Idempotency-Key", "late"); w.Code != 503 || w.Header().Get("Retry-After") != "2" || !strings.HasPrefix(w.Header().Get("Idempotency-Status"), "released") {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		if strings.Count(log.String(), "hunter2") < 3 {
			t.Errorf("the log does not say why:\n%s", log.String())
		}
	})
}

// Requirement 70, in memory: a line where the work begins and one where it ends, under
// the record's id and with no key.
func TestRequirement70ALocalOperationHasItsStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := local(t, func(ctx context.Context, job operation.Job) (operation.Result, error) {
			time.Sleep(time.Second)
			switch string(job.Input) {
			case "cut":
				<-ctx.Done()
				return operation.Result{}, ctx.Err()
			case "final":
				return operation.Result{}, &operation.Failure{Title: "No paper"}
			}
			return operation.Result{}, nil
		}, operation.LocalConfig{Running: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s := serve(t, l, memstore.New(memstore.Config{}), operation.Config{})
		for _, do := range []string{"fine", "final", "cut"} {
			s.send("POST", "/?do="+do, "Idempotency-Key", "a-key-of-"+do)
		}
		time.Sleep(2 * time.Second)
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for do, want := range map[string][]string{
			"fine":  {"an operation begins", "an operation ended\" record=ID kind=work outcome=complete ms=1000"},
			"final": {"an operation begins", "an operation ended\" record=ID kind=work outcome=failed ms=1000 error=\"operation failed: No paper\""},
			"cut":   {"an operation begins", "an operation ended\" record=ID kind=work outcome=unknown"},
		} {
			id, got := onceward.NewKey("anna", "a-key-of-"+do).RecordID(), []string{}
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "record="+id) {
					got = append(got, line)
				}
			}
			for i, part := range want {
				if len(got) != len(want) || !strings.Contains(got[i], strings.ReplaceAll(part, "ID", id)) {
					t.Errorf("%s: the story is %q, want %q", do, got, want)
				}
			}
		}
		if strings.Contains(log.String(), "a-key-of") {
			t.Error("the log has a key")
		}
	})
}

// One name is one operation; many at once run a few at a time; what is over is
// forgotten, and there is no room for everything.
func TestALocalRunnerKeepsToItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most, ran := 0, 0, 0
		done := make(chan int, 100)
		l := local(t, func(context.Context, operation.Job) (operation.Result, error) {
			done <- 1
			time.Sleep(time.Second)
			done <- -1
			return operation.Result{}, nil
		}, operation.LocalConfig{Running: 2, Kept: 5, Retention: time.Hour})
		job := func(i int) operation.Job {
			return operation.Job{Key: onceward.NewKey("anna", fmt.Sprint(i)), Kind: "work"}
		}
		for range 3 {
			for i := range 5 {
				if _, err := l.Submit(t.Context(), job(i)); err != nil {
					t.Error(err)
				}
			}
		}
		if _, err := l.Submit(t.Context(), job(5)); err == nil {
			t.Error("there was room for a sixth")
		}
		if _, err := l.Submit(t.Context(), operation.Job{Kind: "other"}); err == nil {
			t.Error("a work that nobody knows was accepted")
		}
		time.Sleep(time.Minute)
		for len(done) > 0 {
			n := <-done
			if n > 0 {
				ran++
			}
			running += n
			most = max(most, running)
		}
		if ran != 5 || most != 2 {
			t.Errorf("%d ran, %d at one time", ran, most)
		}
		other := job(0)
		other.Fingerprint = onceward.Fingerprint{Version: 1, Sum: [32]byte{1}}
		if _, err := l.Submit(t.Context(), other); err != nil { // the first had none
			t.Error(err)
		}
		if err := l.Forget(t.Context(), job(0).Key.Scope); err != nil {
			t.Error(err)
		}
		if _, err := l.Look(t.Context(), job(1).Key); !errors.Is(err, operation.ErrNotFound) {
			t.Error(err)
		}
		if _, err := l.Submit(t.Context(), other); err != nil {
			t.Error(err)
		}
		again := other
		again.Fingerprint.Sum[0] = 2
		if _, err := l.Submit(t.Context(), again); !errors.Is(err, onceward.ErrKeyReused) {
			t.Error(err)
		}
		again.Fingerprint.Version = 9
		if _, err := l.Submit(t.Context(), again); !errors.Is(err, onceward.ErrUnavailable) || errors.Is(err, onceward.ErrKeyReused) {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour)
		if _, err := l.Look(t.Context(), other.Key); !errors.Is(err, operation.ErrNotFound) {
			t.Error(err)
		}
	})
}

// A route that can do either asks whether it may take its time (RFC 7240).
func TestAskedReadsThePreference(t *testing.T) {
	for value, want := range map[string]bool{
		"respond-async": true, "Respond-Async": true, "wait=5, respond-async": true, "respond-async; x=1": true, "handling=lenient,respond-async=": true,
		"": false, "wait=5": false, "respond-asynchronously": false, "x=respond-async": false, "x; respond-async": false,
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Prefer", value)
		if operation.Asked(r) != want {
			t.Errorf("%q: %v", value, !want)
		}
	}
}

func TestConfigurationsThatMakeNoSenseAreRefused(t *testing.T) {
	l := local(t, func(context.Context, operation.Job) (operation.Result, error) { return operation.Result{}, nil }, operation.LocalConfig{})
	for _, cfg := range []operation.Config{{Path: "/operations"}, {RetryAfter: -1}} {
		if _, err := operation.New(l, who, cfg); err == nil {
			t.Errorf("%v was taken", cfg)
		}
	}
	if _, err := operation.New(nil, who, operation.Config{}); err == nil {
		t.Error("no runner was taken")
	}
	for _, cfg := range []operation.LocalConfig{{Running: -1}, {Kept: -1}, {Timeout: -1}, {Retention: -1}} {
		if _, err := operation.NewLocal(nil, cfg); err == nil {
			t.Errorf("%v was taken", cfg)
		}
	}
	if _, err := operation.NewLocal(map[string]operation.Work{"a": nil}, operation.LocalConfig{}); err == nil {
		t.Error("a nil work was taken")
	}
}

// A stored 202 that names no operation, or is no replay, is left alone.
func TestOnlyARepeatOfAnOperationIsRewritten(t *testing.T) {
	l := local(t, func(context.Context, operation.Job) (operation.Result, error) { return operation.Result{}, nil }, operation.LocalConfig{})
	ops, err := operation.New(l, who, operation.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status   int
		location string
		replayed bool
	}{{202, "/elsewhere/1", true}, {202, "/operations/xyz", true}, {201, "/operations/" + strings.Repeat("0", 64), true}, {202, "/operations/" + strings.Repeat("0", 64), false}} {
		h := ops.Repeats(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", c.location)
			if c.replayed {
				w.Header().Set("Idempotency-Status", `replayed;key="k"`)
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, "as stored")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}))
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("X-User", "anna")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || w.Body.String() != "as stored" {
			t.Errorf("%v: %d %s", c, w.Code, w.Body)
		}
	}
}

// A refusal of the application's own that is none, as the guard has it too.
func TestARefusalWithoutAStatusIsAnError(t *testing.T) {
	ops, err := operation.New(local(t, func(context.Context, operation.Job) (operation.Result, error) { return operation.Result{}, nil }, operation.LocalConfig{}),
		func(*http.Request) (string, error) { return "", &onceward.ProblemError{} }, operation.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	ops.ServeHTTP(w, httptest.NewRequest("GET", "/operations/"+strings.Repeat("0", 64), nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `"status":500`) {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}
