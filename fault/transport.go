package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
)

// Transport is the bad network as an http.RoundTripper, for tests in one
// process: the same plans, choices and log as a [Proxy], without sockets of its
// own. It is safe for concurrent use.
//
// What a connection would show becomes an error or a broken body: an [*Error],
// which is [syscall.ECONNRESET]. A blackhole waits for the request's context,
// and a context that ends, ends everything; nothing goes on behind it. The mode
// reset-once means nothing without connections: a request that meets it fails
// with an error that says so. Answers are read whole, except in pass and slow.
//
// A request goes to the base once for each attempt that the log counts. A base
// that is an *http.Transport is kept from re-sending on its own: it gets no
// GetBody, and a key header whose name it does not know (it looks for
// "Idempotency-Key" spelt so; on the wire the case means nothing).
type Transport struct {
	*Control
	base http.RoundTripper
	cfg  Config
}

// NewTransport makes a Transport over base. A nil base is a transport of its
// own that opens a connection for each request.
func NewTransport(base http.RoundTripper, cfg Config) (*Transport, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if base == nil {
		base = &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	}
	control, err := newControl(cfg.Plan, cfg.Seed, cfg.LogSize, cfg.LogTo)
	if err != nil {
		return nil, err
	}
	return &Transport{Control: control, base: base, cfg: cfg}, nil
}

// Error is what the client of a [Transport] gets where the network would have
// broken. It unwraps to [syscall.ECONNRESET].
type Error struct {
	Fault Fault
	// Forwarded counts how often the whole request went to the base.
	Forwarded int
}

func (e *Error) Error() string { return "fault: " + e.Fault.String() + ": connection reset by peer" }

func (e *Error) Unwrap() error { return syscall.ECONNRESET }

var errNoConnections = errors.New("fault: reset-once needs connections, which only a Proxy has")

// RoundTrip brings the request to what its fault says.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	method, path := req.Method, req.URL.EscapedPath()
	if method == "" {
		method = http.MethodGet
	}
	if path == "" {
		path = "/"
	}
	var e Entry
	e.describe(method, path, req.URL.RawQuery, req.Header)
	rec := t.begin(e, true)
	defer rec.end()
	res, err := t.meet(req, rec)
	switch broken := (*Error)(nil); {
	case errors.As(err, &broken):
		rec.Fate = Reset
	case err != nil && req.Context().Err() != nil:
		rec.Fate, rec.Err = Left, err.Error()
	case err != nil:
		rec.Fate, rec.Err = Broken, err.Error()
	default:
		rec.Status = res.StatusCode
	}
	return res, err
}

// meet sets the fate of what has an answer; RoundTrip that of what has none.
func (t *Transport) meet(req *http.Request, rec *record) (*http.Response, error) {
	f, ctx := rec.fault, req.Context()
	reset := func() (*http.Response, error) {
		return nil, &Error{Fault: f, Forwarded: rec.Forwarded}
	}
	if f.Mode == ResetOnce {
		return nil, errNoConnections
	}
	if f.Mode == Refuse && f.Slow == 0 {
		return reset()
	}
	body, err := t.readBody(req)
	if err != nil {
		return nil, err
	}
	rec.Bytes, rec.FormKey = len(body), formKey(req.Header.Get("Content-Type"), body)
	if !sleep(ctx, f.Slow) {
		return nil, context.Cause(ctx)
	}
	switch f.Mode {
	case Refuse:
		return reset()
	case Blackhole:
		if err := t.hold(ctx, rec); err != nil {
			return nil, err
		}
		return reset()
	case HalfRequest:
		if len(body) > 0 { // half of a head is not a request to a RoundTripper
			res, err := t.base.RoundTrip(t.clone(req, &halfBody{r: bytes.NewReader(body[:len(body)/2])}, len(body)))
			if err == nil {
				res.Body.Close()
			}
		}
		return reset()
	}
	if !f.forwards() {
		return t.standIn(req, rec)
	}
	if (f.Mode == Pass || f.Mode == "") && f.SlowAfter == 0 {
		res, err := t.base.RoundTrip(t.whole(req, body))
		if err == nil {
			rec.Forwarded, rec.Upstream, rec.Fate = 1, []int{res.StatusCode}, Answered
			res.Request = req
		}
		return res, err
	}
	res, err := t.carry(req, body, rec)
	if !sleep(ctx, f.SlowAfter) {
		return nil, context.Cause(ctx)
	}
	switch f.Mode {
	case CutAfterForward:
		return reset()
	case Status:
		rec.fault.SlowAfter = 0
		return t.standIn(req, rec)
	}
	if err != nil {
		return nil, err
	}
	rec.Fate = Answered
	if f.Mode == CutMidBody {
		whole := res.Body.(*wholeBody)
		if whole.Len() == 0 {
			return reset()
		}
		rec.Fate = Cut
		res.Body = &halfBody{r: io.LimitReader(whole, int64(whole.Len()/2)), end: &Error{Fault: f, Forwarded: rec.Forwarded}}
	}
	res.Request = req
	return res, nil
}

