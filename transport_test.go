package onceward_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
)

// wire is a base that answers from a list, the last entry for ever, and
// remembers what it was sent.
type wire struct {
	mu      sync.Mutex
	answers []any // *http.Response, error, or func(*http.Request) any
	sent    []sent
	bodies  []*closing // of the answers
}

type sent struct {
	method, path, key, body string
	at                      time.Time
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// keyIn finds a key under any spelling of its name.
func keyIn(h http.Header) string {
	for name, values := range h {
		if strings.EqualFold(name, "Idempotency-Key") {
			return strings.Join(values, "|")
		}
	}
	return ""
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	w.sent = append(w.sent, sent{r.Method, r.URL.Path, keyIn(r.Header), string(body), time.Now()})
	next := w.answers[0]
	if len(w.answers) > 1 {
		w.answers = w.answers[1:]
	}
	if f, ok := next.(func(*http.Request) any); ok {
		next = f(r)
	}
	if err, ok := next.(error); ok {
		return nil, err
	}
	res := *next.(*http.Response)
	res.Header = res.Header.Clone()
	if s := res.Header.Get("Idempotency-Status"); s != "" && !strings.Contains(s, ";") {
		res.Header.Set("Idempotency-Status", s+`;key="`+keyIn(r.Header)+`"`)
	}
	text, _ := io.ReadAll(res.Body)
	next.(*http.Response).Body = io.NopCloser(bytes.NewReader(text))
	c := &closing{Reader: bytes.NewReader(text)}
	w.bodies = append(w.bodies, c)
	res.Body = c
	return &res, nil
}

func (w *wire) times() []time.Duration {
	var d []time.Duration
	for i := 1; i < len(w.sent); i++ {
		d = append(d, w.sent[i].at.Sub(w.sent[i-1].at))
	}
	return d
}

// answered makes an answer: a status, a body, then headers.
func answered(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body))}
}

const status = "Idempotency-Status"

var (
	errLost   = errors.New("read: connection reset by peer")
	errRefuse = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	done      = answered(201, "made", status, "executed")
)

func transport(t testing.TB, base http.RoundTripper, cfg onceward.TransportConfig) *onceward.Transport {
	t.Helper()
	tr, err := onceward.NewTransport(base, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func newRequest(ctx context.Context, method, body string) *http.Request {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://api.test/orders", r)
	if err != nil {
		panic(err)
	}
	return req
}

var uuid4Form = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestEachUnsafeRequestGetsAKeyOfItsOwnAndKeepsIt(t *testing.T) { // B070
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answers: []any{errRefuse, answered(503, "", status, "unavailable"), done, done}}
		tr := transport(t, w, onceward.TransportConfig{})
		for range 2 {
			req := newRequest(t.Context(), "POST", "tea")
			before := req.Header.Clone()
			res, err := tr.RoundTrip(req)
			if err != nil || res.StatusCode != 201 || res.Request != req || !onceward.Acknowledged(res) {
				t.Errorf("%v, %v", res, err)
			}
			if !maps.EqualFunc(before, req.Header, slices.Equal) || req.GetBody == nil || req.ContentLength != 3 {
				t.Errorf("the caller's request was changed: %v", req.Header)
			}
		}
		if len(w.sent) != 4 {
			t.Fatalf("sent %v", w.sent)
		}
		for i, s := range w.sent {
			if !uuid4Form.MatchString(s.key) || s.body != "tea" {
				t.Errorf("attempt %d had the key %q and the body %q", i, s.key, s.body)
			}
		}
		if w.sent[0].key != w.sent[1].key || w.sent[1].key != w.sent[2].key || w.sent[2].key == w.sent[3].key {
			t.Errorf("keys %v", w.sent)
		}
	})
}

