package oncetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Answer is what a handler answered.
type Answer struct {
	Status int // 0: nothing was answered
	Header http.Header
	Body   []byte
	// Panic is what the handler panicked with; nil if it returned. A server would
	// have closed the connection.
	Panic any
}

// String shows an answer on one line.
func (a *Answer) String() string {
	switch {
	case a == nil:
		return "nothing in time"
	case a.Panic != nil:
		return fmt.Sprintf("a panic: %v", a.Panic)
	}
	text := fmt.Sprintf("%d %.300q", a.Status, a.Body)
	for _, name := range []string{"Location", "Idempotency-Status", "Retry-After"} {
		if v := a.Header.Get(name); v != "" {
			text += fmt.Sprintf(" %s: %s", name, v)
		}
	}
	return text
}

// done: the work was carried out, as the answer says.
func (a *Answer) done() bool {
	return a != nil && a.Panic == nil && a.Status >= 200 && a.Status < 400
}

// busy: the answer says to come back with the same request.
func (a *Answer) busy() bool {
	if a == nil || a.Panic != nil {
		return false
	}
	switch a.Status {
	case http.StatusConflict, http.StatusTooEarly, http.StatusServiceUnavailable:
		return a.Header.Get("Retry-After") != "" || a.word() == "in-progress"
	}
	return false
}

// word is what the answer says of itself, if it does.
func (a *Answer) word() string {
	word, _, _ := strings.Cut(a.Header.Get("Idempotency-Status"), ";")
	return word
}

// replayed: the answer says itself that it is an old one.
func (a *Answer) replayed() bool {
	if a == nil {
		return false
	}
	return a.word() == "replayed" || a.Header.Get("Idempotency-Replayed") != "" || a.Header.Get("Idempotent-Replayed") != ""
}

// wired is a request that can be sent again byte for byte.
type wired struct {
	template *http.Request
	body     []byte
	hasBody  bool
}

// wire reads r whole. other, if it is not nil, replaces its body.
func wire(r *http.Request, other []byte) *wired {
	w := &wired{template: r, hasBody: r.Body != nil && r.Body != http.NoBody}
	if w.hasBody {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic("oncetest: the request's body cannot be read: " + err.Error())
		}
		w.body = body
		r.Body = io.NopCloser(bytes.NewReader(body)) // the caller's request stays as it was
	}
	if other != nil {
		w.body, w.hasBody = other, true
	}
	return w
}

// copy makes a request such as a server would.
func (w *wired) copy(ctx context.Context) *http.Request {
	r := w.template.Clone(ctx)
	if r.RequestURI == "" {
		r.RequestURI = r.URL.RequestURI()
	}
	if r.Host == "" {
		if r.Host = r.URL.Host; r.Host == "" {
			r.Host = "example.com"
		}
	}
	if r.RemoteAddr == "" {
		r.RemoteAddr = "192.0.2.1:1234"
	}
	r.Body = http.NoBody
	if w.hasBody {
		r.Body = io.NopCloser(bytes.NewReader(w.body))
		if r.ContentLength >= 0 {
			r.ContentLength = int64(len(w.body))
		}
	}
	return r
}

// accident is what happens to one try on its way; the zero value is none.
type accident struct {
	body      func(io.ReadCloser) io.ReadCloser // stands between the body and its reader
	answer    func()                            // stands before the first byte of the answer
	restless  bool                              // asking the context takes a moment
	unanswer  bool                              // the client is gone when the first byte is to go out
	crash     bool                              // the process dies there: a panic
	leave     bool                              // the client is gone when the body has been read
	abandoned context.CancelFunc
}

// send gives a copy of the request to h and waits for as long as patience says;
// nil means that h was not ready by then.
func (w *wired) send(h http.Handler, patience time.Duration, what *accident) *Answer {
	// What the request's context carries may be who is signed in. Its end is not the
	// end of each try.
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.template.Context()))
	defer cancel()
	if what == nil {
		what = &accident{}
	}
	what.abandoned = cancel
	if what.restless {
		ctx = &restless{Context: ctx}
	}
	r := w.copy(ctx)
	if what.body != nil {
		r.Body = what.body(r.Body)
	}
	if what.leave && len(w.body) == 0 {
		cancel() // there is nothing to read whose end could be the moment
	} else if what.leave {
		r.Body = &lastRead{ReadCloser: r.Body, then: cancel, left: len(w.body)}
	}
	rec := &recorder{accident: what}
	done := make(chan any, 1)
	go func() {
		var panicked any
		defer func() { done <- panicked }()
		defer func() {
			if panicked = recover(); panicked != nil && errors.Is(asError(panicked), errCrash) {
				panicked = nil
			}
		}()
		h.ServeHTTP(rec, r)
		_, _ = io.Copy(io.Discard, r.Body) // as a server does
	}()
	select {
	case panicked := <-done:
		return rec.answer(panicked)
	case <-time.After(patience):
		return nil
	}
}

func asError(v any) error {
	err, _ := v.(error)
	return err
}

// errCrash ends a handler as the end of its process would.
var errCrash = fmt.Errorf("oncetest: the process dies before the first byte of the answer: %w", http.ErrAbortHandler)

var errGone = errors.New("oncetest: write: connection reset by peer")

// lastRead calls then when the last byte has been read.
type lastRead struct {
	io.ReadCloser
	then func()
	left int
}

func (l *lastRead) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.left -= n; l.left <= 0 || err != nil {
		l.then()
	}
	return n, err
}

// recorder is the connection's end of an answer.
type recorder struct {
	accident *accident

	mu     sync.Mutex
	header http.Header
	sent   http.Header // header, when the first byte went out
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *recorder) WriteHeader(status int) {
	if status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(status)
}

func (r *recorder) writeHeader(status int) {
	if r.status != 0 {
		return
	}
	if r.accident.answer != nil {
		r.accident.answer()
	}
	r.status, r.sent = status, r.header.Clone()
	if r.sent == nil {
		r.sent = http.Header{}
	}
	if r.accident.unanswer {
		r.accident.abandoned()
	}
	if r.accident.crash {
		panic(errCrash)
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(http.StatusOK)
	if r.accident.unanswer || r.accident.crash {
		return 0, errGone
	}
	return r.body.Write(p)
}

func (r *recorder) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(http.StatusOK)
	if r.accident.unanswer || r.accident.crash {
		return errGone
	}
	return nil
}

func (r *recorder) Flush() { _ = r.FlushError() }

// answer is what the client has; a handler that returned without a word has
// said 200.
func (r *recorder) answer(panicked any) *Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if panicked != nil {
		return &Answer{Panic: panicked, Header: http.Header{}}
	}
	status, header := r.status, r.sent
	if status == 0 {
		status, header = http.StatusOK, r.header.Clone()
	}
	if header == nil {
		header = http.Header{}
	}
	return &Answer{Status: status, Header: header, Body: bytes.Clone(r.body.Bytes())}
}

// restless is a context that takes a moment when it is asked, for the first times. What
// waits asks it, a database's driver before each statement: so copies that run at the
// same time are in each other's way where they would be in earnest, however fast the
// test's own store is.
type restless struct {
	context.Context
	asked atomic.Int32
}

func (c *restless) pause() {
	if c.asked.Add(1) <= 20 {
		time.Sleep(time.Millisecond + rand.N(time.Millisecond))
	}
}

func (c *restless) Done() <-chan struct{} { c.pause(); return c.Context.Done() }
func (c *restless) Err() error            { c.pause(); return c.Context.Err() }
func (c *restless) Value(key any) any     { c.pause(); return c.Context.Value(key) }
