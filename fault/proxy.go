package fault

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Config tunes a [Proxy] or a [Transport]. The zero value passes everything.
// Durations and sizes: zero is the default, negative means no limit.
type Config struct {
	// Plan and Seed say which request meets what. The same plan and seed give
	// the same faults to the same requests in the same order.
	Plan Plan
	Seed uint64
	// LogTo gets every request as a line of JSON when it has ended: in that
	// order, which is not quite that of arrival (Entry.N). By default, none. The first write that fails ends it; Close returns that error.
	LogTo io.Writer
	// LogSize is how many entries the log keeps; older ones make room. By
	// default, 10,000.
	LogSize int
	// Login is where login-302 without a path sends to. By default, "/login".
	Login string
	// MaxBody is the largest request body, and the largest answer where an
	// answer is read whole. By default, 64 MiB. More is answered with 413.
	MaxBody int64
	// Hold bounds a blackhole that has no duration. By default, 10 minutes.
	Hold time.Duration
	// AnswerTimeout bounds the wait for an answer that is read whole, that is in
	// every mode but pass and slow; there, as without a proxy, the client
	// decides. By default, 2 minutes.
	AnswerTimeout time.Duration

	// What follows is for a Proxy alone.

	// MaxHead is the largest head of a request or an answer. By default, 64 KiB.
	// More is answered with 431.
	MaxHead int
	// RequestTimeout bounds the reading of one request from its first byte to
	// its last. By default, 1 minute.
	RequestTimeout time.Duration
	// IdleTimeout bounds the wait for the next request on a connection, and each
	// write to a client that does not read. By default, 2 minutes.
	IdleTimeout time.Duration
	// DialTimeout bounds the opening of a connection to the upstream. By
	// default, 5 seconds.
	DialTimeout time.Duration
}

func (cfg Config) withDefaults() (Config, error) {
	if cfg.Login == "" {
		cfg.Login = "/login"
	}
	if !validPath(cfg.Login) {
		return cfg, fmt.Errorf("fault: Config.Login: %q is no path", cfg.Login)
	}
	fill := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	fill(&cfg.Hold, 10*time.Minute)
	fill(&cfg.AnswerTimeout, 2*time.Minute)
	fill(&cfg.RequestTimeout, time.Minute)
	fill(&cfg.IdleTimeout, 2*time.Minute)
	fill(&cfg.DialTimeout, 5*time.Second)
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 64 << 20
	}
	if cfg.MaxHead == 0 {
		cfg.MaxHead = 64 << 10
	}
	if cfg.MaxHead < 0 {
		cfg.MaxHead = int(^uint(0) >> 1)
	}
	if cfg.LogSize == 0 {
		cfg.LogSize = 10_000
	}
	if cfg.LogSize < 0 {
		cfg.LogSize = int(^uint(0) >> 1)
	}
	return cfg, nil
}

// Proxy is a bad network in front of one HTTP/1.1 server. It carries bytes: a
// request goes on as it came, to a connection of its own, once, unless a
// duplicate was asked for; an answer comes back as it came. What the upstream
// does to its connection the client sees on its own.
//
// A request is read whole before it goes on, which is what makes its fate
// exact; an answer that passes is streamed.
//
// A Proxy is safe for concurrent use. Steer it by its [Control], or over HTTP
// at /.fault.
type Proxy struct {
	*Control
	cfg    Config
	target string // host:port
	url    string

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex // guards what follows
	closed    bool
	listeners map[net.Listener]bool
	conns     map[net.Conn]bool
	lastConn  uint64
}

// New makes a proxy in front of target, which is http://host:port.
func New(target string, cfg Config) (*Proxy, error) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("fault: target %q: write http://host:port and nothing after it; paths are carried as they are, and TLS is not spoken", target)
	}
	if cfg, err = cfg.withDefaults(); err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	p := &Proxy{
		cfg: cfg, target: net.JoinHostPort(u.Hostname(), port), url: "http://" + u.Host,
		listeners: map[net.Listener]bool{}, conns: map[net.Conn]bool{},
	}
	if p.Control, err = newControl(cfg.Plan, cfg.Seed, cfg.LogSize, cfg.LogTo); err != nil {
		return nil, err
	}
	p.Control.target, p.Control.cut = p.url, p.cutAll
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// ErrClosed is what Serve returns after Close.
var ErrClosed = errors.New("fault: the proxy is closed")

// Serve takes connections from l until Close, which closes l, or until l fails.
// It always returns an error, after Close [ErrClosed].
func (p *Proxy) Serve(l net.Listener) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		l.Close()
		return ErrClosed
	}
	p.listeners[l] = true
	p.mu.Unlock()
	defer func() {
		l.Close()
		p.mu.Lock()
		delete(p.listeners, l)
		p.mu.Unlock()
	}()
	for wait := time.Duration(0); ; {
		conn, err := l.Accept()
		if err != nil {
			if p.ctx.Err() != nil {
				return ErrClosed
			}
			// Out of descriptors, or a connection gone before it was taken.
			if te, ok := err.(interface{ Temporary() bool }); ok && te.Temporary() {
				wait = min(max(2*wait, 5*time.Millisecond), time.Second)
				select {
				case <-time.After(wait):
					continue
				case <-p.ctx.Done():
					return ErrClosed
				}
			}
			return fmt.Errorf("fault: %w", err)
		}
		wait = 0
		if c := p.admit(conn); c != nil {
			go func() {
				defer p.wg.Done()
				defer p.forget(conn)
				c.serve()
			}()
		}
	}
}

// admit enters the connection in the books; nil if the proxy is closed.
func (p *Proxy) admit(conn net.Conn) *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		conn.Close()
		return nil
	}
	p.wg.Add(1)
	p.conns[conn] = true
	p.lastConn++
	return &client{p: p, conn: conn, br: bufio.NewReader(conn), id: p.lastConn}
}

func (p *Proxy) forget(conn net.Conn) {
	conn.Close()
	p.mu.Lock()
	delete(p.conns, conn)
	p.mu.Unlock()
}

// cutAll resets every client connection but the one that asked for it.
func (p *Proxy) cutAll(except net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		if conn != except {
			reset(conn)
		}
	}
}

// Close ends the listeners and all connections, whatever they are at, and waits
// for their goroutines. It returns the first error of writing to Config.LogTo.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.cancel()
	for l := range p.listeners {
		l.Close()
	}
	for conn := range p.conns {
		conn.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
	if err := p.logErr(); err != nil {
		return fmt.Errorf("fault: writing the log: %w", err)
	}
	return nil
}

// after is now + d as a deadline; a negative d is none.
func after(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// bounded is ctx with a limit of d; a negative d is none.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// sleep waits for d or until ctx ends, and says whether it was the former.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
