package onceward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Transport is the client's half of the contract, as an [http.RoundTripper]: it
// gives each unsafe request a key, and repeats under that key what failed, as
// long as a repeat is safe.
//
//	transport, err := onceward.NewTransport(nil, onceward.TransportConfig{Hosts: []string{"api.example.com"}})
//	client := &http.Client{Transport: transport}
//
// # What is repeated
//
//   - Whatever certainly was not sent: the connection was refused, TLS failed,
//     it broke before the request's head was out, HTTP/2 refused the stream.
//   - 429, 503 `unavailable`, and 409 or 503 `in-progress`: the server says that it
//     has not done it, or is at it.
//   - A failure that a guard calls `released`: the repeat is a real one.
//   - Where nobody knows what happened (no answer, 408, 502, 503, 504 from
//     something on the way): GET, HEAD, OPTIONS, TRACE, PUT and DELETE, and whatever
//     has a key, where the server is known to honour keys.
//
// Any other answer is final and returned. So is the last one, when attempts or
// time are over.
//
// A key protects from doubles only where the server honours it. It is known to
// do so where TransportConfig.Hosts names it, and for a method and path whose
// earlier answer had an [StatusHeader]. Elsewhere a keyed POST whose answer is
// lost is not repeated: the error is a [*SendError] that has the key, and the
// caller decides.
//
// # Attempts
//
// Each attempt is one call of the base, is counted and logged. net/http's own
// Transport re-sends a request that has an Idempotency-Key or no effect, when a
// reused connection dies under it, and tells nobody; here it cannot: it gets a
// body that it cannot rewind, and the key of a request without a body under a
// lower-case name in Request.Header, where it does not look for it (on the wire
// the case of a name has no meaning). What it still re-sends itself are GET and
// its like, and requests of which not a byte was written.
//
// Between attempts it waits a random time up to a limit that doubles each time,
// and never less than Retry-After. It gives up at once where the request's
// context would end in the wait.
//
// # Bodies
//
// A body has to be sent again: Request.GetBody is used where there is one, as
// http.NewRequest sets it for what is in memory; else up to MaxBody is read into
// memory first. A larger one is sent as it comes, once.
//
// RoundTrip returns at the answer's head, so a body that breaks off later is the
// caller's to see. An answer up to MaxAnswer of which a guard says that it is
// recorded is read whole before that, and asked for again if it breaks off.
//
// # Redirects
//
// http.Client makes a new request of a 307 or 308, which gets a key of its own:
// the first one was not carried out. With [ContextWithKey] both have the same.
//
// A Transport is safe for concurrent use and never changes the caller's request.
type Transport struct {
	base   http.RoundTripper
	cfg    TransportConfig
	direct bool // the base is net/http's, whose traces say what was sent
	known  known
}

// TransportConfig changes what a [Transport] does by default. The zero value is
// the safe default. NewTransport copies it.
type TransportConfig struct {
	// Header names the request header of the key. Empty means "Idempotency-Key".
	Header string
	// Methods get a key where the caller gave none. Nil means POST, PUT, PATCH and
	// DELETE; empty, but not nil, means none.
	Methods []string
	// NewKey makes the key of a request; "" means none. Nil means a random UUID
	// for each call of RoundTrip. See also [ContextWithKey].
	NewKey func(*http.Request) string
	// Hosts honour keys: to them a keyed request is repeated also when nobody
	// knows what became of it. "example.com" means every port of it,
	// "example.com:8443" that one, "*" every host. Nil: those that have shown it.
	Hosts []string

	// MaxAttempts bounds the attempts of one request. Waiting for a first request
	// that still runs does not count. Zero means 6, negative: MaxElapsed alone.
	MaxAttempts int
	// MaxElapsed bounds the time in which attempts begin, waits included. Zero
	// means 1 min, negative: the request's context alone.
	MaxElapsed time.Duration
	// AttemptTimeout bounds one attempt, up to the answer's head. Zero means not
	// at all: a server that says nothing is waited for until the context ends.
	AttemptTimeout time.Duration
	// Backoff is the limit of the first random wait. Zero means 200 ms.
	Backoff time.Duration
	// MaxBackoff is where that limit stops doubling. Zero means 10 s.
	MaxBackoff time.Duration
	// MaxRetryAfter is the longest Retry-After that is waited for; an answer that
	// asks for more is returned. Zero means 30 s.
	MaxRetryAfter time.Duration

	// MaxBody is how much of a request's body, in bytes, is read into memory to be
	// sent again, where it has no GetBody. Zero means 1 MiB, negative: nothing.
	MaxBody int64
	// MaxAnswer is the largest recorded answer, in bytes, that is read whole before
	// RoundTrip returns. Zero means 64 KiB, negative: none.
	MaxAnswer int64

	// Logger gets a line for every attempt that is repeated, and for every request
	// that failed. Its "record" is the guard's, so that one grep finds both halves
	// of the story. Nil means none.
	Logger *slog.Logger
	// Observe is called after every attempt, on the caller's goroutine. Nil means
	// nobody is.
	Observe func(TransportAttempt)
}

