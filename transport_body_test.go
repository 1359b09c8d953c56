package onceward_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/onceward/onceward"
)

func TestABodyIsSentAgainWhole(t *testing.T) { // B110
	once := func(r io.Reader) io.Reader { return io.MultiReader(r) } // http.NewRequest does not know it
	for _, c := range []struct {
		name   string
		body   io.Reader
		length int64
		size   int
		again  bool
	}{
		{"one that can be rewound", bytes.NewReader(bytes.Repeat([]byte("x"), 5000)), 5000, 5000, true},
		{"one that is small enough to keep", once(strings.NewReader(strings.Repeat("x", 1000))), 0, 1000, true},
		{"the same, of a known length", once(strings.NewReader(strings.Repeat("x", 1000))), 1000, 1000, true},
		{"an empty one", once(strings.NewReader("")), 0, 0, true},
		{"one that is too large to keep", once(strings.NewReader(strings.Repeat("x", 1001))), 0, 1001, false},
		{"the same, of a known length", once(strings.NewReader(strings.Repeat("x", 1001))), 1001, 1001, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answers: []any{errLost, errLost, done}}
				req, err := http.NewRequestWithContext(t.Context(), "POST", "http://api.test/orders", c.body)
				if err != nil {
					t.Fatal(err)
				}
				closed := &closing{Reader: req.Body}
				req.Body, req.ContentLength = closed, c.length
				_, err = transport(t, w, onceward.TransportConfig{MaxBody: 1000, Hosts: []string{"*"}}).RoundTrip(req)
				want := 1
				if c.again {
					want = 3
				}
				if (err == nil) != c.again || len(w.sent) != want || !closed.closed {
					t.Errorf("%v after %d attempts; closed: %v", err, len(w.sent), closed.closed)
				}
				for i, s := range w.sent {
					if len(s.body) != c.size {
						t.Errorf("attempt %d had %d bytes", i, len(s.body))
					}
				}
			})
		})
	}
}

func TestABodyThatCannotBeReadIsNotSent(t *testing.T) {
	w := &wire{answers: []any{done}}
	broken := errors.New("the file is gone")
	body := &closing{Reader: io.MultiReader(strings.NewReader("x"), errReader{broken})}
	req := newRequest(t.Context(), "POST", "")
	req.Body = body
	if _, err := transport(t, w, onceward.TransportConfig{}).RoundTrip(req); !errors.Is(err, broken) || len(w.sent) != 0 || !body.closed {
		t.Errorf("%v; sent %v; closed %v", err, w.sent, body.closed)
	}
	calls := 0
	req = newRequest(t.Context(), "POST", "x")
	req.GetBody = func() (io.ReadCloser, error) { calls++; return nil, broken }
	w.answers = []any{errRefuse, done}
	if _, err := transport(t, w, onceward.TransportConfig{Backoff: 1}).RoundTrip(req); !errors.Is(err, broken) || len(w.sent) != 1 || calls != 1 || !onceward.SafeToRetry(err) {
		t.Errorf("%v; sent %v; asked %d times", err, w.sent, calls)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestARecordedAnswerThatBreaksOffIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := func(size int64, header ...string) *http.Response {
			res := answered(201, "", header...)
			res.ContentLength = size
			return res
		}
		for _, c := range []struct {
			name  string
			first *http.Response
			again bool
		}{
			{"recorded", cut(100, status, "executed"), true},
			{"recorded before", cut(100, status, "replayed"), true},
			{"too large", cut(101, status, "executed"), false},
			{"of unknown size", cut(-1, status, "executed"), false},
			{"by no guard", cut(100), false},
			{"not recorded", cut(100, status, "released"), false},
		} {
			w := &wire{}
			w.answers = []any{func(*http.Request) any { return c.first }, done}
			broken := breaking{w}
			res, err := transport(t, broken, onceward.TransportConfig{MaxAnswer: 100}).RoundTrip(newRequest(t.Context(), "POST", "x"))
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			body, err := io.ReadAll(res.Body)
			if c.again && (string(body) != "made" || len(w.sent) != 2) || !c.again && (err == nil || len(w.sent) != 1) {
				t.Errorf("%s: %q, %v; sent %v", c.name, body, err, w.sent)
			}
		}
	})
}

type breaking struct{ *wire }

func TestEveryAttemptIsCountedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var seen []string
		w := &wire{answers: []any{errRefuse, answered(429, ""), errLost}}
		ctx := onceward.ContextWithKey(t.Context(), "k1")
		_, err := transport(t, w, onceward.TransportConfig{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Observe: func(a onceward.TransportAttempt) {
				seen = append(seen, strings.Join([]string{a.Key, strconv.Itoa(a.Number), strconv.Itoa(a.Status), strconv.FormatBool(a.Again), a.Why}, " "))
			},
		}).RoundTrip(newRequest(ctx, "POST", "x"))
		want := []string{"k1 1 0 true it was not sent", "k1 2 429 true too many requests", "k1 3 0 false there was no answer"}
		if !slices.Equal(seen, want) {
			t.Errorf("observed %q", seen)
		}
		var lost *onceward.SendError
		if !errors.As(err, &lost) || lost.Key != "k1" || lost.Attempts != 3 || lost.NotSent {
			t.Errorf("%#v", err)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		record := onceward.NewKey("", "k1").RecordID()
		if len(lines) != 3 || strings.Contains(log.String(), "k1") {
			t.Fatalf("the log has the key, or not one line for each attempt:\n%s", log.String())
		}
		for i, parts := range [][]string{{"INFO", "attempt=1"}, {"INFO", "attempt=2", "status=429"}, {"WARN", "attempts=3", "not_sent=false"}} {
			for _, part := range append(parts, "record="+record, "host=api.test", "path=/orders", "method=POST") {
				if !strings.Contains(lines[i], part) {
					t.Errorf("line %d has no %s: %s", i, part, lines[i])
				}
			}
		}
	})
}

func TestTransportConfigNamesTheFieldThatIsWrong(t *testing.T) {
	for name, cfg := range map[string]onceward.TransportConfig{
		"Header": {Header: "a b"}, "Hosts": {Hosts: []string{"http://x/"}}, "AttemptTimeout": {AttemptTimeout: -1}, "Backoff": {Backoff: -1},
		"MaxBackoff": {MaxBackoff: -1}, "MaxRetryAfter": {MaxRetryAfter: -1},
	} {
		if _, err := onceward.NewTransport(nil, cfg); err == nil || !strings.Contains(err.Error(), "TransportConfig."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, hosts := range [][]string{{"api.test:80"}, {"other"}} {
		w := &wire{answers: []any{errLost, done}}
		req := newRequest(t.Context(), "POST", "x")
		req.URL.Host = "api.test:80"
		_, err := transport(t, w, onceward.TransportConfig{Hosts: hosts, Backoff: 1}).RoundTrip(req)
		if (err == nil) != (hosts[0] == "api.test:80") {
			t.Errorf("%v: %v", hosts, err)
		}
	}
}
