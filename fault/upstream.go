package fault

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

var errDial = errors.New("the upstream takes no connection")

// dial opens a connection that carries one attempt and nothing else: what is
// never reused is never re-sent behind anybody's back.
func (p *Proxy) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := bounded(ctx, p.cfg.DialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDial, err)
	}
	return conn, nil
}

// pass carries the request and streams the answer.
func (c *client) pass(ctx context.Context, stop func(), r *request, rec *record) ending {
	up, err := c.p.dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return c.gone(rec)
		}
		return c.breakOff(rec, nil, err)
	}
	defer up.Close()
	// A client that leaves takes its request with it, as without a proxy.
	letGo := context.AfterFunc(ctx, func() { up.Close() })
	defer letGo()

	sent := c.p.write(up, r.bytes(), nil)
	br := bufio.NewReader(up)
	a, err := c.finalAnswer(br, r)
	if wasSent(sent) {
		rec.Forwarded = 1
	}
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, errClient) {
			return c.gone(rec)
		}
		return c.breakOff(rec, nil, err)
	}
	rec.Upstream, rec.Status = []int{a.status}, a.status
	if a.status == http.StatusSwitchingProtocols {
		letGo()
		stop()
		return c.tunnel(up, br, a, rec)
	}
	if err := c.stream(br, a, rec); err != nil {
		rec.Fate = Broken
		if ctx.Err() != nil || errors.Is(err, errClient) {
			rec.Fate = Left
		}
		rec.Err = err.Error()
		return endLike(err)
	}
	if a.keeps() && persists(r.header, r.minor) {
		return keepOpen
	}
	return closeIt
}

// write sends the request in the background, for an upstream may answer before
// it has read everything. With beforeLast, which runs in any case, the last byte
// goes out after it.
func (p *Proxy) write(up net.Conn, whole []byte, beforeLast func()) <-chan error {
	sent := make(chan error, 1)
	p.wg.Go(func() {
		head, last := whole, []byte(nil)
		if beforeLast != nil {
			head, last = whole[:len(whole)-1], whole[len(whole)-1:]
		}
		_, err := up.Write(head)
		if beforeLast != nil {
			beforeLast()
		}
		if err == nil && last != nil {
			_, err = up.Write(last)
		}
		sent <- err
	})
	return sent
}

// wasSent says, once there is an answer or none will come, whether the whole
// request was written. Nearly always it is known already; an upstream that has
// answered, reads no further and does not close either is not waited for long.
func wasSent(sent <-chan error) bool {
	select {
	case err := <-sent:
		return err == nil
	case <-time.After(2 * time.Second):
		return false
	}
}

var errClient = errors.New("the client takes no more")

// finalAnswer passes on the interim answers but "100 Continue", which the proxy
// has given itself, and returns the final one.
func (c *client) finalAnswer(br *bufio.Reader, r *request) (*answer, error) {
	for {
		a, err := readAnswer(br, c.p.cfg.MaxHead, r.method)
		if err != nil || !a.interim() {
			return a, err
		}
		if a.status != http.StatusContinue && r.minor > 0 {
			if err := c.write(a.head); err != nil {
				return nil, fmt.Errorf("%w: %w", errClient, err)
			}
		}
	}
}

// stream gives the client the answer as it comes.
func (c *client) stream(br *bufio.Reader, a *answer, rec *record) error {
	pending := a.head
	write := func(piece []byte, last bool) error {
		if last {
			rec.Fate = Answered
			rec.publish()
		}
		b := append(pending, piece...)
		pending = nil
		if len(b) == 0 {
			return nil
		}
		if err := c.write(b); err != nil {
			return fmt.Errorf("%w: %w", errClient, err)
		}
		return nil
	}
	if a.frame.kind != noBody && br.Buffered() == 0 {
		// The body may be long in coming; its head is here.
		if a.frame.kind != byLength || a.frame.left > 0 {
			if err := write(nil, false); err != nil {
				return err
			}
		}
	}
	return a.frame.relay(br, -1, write)
}