func TestWhoseKeyARequestHas(t *testing.T) {
	w := &wire{answers: []any{done}}
	tr := transport(t, w, onceward.TransportConfig{})
	intent := onceward.ContextWithKey(t.Context(), "intent-1")
	for _, c := range []struct {
		name string
		req  func() *http.Request
		key  string
	}{
		{"the caller's own", func() *http.Request {
			r := newRequest(intent, "POST", "x")
			r.Header.Set("Idempotency-Key", `"own"`)
			return r
		}, `"own"`},
		{"the caller's own, on a method that gets none", func() *http.Request {
			r := newRequest(t.Context(), "REPORT", "x")
			r.Header.Set("Idempotency-Key", "own")
			return r
		}, "own"},
		{"the intent's", func() *http.Request { return newRequest(intent, "POST", "x") }, "intent-1"},
		{"the intent's, without a body", func() *http.Request { return newRequest(intent, "DELETE", "") }, "intent-1"},
		{"none on a safe method", func() *http.Request { return newRequest(intent, "GET", "") }, ""},
		{"one that has to be quoted", func() *http.Request {
			return newRequest(onceward.ContextWithKey(t.Context(), `a "b", c\`), "POST", "x")
		}, `"a \"b\", c\\"`},
	} {
		w.sent = nil
		if _, err := tr.RoundTrip(c.req()); err != nil || len(w.sent) != 1 || w.sent[0].key != c.key {
			t.Errorf("%s: %v, %v", c.name, w.sent, err)
		}
	}
	for _, bad := range []string{"", "ключ", strings.Repeat("k", 256)} {
		w.sent = nil
		body := &closing{Reader: strings.NewReader("x")}
		r := newRequest(onceward.ContextWithKey(t.Context(), bad), "POST", "x")
		r.Body = body
		if _, err := tr.RoundTrip(r); !errors.Is(err, onceward.ErrKeyInvalid) || len(w.sent) != 0 || !body.closed {
			t.Errorf("%q: %v, %v, closed %v", bad, err, w.sent, body.closed)
		}
	}
	none := transport(t, w, onceward.TransportConfig{Methods: []string{}})
	own := transport(t, w, onceward.TransportConfig{NewKey: func(r *http.Request) string { return "of" + strings.ReplaceAll(r.URL.Path, "/", "-") }})
	w.sent = nil
	_, _ = none.RoundTrip(newRequest(t.Context(), "POST", "x"))
	_, _ = own.RoundTrip(newRequest(t.Context(), "POST", "x"))
	if w.sent[0].key != "" || w.sent[1].key != "of-orders" {
		t.Errorf("sent %v", w.sent)
	}
}

func TestOnlyWhatIsSafeIsRepeated(t *testing.T) { // B028, B098, B100, gateway-check B4
	refused := fmt.Errorf("wrapped: %w", errRefuse)
	const (
		yes     = true
		no      = false
		trusted = true
	)
	for _, c := range []struct {
		name    string
		method  string
		key     bool
		trusted bool
		first   any
		again   bool
	}{
		{"connection refused", "POST", no, no, refused, yes},
		{"no such host", "POST", no, no, &net.DNSError{Err: "no such host", IsNotFound: true}, yes},
		{"a false certificate", "GET", no, no, &tls.CertificateVerificationError{Err: errors.New("expired")}, no},
		{"lost answer, GET", "GET", no, no, errLost, yes},
		{"lost answer, PUT", "PUT", yes, no, errLost, yes},
		{"lost answer, DELETE without a key", "DELETE", no, no, errLost, yes},
		{"lost answer, POST without a key", "POST", no, trusted, errLost, no},
		{"lost answer, POST to a stranger", "POST", yes, no, errLost, no},
		{"lost answer, POST", "POST", yes, trusted, errLost, yes},
		{"lost answer, PATCH", "PATCH", yes, trusted, errLost, yes},
		{"502 to a stranger", "POST", yes, no, answered(502, ""), no},
		{"502", "POST", yes, trusted, answered(502, ""), yes},
		{"503", "POST", yes, trusted, answered(503, ""), yes},
		{"503 and Retry-After from a stranger", "POST", yes, no, answered(503, "", "Retry-After", "1"), no},
		{"504", "PATCH", yes, trusted, answered(504, ""), yes},
		{"408", "PATCH", yes, trusted, answered(408, ""), yes},
		{"502 to a GET", "GET", no, no, answered(502, ""), yes},
		{"500 that no guard saw", "POST", yes, trusted, answered(500, ""), no},
		{"500 to a GET", "GET", no, no, answered(500, ""), no},
		{"501", "POST", yes, trusted, answered(501, ""), no},
		{"429", "POST", no, no, answered(429, ""), yes},
		{"in progress", "POST", yes, no, answered(409, "", status, "in-progress"), yes},
		{"in progress past MaxRuntime", "POST", yes, no, answered(503, "", status, "in-progress"), yes},
		{"unavailable", "POST", yes, no, answered(503, "", status, "unavailable"), yes},
		{"released 500", "POST", yes, no, answered(500, "", status, "released"), yes},
		{"released 503", "POST", yes, no, answered(503, "", status, "released"), yes},
		{"released 429", "POST", yes, no, answered(429, "", status, "released"), yes},
		{"released 401", "POST", yes, no, answered(401, "", status, "released"), no},
		{"released 307", "POST", yes, no, answered(307, "", status, "released"), no},
		{"a conflict of the application's", "POST", yes, trusted, answered(409, ""), no},
		{"a conflict of the application's, kept", "POST", yes, no, answered(409, "", status, "executed"), no},
		{"key reused", "POST", yes, trusted, answered(422, "", status, "key-reused"), no},
		{"outcome unknown", "POST", yes, trusted, answered(409, "", status, "outcome-unknown"), no},
		{"key expired", "POST", yes, trusted, answered(422, "", status, "key-expired"), no},
		{"too large", "POST", yes, trusted, answered(413, "", status, "too-large"), no},
		{"400", "POST", yes, trusted, answered(400, ""), no},
		{"404 of a GET", "GET", no, no, answered(404, ""), no},
		{"a page from the portal", "POST", yes, trusted, answered(200, "<html>"), no},
		{"another's answer", "POST", yes, no, answered(409, "", status, `in-progress;key="other"`), no},
		{"a status that is none", "POST", yes, no, answered(500, "", status, `released;key="`), no},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answers: []any{c.first, done}}
				cfg := onceward.TransportConfig{}
				if c.trusted {
					cfg.Hosts = []string{"API.test"}
				}
				if !c.key {
					cfg.Methods = []string{}
				}
				res, err := transport(t, w, cfg).RoundTrip(newRequest(t.Context(), c.method, "x"))
				if want := map[bool]int{false: 1, true: 2}[c.again]; len(w.sent) != want {
					t.Errorf("it was sent %d times, want %d", len(w.sent), want)
				}
				var lost *onceward.SendError
				switch first, isErr := c.first.(error); {
				case c.again:
					if err != nil || res.StatusCode != 201 {
						t.Errorf("%v, %v", res, err)
					}
					if !isErr && !w.bodies[0].closed {
						t.Error("the first answer's body was left open")
					}
				case isErr:
					if !errors.As(err, &lost) || !errors.Is(err, first) || lost.Attempts != 1 || (lost.Key != "") != c.key {
						t.Errorf("%#v", err)
					}
				default:
					if err != nil || res.StatusCode != c.first.(*http.Response).StatusCode || w.bodies[0].closed && w.bodies[0].Reader.(*bytes.Reader).Size() > 0 {
						t.Errorf("%v, %v", res, err)
					}
				}
			})
		})
	}
}

