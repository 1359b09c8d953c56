package onceward

import (
	"bufio"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// capture is the http.ResponseWriter that a guarded handler writes to. It keeps
// the answer back until the record is completed. An answer over the limit goes
// on to disk; one that is flushed, or for which the disk has no room, goes out
// at once, and then only its end is kept back: a client counts an answer only
// at its clean end, so a crash in mid-stream is no success. Its status was told
// before its record was made; should the store fail then, "executed" stands
// where "executed;unrecorded" would have been true.
//
// It has no Unwrap on purpose. Whatever http.ResponseController offers is
// implemented here, so that no handler reaches past the guard, and none that
// outlives MaxRuntime touches a connection that serves somebody else by then.
type capture struct {
	w     http.ResponseWriter
	outer http.Header // what w had when the request came in
	limit int64       // MaxResponse
	// tokenFor tells Idempotency-Status for an answer that has to go out before
	// it is completed.
	tokenFor interface{ tokenFor(status int) string }

	mu       sync.Mutex
	header   http.Header // what the handler sees; at WriteHeader it is copied to w's
	code     int         // 0 before WriteHeader
	buf      buffer
	declared int64 // the handler's Content-Length, or -1
	length   int64 // bytes that the handler wrote
	together bool  // nothing may go out before all of it is kept, whatever happens
	failed   error // so the answer could not be taken
	unframed bool  // HTTP/1.0: without a length, the end of the connection is the answer's
	endless  bool  // so it is with this answer: nobody can tell its end from a crash
	early    bool  // the answer went out before its end
	flushed  bool  // by the handler's wish
	held     []byte
	status   []string // room for Idempotency-Status, beside the header's values
	gone     bool     // the client does not take it any more
	detached bool     // the handler has returned, or its client was told that it still runs
}

var _ interface {
	http.ResponseWriter
	http.Flusher
	http.Hijacker
	FlushError() error
	WriteString(string) (int, error)
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
} = (*capture)(nil)

func (c *capture) init(w http.ResponseWriter, limit int64, sp *spool) {
	c.w, c.limit, c.declared = w, limit, -1
	c.buf.spool, c.buf.memory = sp, limit
	c.buf.mem = c.buf.small[:0]
	c.header = make(http.Header, 4)
	if outer := w.Header(); len(outer) > 0 {
		c.outer = outer.Clone()
		maps.Copy(c.header, outer.Clone())
	}
}

func (c *capture) Header() http.Header { return c.header }

func (c *capture) WriteHeader(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeHeader(code)
}

func (c *capture) writeHeader(code int) {
	if c.code != 0 || c.detached {
		return
	}
	switch {
	case code < 100 || code > 999:
		panic("onceward: invalid WriteHeader code " + strconv.Itoa(code)) // as net/http does
	case code == http.StatusSwitchingProtocols:
		panic("onceward: a request with a key cannot switch protocols")
	case code < 200:
		h := c.w.Header()
		maps.Copy(h, c.header.Clone())
		c.w.WriteHeader(code)
		c.restoreOuter()
		return
	}
	c.code = code
	// From here on w is the handler's alone: detach only takes it from a handler
	// that has written nothing.
	h := c.w.Header()
	if len(c.outer) > 0 {
		clear(h)
	}
	lines := 0
	for _, values := range c.header {
		lines += len(values)
	}
	all := make([]string, 0, lines+1)
	for name, values := range c.header {
		start := len(all)
		all = append(all, values...)
		h[name] = all[start:len(all):len(all)]
	}
	c.status = all[len(all) : len(all)+1]
	if cl := h.Get("Content-Length"); cl != "" {
		n, err := strconv.ParseInt(cl, 10, 64)
		if err == nil && n >= 0 {
			c.declared = n
		} else {
			delete(h, "Content-Length") // as net/http does
		}
	}
	c.endless = c.unframed && c.declared < 0
	delete(h, "Transfer-Encoding") // "identity" would take an answer's end away
}

func (c *capture) restoreOuter() {
	h := c.w.Header()
	clear(h)
	maps.Copy(h, c.outer.Clone())
}

// WriteString implements io.StringWriter without a copy.
func (c *capture) WriteString(s string) (int, error) {
	return c.Write(unsafe.Slice(unsafe.StringData(s), len(s)))
}

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.detached {
		return 0, http.ErrHandlerTimeout
	}
	c.writeHeader(http.StatusOK)
	if !bodyAllowed(c.code) {
		return 0, http.ErrBodyNotAllowed
	}
	var tooMuch error
	n := len(p)
	if c.declared >= 0 && c.length+int64(n) > c.declared {
		n, tooMuch = int(c.declared-c.length), http.ErrContentLength
		p = p[:n]
	}
	if !c.early {
		kept, err := c.buf.Write(p)
		if err == nil {
			c.length += int64(n)
			return n, tooMuch
		}
		if c.together {
			c.failed = err
			return kept, err
		}
		// No room on disk: what came so far goes out now, and with it what the
		// disk still took of p.
		c.start()
		p = p[kept:]
	}
	c.length += int64(n)
	c.stream(p)
	return n, tooMuch
}

