package onceward

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// ScopeFunc says whose key a request carries: the account's stable name, not
// the session's, so that one person's two devices share their keys. The guard
// asks it only where a key is present or required, after authentication has
// run. An empty scope is an error: the guard then answers 500 and logs that it
// stands outside authentication. A ScopeFunc refuses with an answer of its own
// by returning a [*ProblemError]. Its request's header, or [KeyInBody], has the key.
type ScopeFunc func(*http.Request) (string, error)

// Unscoped is the ScopeFunc of a service whose callers all share one space of
// keys: a caller who guesses another's key gets that one's answer. It has to be
// chosen by this name.
func Unscoped(*http.Request) (string, error) { return "unscoped", nil }

// Config changes what a [Guard] does by default. The zero value is the safe
// default; a negative duration or size means "off" where that makes sense, and
// New says so where it does not. New copies it; later changes have no effect.
type Config struct {
	// Header names the request header that carries the key. Empty means
	// "Idempotency-Key".
	Header string
	// FormField names the form field that carries the key of a plain HTML form;
	// in a multipart body it must be the first part. The field's bytes stay in
	// the fingerprint. Empty means "_key", "-" means none.
	FormField string
	// KeyFrom reads the key from elsewhere, such as a JSON field, when neither
	// header nor field has one. It may read r.Body; the handler sees it from the
	// start. Empty means "no key".
	KeyFrom func(r *http.Request) (string, error)
	// Methods are guarded when they carry a key. Nil means POST, PUT, PATCH and
	// DELETE. GET, HEAD, OPTIONS and TRACE are never touched.
	Methods []string
	// Require refuses a guarded method without a key: 400. By default such a
	// request passes through untouched.
	Require bool

	// Wait makes every duplicate wait for the first one's answer up to MaxWait.
	// By default only form navigations and callers who send "Prefer: wait=N" do;
	// others get 409 and Retry-After at once.
	Wait bool
	// MaxWait bounds every wait. Zero means 10 s, negative: nobody waits.
	MaxWait time.Duration

	// Lease is how long a claim outlives a process that died. It is renewed at
	// one third while the handler runs. Zero means 30 s.
	Lease time.Duration
	// MaxRuntime bounds a handler whose client may be gone: then its context is
	// cancelled. Zero means 5 min.
	MaxRuntime time.Duration
	// StoreTimeout bounds each call of the store. Zero means 5 s.
	StoreTimeout time.Duration
	// Retention is how long an answer is kept and replayed. Zero means 24 h.
	Retention time.Duration
	// Tombstone is how long after its Retention a key is still known: a repeat is
	// then 422 key-expired and does not run. Zero means no time at all: it runs as
	// new.
	Tombstone time.Duration
	// MaxTransaction bounds a handler under [Guard.Atomic], which others may wait
	// for: past it everything is rolled back, 503. Zero means 5 s. On SQLite a
	// statement cannot be interrupted: one that never ends holds up every writer of
	// the file until it returns.
	MaxTransaction time.Duration
	// Unknown says what becomes of a repeat when nobody knows whether the first
	// run did its work: the process died, or the handler failed with a 5xx. The
	// zero value is Rerun. Atomic has no such outcome.
	Unknown Unknown
	// Resolve is asked under Unknown: Resolve. It looks into the application's own
	// data for what rec's run has done: its answer, which is then kept and
	// replayed; nil, if it did nothing and the request is to run; or an error, if
	// that cannot be told either (409 outcome-unknown). One request at a time
	// asks in a process. Required with that policy.
	Resolve func(r *http.Request, rec Record) (*Response, error)

	// Fingerprint returns what of a request counts as the request besides method,
	// path, query and key, in place of content type and body. It may read r.Body.
	// Nil means all of the body.
	Fingerprint func(r *http.Request) ([]byte, error)
	// Host says which host a request is for, where one guard stands before several: then
	// the same key on another of them is 422, as it is on another path. A request whose
	// host changes from one try to the next is another request. Nil means that hosts do
	// not count.
	Host func(r *http.Request) string
	// CanonicalJSON compares bodies that call themselves JSON by what they say:
	// the order of members, white space, escapes and the spelling of numbers do
	// not matter. Numbers are compared as exact decimals. A body that is on disk
	// (MaxMemory), is no JSON, has one member twice, or escapes a character as two
	// surrogates (\ud83d\ude00) counts by its bytes: readers differ about those.
	CanonicalJSON bool
	// Volatile names members of a JSON body that do not count, as dotted paths
	// ("client.sent_at"; in arrays, of every element). A dot or a backslash in a
	// member's own name is written with a backslash before it. It implies
	// CanonicalJSON.
	// To change it is to call the repeats of older requests others: 422.
	Volatile []string

	// SweepEvery is the mean time between sweeps of a store that is a Sweeper;
	// each is jittered by a quarter. Zero means 1 min, negative: never.
	SweepEvery time.Duration

	// MaxRequest is the largest request body, in bytes, that takes a key; a
	// larger one is 413. Zero means 32 MiB.
	MaxRequest int64
	// MaxMemory is how much of one body is held in memory; the rest of it is
	// spooled to disk. Zero means 1 MiB.
	MaxMemory int64
	// MaxSpool bounds what this guard holds on disk at one time; when it is
	// full, further large requests are 503. Zero means 1 GiB.
	MaxSpool int64
	// SpoolDir is where bodies are spooled. Empty means os.TempDir().
	SpoolDir string
	// MaxResponse is the largest answer that is kept with its body. Zero means
	// 1 MiB.
	MaxResponse int64

	// FailOpen runs a request unguarded when the store cannot be reached. By
	// default it is 503 and nothing has run.
	FailOpen bool
	// CancelWithClient cancels the handler when its client hangs up. By default
	// it runs to its end, so that its answer is there for the retry.
	CancelWithClient bool

	// ReplayedHeader names the header that marks a replay. Empty means
	// "Idempotency-Replayed", with the value 1; every other name gets the value
	// "true" (Stripe's is "Idempotent-Replayed: true").
	ReplayedHeader string
	// Error writes the guard's own refusals. Status, Retry-After and
	// Idempotency-Status are set already; it writes the rest. Past MaxRuntime, when
	// the handler still has the request, r.Header has only what asks for a form of
	// answer: Accept, Accept-Language, Cookie, HX-Request, Origin, Outbox-Owner and
	// Sec-Fetch-Mode. Nil means
	// application/problem+json, a small page for a form navigation, a fragment
	// for HX-Request.
	Error func(w http.ResponseWriter, r *http.Request, p Problem)
	// Logger gets one line for every decision. Nil means none.
	Logger *slog.Logger
	// Observer is told of every decision, and of what else happens, for metrics and
	// traces. The zero value observes nothing.
	Observer Observer

	volatile map[string]bool // Volatile, as it is asked
}

