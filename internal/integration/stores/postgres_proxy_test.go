package stores_test

import (
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter stands between a pool and its server and loses one connection: at the
// n-th message from the client, either before it reaches the server or when the
// server has begun to answer it, so that it was certainly executed, and the
// answer is lost.
type cutter struct {
	listener net.Listener
	server   string
	armed    atomic.Int64 // messages still to pass; negative: all pass
	answer   atomic.Bool  // lose the answer, not the message
	cuts     atomic.Int64
	deaf     atomic.Bool // refuse new connections

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	wg    sync.WaitGroup
}

// newCutter returns the cutter and the connection string that leads through it.
func newCutter(t testing.TB, dsn string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{server: u.Host}
	c.armed.Store(-1)
	if c.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		c.listener.Close()
		c.mu.Lock()
		for _, conn := range c.conns {
			conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c, strings.Replace(dsn, u.Host, c.listener.Addr().String(), 1)
}

// arm cuts at the n-th message from now, counted from zero.
func (c *cutter) arm(n int, answer bool) {
	c.cuts.Store(0)
	c.answer.Store(answer)
	c.armed.Store(int64(n))
}

// disarm lets everything pass, and says whether a connection was cut.
func (c *cutter) disarm() bool {
	c.armed.Store(-1)
	c.deaf.Store(false)
	return c.cuts.Load() > 0
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server)
		if err != nil || c.deaf.Load() {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		c.mu.Lock()
		c.conns = append(c.conns, client, server)
		c.mu.Unlock()
		c.wg.Go(func() { c.serve(client, server) })
	}
}

func (c *cutter) serve(client, server net.Conn) {
	var lose atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if lose.Load() || err != nil {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 1<<16)
	first := true // the start of a connection is not counted
	for {
		n, err := client.Read(buf)
		if err != nil {
			break
		}
		if !first && c.armed.Load() >= 0 && c.armed.Add(-1) == -1 {
			c.cuts.Add(1)
			if !c.answer.Load() {
				break
			}
			lose.Store(true) // what else belongs to the message still passes
		}
		first = false
		if _, err := server.Write(buf[:n]); err != nil {
			break
		}
	}
	server.Close()
	client.Close()
	<-done
}
