package orders_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Cases B001–B011: people and clients send it twice.

// parallel sends the same requests at the same moment and returns the answers.
func parallel(send ...func() answer) []answer {
	answers := make([]answer, len(send))
	var wg sync.WaitGroup
	for i := range send {
		wg.Go(func() { answers[i] = send[i]() })
	}
	wg.Wait()
	return answers
}

// times makes n functions that each send r.
func (s *server) times(n int, r request) []func() answer {
	list := make([]func() answer, n)
	for i := range list {
		list[i] = func() answer { return s.send(r) }
	}
	return list
}

// count counts answers by outcome.
func count(answers []answer) map[string]int {
	n := map[string]int{}
	for _, a := range answers {
		n[a.outcome()]++
	}
	return n
}

// form is what a browser sends for a plain form with a hidden key.
func form(key string, fields ...string) request {
	v := url.Values{"_key": {key}, "item": {"tea"}, "qty": {"1"}}
	for i := 0; i < len(fields); i += 2 {
		v.Set(fields[i], fields[i+1])
	}
	return request{kind: "application/x-www-form-urlencoded", body: v.Encode(), header: http.Header{
		"Sec-Fetch-Mode": {"navigate"}, "Accept": {"text/html,application/xhtml+xml,*/*;q=0.8"},
	}}
}

// Also requirement 59: a shopper presses again, a page is reloaded.
func TestB001EightPressesOfASlowOrderButtonMakeOneOrder(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		press := form("basket-1")
		press.chaos = "sleep_ms=1000"
		var presses []func() answer
		for i := range 8 {
			presses = append(presses, func() answer {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				return s.send(press)
			})
		}
		answers := parallel(presses...)
		if n := count(answers); n["executed"] != 1 || n["replayed"] != 7 {
			t.Errorf("outcomes: %v, want 1 executed and 7 replayed: a form waits by itself", n)
		}
		for _, a := range answers {
			if a.status != http.StatusCreated || a.body != answers[0].body {
				t.Errorf("answered %v, the others %v", a, answers[0])
			}
		}
		s.wantEffects(1)
	})
}

func TestB001PastTheWaitLimitThePressIsToldToComeBack(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.background(request{key: "k", chaos: "sleep_ms=4000"})
		s.waitRunning(1)
		s.duplicate(request{key: "k", prefer: "wait=1"})
		(<-first).want(t, http.StatusCreated, "executed")
		s.send(request{key: "k"}).want(t, http.StatusCreated, "replayed")
		s.wantEffects(1)
	})
}

// Without one transaction for order and answer, what a 500 after the commit
// left behind is caught by the order's own name. With one it has left nothing, and
// no name is needed.
func TestB002ABuyerWhosePageBrokeAfterTheOrderGetsThatOrder(t *testing.T) {
	for name, broken := range map[string]string{
		"a 500":    "status=500&after=1",
		"cut body": "panic=abort&bytes=4000",
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, s *server) {
				body := is(s.b, named, oneTea)
				a, err := s.try(request{key: "k", body: body, chaos: broken})
				if err == nil {
					a.want(t, http.StatusInternalServerError, "released")
				}
				committed := s.wantEffects(is(s.b, 1, 0))
				again := s.send(request{key: "k", body: body}).want(t, is(s.b, http.StatusOK, http.StatusCreated), "executed")
				there := s.wantEffects(1)
				if got := again.order(t); len(there) != 1 || got != there[0] || len(committed) == 1 && got != committed[0] {
					t.Errorf("the buyer sees %+v, the shop had %+v and has %+v", got, committed, there)
				}
				s.send(request{key: "k", body: body}).wantReplayOf(t, again)
				s.wantEffects(1)
			})
		})
	}
}

