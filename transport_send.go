package onceward

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// attempt is one call of the base, and what is known of it.
type attempt struct {
	res    *http.Response
	err    error
	token  string // of the guard that answered; "" if none did
	cancel context.CancelCauseFunc
	cause  error // why the attempt's own context ended
	begun  bool  // the base was called
	heard  bool  // there was an answer, even if it broke off
	body   bool  // the request has one
	// What net/http told of it while it went.
	asked, connected, began, head, http2, read atomic.Bool
}

// errResend is net/http about to send an HTTP/2 request again by itself, which it
// also does after errors that do not say that nothing was done.
var errResend = errors.New("onceward: the connection broke while the answer was waited for")

// errAttemptTimeout is an attempt that ran into TransportConfig.AttemptTimeout.
var errAttemptTimeout error = attemptTimeout{}

type attemptTimeout struct{}

func (attemptTimeout) Error() string   { return "onceward: no answer within AttemptTimeout" }
func (attemptTimeout) Timeout() bool   { return true }
func (attemptTimeout) Temporary() bool { return true }

// send makes one attempt.
func (s *sending) send() *attempt {
	s.number++
	a := new(attempt)
	ctx, cancel := context.WithCancelCause(s.req.Context())
	a.cancel = cancel
	if limit := s.t.cfg.AttemptTimeout; limit > 0 {
		timer := time.AfterFunc(limit, func() { cancel(errAttemptTimeout) })
		defer timer.Stop()
	}
	out, err := s.request(httptrace.WithClientTrace(ctx, s.trace(a)), a)
	if err == nil {
		a.begun = true
		a.res, err = s.t.base.RoundTrip(out)
	}
	if err == nil {
		a.heard, a.res.Request = true, s.req
		if a.token = s.statusOf(a.res); a.token != "" {
			s.guarded = true
			s.t.known.learn(s.req)
		}
		err = s.readSmall(a)
	}
	if err != nil {
		a.cause = context.Cause(ctx)
		if own := a.cause; own != nil && s.req.Context().Err() == nil {
			err = own
		}
		a.res, a.err = nil, err
		cancel(nil)
		return a
	}
	if a.res.StatusCode != http.StatusSwitchingProtocols { // there the body is a connection
		a.res.Body = &answerBody{a.res.Body, cancel}
	}
	return a
}

// request makes the attempt's own request.
func (s *sending) request(ctx context.Context, a *attempt) (*http.Request, error) {
	out := s.req.Clone(ctx)
	out.GetBody, out.Trailer = nil, s.req.Trailer // trailers are set while the body is read
	if out.Header == nil {
		out.Header = http.Header{}
	}
	body, length, err := s.payload.next()
	if err != nil {
		return nil, err
	}
	if body == nil {
		out.Body, out.ContentLength = nil, max(0, out.ContentLength)
	} else {
		a.body = true
		out.Body = &sentBody{body, &a.read}
		if out.ContentLength <= 0 {
			out.ContentLength = length
		}
	}
	if s.value == "" {
		return out, nil
	}
	for name := range out.Header {
		if http.CanonicalHeaderKey(name) == s.t.cfg.Header {
			delete(out.Header, name)
		}
	}
	out.Header[s.t.cfg.Header] = []string{s.value}
	if body == nil {
		for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
			if values, ok := out.Header[name]; ok {
				delete(out.Header, name)
				out.Header[strings.ToLower(name)] = values
			}
		}
	}
	return out, nil
}

// trace notes how far net/http gets.
func (s *sending) trace(a *attempt) *httptrace.ClientTrace {
	safe := false
	switch s.method() {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		safe = true
	}
	return &httptrace.ClientTrace{
		GetConn: func(string) { a.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) {
			if a.connected.Swap(true) && a.head.Load() && a.http2.Load() && !safe {
				// Nothing is written under a context that has ended.
				a.cancel(errResend)
			}
		},
		WroteHeaderField: func(name string, _ []string) {
			a.began.Store(true)
			if strings.HasPrefix(name, ":") {
				a.http2.Store(true)
			}
		},
		WroteHeaders: func() { a.head.Store(true) },
	}
}

