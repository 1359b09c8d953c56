package oncetest

import (
	"crypto/rand"
	"net/http"
	"slices"
	"testing"
	"time"
)

// Config says how to see what a handler has done, and what else the assertions
// need to know. The zero value judges by answers alone. Its methods are the
// assertions; the functions of the same names are those of the zero Config. A
// Config may be used by several goroutines if its functions may.
type Config struct {
	// Effects counts how often the work was done, as the application's data
	// tells: orders in the table, mails in the outbox, sums on an account. It is
	// called while nothing runs. Nil means that effects are not counted.
	Effects func() int
	// State shows what the application has become, as text that is the same when
	// nothing has changed; [Get] makes it of one of the application's own pages.
	// Nil means that the state is not compared.
	State func() string

	// Header names the header that carries the key. Empty means Idempotency-Key.
	Header string
	// Same says in a few words how the answer to a repeat differs from the answer
	// to the first try in what matters; "" if it does not. Nil means that status,
	// body and header are to be the same but for the lines of [Volatile];
	// [CreatedThenOK] is for creations that answer 201 and then 200.
	Same func(first, again *Answer) string
	// Volatile names more header lines that a repeat may change.
	Volatile []string

	// Copies is how many requests [Config.AssertConcurrent] sends at once. Zero
	// means 10.
	Copies int
	// Patience is how long a request may take, and how long a repeat may be told
	// that the first still runs. Zero means 10 seconds.
	Patience time.Duration

	// Restart makes the application anew from what it has kept on disk, as a new
	// process would, and closes the one before it. If it is given,
	// [Config.AssertCrash] repeats the request to what it returns, and expects a
	// key to outlive its process. Nil means that the repeat goes to the same
	// handler.
	Restart func(t testing.TB) http.Handler

	// OtherBody is what [Run] sends under the same key as another request. Required
	// there, unless NoKey is set.
	OtherBody string
	// OtherPerson makes a request another person's, for [Run]: it changes its
	// cookie or Authorization. Required there, unless NoKey or NoPersons is set.
	OtherPerson func(r *http.Request)
	// Break makes the application's work fail with a 5xx until mend is called, for
	// [Run]: a database that is down, a full disk. Required there, unless NoBreak
	// is set.
	Break func() (mend func())

	// NoKey: the request has no key, and survives a repeat by what it says.
	NoKey bool
	// NoPersons: there is nobody to tell apart.
	NoPersons bool
	// NoBreak: the work cannot be made to fail.
	NoBreak bool
}

// Volatile lists the header lines that may differ between a first answer and a
// repeat's: they speak of the moment, of the connection, or of the repeat itself.
func Volatile() []string {
	return []string{
		"Age", "Connection", "Date", "Idempotency-Replayed", "Idempotency-Status", "Idempotent-Replayed", "Ratelimit",
		"Ratelimit-Limit", "Ratelimit-Policy", "Ratelimit-Remaining", "Ratelimit-Reset", "Retry-After", "Server-Timing",
		"Set-Cookie", "Traceparent", "Tracestate", "Transfer-Encoding", "Content-Length", "Www-Authenticate",
		"X-Correlation-Id", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Request-Id", "X-Runtime",
	}
}

// NewKey is a fresh key: random text, one for each request that is new.
func NewKey() string { return rand.Text() }

// Get makes a State of an application's own page: its status and body, as the
// handler answers a GET of path. Prepare may be nil; it adds what a reader needs,
// such as a cookie.
func Get(h http.Handler, path string, prepare func(r *http.Request)) func() string {
	return func() string {
		r, err := http.NewRequest(http.MethodGet, path, nil)
		if err != nil {
			return "GET " + path + ": " + err.Error()
		}
		if prepare != nil {
			prepare(r)
		}
		return wire(r, nil).send(h, time.Minute, nil).String()
	}
}

// CreatedThenOK is a Config.Same for creations under a name of the client's own:
// the first is 201, a repeat may be 200 with the entity that exists, at the same
// Location and with the same body.
func CreatedThenOK(first, again *Answer) string {
	a := *again
	if first.Status == http.StatusCreated && again.Status == http.StatusOK {
		a.Status = http.StatusCreated
	}
	return Config{}.differ(first, &a)
}

func (c Config) header() string {
	if c.Header == "" {
		return "Idempotency-Key"
	}
	return http.CanonicalHeaderKey(c.Header)
}

func (c Config) copies() int {
	if c.Copies <= 0 {
		return 10
	}
	return c.Copies
}

func (c Config) patience() time.Duration {
	if c.Patience <= 0 {
		return 10 * time.Second
	}
	return c.Patience
}

// differ says how again differs from first; "" if it does not.
func (c Config) differ(first, again *Answer) string {
	if c.Same != nil {
		return c.Same(first, again)
	}
	switch {
	case first.Status != again.Status:
		return "another status"
	case string(first.Body) != string(again.Body):
		return "another body"
	}
	ignored := slices.Concat(Volatile(), c.Volatile)
	for _, h := range []struct{ a, b http.Header }{{first.Header, again.Header}, {again.Header, first.Header}} {
		for name, values := range h.a {
			if !slices.ContainsFunc(ignored, func(n string) bool { return http.CanonicalHeaderKey(n) == name }) && !slices.Equal(values, h.b[name]) {
				return "another " + name
			}
		}
	}
	return ""
}