func TestB005FiveClicksOnTwoProcessesMakeOneOrder(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		two := startTwo(t, b)
		one := two[0]
		if !b.durable {
			eventually(t, "a warning that the keys are this process's alone", func() bool {
				return strings.Contains(one.Said(), "a second process would not see them")
			})
			return
		}
		click := request{key: "click", prefer: "wait=10", chaos: "sleep_ms=300"}
		var clicks []func() answer
		for i := range 5 {
			clicks = append(clicks, func() answer {
				time.Sleep(time.Duration(i) * 20 * time.Millisecond)
				return two[i%2].send(click)
			})
		}
		answers := parallel(clicks...)
		if n := count(answers); n["executed"] != 1 || n["replayed"] != 4 {
			t.Errorf("outcomes: %v, want 1 executed and 4 replayed", n)
		}
		wantEffectsOfTwo(two, 1)
	})
}

// Two devices are two keys; only the basket's own name can tell. Also
// requirement 64: the unique constraint is caught and the order that exists is
// returned.
func TestB006OneBasketFromTwoDevicesIsOneOrder(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		const basket = `{"item":"tea","qty":1,"external_id":"basket-1"}`
		answers := parallel(
			func() answer { return s.send(request{key: "phone", body: basket, chaos: "sleep_ms=100"}) },
			func() answer { return s.send(request{key: "laptop", body: basket, chaos: "sleep_ms=100"}) },
		)
		created, existing := answers[0], answers[1]
		if created.status != http.StatusCreated {
			created, existing = existing, created
		}
		created.want(t, http.StatusCreated, "executed")
		existing.want(t, http.StatusOK, "executed")
		if a, b := created.order(t), existing.order(t); a != b {
			t.Errorf("one device sees %+v, the other %+v", a, b)
		}
		s.wantEffects(1)
	})
}

func TestB007TwoPressesAtOncePayOnce(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		for i := range 20 {
			r := request{key: "pay-" + string(rune('a'+i)), prefer: "wait=10"}
			answers := parallel(s.times(2, r)...)
			if n := count(answers); n["executed"] != 1 || n["replayed"] != 1 {
				t.Errorf("outcomes: %v", n)
			}
		}
		s.wantEffects(20)
	})
}

func TestB008ASecondRequestWhileTheFirstRunsIsNotRunAgain(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		first := s.background(request{key: "post", chaos: "sleep_ms=2500"})
		s.waitRunning(1)
		s.duplicate(request{key: "post"})
		waited := s.send(request{key: "post", prefer: "wait=10"})
		waited.wantReplayOf(t, (<-first).want(t, http.StatusCreated, "executed"))
		s.wantEffects(1)
	})
}

// Also requirement 6, the second of the three outcomes that look alike.
func TestB010ALostAnswerIsGivenAgain(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		bad := s.behindFaults("POST /create-order -> cut-after-forward*2")
		for range 2 {
			if a, err := tryAt(bad.url, request{key: "k"}); err == nil {
				t.Errorf("the answer was to be lost, and is %v", a)
			}
		}
		a, err := tryAt(bad.url, request{key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		a.want(t, http.StatusCreated, "replayed")
		if got := s.wantEffects(1)[0]; got != a.order(t) {
			t.Errorf("the client sees %+v, the shop has %+v", a.order(t), got)
		}
	})
}

func TestB011AClientThatTimesOutAndRetriesIsServedOnce(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		r := request{key: "turn", chaos: "sleep_ms=2500", timeout: 1500 * time.Millisecond}
		if a, err := s.try(r); !isTimeout(err) {
			t.Fatalf("the first try was to time out: %v, %v", a, err)
		}
		r.timeout = 0
		a := s.until(r)
		a.want(t, http.StatusCreated, "replayed")
		s.wantEffects(1)
	})
}

// The server's half of B014 too: the second click sees the normal page, never
// an error.
func TestB013ADoubleClickWithoutJavaScriptMakesOneOrder(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		for i := range 5 {
			answers := parallel(s.times(2, form(fmt.Sprint("form-", i)))...)
			for _, a := range answers {
				if a.status != http.StatusCreated || a.body != answers[0].body {
					t.Errorf("answered %v, the other click %v", a, answers[0])
				}
			}
			if n := count(answers); n["executed"] != 1 || n["replayed"] != 1 {
				t.Errorf("outcomes: %v", n)
			}
		}
		s.wantEffects(5)
	})
}
