package onceward

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// verdict is what is to follow an attempt.
type verdict struct {
	again bool
	wait  time.Duration
	why   string
}

// judge decides whether there is another attempt.
func (s *sending) judge(a *attempt) verdict {
	v, retryAfter := s.classify(a)
	if !v.again {
		return v
	}
	cfg := &s.t.cfg
	stop := func(why string) verdict { return verdict{why: v.why + "; " + why} }
	if !s.payload.canRepeat() {
		return stop("the body is gone")
	}
	if cfg.MaxAttempts > 0 && s.number-s.waits >= cfg.MaxAttempts {
		return stop("MaxAttempts")
	}
	if retryAfter > cfg.MaxRetryAfter {
		return stop("Retry-After is longer than MaxRetryAfter")
	}
	v.wait = s.backoff(retryAfter)
	if cfg.MaxElapsed > 0 && time.Since(s.start)+v.wait > cfg.MaxElapsed {
		return stop("MaxElapsed")
	}
	if end, ok := s.req.Context().Deadline(); ok && time.Until(end) <= v.wait {
		return stop("the context's deadline")
	}
	return v
}

// classify says what an attempt means, whatever the limits.
func (s *sending) classify(a *attempt) (v verdict, retryAfter time.Duration) {
	if a.err != nil {
		return s.classifyError(a), 0
	}
	s.reached = true
	retryAfter, _ = retryAfterOf(a.res.Header, time.Now())
	status := a.res.StatusCode
	switch a.token {
	case statusInProgress:
		s.waits++
		return verdict{again: true, why: "the first request still runs"}, retryAfter
	case statusUnavailable:
		return verdict{again: true, why: "the guard could not record it; nothing was done"}, retryAfter
	case statusReleased:
		if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status == http.StatusTooEarly {
			return verdict{again: true, why: "it failed, and the key is free"}, retryAfter
		}
	case "":
		switch status {
		case http.StatusTooManyRequests:
			return verdict{again: true, why: "too many requests"}, retryAfter
		case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			// 503 with Retry-After is no promise either: caches and balancers say it
			// of a request that they did pass on.
			return verdict{again: s.mayRepeat(), why: "something on the way answered"}, retryAfter
		}
	}
	return verdict{why: "answered"}, retryAfter
}

func (s *sending) classifyError(a *attempt) verdict {
	switch {
	case s.req.Context().Err() != nil:
		s.reached = s.reached || !s.notSent(a)
		return verdict{why: "the context ended"}
	case s.hopeless(a):
		return verdict{why: "another attempt would fail too"}
	case s.notSent(a):
		return verdict{again: true, why: "it was not sent"}
	}
	s.reached = true
	return verdict{again: s.mayRepeat(), why: "there was no answer"}
}

// hopeless reports whether the request itself is at fault, or the server's
// identity; nothing was sent then.
func (s *sending) hopeless(a *attempt) bool {
	var cert *tls.CertificateVerificationError
	if errors.As(a.err, &cert) {
		return true
	}
	return !a.begun || s.t.direct && !a.asked.Load() && !a.connected.Load() && !a.began.Load()
}

// neverProcessed are the words of net/http for an HTTP/2 stream that the server
// says it did not look at, where the request has a body that cannot be rewound. A
// server cannot put words of its own into them.
var neverProcessed = regexp.MustCompile(`^http2: Transport: cannot retry err \[(stream error: stream ID \d+; REFUSED_STREAM(; received from peer)?|http2: Transport received Server's graceful shutdown GOAWAY)\] after Request\.Body was written`)

// notSent reports whether the attempt certainly did not reach the server.
func (s *sending) notSent(a *attempt) bool {
	if a.heard {
		return false
	}
	if !s.t.direct {
		dial, dns := (*net.OpError)(nil), (*net.DNSError)(nil)
		return errors.As(a.err, &dial) && dial.Op == "dial" || errors.As(a.err, &dns)
	}
	if !a.connected.Load() && !a.began.Load() {
		return true
	}
	if a.cause != nil { // net/http did not wait for its writer
		return false
	}
	if !a.began.Load() {
		return true
	}
	if a.http2.Load() {
		return neverProcessed.MatchString(a.err.Error())
	}
	// net/http reads a body of a type that it does not know when the whole head is
	// out. Without its last line a head is no request.
	return a.body && !a.read.Load() && s.req.Header.Get("Expect") == ""
}