// TransportAttempt is one attempt of a [Transport], for TransportConfig.Observe.
type TransportAttempt struct {
	Request *http.Request // the caller's; read-only
	Key     string        // "" where it has none
	Number  int           // 1 is the first
	Status  int           // of the answer; 0: there was none
	Err     error         // why there was none
	Again   bool          // there will be another, after Wait
	Wait    time.Duration
	Why     string // for people: why it is repeated, or is not
}

// NewTransport returns a Transport over base; nil means http.DefaultTransport.
// base should be an [*http.Transport]: of any other it cannot be told what was
// sent when it failed, except where it failed to connect.
func NewTransport(base http.RoundTripper, cfg TransportConfig) (*Transport, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	if base == nil {
		base = http.DefaultTransport
	}
	_, direct := base.(*http.Transport)
	return &Transport{base: base, cfg: cfg, direct: direct}, nil
}

func (c TransportConfig) filled() (TransportConfig, error) {
	if c.Header == "" {
		c.Header = "Idempotency-Key"
	}
	if strings.ContainsAny(c.Header, " \t\r\n:") {
		return c, errors.New("onceward: TransportConfig.Header is no header name")
	}
	c.Header = http.CanonicalHeaderKey(c.Header)
	c.Hosts = slices.Clone(c.Hosts)
	c.Methods = slices.Clone(c.Methods)
	if c.Methods == nil {
		c.Methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	}
	for i, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, "/@ ") {
			return c, fmt.Errorf("onceward: TransportConfig.Hosts has %q: it takes host or host:port", host)
		}
		c.Hosts[i] = strings.ToLower(host)
	}
	if c.NewKey == nil {
		c.NewKey = func(*http.Request) string { return newUUID() }
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 6
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		fallback time.Duration
		off      bool
	}{
		{"MaxElapsed", &c.MaxElapsed, time.Minute, true},
		{"AttemptTimeout", &c.AttemptTimeout, 0, false},
		{"Backoff", &c.Backoff, 200 * time.Millisecond, false},
		{"MaxBackoff", &c.MaxBackoff, 10 * time.Second, false},
		{"MaxRetryAfter", &c.MaxRetryAfter, 30 * time.Second, false},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < 0 && !d.off {
			return c, fmt.Errorf("onceward: TransportConfig.%s is negative: %v", d.name, *d.value)
		}
	}
	if c.MaxBody == 0 {
		c.MaxBody = 1 << 20
	}
	if c.MaxAnswer == 0 {
		c.MaxAnswer = 64 << 10
	}
	return c, nil
}

// contextKey carries a key from ContextWithKey to RoundTrip.
type contextKey struct{}

// ContextWithKey returns a context whose unsafe requests have this key, unless
// they have one already: one key for one intent, over all tries that a program
// makes for it, restarts included. The context should be used for that one
// request: another under the same key is refused by the server. A key that is not
// valid, as [ParseKey] means it, fails the request.
func ContextWithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, contextKey{}, key)
}

// SendError is a request that got no answer.
type SendError struct {
	// Key is the request's; "" where it had none. Under it the same request can be
	// made again ([ContextWithKey]) where the server honours keys.
	Key string
	// Attempts were made.
	Attempts int
	// NotSent: no attempt can have reached the server.
	NotSent bool
	Err     error // of the last attempt
}

func (e *SendError) Error() string {
	told := "nobody knows whether the request was carried out"
	if e.NotSent {
		told = "the request was not sent"
	}
	return fmt.Sprintf("onceward: %s, after %d attempts: %v", told, e.Attempts, e.Err)
}

func (e *SendError) Unwrap() error { return e.Err }

