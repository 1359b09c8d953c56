package orders_test

import (
	"net/http"
	"testing"
	"time"
)

// B033's other half: what must not happen twice and cannot be undone is never run
// again while nobody knows what became of it. In one transaction somebody always
// knows, so there Hold changes nothing.

// wantHeld checks that a request is not run again, by whomever and however often.
func (s *server) wantHeld(r request, effects int) {
	s.t.Helper()
	r.chaos = ""
	for range 3 {
		a := s.send(r)
		a.want(s.t, http.StatusConflict, "outcome-unknown")
		a.wantProblem(s.t, "outcome-unknown")
	}
	r.prefer = "wait=1"
	s.send(r).want(s.t, http.StatusConflict, "outcome-unknown")
	other := r
	other.body = `{"item":"jam","qty":1}`
	s.send(other).want(s.t, http.StatusUnprocessableEntity, "key-reused")
	s.wantEffects(effects)
}

// wantAnotherRun checks that a request which left nothing is run, once.
func (s *server) wantAnotherRun(r request) {
	s.t.Helper()
	r.chaos = ""
	first := s.until(r).want(s.t, http.StatusCreated, "executed")
	s.send(r).wantReplayOf(s.t, first)
	s.wantEffects(1)
}

func TestB033HoldKeepsWhatFailedInItsMiddle(t *testing.T) {
	const abort = "panic=abort&bytes=4000"
	for name, c := range map[string]struct {
		chaos   string
		effects int // under Handler
		status  int // of the answer; 0: none
	}{
		"a 500 before the work":  {"status=500", 0, http.StatusInternalServerError},
		"a 502 after the work":   {"status=502&after=1", 1, http.StatusBadGateway},
		"a panic after the work": {"panic=1&after=1", 1, 0},
		"an answer cut short":    {abort, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, s *server) {
				r := request{key: "k", chaos: c.chaos}
				a, err := s.try(r)
				if c.status == 0 && err == nil && another.recovers && (c.chaos != abort || another.uncut) {
					a.want(t, http.StatusInternalServerError, is(s.b, "outcome-unknown", "released"))
				} else if c.status == 0 && err == nil {
					t.Errorf("answered %v", a)
				} else if c.status != 0 {
					a.want(t, c.status, is(s.b, "outcome-unknown", "released"))
				}
				if s.b.atomic {
					s.wantEffects(0)
					s.wantAnotherRun(r)
				} else {
					s.wantHeld(r, c.effects)
				}
				// What is final or of the moment is no unknown outcome.
				refused := request{key: "refused", chaos: "status=404"}
				s.send(refused).want(t, http.StatusNotFound, "executed")
				s.send(refused).want(t, http.StatusNotFound, "replayed")
				s.send(request{key: "later", chaos: "status=429"}).want(t, http.StatusTooManyRequests, "released")
				s.send(request{key: "later"}).want(t, http.StatusCreated, "executed")
			}, "-hold")
		})
	}
}

func TestB033HoldKeepsWhatADeadProcessLeft(t *testing.T) {
	for name, c := range map[string]struct {
		chaos   string
		effects int // under Handler
	}{
		"before the work": {"die=before", 0},
		"after the work":  {"die=after", 1},
	} {
		t.Run(name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, b backend) {
				s := start(t, b, "-hold", "-lease", "1s", "-retention", is(b, "1s", "1h"), "-sweep", "200ms")
				r := request{key: "k", chaos: c.chaos}
				if a, err := s.try(r); err == nil {
					t.Errorf("a process that died answered %v", a)
				}
				s.ended()
				s.restart()
				if s.b.atomic {
					s.wantEffects(0)
					s.wantAnotherRun(r)
					return
				}
				r.chaos = ""
				eventually(t, "the end of the lease", func() bool {
					a := s.send(r)
					if a.outcome() == "in-progress" {
						a.wantBusy(t)
					}
					return a.outcome() != "in-progress"
				})
				s.wantHeld(r, c.effects)
				time.Sleep(2 * time.Second) // past the retention, and some sweeps
				s.wantHeld(r, c.effects)
				s.Kill()
				s.restart()
				s.wantHeld(r, c.effects)
			})
		})
	}
}