func TestARouteThatHasAnsweredAsAGuardIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answers: []any{done, errLost, done, errLost}}
		tr := transport(t, w, onceward.TransportConfig{})
		for range 2 {
			if _, err := tr.RoundTrip(newRequest(t.Context(), "POST", "x")); err != nil {
				t.Error(err)
			}
		}
		if len(w.sent) != 3 || w.sent[1].key != w.sent[2].key {
			t.Errorf("sent %v", w.sent)
		}
		// Its other routes are other promises.
		req := newRequest(t.Context(), "POST", "x")
		req.URL.Path = "/elsewhere"
		if _, err := tr.RoundTrip(req); err == nil || len(w.sent) != 4 {
			t.Errorf("%v; sent %v", err, w.sent)
		}
	})
}

func TestTheGuardThatAnsweredThisVeryRequestIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answers: []any{answered(409, "", status, "in-progress"), errLost, done}}
		res, err := transport(t, w, onceward.TransportConfig{}).RoundTrip(newRequest(t.Context(), "POST", "x"))
		if err != nil || res.StatusCode != 201 || len(w.sent) != 3 {
			t.Errorf("%v, %v; sent %v", res, err, w.sent)
		}
	})
}

func TestTheWaitIsRandomUpToALimitThatDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onceward.TransportConfig{Hosts: []string{"*"}, Backoff: time.Second, MaxBackoff: 4 * time.Second, MaxElapsed: -1}
		limits := []time.Duration{1, 2, 4, 4, 4}
		longest := make([]time.Duration, len(limits))
		for range 60 {
			w := &wire{answers: []any{errLost}}
			_, err := transport(t, w, cfg).RoundTrip(newRequest(t.Context(), "POST", "x"))
			if err == nil || len(w.sent) != 6 {
				t.Fatalf("%v after %d attempts", err, len(w.sent))
			}
			for i, d := range w.times() {
				longest[i] = max(longest[i], d)
				if d > limits[i]*time.Second {
					t.Errorf("wait %d was %v", i, d)
				}
			}
		}
		for i, d := range longest { // none of sixty is above 0.7 once in a billion times
			if d < limits[i]*time.Second*7/10 {
				t.Errorf("of sixty waits %d the longest was %v: that is no full jitter", i, d)
			}
		}
	})
}

