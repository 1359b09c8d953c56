package oncetest_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/oncetest"
)

// patience is how long a wrong shop is waited for.
const patience = 3 * time.Second

func TestTheRightShopPasses(t *testing.T) {
	s := newShop("")
	oncetest.Run(t, s, orderRequest, s.config())
	if s.count() < 8 {
		t.Errorf("after all assertions there are %d orders", s.count())
	}
}

type signedIn struct{}

// Where the middleware that signs in stands outside of what is tested, a test says who
// it is by the request's context; that it is over by then ends no try.
func TestTheRequestsContextReachesTheHandler(t *testing.T) {
	s := newShop("")
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(signedIn{}) != "anna" || r.Context().Err() != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	})
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), signedIn{}, "anna"))
	cancel()
	c := s.config()
	c.Restart = nil
	oncetest.Run(t, h, func() *http.Request { return orderRequest().WithContext(ctx) }, c)
}

func TestAWishedStatePassesWithoutAKey(t *testing.T) {
	s := newShop("")
	open := false
	oncetest.Run(t, s, func() *http.Request {
		open = !open
		return signRequest(open)
	}, oncetest.Config{State: oncetest.Get(s, "/sign", nil), NoKey: true, NoBreak: true})
}

// wrongShops lists every wrong shop with the assertions that must catch it, and
// what each says.
var wrongShops = []struct {
	wrong wrong
	fails map[string]string
}{
	{noKey, map[string]string{
		"SentAgain":  "sent again, a request was done again: twice in all",
		"AtOnce":     "copies sent at once were done ",
		"AnswerLost": "sent again because the answer was lost, a request was done twice",
		"ClientGone": "sent again because its client had left in mid-work, a request was done twice",
		"Crash":      "sent again after a crash and a restart, a request was done twice",
		"OtherBody":  "another body under the same key was carried out",
		// OtherPerson sees its own repeat done again.
		"OtherPerson": "sent again after another person's, a request was done again",
	}},
	{looksThenActs, map[string]string{
		"AtOnce":    "copies sent at once were done ",
		"OtherBody": "another body under the same key was carried out",
	}},
	{noScope, map[string]string{"OtherPerson": "another person who used the same key got the first one's answer"}},
	{quietNoScope, map[string]string{"OtherPerson": "another person who used the same key got the first one's answer"}},
	{saysDone, map[string]string{"Failure": "sent again after a failure, a request was answered as done and was not done"}},
	{keepsFailures, map[string]string{"Failure": "sent again after a failure that is over, a request is still not done"}},
	{doesHalf, map[string]string{"Failure": "sent again after a failure, a request was done twice"}},
	{anyBody, map[string]string{"OtherBody": "another body under the same key got the first one's answer: what it asked for is lost"}},
	{overwrites, map[string]string{"OtherBody": "another body under the same key was carried out"}},
	{storesLate, map[string]string{"Crash": "sent again after a crash and a restart, a request was done twice"}},
	{freesUnwritten, map[string]string{
		"AnswerLost": "sent again because the answer was lost, a request was done twice",
		"Crash":      "sent again after a crash and a restart, a request was done twice",
	}},
	{keepsNoAnswer, map[string]string{"ClientGone": "was answered as done and was not done"}},
	{givesUpForGood, map[string]string{
		"ClientGone": "a request is told for ever that the first try still runs",
	}},
	{locksForEver, map[string]string{"Crash": "a request is told for ever that the first try still runs"}},
	{losesHeaders, map[string]string{
		"SentAgain":   "a request was answered otherwise: another Location",
		"AtOnce":      "answered otherwise: another Location|answered differently: another Location", // as a copy comes before the end or after it
		"OtherBody":   "a request was answered otherwise: another Location",
		"OtherPerson": "a request was answered otherwise: another Location",
	}},
	{otherStatus, map[string]string{
		"SentAgain":   "a request was answered otherwise: another status",
		"AtOnce":      "answered otherwise: another status|answered differently: another status",
		"OtherBody":   "a request was answered otherwise: another status",
		"OtherPerson": "a request was answered otherwise: another status",
	}},
	{refusesRepeat, map[string]string{
		"SentAgain":   "a request is refused, and its client cannot tell that it was done",
		"AtOnce":      "a request is refused, and its client cannot tell that it was done",
		"AnswerLost":  "a request is refused, and its client never learns that it was done",
		"ClientGone":  "a request is refused, and its client never learns that it was done",
		"Crash":       "a request is refused, and its client never learns that it was done",
		"OtherBody":   "a request is refused, and its client cannot tell that it was done",
		"OtherPerson": "a request is refused, and its client cannot tell that it was done",
	}},
	{answersTheCrowd, map[string]string{"AtOnce": "copies sent at once were answered differently: another status"}},
	{forgets, map[string]string{"Crash": "sent again after a crash and a restart, a request was done twice"}},
}

