package orders_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// What the two seed texts ask for (requirements 17–32, 59–70 of docs/cases.md)
// and no case of the field shows already.

func TestRequirement17TwoEqualOrdersMayBothBeMeant(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		s.send(request{key: "a"}).want(t, http.StatusCreated, "executed")
		s.send(request{key: "b"}).want(t, http.StatusCreated, "executed")
		s.wantEffects(2)
	})
}

// Also requirements 19 and 62: the header's name, a key that is a UUID, a key
// that is not.
func TestRequirement18TheSameKeyWorksOnceAndIsAnsweredAlike(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		for i, key := range []string{"key-abc-123", "7f0c2f3e-9f0c-4d8e-8f62-0d1c9a6b7e55"} {
			r := request{key: key, body: `{"item":"Купить тетрадь","qty":1}`}
			first := s.send(r).want(t, http.StatusCreated, "executed")
			for range 3 {
				s.send(r).wantReplayOf(t, first)
			}
			if o := s.wantEffects(i + 1)[i]; o.Item != "Купить тетрадь" || o != first.order(t) {
				t.Errorf("the shop has %+v, the client was told %+v", o, first.order(t))
			}
		}
	})
}

func TestRequirement23And24FirstBusyThenTheStoredAnswer(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.background(request{key: "k", chaos: "sleep_ms=2500"})
		s.waitRunning(1)
		s.duplicate(request{key: "k"})
		run := (<-first).want(t, http.StatusCreated, "executed")
		s.send(request{key: "k"}).wantReplayOf(t, run)
		s.wantEffects(1)
	})
}

func TestRequirement27AfterAServerErrorTheRepeatIsARealOne(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		s.send(request{key: "k", chaos: "status=500"}).want(t, http.StatusInternalServerError, "released")
		s.wantEffects(0)
		a := s.send(request{key: "k"}).want(t, http.StatusCreated, "executed")
		if _, ok := a.header["Idempotency-Replayed"]; ok {
			t.Error("a real run says that it is a replay")
		}
		s.wantEffects(1)
	})
}

// A 500 after the commit: the honest limit without one transaction for both. With
// one it is a 500 before the commit.
func TestRequirement28AServerErrorAfterTheWorkIsAVisibleDouble(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		s.send(request{key: "k", chaos: "status=500&after=1"}).want(t, http.StatusInternalServerError, "released")
		s.wantEffects(is(s.b, 1, 0))
		s.send(request{key: "k"}).want(t, http.StatusCreated, "executed")
		s.wantEffects(is(s.b, 2, 1))
		s.send(request{key: "k"}).want(t, http.StatusCreated, "replayed")
		s.wantEffects(is(s.b, 2, 1))
	})
}

// Also R12: expiry is judged at the claim, not by the sweep, which never comes
// here.
func TestRequirement30AfterItsRetentionAKeyIsUnknownAgain(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.send(request{key: "k"}).want(t, http.StatusCreated, "executed")
		time.Sleep(1500 * time.Millisecond)
		again := s.send(request{key: "k"}).want(t, http.StatusCreated, "executed")
		if first.body == again.body {
			t.Errorf("both runs answered %v", again)
		}
		s.wantEffects(2)
	}, "-retention", "1s", "-sweep", "1h")
}

// An outbox that wakes after a week must not order again.
func TestB076AKeyThatHasExpiredIsRefusedAndNotRunAgain(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		s.send(request{key: "k"}).want(t, http.StatusCreated, "executed")
		time.Sleep(1500 * time.Millisecond)
		for range 2 {
			s.send(request{key: "k"}).want(t, http.StatusUnprocessableEntity, "key-expired").wantProblem(t, "key-expired")
		}
		s.send(request{key: "k", body: `{"item":"jam","qty":1}`}).want(t, http.StatusUnprocessableEntity, "key-reused")
		s.wantEffects(1)
		s.send(request{key: "a-new-wish"}).want(t, http.StatusCreated, "executed")
		s.wantEffects(2)
	}, "-retention", "1s", "-tombstone", "1h", "-sweep", "200ms")
}

// It has to see the finished answer, so it stands around a handler and is no
// helper inside one.
func TestRequirement31TheGuardIsAMiddleware(t *testing.T) {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var effects atomic.Int64
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Effects", fmt.Sprint(effects.Add(1)))
		w.WriteHeader(http.StatusAccepted)
	}))
	for _, middleware := range []func(http.Handler) http.Handler{guard.Handler, http.NewCrossOriginProtection().Handler} {
		handler = middleware(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		closeGuard(t, guard)
	})
	first := mustTry(t, server.URL, request{key: "k"}).want(t, http.StatusAccepted, "executed")
	mustTry(t, server.URL, request{key: "k"}).wantReplayOf(t, first)
	if n := effects.Load(); n != 1 {
		t.Errorf("effects=%d, want 1", n)
	}
}