// tunnel carries bytes both ways until both sides have ended.
func (c *client) tunnel(up net.Conn, br *bufio.Reader, a *answer, rec *record) ending {
	rec.Fate = Tunnelled
	rec.publish()
	c.conn.SetDeadline(time.Time{})
	defer context.AfterFunc(c.p.ctx, func() { up.Close() })()
	if _, err := c.conn.Write(a.head); err != nil {
		return closeIt
	}
	oneWay := func(dst net.Conn, src io.Reader) {
		_, err := io.Copy(dst, src)
		if tcp, ok := dst.(*net.TCPConn); ok && err == nil {
			tcp.CloseWrite()
			return
		}
		up.Close()
		c.conn.Close()
	}
	var both sync.WaitGroup
	both.Go(func() { oneWay(up, c.br) })
	both.Go(func() { oneWay(c.conn, br) })
	both.Wait()
	return closeIt
}

// forwardHalf sends the upstream half of the request and resets.
func (p *Proxy) forwardHalf(r *request) error {
	up, err := p.dial(p.ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(p.ctx, func() { up.Close() })()
	up.SetWriteDeadline(after(p.cfg.AnswerTimeout))
	_, err = up.Write(half(r.head, r.body))
	resetAfterDelivery(up)
	return err
}

// carry forwards the request, once or twice as its fault says, reads each
// answer whole, and returns the one that is the client's. It does not ask
// whether the client still waits.
func (p *Proxy) carry(r *request, rec *record) (*answer, error) {
	var results []result
	switch rec.fault.Mode {
	case Duplicate:
		results = []result{p.attempt(r, nil), p.attempt(r, nil)}
	case DuplicateConcurrent:
		// Each copy waits with its last byte until the other is as far, or has
		// failed.
		var ready sync.WaitGroup
		ready.Add(2)
		came := make(chan result, 2)
		for range 2 {
			p.wg.Go(func() { came <- p.attempt(r, &ready) })
		}
		results = []result{<-came, <-came}
	default:
		results = []result{p.attempt(r, nil)}
	}
	best := results[0]
	for _, res := range results {
		if res.sent {
			rec.Forwarded++
		}
		if res.a != nil {
			rec.Upstream = append(rec.Upstream, res.a.status)
		}
		if res.err != nil {
			rec.Err = res.err.Error()
		} else if best.err != nil {
			best = res
		}
	}
	return best.a, best.err
}

// result is what one attempt brought: with an error, a may be nil or may lack
// its end.
type result struct {
	a    *answer
	sent bool // the whole request was written
	err  error
}

// attempt sends the request over a connection of its own and reads the answer
// whole. With ready, the last byte waits for the others.
func (p *Proxy) attempt(r *request, ready *sync.WaitGroup) (res result) {
	arrive := sync.OnceFunc(func() {
		if ready != nil {
			ready.Done()
		}
	})
	defer arrive()
	up, err := p.dial(p.ctx)
	if err != nil {
		return result{err: err}
	}
	defer up.Close()
	defer context.AfterFunc(p.ctx, func() { up.Close() })()
	up.SetDeadline(after(p.cfg.AnswerTimeout))

	var together func()
	if ready != nil {
		together = func() { arrive(); ready.Wait() }
	}
	sent := p.write(up, r.bytes(), together)
	defer func() { res.sent = wasSent(sent) }()
	br := bufio.NewReader(up)
	for {
		res.a, res.err = readAnswer(br, p.cfg.MaxHead, r.method)
		if res.err != nil {
			return res
		}
		if !res.a.interim() {
			break
		}
	}
	if res.a.status == http.StatusSwitchingProtocols {
		res.err = errors.New("the upstream switched protocols; such an answer has no end to wait for")
		return res
	}
	res.a.body, res.err = res.a.frame.gather(br, p.cfg.MaxBody)
	return res
}
