package orders_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Cases B077–B082: who owns a key.

// Also requirement 26 and R13.
func TestB077AnotherUsersKeyIsAnotherKey(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		anna := s.send(request{key: "k", user: "anna"}).want(t, http.StatusCreated, "executed")
		boris := s.send(request{key: "k", user: "boris"}).want(t, http.StatusCreated, "executed")
		if a, b := anna.order(t), boris.order(t); a.User != "anna" || b.User != "boris" || a.ID == b.ID {
			t.Errorf("anna got %+v, boris got %+v", a, b)
		}
		// Another body of his is his own mistake, not a word about hers.
		s.send(request{key: "k", user: "clara", body: `{"item":"jam","qty":1}`}).want(t, http.StatusCreated, "executed")
		s.send(request{key: "k", user: "anna"}).wantReplayOf(t, anna)
		s.send(request{key: "k", user: "boris"}).wantReplayOf(t, boris)
		s.wantEffects(3)
	}, "-user-header", "X-User")
}

func TestB077OneUsersRunningRequestHoldsUpNobodyElse(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.background(request{key: "k", user: "anna", chaos: "sleep_ms=2500"})
		s.waitRunning(1)
		s.send(request{key: "k", user: "boris"}).want(t, http.StatusCreated, "executed")
		(<-first).want(t, http.StatusCreated, "executed")
		s.wantEffects(2)
	}, "-user-header", "X-User")
}

// Also requirement 29.
func TestB079OneKeyOnAnotherPathMethodOrQueryIsRefused(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		one := s.send(request{key: "a"}).order(t)
		two := s.send(request{key: "b"}).order(t)
		first := s.send(request{key: "k", path: "/orders/" + one.ID + "/cancel"}).want(t, http.StatusOK, "executed")
		for name, r := range map[string]request{
			"another path":   {path: "/orders/" + two.ID + "/cancel"},
			"another method": {method: http.MethodPut, path: "/orders/" + one.ID + "/cancel"},
			"another route":  {method: http.MethodDelete, path: "/orders/" + one.ID},
			"another query":  {path: "/orders/" + one.ID + "/cancel?really=1"},
			"an empty query": {path: "/orders/" + one.ID + "/cancel?"},
			"another type":   {path: "/orders/" + one.ID + "/cancel", kind: "text/plain"},
			"another escape": {path: "/orders/%" + fmt.Sprintf("%X", one.ID[0]) + one.ID[1:] + "/cancel"},
		} {
			r.key = "k"
			a := s.send(r)
			if name == "an empty query" {
				a.wantReplayOf(t, first)
				continue
			}
			if a.status != http.StatusUnprocessableEntity || a.outcome() != "key-reused" {
				t.Errorf("%s: answered %v, want 422", name, a)
			}
		}
		list := s.wantEffects(2)
		if list[0].Status != "cancelled" || list[1].Status != "placed" {
			t.Errorf("the orders are %+v, want the first one cancelled and the second one not", list)
		}
	})
}

// Callers without a login share one space of keys, and the program has to say
// so by name. Even then another body gets nothing of the first one's answer.
func TestB080UnscopedCallersDoNotReadEachOthersAnswers(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		s.send(request{key: "k", body: `{"item":"secret of the first","qty":1}`}).want(t, http.StatusCreated, "executed")
		a := s.send(request{key: "k", body: `{"item":"jam","qty":1}`}).want(t, http.StatusUnprocessableEntity, "key-reused")
		if strings.Contains(a.body, "secret") || a.header.Get("Location") != "" {
			t.Errorf("the second caller was told of the first: %v %v", a, a.header)
		}
		s.wantEffects(1)
	})
}

func TestB082TwoSessionsOfOneAccountShareTheirKeys(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		session := func(n string) request {
			return request{key: "k", user: "anna", header: http.Header{"Cookie": {"session=" + n}, "Authorization": {"Bearer " + n}, "User-Agent": {n}}}
		}
		first := s.send(session("1")).want(t, http.StatusCreated, "executed")
		s.send(session("2")).wantReplayOf(t, first)
		s.wantEffects(1)
	}, "-user-header", "X-User")
}

// The guard outside authentication: loud, and nothing done, never a silent pass.
func TestRequirement32AGuardThatMeetsNoUserFailsLoudly(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		a := s.send(request{key: "k"}).want(t, http.StatusInternalServerError, "")
		if a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("answered %v as %s", a, a.header.Get("Content-Type"))
		}
		s.send(request{}).want(t, http.StatusInternalServerError, "")
		s.wantEffects(0)
		if said := s.Said(); !strings.Contains(said, "level=ERROR") || !strings.Contains(said, "inside authentication") {
			t.Errorf("the log does not say that the guard stands outside authentication:\n%s", said)
		}
		// The mistake took no key.
		s.send(request{key: "k", user: "anna"}).want(t, http.StatusCreated, "executed")
		s.wantEffects(1)
	}, "-user-header", "X-User")
}