// trusts reports whether the server honours keys.
func (t *Transport) trusts(req *http.Request) bool {
	host, name := strings.ToLower(req.URL.Host), strings.ToLower(req.URL.Hostname())
	return slices.ContainsFunc(t.cfg.Hosts, func(h string) bool { return h == "*" || h == host || h == name }) || t.known.has(req)
}

// known are the methods and paths that a guard has answered for. A path counts
// by itself: that a server guards one route says nothing of its others.
type known struct {
	mu     sync.Mutex
	routes map[string]struct{}
}

const maxKnown = 4096

func route(req *http.Request) string {
	return req.Method + " " + req.URL.Scheme + "://" + req.URL.Host + req.URL.EscapedPath()
}

func (k *known) learn(req *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.routes == nil {
		k.routes = make(map[string]struct{})
	}
	for r := range k.routes {
		if len(k.routes) < maxKnown {
			break
		}
		delete(k.routes, r)
	}
	k.routes[route(req)] = struct{}{}
}

func (k *known) has(req *http.Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.routes[route(req)]
	return ok
}

// statusOf reads what a guard says of this request.
func (s *sending) statusOf(res *http.Response) string {
	token, key, ok := parseStatus(res.Header)
	if s.key == "" || !ok || key != "" && key != s.key {
		return "" // of nobody, or somebody else's answer
	}
	return token
}

// parseStatus reads Idempotency-Status. ok is false for none, for several, and
// for what is not written as a guard writes it.
func parseStatus(h http.Header) (token, key string, ok bool) {
	lines := h.Values(StatusHeader)
	if len(lines) != 1 {
		return "", "", false
	}
	token, rest, _ := strings.Cut(strings.Trim(lines[0], " \t"), ";")
	token = strings.TrimRight(token, " \t")
	if token == "" || strings.Trim(token, "abcdefghijklmnopqrstuvwxyz-") != "" {
		return "", "", false
	}
	for rest != "" {
		rest = strings.TrimLeft(rest, " \t")
		name, value, has := strings.Cut(rest, "=")
		if semi := strings.IndexByte(rest, ';'); semi >= 0 && (!has || semi < len(name)) {
			rest = rest[semi+1:] // a parameter without a value
			continue
		}
		if !has {
			break
		}
		end := len(value)
		if strings.HasPrefix(value, `"`) {
			if end = quotedEnd(value); end < 0 {
				return "", "", false
			}
		} else if semi := strings.IndexByte(value, ';'); semi >= 0 {
			end = semi
		}
		if name == "key" {
			var err error
			if key, err = ParseKey(value[:end]); err != nil {
				return "", "", false
			}
		}
		rest = strings.TrimLeft(value[end:], " \t")
		if rest != "" && rest[0] != ';' {
			return "", "", false
		}
		rest = strings.TrimPrefix(rest, ";")
	}
	return token, key, true
}

// quotedEnd is where a quoted string that v begins with ends; -1: it does not.
func quotedEnd(v string) int {
	for i := 1; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// quoted writes a key as a structured field string.
func quoted(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// retryAfterOf reads Retry-After: seconds, or a date (RFC 9110 section 10.2.3).
// A date is measured against the answer's own Date, so that nobody's clock has to
// be right; without one, against now. It is never negative.
func retryAfterOf(h http.Header, now time.Time) (time.Duration, bool) {
	value := strings.Trim(h.Get("Retry-After"), " \t")
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		const most = int64(100 * 365 * 24 * time.Hour / time.Second)
		if err != nil || seconds > most {
			seconds = most
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now)), true
}
