package onceward_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
)

// Whatever a server writes into the two headers, a request is sent twice at the
// most, the wait is never negative or longer than allowed, and what is returned
// can be read.
func FuzzAnswerHeaders(f *testing.F) {
	for _, s := range []string{`in-progress;key="k"`, "in-progress", `released;x;key=k`, `executed;body=omitted`, `replayed;key="a\"b"`, `;`, `a;key`, `in-progress; key="k`, "in-progress;key=k;key=j"} {
		for _, r := range []string{"", "1", "-1", "99999999999999999999", "Sun, 29 Nov 2026 12:00:00 GMT", "Sun, 29 Nov 2026 12:00:05 +0100", "0x10", "1.5"} {
			f.Add(s, r, "Sun, 29 Nov 2026 12:00:00 GMT", 409)
		}
	}
	f.Fuzz(func(t *testing.T, token, retryAfter, date string, code int) {
		if code < 200 || code > 599 {
			return
		}
		first := true
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			res := answered(code, "body")
			if first {
				res.Header["Idempotency-Status"] = []string{token}
				res.Header["Retry-After"] = []string{retryAfter}
				res.Header["Date"] = []string{date}
				first = false
			} else {
				res.StatusCode = 204
			}
			return res, nil
		})
		waits, attempts := time.Duration(-1), 0
		tr, err := onceward.NewTransport(base, onceward.TransportConfig{
			Backoff: 1, MaxRetryAfter: 1, // so that nothing is waited for
			Observe: func(a onceward.TransportAttempt) {
				if attempts++; a.Again {
					waits = a.Wait
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		res, err := tr.RoundTrip(newRequest(onceward.ContextWithKey(t.Context(), "k"), "POST", "x"))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); string(body) != "body" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
		if attempts > 2 || waits > 2 || waits < 0 && attempts > 1 {
			t.Errorf("%d attempts, a wait of %v", attempts, waits)
		}
		said := strings.TrimSpace(token)
		if again := attempts == 2; again && code != 429 && !strings.HasPrefix(said, "in-progress") && !strings.HasPrefix(said, "unavailable") && !strings.HasPrefix(said, "released") {
			t.Errorf("%d with %q was repeated", code, token)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
