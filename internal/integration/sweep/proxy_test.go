//go:build linux

package sweep

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// wire reads one message of a protocol, whole.
type wire func(r *bufio.Reader, fromClient, first bool) ([]byte, error)

// proxy stands between a victim and its database, counts the messages of both
// directions and has the victim struck at one of them.
type proxy struct {
	listener net.Listener
	to       string
	wire     wire

	mu     sync.Mutex // guards what follows
	armed  bool
	seen   int
	at     int // 0: never
	after  bool
	strike func()
	wait   <-chan struct{} // if not nil, a message that was to be struck before is kept until it is closed; else dropped
	near   []net.Conn      // to victims
	far    []net.Conn      // to the server
	down   bool            // new connections are refused
	closed bool
}

func startProxy(to string, w wire) (*proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: ln, to: to, wire: w}
	go p.accept()
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// arm begins to count. strike is called once, at message number at.
func (p *proxy) arm(at int, after bool, strike func(), wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.seen, p.at, p.after, p.strike, p.wait = true, 0, at, after, strike, wait
}

func (p *proxy) messages() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// reached says that the message has come at which the victim is struck.
func (p *proxy) reached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at > 0 && p.seen >= p.at
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range append(p.near, p.far...) {
		c.Close()
	}
}

// cut resets all connections with victims. What had been sent to the server before
// stays sent.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, c := range p.near {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
		p.far[i].(*net.TCPConn).CloseWrite()
	}
	p.near, p.far = nil, nil
}

// keep takes in a pair of connections, if the proxy is open.
func (p *proxy) keep(near, far net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.down {
		return false
	}
	p.near, p.far = append(p.near, near), append(p.far, far)
	return true
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.to)
		if err != nil {
			near.Close()
			continue
		}
		if p.keep(near, far) {
			go p.pump(far, near, true)
			go p.pump(near, far, false)
		} else {
			near.Close()
			far.Close()
		}
	}
}

// pump carries messages from one side to the other. When a side has ended, what
// it had sent before is delivered all the same, as a network does.
func (p *proxy) pump(to, from net.Conn, fromClient bool) {
	defer to.(*net.TCPConn).CloseWrite()
	r := bufio.NewReaderSize(from, 64<<10)
	broken := false
	for first := true; ; first = false {
		msg, err := p.wire(r, fromClient, first)
		if len(msg) > 0 {
			here, wait := p.count()
			if here && !p.after {
				p.strike()
				if wait == nil {
					return // it died with this message unsent
				}
				<-wait
			}
			if !broken {
				_, werr := to.Write(msg)
				broken = werr != nil // go on reading: a reset would undo what is under way
			}
			if here && p.after {
				p.strike()
			}
		}
		if err != nil {
			return
		}
	}
}

// count says whether this is the message at which the victim is struck. at, after,
// strike and wait are no longer changed then.
func (p *proxy) count() (here bool, wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return false, nil
	}
	p.seen++
	return p.seen == p.at, p.wait
}

// chunks takes whatever has arrived for one message: what a process has given to
// the network in one piece does not come apart when it is stopped.
func chunks(r *bufio.Reader, _, _ bool) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	msg := make([]byte, r.Buffered())
	n, err := r.Read(msg)
	return msg[:n], err
}

// postgres reads a message of PostgreSQL's protocol, version 3: a type, a length
// that counts itself, the rest. The client's first has no type.
func postgres(r *bufio.Reader, fromClient, first bool) ([]byte, error) {
	head := 5
	if fromClient && first {
		head = 4
	}
	msg := make([]byte, head)
	if n, err := io.ReadFull(r, msg); err != nil {
		return msg[:n], err
	}
	size := binary.BigEndian.Uint32(msg[head-4:])
	if size < 4 || size > 1<<26 {
		return msg, errors.New("no message of PostgreSQL's protocol")
	}
	rest := make([]byte, size-4)
	n, err := io.ReadFull(r, rest)
	return append(msg, rest[:n]...), err
}

// redis reads a value of Redis's protocol, version 2 or 3.
func redis(r *bufio.Reader, _, _ bool) ([]byte, error) {
	var msg bytes.Buffer
	err := redisValue(r, &msg)
	return msg.Bytes(), err
}

func redisValue(r *bufio.Reader, msg *bytes.Buffer) error {
	line, err := r.ReadBytes('\n')
	msg.Write(line)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '$', '!', '=':
		if n >= 0 {
			_, err = io.CopyN(msg, r, int64(n)+2)
		}
		return err
	case '%':
		n *= 2
	case '|': // attributes stand before a value
		n = 2*n + 1
	case '*', '~', '>':
	default:
		return nil
	}
	for range n {
		if err := redisValue(r, msg); err != nil {
			return err
		}
	}
	return nil
}

// A proxy that takes two messages for one, or half of one, would miss points.
func TestTheProxyTellsMessagesApart(t *testing.T) {
	for name, c := range map[string]struct {
		wire   wire
		client bool
		parts  []string
	}{
		"redis, client":    {redis, true, []string{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "*1\r\n$4\r\nP\r\nG\r\n", "PING\r\n"}},
		"redis, server":    {redis, false, []string{"+OK\r\n", "$-1\r\n", "*-1\r\n", ":1\r\n", "%1\r\n+a\r\n*2\r\n:1\r\n$2\r\n\r\n\r\n", "|1\r\n+a\r\n:1\r\n_\r\n", "$0\r\n\r\n"}},
		"postgres, client": {postgres, true, []string{"\x00\x00\x00\x09hello", "Q\x00\x00\x00\x06S\x00", "S\x00\x00\x00\x04"}},
		"postgres, server": {postgres, false, []string{"R\x00\x00\x00\x08\x00\x00\x00\x00", "Z\x00\x00\x00\x05I"}},
	} {
		t.Run(name, func(t *testing.T) {
			var all bytes.Buffer
			for _, part := range c.parts {
				all.WriteString(part)
			}
			r := bufio.NewReader(&all)
			for i, part := range c.parts {
				if msg, err := c.wire(r, c.client, i == 0); err != nil || string(msg) != part {
					t.Fatalf("message %d is %q, %v, want %q", i, msg, err, part)
				}
			}
			if msg, err := c.wire(r, c.client, false); len(msg) != 0 || err == nil {
				t.Errorf("after the last message there is %q, %v", msg, err)
			}
		})
	}
}
