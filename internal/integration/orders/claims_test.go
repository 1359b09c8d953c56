package orders_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Cases B029–B040: claims left behind. They are also R1 and W29: a key is never
// poisoned for longer than one lease.

// named is an order that knows its own name, so that a second run finds it. In
// one transaction with its answer an order needs none.
const named = `{"item":"tea","qty":1,"external_id":"basket-1"}`

func TestB029AfterAPanicTheRetryRuns(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		s.wantPanic(request{key: "k", chaos: "panic=1"})
		s.wantEffects(0)
		s.send(request{key: "k"}).want(t, http.StatusCreated, "executed")
		s.wantEffects(1)
	})
}

func TestB029AProcessThatEndsInMidHandlerBlocksTheKeyForOneLeaseOnly(t *testing.T) {
	for name, death := range map[string]string{
		"exit":                   "die=before",
		"panic in a goroutine":   "panic=goroutine",
		"exit in mid-answer":     "die=answer&flush=1&bytes=3000",
		"exit after the work":    "die=after",
		"exit before the answer": "die=answer",
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, s *server) {
				body := is(s.b, named, oneTea)
				if a, err := s.try(request{key: "k", body: body, chaos: death}); err == nil {
					t.Errorf("a process that died answered %v", a)
				}
				s.ended()
				s.restart()
				s.until(request{key: "k", body: body}) // within seconds, where an answer is kept for a day
				s.wantEffects(1)
			}, "-lease", "2s")
		})
	}
}

// A transaction ends with its process and leaves nothing to wait for.
func TestB030AfterKill9TheRetryWaitsForTheLeaseAndRunsOnce(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		s := start(t, b, "-lease", is(b, "5s", "10m"))
		first := s.background(request{key: "k", chaos: "sleep_ms=20000"})
		s.waitRunning(1)
		s.Kill()
		if a := <-first; a.status != 0 {
			t.Errorf("a killed process answered %v", a)
		}
		s.restart()
		if b.durable && !b.atomic {
			s.send(request{key: "k"}).wantBusy(t)
			s.wantEffects(0)
		}
		s.until(request{key: "k"}).want(t, http.StatusCreated, "executed")
		s.send(request{key: "k"}).want(t, http.StatusCreated, "replayed")
		s.wantEffects(1)
	})
}

func TestB031AConnectionThatTimedOutDoesNotLoseTheAnswer(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		if a, err := s.try(request{key: "k", chaos: "write_timeout_ms=100&sleep_ms=400"}); err == nil {
			t.Errorf("the connection was to be dead, and brought %v", a)
		}
		s.send(request{key: "k"}).want(t, http.StatusCreated, "replayed")
		s.wantEffects(1)
	})
}

// outcome is what a repeat is answered, and what there is then.
type outcome struct{ status, effects int }

// doubles is what comes of a repeat that runs after a first run whose work was
// done.
var doubles = map[string]struct {
	body  string
	again outcome
}{
	"without a name of its own": {oneTea, outcome{http.StatusCreated, 2}},
	"with one":                  {named, outcome{http.StatusOK, 1}},
}

// By default a run whose outcome nobody knows is repeated: a double is seen, a
// loss is not. A handler whose work has a name of its own does not mind.
// Requirement 28 is the same limit. In one transaction no outcome is unknown.
func TestB033ByDefaultAnUnknownOutcomeRunsAgain(t *testing.T) {
	for name, c := range doubles {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, s *server) {
				if a, err := s.try(request{key: "k", body: c.body, chaos: "die=after"}); err == nil {
					t.Errorf("a process that died answered %v", a)
				}
				s.ended()
				s.restart()
				s.wantEffects(is(s.b, 1, 0))
				again := is(s.b, c.again, outcome{http.StatusCreated, 1})
				s.until(request{key: "k", body: c.body}).want(t, again.status, "executed")
				s.wantEffects(again.effects)
				s.send(request{key: "k", body: c.body}).want(t, again.status, "replayed")
				s.wantEffects(again.effects)
			}, "-lease", "1s")
		})
	}
}

// die=answer is the moment after the record and before the first byte.
func TestB034WhatWasRecordedIsReplayedByTheNextProcess(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		if a, err := s.try(request{key: "k", chaos: "die=answer"}); err == nil {
			t.Errorf("a process that died answered %v", a)
		}
		s.ended()
		s.restart()
		committed := s.wantEffects(1)[0]
		if s.b.durable {
			// At once: a record has no lease to wait for.
			a := s.send(request{key: "k"}).want(t, http.StatusCreated, "replayed")
			if got := a.order(t); got != committed {
				t.Errorf("the replay shows %+v, the shop has %+v", got, committed)
			}
			s.wantEffects(1)
		}
	})
}

// The client leaves between the order and the handler's next step, which looks
// at the request's context.
func TestB035AClientThatHangsUpDoesNotStopTheHandler(t *testing.T) {
	for name, moment := range map[string]string{
		"before the work": "sleep_ms=2500",
		"after the work":  "then_sleep_ms=2500",
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, s *server) {
				if a, err := s.try(request{key: "k", chaos: moment, timeout: 1500 * time.Millisecond}); !isTimeout(err) {
					t.Fatalf("the client was to hang up: %v, %v", a, err)
				}
				s.until(request{key: "k"}).want(t, http.StatusCreated, "replayed")
				s.wantEffects(1)
			})
		})
	}
}

// Without one transaction for work and answer a panic after the work is
// released, and the retry is a visible double; a name of its own prevents it. With
// one, the work went with the panic.
func TestB037APanicAfterTheWorkFreesTheKey(t *testing.T) {
	for name, c := range doubles {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, s *server) {
				s.wantPanic(request{key: "k", body: c.body, chaos: "panic=1&after=1"})
				s.wantEffects(is(s.b, 1, 0))
				again := is(s.b, c.again, outcome{http.StatusCreated, 1})
				s.send(request{key: "k", body: c.body}).want(t, again.status, "executed")
				s.wantEffects(again.effects)
			})
		})
	}
}

func TestB038HoweverAHandlerAnswersItsKeyIsFree(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		effects := 0
		for i, c := range []struct {
			chaos  string
			status int
		}{
			{"answer=error&status=404&after=1", 404},
			{"answer=file", 200},
			{"answer=hijack", 201}, // refused, so it answers as ever
			{"answer=nothing", 200},
			{"answer=redirect", 303},
			{"flush=1", 201},
		} {
			t.Run(c.chaos, func(t *testing.T) {
				r := request{key: fmt.Sprint("key-", i), chaos: c.chaos}
				first := s.send(r).want(t, c.status, "executed")
				again := s.send(r).want(t, c.status, "replayed")
				if c.chaos != "flush=1" || s.b.atomic { // nothing goes out before the commit
					again.wantReplayOf(t, first)
				}
				if refused := first.header.Get("X-Chaos-Hijack"); (c.chaos == "answer=hijack") != (refused != "") {
					t.Errorf("hijacking a request with a key: %q", refused)
				}
				if c.status < 400 || !s.b.atomic { // a refusal undoes its work
					effects++
				}
				s.wantEffects(effects)
			})
		}
	})
}
