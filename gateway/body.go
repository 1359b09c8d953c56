package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// leastBody is how many bytes of a body have to come within Config.BodyTimeout,
// unless it ends before. Whoever sends less than that keeps what a whole body
// costs, room in the spool above all, for next to nothing.
const leastBody = 64 << 10

// arriving is the body of a request that may be read here before it goes on. It
// has to keep coming; what is streamed to the application does not ([arriving.release]).
type arriving struct {
	io.ReadCloser
	conn    *http.ResponseController
	timeout time.Duration
	got     int64 // since the deadline was set
	free    bool  // nothing is asked of it any more
	late    bool  // it did not come in time
}

// bounded puts a time limit on r's body, where the connection can have one.
func bounded(w http.ResponseWriter, r *http.Request, timeout time.Duration) *arriving {
	if timeout < 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &arriving{ReadCloser: r.Body, conn: http.NewResponseController(w), timeout: timeout}
	// Of a request that is refused before its body is read, net/http reads the rest
	// under the same deadline.
	if b.conn.SetReadDeadline(time.Now().Add(timeout)) != nil {
		return nil
	}
	r.Body = b
	return b
}

// Read implements io.Reader.
func (b *arriving) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.free {
		return n, err
	}
	b.got += int64(n)
	switch {
	case err == io.EOF:
		b.release()
	case err != nil:
		b.late = errors.Is(err, os.ErrDeadlineExceeded)
	case b.got >= leastBody:
		b.got = 0
		_ = b.conn.SetReadDeadline(time.Now().Add(b.timeout))
	}
	return n, err
}

// release takes the limit away. A deadline that stayed would end the request when
// its body is long read: net/http goes on to read, to see whether the client is
// still there.
func (b *arriving) release() {
	if b == nil || b.free || b.late {
		return
	}
	b.free = true
	_ = b.conn.SetReadDeadline(time.Time{})
}
