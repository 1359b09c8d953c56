package orders_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Case B097: the store's server cannot be reached for a while.

func TestB097AStoreThatIsGoneBeforeTheClaimIs503(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		gate, store := behindGate(t, b.flags(t))
		s := startOn(t, b, store)
		gate.close()
		for range 2 {
			a := s.send(request{key: "k"}).want(t, http.StatusServiceUnavailable, "unavailable")
			a.wantProblem(t, "unavailable")
			if a.header.Get("Retry-After") == "" {
				t.Errorf("503 without Retry-After: %v", a.header)
			}
		}
		gate.open()
		s.wantEffects(0)
		s.until(request{key: "k"}).want(t, http.StatusCreated, "executed")
		s.send(request{key: "k"}).want(t, http.StatusCreated, "replayed")
		s.wantEffects(1)
	})
}

// The work is done when the store goes. Apart from its record it is told as what
// it is, and recorded later; in one transaction with it nobody is told before the
// commit, and it has to be done again.
func TestB097AStoreThatIsGoneAfterTheWorkLosesAndDoublesNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		gate, store := behindGate(t, b.flags(t))
		s := startOn(t, b, store)
		first := s.background(request{key: "k", chaos: "then_sleep_ms=3000"})
		s.waitRunning(1)
		if b.atomic {
			time.Sleep(time.Second)
		} else {
			eventually(t, "the work", func() bool { return len(s.orders()) == 1 })
		}
		gate.close()
		a := <-first
		if b.atomic {
			if a.status != http.StatusServiceUnavailable || a.outcome() != "unavailable" && a.outcome() != "in-progress" {
				t.Errorf("answered %v, want 503", a)
			}
		} else {
			a.want(t, http.StatusCreated, "executed")
			if got := a.header.Get("Idempotency-Status"); !strings.HasPrefix(got, "executed;unrecorded") {
				t.Errorf("Idempotency-Status: %s", got)
			}
			eventually(t, "a warning in the log", func() bool { return strings.Contains(s.Said(), `level=WARN msg=onceward`) })
		}
		s.send(request{key: "k"}).want(t, http.StatusServiceUnavailable, "unavailable")
		gate.open()
		s.until(request{key: "k"}).want(t, http.StatusCreated, is(b, "replayed", "executed"))
		s.send(request{key: "k"}).want(t, http.StatusCreated, "replayed")
		s.wantEffects(1)
	})
}