// Each wrong shop fails the assertions that are about its fault, and no other, and
// is told what is wrong and what to do.
func TestEachWrongShopFailsItsAssertionsAndNoOther(t *testing.T) {
	for _, w := range wrongShops {
		t.Run(string(w.wrong), func(t *testing.T) {
			failed := map[string]bool{}
			for _, a := range oncetest.Steps() {
				s := newShop(w.wrong)
				said := try(t, func(tb testing.TB) { a.Assert(s.config(), tb, s, orderRequest()) })
				if said == "" {
					continue
				}
				failed[a.Name] = true
				want, ok := w.fails[a.Name]
				says := func(one string) bool { return strings.Contains(said, one) }
				if !ok || !slices.ContainsFunc(strings.Split(want, "|"), says) {
					t.Errorf("%s says\n%s, want %q", a.Name, said, want)
				}
				for _, part := range []string{"POST /orders: ", "what to do:   "} {
					if !strings.Contains(said, part) {
						t.Errorf("%s does not say %q:\n%s", a.Name, part, said)
					}
				}
			}
			for name := range w.fails {
				if !failed[name] {
					t.Errorf("%s passes, failed are %v", name, slices.Sorted(maps.Keys(failed)))
				}
			}
		})
	}
}

// An assertion that no wrong shop fails could be one that cannot fail.
func TestEachAssertionIsFailedByAWrongShop(t *testing.T) {
	alone := map[string]bool{}
	for _, w := range wrongShops {
		for name := range w.fails {
			alone[name] = true
		}
	}
	for _, a := range oncetest.Steps() {
		if !alone[a.Name] {
			t.Errorf("no wrong shop fails %s", a.Name)
		}
	}
}

func signRequest(open bool) *http.Request {
	r := httptest.NewRequest("POST", "/sign", strings.NewReader(fmt.Sprint("open=", open)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// A toggle, or a counter: nothing counts it, its state tells. Requirement 16.
func TestAToggleIsFoundByItsState(t *testing.T) {
	for wrong, said := range map[wrong][]string{
		turnsOver: {"undid", "say the state that it wants"},
		movesOn:   {"changed the state"},
	} {
		t.Run(string(wrong), func(t *testing.T) { foundByState(t, wrong, said) })
	}
}

func foundByState(t *testing.T, wrong wrong, parts []string) {
	found := 0
	for _, a := range oncetest.Steps() {
		if a.Name == "OtherBody" || a.Name == "OtherPerson" || a.Name == "Failure" {
			continue // about keys and failures
		}
		s := newShop(wrong)
		cfg := oncetest.Config{State: oncetest.Get(s, "/sign", nil), Patience: patience}
		said := try(t, func(tb testing.TB) { a.Assert(cfg, tb, s, signRequest(true)) })
		for _, part := range parts {
			if !strings.Contains(said, part) {
				t.Errorf("%s says %q, want %q", a.Name, said, part)
			}
		}
		found++
	}
	if found != 5 {
		t.Errorf("%d assertions were asked", found)
	}
}

// Handlers that let in one at a time are not held up by what holds back the
// copies, but for a moment.
func TestAHandlerThatLetsInOneAtATimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := make(chan struct{}, 1)
		s := newShop("")
		oneByOne := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			turn <- struct{}{}
			defer func() { <-turn }()
			s.ServeHTTP(w, r)
		})
		start := time.Now()
		oncetest.Config{Effects: s.count, Copies: 50}.AssertConcurrent(t, oneByOne, orderRequest())
		if took := time.Since(start); took > time.Second {
			t.Errorf("fifty copies were held back for %v, each one for itself", took)
		}
	})
}

