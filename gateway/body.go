package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// leastBody is how many bytes of a body have to come within Config.BodyTimeout,
// unless it ends before. Whoever sends less than that keeps what a whole body
// costs, room in the spool above all, for next to nothing.
const leastBody = 64 << 10

// arriving is the body of a request that may change something. As long as it may be
// read here before it goes on it has to keep coming; what is streamed to the
// application does not ([arriving.release]).
type arriving struct {
	io.ReadCloser
	conn    *http.ResponseController // nil: there is no limit (any more)
	timeout time.Duration
	got     int64       // since the deadline was set
	late    bool        // it did not come in time
	broken  atomic.Bool // it was malformed or cut short, or came late
	over    atomic.Bool // nothing more comes
}

// bounded watches r's body, and puts the time limit on it where the connection can
// have one.
func bounded(w http.ResponseWriter, r *http.Request, timeout time.Duration) *arriving {
	b := &arriving{ReadCloser: r.Body, timeout: timeout}
	if r.Body == nil || r.Body == http.NoBody {
		b.over.Store(true)
		return b
	}
	r.Body = b
	if timeout > 0 {
		// Of a request that is refused before its body is read, net/http reads the rest
		// under the same deadline.
		conn := http.NewResponseController(w)
		if conn.SetReadDeadline(time.Now().Add(timeout)) == nil {
			b.conn = conn
		}
	}
	return b
}

// Read implements io.Reader.
func (b *arriving) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.over.Store(true)
	}
	if err != nil && err != io.EOF {
		b.late = b.conn != nil && errors.Is(err, os.ErrDeadlineExceeded)
		b.broken.Store(true)
	}
	if b.conn == nil {
		return n, err
	}
	b.got += int64(n)
	switch {
	case err == io.EOF:
		b.release()
	case err == nil && b.got >= leastBody:
		b.got = 0
		_ = b.conn.SetReadDeadline(time.Now().Add(b.timeout))
	}
	return n, err
}

// release takes the limit away. A deadline that stayed would end the request when
// its body is long read: net/http goes on to read, to see whether the client is
// still there.
func (b *arriving) release() {
	if b.conn == nil || b.late {
		return
	}
	_ = b.conn.SetReadDeadline(time.Time{})
	b.conn = nil
}

// announced are the names of the trailer fields that a request's head announces, but
// none that is the gateway's to write. It has to be asked before the body is read.
func announced(r *http.Request) (names []string) {
	for name := range r.Trailer {
		if !owned(name) {
			names = append(names, name)
		}
	}
	return names
}

// withTrailer gives out the named trailer fields of in, once they are here, and no
// others: some servers make header fields of whatever comes in a trailer.
func withTrailer(out, in *http.Request, names []string) {
	out.Trailer = nil
	if len(names) == 0 || out.Body == nil {
		return
	}
	t := &trailing{ReadCloser: out.Body, from: in, to: make(http.Header, len(names))}
	for _, name := range names {
		t.to[name] = nil
	}
	t.fill() // a body that was read before has ended
	out.Body, out.Trailer = t, t.to
	out.ContentLength = -1 // only after chunks there is a trailer
}

// trailing is a body with a trailer.
type trailing struct {
	io.ReadCloser
	from *http.Request
	to   http.Header
}

func (t *trailing) fill() {
	for name := range t.to {
		t.to[name] = t.from.Trailer[name]
	}
}

// Read implements io.Reader.
func (t *trailing) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err == io.EOF {
		t.fill()
	}
	return n, err
}