func bodyAllowed(code int) bool {
	return code != http.StatusNoContent && code != http.StatusNotModified
}

// start sends the head and what is buffered.
func (c *capture) start() {
	c.early = true
	c.sendHead(c.tokenFor.tokenFor(c.code))
	if c.buf.file == nil {
		c.stream(c.buf.mem)
	} else {
		r, chunk := c.buf.reader(), make([]byte, 32<<10)
		for {
			n, err := r.Read(chunk)
			c.stream(chunk[:n])
			if err != nil {
				break
			}
		}
	}
	c.buf.free()
}

// stream sends p, less the last byte of an answer whose length is known.
func (c *capture) stream(p []byte) {
	if len(p) == 0 || c.gone {
		return
	}
	if c.declared >= 0 {
		p = append(c.held, p...)
		c.held = slices.Clone(p[len(p)-1:])
		p = p[:len(p)-1]
	}
	if _, err := c.w.Write(p); err != nil {
		c.gone = true // the handler runs to its end all the same
	}
}

// Flush implements http.Flusher.
func (c *capture) Flush() { _ = c.FlushError() }

// FlushError sends what there is so far, and everything later as it comes. To a
// client that could not tell a crash from the end it sends nothing yet.
func (c *capture) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.detached {
		return http.ErrHandlerTimeout
	}
	if c.together {
		return http.ErrNotSupported
	}
	c.writeHeader(http.StatusOK)
	if c.endless {
		return http.ErrNotSupported
	}
	c.flushed = true
	if !c.early {
		c.start()
	}
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		return err
	}
	return nil
}

// Hijack always fails: an answer that the guard does not see cannot be kept.
func (c *capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// CloseNotify is for those who take every writer for an http.CloseNotifier without
// asking, as gin does. The handler runs to its end whoever has left, so it never
// tells anything.
func (c *capture) CloseNotify() <-chan bool { return nil }

// SetReadDeadline serves http.ResponseController; it has nothing to do, since
// the body has been read.
func (c *capture) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline sets the deadline of the connection, while it is still the
// handler's.
func (c *capture) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.detached {
		return http.ErrHandlerTimeout
	}
	return http.NewResponseController(c.w).SetWriteDeadline(t)
}

// EnableFullDuplex has nothing to do: see SetReadDeadline.
func (c *capture) EnableFullDuplex() error { return nil }

// detach takes the connection away from a handler that has written nothing. It
// reports whether it did.
func (c *capture) detach() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.code != 0 {
		return false
	}
	c.detached = true
	return true
}

// takeBack takes the connection away from a handler whose answer, begun or not,
// does not count, and leaves it as it was found.
func (c *capture) takeBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detached = true
	c.restoreOuter()
}

// seal ends what the handler, or a goroutine that it left behind, may do here.
// From then on the answer is the guard's and needs no lock.
func (c *capture) seal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detached = true
}

// silent reports whether the handler has written nothing.
func (c *capture) silent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code == 0
}

// whole reports whether the handler wrote as much as it declared.
func (c *capture) whole() bool {
	return c.declared < 0 || c.length == c.declared || !bodyAllowed(c.code)
}

// response is the answer as it is kept.
func (c *capture) response() Response {
	resp := Response{Status: c.code, Header: c.storedHeader(), BodyOmitted: c.early || c.buf.file != nil}
	if !resp.BodyOmitted {
		resp.Body = c.buf.mem
	}
	return resp
}

// finish sends the answer, or the end that was kept back.
func (c *capture) finish(token string) {
	defer c.buf.free() // also when a writer outside panics
	if c.early {
		if len(c.held) > 0 && !c.gone {
			_, _ = c.w.Write(c.held)
		}
	} else {
		c.sendHead(token)
		if bodyAllowed(c.code) {
			if c.buf.file == nil {
				if len(c.buf.mem) > 0 {
					_, _ = c.w.Write(c.buf.mem)
				}
			} else {
				copyBody(c.w, &c.buf)
			}
		}
	}
	c.sendTrailers()
}

func copyBody(w http.ResponseWriter, b *buffer) {
	r, chunk := b.reader(), make([]byte, 32<<10)
	for {
		n, err := r.Read(chunk)
		if n > 0 {
			if _, err := w.Write(chunk[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// sendHead sends the status and what the handler had set when it gave it.
func (c *capture) sendHead(statusLine string) {
	h := c.w.Header()
	c.status[0] = statusLine
	h[StatusHeader] = c.status
	exposeHeaders(h)
	c.w.WriteHeader(c.code)
}

// sendTrailers passes on what the handler set after its body.
func (c *capture) sendTrailers() {
	h := c.w.Header()
	announced := h["Trailer"]
	for name, values := range c.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || len(announced) > 0 && hasToken(announced, name) {
			h[name] = values
		}
	}
}

// hasToken reports whether one of the comma-separated lines names the header.
func hasToken(lines []string, name string) bool {
	for _, line := range lines {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}
