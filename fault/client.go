package fault

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// client is one connection from a client.
type client struct {
	p        *Proxy
	conn     net.Conn
	br       *bufio.Reader
	id       uint64
	served   int // requests that came on it
	stopping atomic.Bool
}

// ending is what is done with the connection after a request.
type ending int

const (
	keepOpen ending = iota
	closeIt
	resetIt
	resetDelivered // reset, but only when the client has what was written
)

func (c *client) serve() {
	for {
		switch c.one() {
		case keepOpen:
			continue
		case closeIt:
			closeGently(c.conn)
		case resetIt:
			reset(c.conn)
		case resetDelivered:
			resetAfterDelivery(c.conn)
		}
		return
	}
}

// one reads a request and brings it to its fate. The log has that fate before
// the connection's end tells the client.
func (c *client) one() ending {
	c.conn.SetReadDeadline(after(c.p.cfg.IdleTimeout))
	first, err := c.br.Peek(1)
	if err != nil {
		return closeIt
	}
	c.conn.SetReadDeadline(after(c.p.cfg.RequestTimeout))
	if first[0] != '\r' && !isToken(string(first)) {
		// Whatever this is, it may never send a line's end.
		return c.refuse(Entry{}, fmt.Errorf("%w: it begins with the byte %#x; TLS is not spoken here", errMalformed, first[0]))
	}
	head, err := readHead(c.br, c.p.cfg.MaxHead)
	if err != nil {
		return c.refuse(Entry{}, err)
	}
	r, err := parseRequest(head)
	if err != nil {
		return c.refuse(Entry{}, err)
	}
	c.served++
	if isControl(r.path) {
		return c.steer(r)
	}
	e := Entry{Conn: c.id, OnConn: c.served}
	e.describe(r.method, r.path, r.query, r.header)
	rec := c.p.begin(e, c.served > 1)
	if rec.fault.Mode == Refuse && rec.fault.Slow == 0 {
		rec.Fate = Reset
		rec.end()
		return resetIt
	}
	if err := c.readBody(r, rec); err != nil {
		return c.refuseOpen(rec, err)
	}
	ctx, stop := c.watch()
	end := c.meet(ctx, stop, r, rec)
	stop()
	rec.end()
	return end
}

func (c *client) readBody(r *request, rec *record) error {
	if r.minor > 0 && r.frame.kind != noBody && strings.EqualFold(r.header.Get("Expect"), "100-continue") {
		if err := c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return err
		}
	}
	decoded, err := r.readBody(c.br, c.p.cfg.MaxBody)
	if err != nil {
		return err
	}
	rec.Bytes = len(r.body)
	rec.FormKey = formKey(r.header.Get("Content-Type"), decoded)
	rec.publish()
	return nil
}

// watch returns a context that ends when the client leaves or the proxy closes.
// stop must be called before the connection is read again.
func (c *client) watch() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(c.p.ctx)
	c.stopping.Store(false)
	c.conn.SetReadDeadline(time.Time{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A next request that is already here ends the watch too: then only a
		// failing write tells that the client has left.
		if _, err := c.br.Peek(1); err != nil && !c.stopping.Load() {
			cancel()
		}
	}()
	return ctx, func() {
		c.stopping.Store(true)
		c.conn.SetReadDeadline(time.Unix(1, 0))
		<-done
		c.conn.SetReadDeadline(time.Time{})
		cancel()
	}
}

func (c *client) write(b []byte) error {
	c.conn.SetWriteDeadline(after(c.p.cfg.IdleTimeout))
	_, err := c.conn.Write(b)
	return err
}

// refuse answers what is no request, or one that cannot be carried.
func (c *client) refuse(e Entry, err error) ending {
	status := refusal(err)
	if status == 0 {
		// The client left within the head: nothing was asked.
		return closeIt
	}
	e.Conn, e.OnConn, e.Status, e.Err = c.id, c.served+1, status, err.Error()
	c.p.malformed(e)
	c.writeRefusal(status, err)
	return closeIt
}

// refuseOpen does the same for a request that is in the log already.
func (c *client) refuseOpen(rec *record, err error) ending {
	status := refusal(err)
	rec.Fate, rec.Status, rec.Err = Malformed, status, err.Error()
	if status == 0 {
		rec.Fate = Left
	}
	rec.end()
	if status != 0 {
		c.writeRefusal(status, err)
	}
	return closeIt
}