// Without anything to see, answers are compared.
func TestAnswersAloneTellACreationThatIsNotNamed(t *testing.T) {
	s := newShop(noKey)
	said := try(t, func(tb testing.TB) { oncetest.AssertRepeatable(tb, s, orderRequest()) })
	if !strings.Contains(said, "answered otherwise: another body") {
		t.Errorf("said %q", said)
	}
	s = newShop("")
	oncetest.AssertRepeatable(t, s, orderRequest())
	oncetest.AssertConcurrent(t, s, orderRequest())
	oncetest.AssertLostAnswer(t, s, orderRequest())
	oncetest.AssertHangUp(t, s, orderRequest())
	oncetest.AssertCrash(t, s, orderRequest())
	oncetest.AssertOtherBodyRefused(t, s, orderRequest(), `{"item":"jam"}`)
	oncetest.AssertOtherPerson(t, s, orderRequest(), s.config().OtherPerson)
	oncetest.AssertRetryAfterFailure(t, s, orderRequest(), s.breakIt)
}

// A test that shows nothing is a test that has failed.
func TestATestThatShowsNothingFails(t *testing.T) {
	used := orderRequest()
	right := newShop("")
	right.ServeHTTP(httptest.NewRecorder(), used.Clone(t.Context()))
	unsigned := orderRequest()
	unsigned.Header.Del("Authorization")
	unnamed := orderRequest()
	unnamed.Header.Del("Idempotency-Key")
	usedBody := orderRequest()
	usedBody.Header.Set("Idempotency-Key", used.Header.Get("Idempotency-Key"))
	for name, c := range map[string]struct {
		request *http.Request
		cfg     func(oncetest.Config) oncetest.Config
		steps   []string
		says    string
	}{
		"a key that was used": {usedBody, nil, []string{"SentAgain", "AnswerLost", "Crash", "OtherBody", "OtherPerson"}, "its key was used before"},
		"a request that is refused": {unsigned, nil,
			[]string{"SentAgain", "AnswerLost", "Crash", "OtherBody"}, "the first try was refused"},
		"no key": {unnamed, nil, []string{"OtherBody", "OtherPerson"}, "has no Idempotency-Key"},
		"effects that never grow": {orderRequest(), func(c oncetest.Config) oncetest.Config {
			c.Effects = func() int { return 7 }
			return c
		}, []string{"SentAgain", "AtOnce", "OtherBody", "OtherPerson"}, "Effects has not grown"},
		"effects that shrink": {orderRequest(), func(c oncetest.Config) oncetest.Config {
			n := 0
			c.Effects = func() int { n--; return n }
			return c
		}, []string{"SentAgain"}, "made Effects smaller"},
		"a state that never changes": {orderRequest(), func(c oncetest.Config) oncetest.Config {
			c.Effects, c.State = nil, func() string { return "" }
			return c
		}, []string{"SentAgain", "AnswerLost"}, "State is the same"},
		"nothing that breaks": {orderRequest(), func(c oncetest.Config) oncetest.Config {
			c.Break = func() func() { return func() {} }
			return c
		}, []string{"Failure"}, "was to fail, and did not"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, a := range oncetest.Steps() {
				if !slices.Contains(c.steps, a.Name) {
					continue
				}
				s := newShop("")
				if c.request == usedBody {
					s = right
				}
				cfg := s.config()
				if c.cfg != nil {
					cfg = c.cfg(cfg)
				}
				r := c.request.Clone(t.Context())
				r.Body = io.NopCloser(strings.NewReader(`{"item":"tea"}`))
				if c.request != unnamed && c.request != usedBody {
					r.Header.Set("Idempotency-Key", oncetest.NewKey())
				}
				if said := try(t, func(tb testing.TB) { a.Assert(cfg, tb, s, r) }); !strings.Contains(said, c.says) {
					t.Errorf("%s says %q, want %q", a.Name, said, c.says)
				}
			}
		})
	}
}