// Also requirement 9: no route adds one more or flips over.
func TestRequirement61RepeatedPutDeleteAndCancelChangeNothing(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		o := s.send(request{key: "create"}).order(t)
		put := request{method: http.MethodPut, path: "/orders/" + o.ID, body: `{"item":"jam","qty":3}`}
		cancel := request{path: "/orders/" + o.ID + "/cancel"}
		remove := request{method: http.MethodDelete, path: "/orders/" + o.ID}
		for _, key := range []string{"", "", "k"} { // without a key, again, and with one
			named := func(r request, as string) request {
				if key != "" {
					r.key = key + as
				}
				return r
			}
			if got := s.send(named(put, "put")); got.status != http.StatusOK || got.order(t).Item != "jam" || got.order(t).Qty != 3 {
				t.Errorf("PUT answered %v", got)
			}
			s.send(named(put, "put"))
			if got := s.wantEffects(1)[0]; got.Item != "jam" || got.Qty != 3 {
				t.Errorf("after PUT twice the shop has %+v", got)
			}
			if got := s.send(named(cancel, "cancel")); got.status != http.StatusOK || got.order(t).Status != "cancelled" {
				t.Errorf("cancelling answered %v", got)
			}
			s.send(named(cancel, "cancel"))
			if got := s.wantEffects(1)[0]; got.Status != "cancelled" {
				t.Errorf("after cancelling twice the shop has %+v", got)
			}
		}
		for range 2 {
			if a := s.send(remove); a.status != http.StatusNoContent {
				t.Errorf("DELETE answered %v", a)
			}
			s.wantEffects(0)
		}
		for _, r := range []request{put, cancel, {method: http.MethodGet, path: "/orders/" + o.ID}} {
			if a := s.send(r); a.status != http.StatusNotFound {
				t.Errorf("a removed order answered %v", a)
			}
		}
	})
}

// No key at all, or one that has expired: the order's own name still holds.
func TestRequirement64TheSameExternalIDReturnsTheOrderThatExists(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		const body = `{"item":"tea","qty":1,"external_id":"ext-1"}`
		first := s.send(request{user: "anna", body: body}).want(t, http.StatusCreated, "")
		again := s.send(request{user: "anna", body: body}).want(t, http.StatusOK, "")
		if first.order(t) != again.order(t) || first.header.Get("Location") != again.header.Get("Location") {
			t.Errorf("first %v, then %v", first, again)
		}
		for range 2 {
			s.send(request{key: "k", user: "anna", body: body}).want(t, http.StatusOK, "executed")
			time.Sleep(700 * time.Millisecond)
		}
		s.wantEffects(1)
		s.send(request{user: "boris", body: body}).want(t, http.StatusCreated, "")
		s.wantEffects(2)
		answers := parallel(s.times(20, request{user: "clara", body: body})...)
		created := slices.DeleteFunc(answers, func(a answer) bool { return a.status != http.StatusCreated })
		if len(created) != 1 {
			t.Errorf("%d of 20 at once created an order", len(created))
		}
		s.wantEffects(3)
	}, "-user-header", "X-User", "-retention", "500ms")
}

// Design 8: a handler that obeys its cancelled context and writes nothing has
// not answered, least of all with an empty 200. A transaction that is too slow is
// rolled back, so its key is free at once.
func TestRequirement67AHandlerPastItsDeadlineIs503AndFreesTheKey(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		s.send(request{key: "k", chaos: "sleep_ms=20000"}).wantCutOff(t, is(s.b, "in-progress", "unavailable"))
		s.wantEffects(0)
		s.until(request{key: "k"}).want(t, http.StatusCreated, "executed")
		s.wantEffects(1)
	}, "-max-runtime", "400ms", "-max-transaction", "400ms")
}

// A handler that does not obey keeps its key until it ends: no second copy. In a
// transaction its key is free, for what it still writes is refused.
func TestRequirement67AHandlerThatIgnoresItsDeadlineHasNoSecondCopy(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		deaf := request{key: "k", body: named, chaos: "sleep_ms=4000&deaf=1"}
		if s.b.atomic {
			deaf.body = oneTea
			s.send(deaf).want(t, http.StatusServiceUnavailable, "unavailable")
			s.send(request{key: "k"}).want(t, http.StatusCreated, "executed")
			s.waitRunning(0)
			s.wantEffects(1)
			return
		}
		s.send(deaf).want(t, http.StatusServiceUnavailable, "in-progress")
		s.send(deaf).wantBusy(t)
		if v, err := s.vitals(); err != nil || v.Running != 1 {
			t.Errorf("%d handlers at work (%v), want 1", v.Running, err)
		}
		s.waitRunning(0)
		// Whether the first run's order was still placed is the database's
		// affair; one is placed in the end.
		a := s.until(request{key: "k", body: named})
		a.want(t, a.status, "executed")
		s.wantEffects(1)
	}, "-max-runtime", "300ms", "-max-transaction", "300ms", "-lease", "1s")
}