// filled returns the Config with every default in place, or an error that
// names the field.
func (c Config) filled() (Config, error) {
	if c.Header == "" {
		c.Header = "Idempotency-Key"
	}
	c.Header = http.CanonicalHeaderKey(c.Header)
	if c.FormField == "" {
		c.FormField = "_key"
	}
	if c.ReplayedHeader == "" {
		c.ReplayedHeader = "Idempotency-Replayed"
	}
	c.ReplayedHeader = http.CanonicalHeaderKey(c.ReplayedHeader)
	c.Methods = slices.Clone(c.Methods)
	if c.Methods == nil {
		c.Methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	}
	for _, m := range c.Methods {
		switch m {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			return c, fmt.Errorf("onceward: Config.Methods has %s: safe methods are never guarded", m)
		}
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		fallback time.Duration
		off      bool
	}{
		{"MaxWait", &c.MaxWait, 10 * time.Second, true},
		{"Lease", &c.Lease, 30 * time.Second, false},
		{"MaxRuntime", &c.MaxRuntime, 5 * time.Minute, false},
		{"StoreTimeout", &c.StoreTimeout, 5 * time.Second, false},
		{"Retention", &c.Retention, 24 * time.Hour, false},
		{"SweepEvery", &c.SweepEvery, time.Minute, true},
		{"Tombstone", &c.Tombstone, 0, false},
		{"MaxTransaction", &c.MaxTransaction, 5 * time.Second, false},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
		if *d.value < 0 && !d.off {
			return c, fmt.Errorf("onceward: Config.%s is negative: %v", d.name, *d.value)
		}
	}
	for _, s := range []struct {
		name     string
		value    *int64
		fallback int64
	}{
		{"MaxRequest", &c.MaxRequest, 32 << 20},
		{"MaxMemory", &c.MaxMemory, 1 << 20},
		{"MaxSpool", &c.MaxSpool, 1 << 30},
		{"MaxResponse", &c.MaxResponse, 1 << 20},
	} {
		if *s.value == 0 {
			*s.value = s.fallback
		}
		if *s.value < 0 {
			return c, fmt.Errorf("onceward: Config.%s is negative: %d", s.name, *s.value)
		}
	}
	if c.SpoolDir == "" {
		c.SpoolDir = os.TempDir()
	}
	if c.Unknown > Resolve {
		return c, fmt.Errorf("onceward: Config.Unknown has no meaning: %d", c.Unknown)
	}
	if (c.Unknown == Resolve) != (c.Resolve != nil) {
		return c, errors.New("onceward: Config.Resolve belongs to Config.Unknown: onceward.Resolve, and both are needed")
	}
	if c.Fingerprint != nil && (c.CanonicalJSON || c.Volatile != nil) {
		return c, errors.New("onceward: Config.Fingerprint stands in place of CanonicalJSON and Volatile")
	}
	c.volatile = make(map[string]bool, len(c.Volatile))
	for _, path := range c.Volatile {
		c.volatile[path] = true
	}
	if strings.ContainsAny(c.Header+c.ReplayedHeader, " \t\r\n:") {
		return c, fmt.Errorf("onceward: Config.Header or Config.ReplayedHeader is no header name")
	}
	return c, nil
}

// kept is how long a store keeps an answer.
func (c *Config) kept() time.Duration { return c.Retention + c.Tombstone }

func (c *Config) guards(method string) bool { return slices.Contains(c.Methods, method) }

// stored says which answers are kept: those that the same request would get
// again. A 5xx is released because its retry should be a real one: a duplicate
// is seen and deleted, a loss is not. 401, 403, 407, 408, 421, 423, 425 and 429
// speak of the moment, not of the request. 307 and 308 ask for the same request
// elsewhere.
func stored(status int) bool {
	switch status {
	case 307, 308, 401, 403, 407, 408, 421, 423, 425, 429:
		return false
	}
	return status >= 200 && status < 500
}