// What Run needs is asked for by name.
func TestRunLeavesNothingOutWithoutAWord(t *testing.T) {
	if os.Getenv("ONCETEST_EMPTY") != "" {
		oncetest.Run(t, newShop(""), orderRequest, oncetest.Config{})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRunLeavesNothingOutWithoutAWord$")
	cmd.Env = append(os.Environ(), "ONCETEST_EMPTY=1")
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Contains(string(out), "/SentAgain") {
		t.Errorf("it ran:\n%s", out)
	}
	for _, field := range []string{"OtherBody", "OtherPerson", "Break", "NoKey", "NoPersons", "NoBreak"} {
		if !strings.Contains(string(out), field) {
			t.Errorf("nothing is said of %s:\n%s", field, out)
		}
	}
}

// The request that a test gives is its own, and stays as it was.
func TestTheRequestIsLeftAsItWas(t *testing.T) {
	s, r := newShop(""), orderRequest()
	oncetest.AssertRepeatable(t, s, r)
	if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"item":"tea"}` {
		t.Errorf("the body is %q, %v", body, err)
	}
}

// A request as a client makes it will do.
func TestAClientsRequestWillDo(t *testing.T) {
	var got *http.Request
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = io.Copy(w, r.Body)
	})
	r, err := http.NewRequest("POST", "http://shop.test/orders?a=b", strings.NewReader("tea"))
	if err != nil {
		t.Fatal(err)
	}
	oncetest.AssertRepeatable(t, h, r)
	if got.RequestURI != "/orders?a=b" || got.Host != "shop.test" || got.RemoteAddr == "" || got.ContentLength != 3 {
		t.Errorf("the handler saw %q, %q, %q, %d", got.RequestURI, got.Host, got.RemoteAddr, got.ContentLength)
	}
}

func TestAHandlerThatHangsOrPanicsIsSaidTo(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for says, h := range map[string]http.HandlerFunc{
		"was not over in time": func(http.ResponseWriter, *http.Request) { <-release },
		"panicked":             func(http.ResponseWriter, *http.Request) { panic(errTest) },
	} {
		said := try(t, func(tb testing.TB) {
			oncetest.Config{Patience: 50 * time.Millisecond}.AssertRepeatable(tb, h, orderRequest())
		})
		if !strings.Contains(said, says) {
			t.Errorf("said %q, want %q", said, says)
		}
	}
}

// A creation under a name of the client's own: 201, then 200 and the same entity.
func TestCreatedThenOK(t *testing.T) {
	entity := http.Header{"Location": {"/orders/1"}}
	created := &oncetest.Answer{Status: 201, Header: entity, Body: []byte("tea")}
	for _, c := range []struct {
		again oncetest.Answer
		want  string
	}{
		{oncetest.Answer{Status: 200, Header: entity, Body: []byte("tea")}, ""},
		{oncetest.Answer{Status: 201, Header: entity, Body: []byte("tea")}, ""},
		{oncetest.Answer{Status: 202, Header: entity, Body: []byte("tea")}, "another status"},
		{oncetest.Answer{Status: 200, Header: entity, Body: []byte("jam")}, "another body"},
		{oncetest.Answer{Status: 200, Header: http.Header{"Location": {"/orders/2"}}, Body: []byte("tea")}, "another Location"},
		{oncetest.Answer{Status: 200, Header: http.Header{}, Body: []byte("tea")}, "another Location"},
	} {
		if got := oncetest.CreatedThenOK(created, &c.again); got != c.want {
			t.Errorf("%v: %q, want %q", &c.again, got, c.want)
		}
	}
}

// Copies at once meet in the handler, whether it reads its body early or late, and
// get each byte of it.
func TestCopiesAtOnceGetTheirWholeBody(t *testing.T) {
	long := strings.Repeat("x", 100_000) + "!"
	for _, body := range []string{"", "a", "ab", long} {
		for _, size := range []int{1, 7, 4096} {
			if len(body) > 1000 && size == 1 {
				continue
			}
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var got strings.Builder
				for buf := make([]byte, size); ; {
					n, err := r.Body.Read(buf)
					got.Write(buf[:n])
					if err != nil {
						break
					}
				}
				fmt.Fprint(w, got.String() == body)
			})
			cfg := oncetest.Config{Copies: 3, Same: func(_, again *oncetest.Answer) string {
				if string(again.Body) != "true" {
					return "a part of the body is missing"
				}
				return ""
			}}
			var r *http.Request
			if body == "" {
				r = httptest.NewRequest("POST", "/", nil)
			} else {
				r = httptest.NewRequest("POST", "/", strings.NewReader(body))
			}
			cfg.AssertConcurrent(t, h, r)
		}
	}
}