func TestRetryAfterIsObeyed(t *testing.T) { // B040
	synctest.Test(t, func(t *testing.T) {
		date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		after := func(value string) func() []string {
			return func() []string { return []string{"Retry-After", value} }
		}
		for _, c := range []struct {
			name   string
			header func() []string
			wait   time.Duration // 0: it is not repeated
		}{
			{"seconds", after("7"), 7 * time.Second},
			{"a date", func() []string { return []string{"Retry-After", date(9 * time.Second)} }, 9 * time.Second},
			{"a date on a clock of its own", func() []string {
				return []string{"Retry-After", date(time.Hour + 9*time.Second), "Date", date(time.Hour)}
			}, 9 * time.Second},
			{"a date that has passed", func() []string { return []string{"Retry-After", date(-time.Hour)} }, -1},
			{"nonsense", after("soon"), -1},
			{"zero", after("0"), -1},
			{"too long", after("31"), 0},
			{"absurdly long", after(strings.Repeat("9", 40)), 0},
		} {
			for _, more := range [][]string{nil, {status, "in-progress"}} {
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // dates have whole seconds
				answer := answered(429, "x", append(c.header(), more...)...)
				w := &wire{answers: []any{answer, done}}
				res, err := transport(t, w, onceward.TransportConfig{}).RoundTrip(newRequest(t.Context(), "POST", "x"))
				switch {
				case err != nil:
					t.Errorf("%s: %v", c.name, err)
				case c.wait == 0:
					if body, _ := io.ReadAll(res.Body); res.StatusCode != answer.StatusCode || string(body) != "x" || len(w.sent) != 1 {
						t.Errorf("%s: %d %q", c.name, res.StatusCode, body)
					}
				case len(w.sent) != 2:
					t.Errorf("%s: sent %v", c.name, w.sent)
				default:
					least := max(0, c.wait)
					if d := w.times()[0]; d < least || d > least+200*time.Millisecond {
						t.Errorf("%s: waited %v", c.name, d)
					}
				}
			}
		}
	})
}