// Two keys crossed: each client holds one and wants the other.
func TestRequirement67CrossedKeysDoNotDeadlock(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				keys := []string{"a", "b"}
				if i%2 == 1 {
					slices.Reverse(keys)
				}
				for _, key := range keys {
					a, _ := s.patiently(request{key: key, prefer: "wait=10", chaos: "sleep_ms=20"})
					if a.status != http.StatusCreated {
						t.Errorf("answered %v", a)
					}
				}
			})
		}
		wg.Wait()
		s.wantEffects(2)
	})
}

var recordID = regexp.MustCompile(`record=([0-9a-f]{16})`)

func TestRequirement70OneIDInTheLogTellsTheStory(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		const key = "a-key-for-the-log"
		first := s.background(request{key: key, user: "anna", chaos: "sleep_ms=2500"})
		s.waitRunning(1)
		s.duplicate(request{key: key, user: "anna"})
		<-first
		s.send(request{key: key, user: "anna"})
		s.send(request{key: key, user: "anna", body: `{"item":"jam","qty":1}`})
		s.send(request{key: "another", user: "anna"})

		want := []string{
			"outcome=in-progress method=POST path=/create-order status=409",
			"outcome=executed method=POST path=/create-order status=201",
			"outcome=replayed method=POST path=/create-order status=201",
			"outcome=key-reused method=POST path=/create-order status=422",
		}
		if s.b.serial {
			want[0], want[1] = want[1], want[2] // nobody was refused
		}
		id := onceward.NewKey("anna", key).RecordID()
		var story []string
		eventually(t, "four lines in the log", func() bool {
			story = nil
			for line := range strings.Lines(s.Said()) {
				// Each decision; internal/integration/operating reads the rest of the story too.
				if m := recordID.FindStringSubmatch(line); m != nil && m[1] == id && strings.Contains(line, " outcome=") {
					story = append(story, line)
				}
			}
			return len(story) == len(want)
		})
		if s.b.serial && strings.Contains(story[0], "outcome=replayed") {
			story[0], story[1] = story[1], story[0] // both were answered at one moment
		}
		for i, line := range story {
			if !strings.Contains(line, want[i]) || !regexp.MustCompile(` scope=[0-9a-f]{16} .* ms=[0-9.]+`).MatchString(line) {
				t.Errorf("line %d is\n%swant scope, ms and %s", i+1, line, want[i])
			}
		}
		if said := s.Said(); strings.Contains(said, key) || strings.Contains(said, "anna") {
			t.Errorf("the log tells the key or the user:\n%s", said)
		}
	}, "-user-header", "X-User")
}

// Requirement 69: the suite above, in one sentence, for every route that
// changes something.
func TestRequirement69EveryRouteIsReplayedUnderItsKey(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		o := s.send(request{key: "create"}).order(t)
		for i, r := range []request{
			{},
			{method: http.MethodPut, path: "/orders/" + o.ID, body: `{"item":"jam","qty":3}`},
			{path: "/orders/" + o.ID + "/cancel"},
			{method: http.MethodDelete, path: "/orders/" + o.ID},
			{method: http.MethodDelete, path: "/orders/none"},
			{path: "/orders/none/cancel"},
			{path: "/no-such-route"},
			{body: `not an order`},
		} {
			r.key = fmt.Sprint("key-", i)
			first := s.send(r)
			first.want(t, first.status, "executed")
			before := s.orders()
			for range 3 {
				s.send(r).wantReplayOf(t, first)
			}
			if after := s.orders(); !slices.Equal(before, after) {
				t.Errorf("%s %s replayed changed %+v into %+v", r.method, r.path, before, after)
			}
		}
	})
}

// Also requirement 48's server half: what runs is finished before the end.
func TestSIGTERMFinishesWhatRuns(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		watched := s.background(request{key: "watched", chaos: "sleep_ms=6000"})
		leave, gone := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := s.try(request{key: "left", chaos: "sleep_ms=6000", leave: leave})
			gone <- err
		}()
		s.waitRunning(map[bool]int{false: 2, true: 1}[s.b.serial])
		time.Sleep(time.Second) // where handlers take turns, nobody tells that the second waits
		close(leave)
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Fatalf("the client was to leave: %v", err)
		}
		if code := s.stop(); code != 0 {
			t.Errorf("the program ended with %d:\n%s", code, s.Said())
		}
		(<-watched).want(t, http.StatusCreated, "executed")
		s.restart()
		s.wantEffects(2)
		if s.b.durable {
			s.send(request{key: "watched"}).want(t, http.StatusCreated, "replayed")
			s.send(request{key: "left"}).want(t, http.StatusCreated, "replayed")
			s.wantEffects(2)
		}
	})
}