func (c *client) writeRefusal(status int, err error) {
	body := fmt.Sprintf("fault proxy: %v\n", err)
	c.write(message(status, http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Connection": {"close"}}, body, false))
}

// refusal is the status for an error of reading a request; 0 if there is nobody
// to tell.
func refusal(err error) int {
	switch {
	case errors.Is(err, errHeadTooLarge):
		return http.StatusRequestHeaderFieldsTooLarge
	case errors.Is(err, errBodyTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errUnsupported):
		return http.StatusNotImplemented
	case errors.Is(err, errMalformed), errors.Is(err, errFraming):
		return http.StatusBadRequest
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	}
	return 0
}

// meet brings the request to what its fault says.
func (c *client) meet(ctx context.Context, stop func(), r *request, rec *record) ending {
	f := rec.fault
	// What was sent arrives, late, whether or not the client still waits.
	if !sleep(c.p.ctx, f.Slow) {
		return c.gone(rec)
	}
	switch f.Mode {
	case Refuse:
		rec.Fate = Reset
		return resetIt
	case Blackhole:
		return c.hold(ctx, rec)
	case HalfRequest:
		if err := c.p.forwardHalf(r); err != nil {
			rec.Err = err.Error()
		}
		rec.Fate = Reset
		return resetIt
	}
	if !f.forwards() {
		return c.standIn(ctx, r, rec)
	}
	if (f.Mode == Pass || f.Mode == "") && f.SlowAfter == 0 && ctx.Err() == nil {
		return c.pass(ctx, stop, r, rec)
	}
	a, err := c.p.carry(r, rec)
	rec.publish()
	if !sleep(ctx, f.SlowAfter) {
		return c.gone(rec)
	}
	return c.give(ctx, r, rec, a, err)
}

// gone ends a request whose client, or whose proxy, is no more.
func (c *client) gone(rec *record) ending {
	rec.Fate, rec.Status = Left, 0
	if c.p.ctx.Err() != nil {
		rec.Fate = Closed
	}
	return closeIt
}

// hold is the black hole.
func (c *client) hold(ctx context.Context, rec *record) ending {
	d, changed := rec.fault.Hold, rec.changed
	if d > 0 {
		changed = nil
	} else {
		d = c.p.cfg.Hold
	}
	ctx, cancel := bounded(ctx, d)
	defer cancel()
	select {
	case <-changed:
	case <-ctx.Done():
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return c.gone(rec)
		}
	}
	rec.Fate = Reset
	return resetIt
}

// standIn gives an answer that no application made.
func (c *client) standIn(ctx context.Context, r *request, rec *record) ending {
	if !sleep(ctx, rec.fault.SlowAfter) {
		return c.gone(rec)
	}
	status, h, body := rec.fault.page(c.p.cfg.Login)
	keep := persists(r.header, r.minor)
	if !keep {
		h.Set("Connection", "close")
	} else if r.minor == 0 {
		h.Set("Connection", "keep-alive")
	}
	rec.Fate, rec.Status = StandIn, status
	rec.publish()
	if err := c.write(message(status, h, body, r.method == http.MethodHead)); err != nil {
		return c.gone(rec)
	}
	if keep {
		return keepOpen
	}
	return closeIt
}

// give hands the client what its fault leaves of an answer that was read whole.
// With an error, a may be nil or may lack its end.
func (c *client) give(ctx context.Context, r *request, rec *record, a *answer, err error) ending {
	switch rec.fault.Mode {
	case CutAfterForward:
		rec.Fate = Reset
		return resetIt
	case ResetOnce:
		rec.Fate = Closed
		return closeIt
	case Status:
		// Slow-after has been waited for already.
		rec.fault.SlowAfter = 0
		return c.standIn(ctx, r, rec)
	case CutMidBody:
		if a == nil {
			break
		}
		rec.Fate = Cut
		if len(a.body) > 0 {
			rec.Status = a.status
		}
		if c.write(half(a.head, a.body)) != nil {
			return c.gone(rec)
		}
		return resetDelivered
	}
	if err != nil {
		return c.breakOff(rec, a, err)
	}
	rec.Fate, rec.Status = Answered, a.status
	rec.publish()
	if c.write(append(a.head, a.body...)) != nil {
		return c.gone(rec)
	}
	if a.keeps() && persists(r.header, r.minor) {
		return keepOpen
	}
	return closeIt
}

// breakOff ends the client's connection as the upstream ended its own.
func (c *client) breakOff(rec *record, a *answer, err error) ending {
	rec.Fate, rec.Err = Broken, err.Error()
	if errors.Is(err, errDial) {
		rec.Fate = Unreachable
		return resetIt
	}
	if a != nil {
		rec.Status = a.status
		c.write(append(a.head, a.body...))
		return resetDelivered
	}
	return endLike(err)
}

func endLike(err error) ending {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return closeIt
	}
	return resetDelivered
}