func (t *Transport) readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	return readAll(req.Body, t.cfg.MaxBody)
}

func readAll(r io.Reader, max int64) ([]byte, error) {
	if max >= 0 {
		r = io.LimitReader(r, max+1)
	}
	b, err := io.ReadAll(r)
	if err == nil && max >= 0 && int64(len(b)) > max {
		err = fmt.Errorf("fault: %w", errBodyTooLarge)
	}
	return b, err
}

// hold is the black hole; nil when it ends by itself.
func (t *Transport) hold(ctx context.Context, rec *record) error {
	d, changed := rec.fault.Hold, rec.changed
	if d > 0 {
		changed = nil
	} else {
		d = t.cfg.Hold
	}
	limit, cancel := bounded(ctx, d)
	defer cancel()
	select {
	case <-changed:
	case <-limit.Done():
	}
	return context.Cause(ctx)
}

func (t *Transport) whole(req *http.Request, body []byte) *http.Request {
	if req.Body == nil || req.Body == http.NoBody {
		return t.clone(req, nil, 0)
	}
	if len(body) == 0 {
		return t.clone(req, http.NoBody, 0)
	}
	return t.clone(req, io.NopCloser(bytes.NewReader(body)), len(body))
}

// clone makes one attempt's request.
func (t *Transport) clone(req *http.Request, body io.ReadCloser, length int) *http.Request {
	out := req.Clone(req.Context())
	out.Body, out.ContentLength, out.GetBody = body, int64(length), nil
	if _, ok := t.base.(*http.Transport); ok {
		for _, name := range []string{keyHeader, "X-" + keyHeader} {
			if values, ok := out.Header[name]; ok {
				delete(out.Header, name)
				out.Header[strings.ToLower(name)] = values
			}
		}
	}
	return out
}

// carry sends the request once or twice, as the fault says, and reads each
// answer whole. The first whole answer is the client's.
func (t *Transport) carry(req *http.Request, body []byte, rec *record) (*http.Response, error) {
	type result struct {
		res *http.Response
		err error
	}
	send := func() result {
		ctx, cancel := bounded(req.Context(), t.cfg.AnswerTimeout)
		defer cancel()
		out := t.whole(req, body)
		res, err := t.base.RoundTrip(out.WithContext(ctx))
		if err != nil {
			return result{err: err}
		}
		b, err := readAll(res.Body, t.cfg.MaxBody)
		res.Body.Close()
		res.Body = &wholeBody{bytes.NewReader(b)}
		return result{res, err}
	}
	var results []result
	switch rec.fault.Mode {
	case Duplicate:
		results = []result{send(), send()}
	case DuplicateConcurrent:
		came := make(chan result, 2)
		for range 2 {
			go func() { came <- send() }()
		}
		results = []result{<-came, <-came}
	default:
		results = []result{send()}
	}
	best := results[0]
	for _, r := range results {
		if r.res != nil {
			rec.Forwarded++
			rec.Upstream = append(rec.Upstream, r.res.StatusCode)
		}
		if r.err != nil {
			rec.Err = r.err.Error()
		} else if best.err != nil {
			best = r
		}
	}
	return best.res, best.err
}

func (t *Transport) standIn(req *http.Request, rec *record) (*http.Response, error) {
	if !sleep(req.Context(), rec.fault.SlowAfter) {
		return nil, context.Cause(req.Context())
	}
	status, h, body := rec.fault.page(t.cfg.Login)
	res := &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: http.NoBody, ContentLength: int64(len(body)), Request: req,
	}
	if req.Method != http.MethodHead {
		res.Body = io.NopCloser(strings.NewReader(body))
	}
	rec.Fate = StandIn
	return res, nil
}

// wholeBody is an answer's body that has been read already.
type wholeBody struct{ *bytes.Reader }

func (*wholeBody) Close() error { return nil }

// halfBody breaks where it ends.
type halfBody struct {
	r   io.Reader
	end error // nil: io.ErrUnexpectedEOF
}

func (b *halfBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		if err = b.end; err == nil {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

func (*halfBody) Close() error { return nil }
