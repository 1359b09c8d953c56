package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/fault"
	"github.com/onceward/onceward/internal/assert"
)

// TestMain fails the package if a goroutine of the proxy outlives the tests.
func TestMain(m *testing.M) { assert.Main(m, "onceward/fault.") }

// seen is one request as the upstream's handler saw it.
type seen struct {
	Method, URI, Body, Key string
	ContentLength          int64
	Header                 http.Header
	BodyErr                error
}

// upstream is an application that writes down what it sees.
type upstream struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
}

// newUpstream answers each whole request with 201 and its number, unless then
// says otherwise.
func newUpstream(t *testing.T, then func(n int, w http.ResponseWriter, r *http.Request)) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		u.mu.Lock()
		u.requests = append(u.requests, seen{
			Method: r.Method, URI: r.RequestURI, Body: string(body), Key: r.Header.Get("Idempotency-Key"),
			ContentLength: r.ContentLength, Header: r.Header.Clone(), BodyErr: err,
		})
		n := len(u.requests)
		u.mu.Unlock()
		if err != nil {
			return
		}
		if then != nil {
			then(n, w, r)
			return
		}
		w.Header().Set("Idempotency-Status", "executed")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "done %d times", n)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) all() []seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]seen(nil), u.requests...)
}

// whole returns the requests whose body arrived to its end.
func (u *upstream) whole() []seen {
	var out []seen
	for _, s := range u.all() {
		if s.BodyErr == nil {
			out = append(out, s)
		}
	}
	return out
}

// start runs a proxy in front of target and returns it with its address.
func start(t *testing.T, target string, cfg fault.Config) (*fault.Proxy, string) {
	t.Helper()
	p, err := fault.New(target, cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-served; !errors.Is(err, fault.ErrClosed) {
			t.Errorf("Serve ended with %v, not ErrClosed", err)
		}
	})
	return p, l.Addr().String()
}

// got is what a client saw.
type got struct {
	status int
	body   string
	header http.Header
	err    error // of the request or of reading the body
}

// kind sorts a client's errors.
func (g got) kind() string {
	switch {
	case g.err == nil:
		return "whole"
	case errors.Is(g.err, context.DeadlineExceeded), errors.Is(g.err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(g.err, syscall.ECONNRESET):
		if g.status != 0 {
			return "cut"
		}
		return "reset"
	case errors.Is(g.err, io.ErrUnexpectedEOF), errors.Is(g.err, io.EOF):
		return "eof"
	}
	return "error: " + g.err.Error()
}

// oneShot is a client that uses a connection once and re-sends nothing.
func oneShot(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func send(c *http.Client, method, url, body string, header ...string) got {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, url, r)
	if err != nil {
		return got{err: err}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return got{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return got{status: res.StatusCode, body: string(b), header: res.Header, err: err}
}

// sendAndLeave sends a POST whose client waits until leave is called.
func sendAndLeave(t *testing.T, url string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := oneShot(0).Do(req)
		ended <- err
	}()
	return func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the client was to wait until it left, and got %v", err)
		}
	}
}

// ask is a request to the control API.
func ask(t *testing.T, method, url, body string) got {
	t.Helper()
	g := send(oneShot(10*time.Second), method, url, body)
	if g.err != nil {
		t.Fatalf("%s %s: %v", method, url, g.err)
	}
	return g
}

// until waits for something that other goroutines bring about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("waited in vain until %s", what)
}

func mustPlan(t *testing.T, s string) fault.Plan {
	t.Helper()
	p, err := fault.ParsePlan(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