func TestWaitingForTheFirstRequestCountsAsNoAttempt(t *testing.T) { // B028
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		for range 12 {
			w.answers = append(w.answers, answered(409, "", status, "in-progress", "Retry-After", "2"))
		}
		w.answers = append(w.answers, errLost, done)
		res, err := transport(t, w, onceward.TransportConfig{}).RoundTrip(newRequest(t.Context(), "POST", "x"))
		if err != nil || res.StatusCode != 201 || len(w.sent) != 14 {
			t.Errorf("%v, %v after %d attempts", res, err, len(w.sent))
		}
		w = &wire{answers: []any{answered(409, "", status, "in-progress", "Retry-After", "2")}}
		begun := time.Now()
		res, err = transport(t, w, onceward.TransportConfig{}).RoundTrip(newRequest(t.Context(), "POST", "x"))
		if err != nil || res.StatusCode != 409 || time.Since(begun) > time.Minute || time.Since(begun) < 57*time.Second {
			t.Errorf("%v, %v after %v", res, err, time.Since(begun))
		}
	})
}

func TestTheCallersContextBoundsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := func(w *wire) *onceward.Transport {
			return transport(t, w, onceward.TransportConfig{Hosts: []string{"*"}, Backoff: time.Nanosecond})
		}
		// It would end in the wait: what there is is returned at once.
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		begun := time.Now()
		w := &wire{answers: []any{answered(429, "slow down", "Retry-After", "5")}}
		res, err := tr(w).RoundTrip(newRequest(ctx, "POST", "x"))
		if err != nil || res.StatusCode != 429 || time.Since(begun) != 0 {
			t.Errorf("%v, %v after %v", res, err, time.Since(begun))
		}
		// It ends in the wait without having said so.
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = tr(&wire{answers: []any{answered(429, "slow down", "Retry-After", "5")}}).RoundTrip(newRequest(ctx, "POST", "x"))
		if !errors.Is(err, context.Canceled) || time.Since(begun) != time.Second || onceward.SafeToRetry(err) {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		// It ends in an attempt.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w = &wire{answers: []any{func(r *http.Request) any {
			<-r.Context().Done()
			return context.Cause(r.Context())
		}}}
		_, err = tr(w).RoundTrip(newRequest(ctx, "POST", "x"))
		var timeout interface{ Timeout() bool }
		if !errors.Is(err, context.DeadlineExceeded) || len(w.sent) != 1 || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v; sent %v", err, w.sent)
		}
	})
}

func TestAnAttemptMayHaveATimeLimit(t *testing.T) { // B011
	synctest.Test(t, func(t *testing.T) {
		hang := func(r *http.Request) any {
			<-r.Context().Done()
			return context.Cause(r.Context())
		}
		w := &wire{answers: []any{hang, hang, done}}
		begun := time.Now()
		res, err := transport(t, w, onceward.TransportConfig{AttemptTimeout: 5 * time.Second, Hosts: []string{"api.test"}}).RoundTrip(newRequest(t.Context(), "POST", "x"))
		if err != nil || res.StatusCode != 201 || len(w.sent) != 3 {
			t.Errorf("%v, %v; sent %v", res, err, w.sent)
		}
		if d := time.Since(begun); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("it took %v", d)
		}
		w = &wire{answers: []any{hang, done}}
		_, err = transport(t, w, onceward.TransportConfig{AttemptTimeout: 5 * time.Second}).RoundTrip(newRequest(t.Context(), "POST", "x"))
		var lost *onceward.SendError
		if !errors.As(err, &lost) || lost.NotSent || !lost.Timeout() || len(w.sent) != 1 {
			t.Errorf("%v; sent %v", err, w.sent)
		}
	})
}

// breaking breaks off every answer that has less than it promised.
func (b breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.wire.RoundTrip(r)
	if err == nil && res.ContentLength != 4 {
		res.Body = io.NopCloser(io.MultiReader(res.Body, errReader{errLost}))
	}
	return res, err
}