// Timeout reports whether the last attempt took too long; http.Client asks.
func (e *SendError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// SafeToRetry reports whether err, of a request through a [Transport], says that
// the request certainly was not sent, so that it may be made again even if it has
// no key.
func SafeToRetry(err error) bool {
	var e *SendError
	return errors.As(err, &e) && e.NotSent
}

// Acknowledged reports whether a guard answered that the request was carried out,
// now or before. An answer without that, whatever its status, may come from
// something else on the way: a login page, a captive portal, a cache.
func Acknowledged(res *http.Response) bool {
	token, _, _ := parseStatus(res.Header)
	return token == statusExecuted || token == statusReplayed
}

// RoundTrip implements [http.RoundTripper]. Its errors are [*SendError], except
// for a request that could not be begun.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s, err := t.open(req)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	defer s.payload.finish()
	for {
		a := s.send()
		v := s.judge(a)
		s.tell(a, v)
		if !v.again {
			if a.err != nil {
				return nil, s.failed(a.err)
			}
			return a.res, nil
		}
		a.discard()
		timer := time.NewTimer(v.wait)
		select {
		case <-timer.C:
		case <-req.Context().Done():
			timer.Stop()
			return nil, s.failed(context.Cause(req.Context()))
		}
	}
}

// CloseIdleConnections closes the base's, as http.Client.CloseIdleConnections asks.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// sending is one request on its way, over all its attempts.
type sending struct {
	t       *Transport
	req     *http.Request
	payload payload
	key     string // as it was named
	value   string // as it is written
	start   time.Time
	number  int  // attempts so far
	waits   int  // of them, those that found the first request still running
	guarded bool // a guard has answered this very request
	reached bool // an attempt may have reached the server
}

func (t *Transport) open(req *http.Request) (*sending, error) {
	s := &sending{t: t, req: req, start: time.Now()}
	if err := s.findKey(); err != nil {
		return nil, err
	}
	if err := s.payload.open(req, t.cfg.MaxBody); err != nil {
		return nil, err
	}
	return s, nil
}

// findKey takes the caller's key, or makes one.
func (s *sending) findKey() error {
	cfg := &s.t.cfg
	for name, values := range s.req.Header {
		if http.CanonicalHeaderKey(name) == cfg.Header && len(values) > 0 {
			s.value = values[0]
			s.key = s.value
			if key, err := ParseKey(s.value); err == nil {
				s.key = key
			}
			return nil
		}
	}
	if !slices.Contains(cfg.Methods, s.method()) {
		return nil
	}
	key, given := s.req.Context().Value(contextKey{}).(string)
	if !given {
		if key = cfg.NewKey(s.req); key == "" {
			return nil
		}
	}
	if err := validKey(key); err != nil {
		return err
	}
	s.key, s.value = key, key
	if bare, err := ParseKey(key); err != nil || bare != key {
		s.value = quoted(key)
	}
	return nil
}

func (s *sending) method() string {
	if s.req.Method == "" {
		return http.MethodGet
	}
	return s.req.Method
}

// mayRepeat reports whether it does no harm to send the request again although it
// may have been carried out.
func (s *sending) mayRepeat() bool {
	switch s.method() {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return s.key != "" && (s.guarded || s.t.trusts(s.req))
}

// backoff is a random wait before the next attempt, at least as long as the
// server asked for.
func (s *sending) backoff(retryAfter time.Duration) time.Duration {
	cfg := &s.t.cfg
	limit := cfg.Backoff
	if retryAfter == 0 {
		for range s.number - 1 {
			if limit *= 2; limit >= cfg.MaxBackoff {
				break
			}
		}
	}
	return retryAfter + rand.N(min(limit, cfg.MaxBackoff)+1)
}

func (s *sending) failed(err error) error {
	e := &SendError{Key: s.key, Attempts: s.number, NotSent: !s.reached, Err: err}
	s.log(slog.LevelWarn, "onceward: a request got no answer", "attempts", s.number, "not_sent", e.NotSent, "error", err)
	return e
}

// tell reports one attempt.
func (s *sending) tell(a *attempt, v verdict) {
	status := 0
	if a.res != nil {
		status = a.res.StatusCode
	}
	if observe := s.t.cfg.Observe; observe != nil {
		observe(TransportAttempt{Request: s.req, Key: s.key, Number: s.number, Status: status, Err: a.err, Again: v.again, Wait: v.wait, Why: v.why})
	}
	if !v.again {
		return
	}
	args := []any{"attempt", s.number, "why", v.why, "wait", v.wait}
	if status != 0 {
		args = append(args, "status", status)
	}
	if a.err != nil {
		args = append(args, "error", a.err)
	}
	s.log(slog.LevelInfo, "onceward: sending again", args...)
}

func (s *sending) log(level slog.Level, msg string, args ...any) {
	l := s.t.cfg.Logger
	if l == nil {
		return
	}
	about := []any{"method", s.method(), "host", s.req.URL.Host, "path", s.req.URL.Path}
	if s.key != "" {
		about = append(about, "record", NewKey("", s.key).RecordID())
	}
	l.Log(context.WithoutCancel(s.req.Context()), level, msg, append(about, args...)...)
}