// readSmall reads an answer that a guard has recorded, so that one that breaks
// off can be asked for again.
func (s *sending) readSmall(a *attempt) error {
	res := a.res
	if a.token != statusExecuted && a.token != statusReplayed ||
		res.ContentLength <= 0 || res.ContentLength > s.t.cfg.MaxAnswer || s.method() == http.MethodHead {
		return nil
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return fmt.Errorf("onceward: the answer broke off: %w", err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// drainTime is how long the rest of an answer is waited for that nobody will read.
const drainTime = 250 * time.Millisecond

var errDiscarded = errors.New("onceward: the rest of a discarded answer does not come")

// discard gives an answer up that nobody will read.
func (a *attempt) discard() {
	if a.res == nil {
		return
	}
	// What is short is read, so that the connection can be used again; what does not
	// come is not worth the wait.
	if n := a.res.ContentLength; n >= 0 && n <= 16<<10 {
		give := time.AfterFunc(drainTime, func() { a.cancel(errDiscarded) })
		_, _ = io.Copy(io.Discard, a.res.Body)
		give.Stop()
	}
	_ = a.res.Body.Close()
}

// sentBody is a request's body as net/http sees it: it does not know the type,
// so it writes the head before it reads from it.
type sentBody struct {
	io.ReadCloser
	read *atomic.Bool
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.read.Store(true)
	return b.ReadCloser.Read(p)
}

// answerBody ends the attempt's context with the answer.
type answerBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel(nil)
	}
	return n, err
}

func (b *answerBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// payload is a request's body, for each attempt anew.
type payload struct {
	first   io.ReadCloser                 // the caller's, until an attempt has it
	again   func() (io.ReadCloser, error) // nil: there is no body, or it cannot be had again
	length  int64                         // -1: unknown
	stream  *streamBody                   // one that can be sent once
	nothing bool
}

func (p *payload) open(req *http.Request, limit int64) error {
	p.length = req.ContentLength
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		p.nothing = true
		return nil
	case req.GetBody != nil:
		p.first, p.again = req.Body, req.GetBody
		return nil
	case limit < 0 || req.ContentLength > limit:
		p.stream = &streamBody{r: req.Body, c: req.Body}
		return nil
	}
	start, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if err != nil {
		return fmt.Errorf("onceward: the request's body: %w", err)
	}
	if int64(len(start)) > limit {
		p.stream = &streamBody{r: io.MultiReader(bytes.NewReader(start), req.Body), c: req.Body}
		return nil
	}
	if err := req.Body.Close(); err != nil {
		return fmt.Errorf("onceward: the request's body: %w", err)
	}
	p.nothing = len(start) == 0 && req.ContentLength <= 0
	p.length = int64(len(start))
	p.again = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(start)), nil }
	return nil
}

// next is the body of the next attempt; nil where there is none.
func (p *payload) next() (body io.ReadCloser, length int64, err error) {
	switch {
	case p.nothing:
		return nil, 0, nil
	case p.stream != nil:
		return p.stream, p.length, nil
	case p.first != nil:
		body, p.first = p.first, nil
	default:
		body, err = p.again()
	}
	return body, p.length, err
}

// canRepeat reports whether there is a whole body for another attempt.
func (p *payload) canRepeat() bool { return p.stream == nil || p.stream.untouched() }

// finish closes what nobody will send any more.
func (p *payload) finish() {
	if p.first != nil {
		_ = p.first.Close()
	}
	if p.stream != nil {
		p.stream.finish()
	}
}

// streamBody is a body that can be read once. An attempt that never came to
// reading it does not close it either.
type streamBody struct {
	mu       sync.Mutex
	r        io.Reader
	c        io.Closer
	begun    bool
	closing  bool
	finished bool
}

func (b *streamBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.begun = true
	b.mu.Unlock()
	return b.r.Read(p)
}

func (b *streamBody) Close() error {
	b.mu.Lock()
	b.closing = true
	now := b.begun || b.finished
	b.mu.Unlock()
	if now {
		return b.c.Close()
	}
	return nil
}

func (b *streamBody) untouched() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.begun
}

func (b *streamBody) finish() {
	b.mu.Lock()
	now := b.closing && !b.begun
	b.finished = true
	b.mu.Unlock()
	if now {
		_ = b.c.Close()
	}
}

// newUUID is a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
