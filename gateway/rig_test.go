package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/internal/assert"
	"github.com/onceward/onceward/memstore"
)

// application is a server that sees and writes raw bytes.
type application struct {
	t    *testing.T
	addr string
	l    net.Listener
	mu   sync.Mutex
	raw  []string // every request, as it stood on the wire
}

// arrival is one request at the application.
type arrival struct {
	*http.Request
	n    int // counted from 1
	conn net.Conn
	br   *bufio.Reader
}

// say writes to the connection; a client that has gone does not matter.
func (a *arrival) say(text string) { _, _ = io.WriteString(a.conn, text) }

// gone waits until the other side has closed the connection.
func (a *arrival) gone() bool {
	_ = a.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := a.br.ReadByte()
	timeout, ok := err.(net.Error)
	return err != nil && !(ok && timeout.Timeout())
}

// recorder keeps what was read through it.
type recorder struct {
	net.Conn
	seen bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.seen.Write(p[:n])
	return n, err
}

// serve starts an application. Each request is read to its end, unless it expects
// a 100 or whole is false, and given to answer, which says whether the connection
// goes on.
func serve(t *testing.T, whole bool, answer func(*arrival) (keep bool)) *application {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &application{t: t, addr: l.Addr().String(), l: l}
	var wg sync.WaitGroup
	var conns sync.Map
	t.Cleanup(func() {
		l.Close()
		conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(conn, true)
			wg.Go(func() {
				defer conn.Close()
				rec := &recorder{Conn: conn}
				br := bufio.NewReader(rec)
				for a.one(conn, rec, br, whole, answer) {
				}
			})
		}
	})
	return a
}

func (a *application) one(conn net.Conn, rec *recorder, br *bufio.Reader, whole bool, answer func(*arrival) bool) bool {
	r, err := http.ReadRequest(br)
	if err != nil {
		return false
	}
	if whole && r.Header.Get("Expect") == "" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	a.mu.Lock()
	a.raw = append(a.raw, rec.seen.String())
	n := len(a.raw)
	a.mu.Unlock()
	rec.seen.Reset()
	return answer(&arrival{r, n, conn, br})
}

func (a *application) url() string { return "http://" + a.addr }

// arrivals are all requests so far, as they stood on the wire.
func (a *application) arrivals() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.raw...)
}

func (a *application) wantArrivals(n int) {
	a.t.Helper()
	if got := len(a.arrivals()); got != n {
		a.t.Errorf("the application was asked %d times, want %d", got, n)
	}
}

const created = "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nLocation: /orders/1\r\n\r\nmilk"

// always answers every request with the same bytes.
func always(text string) func(*arrival) bool {
	return func(a *arrival) bool { a.say(text); return true }
}

// front starts a gateway before an application and returns its address.
func front(t *testing.T, to string, cfg gateway.Config) string {
	t.Helper()
	return frontScoped(t, to, onceward.Unscoped, cfg)
}

func frontScoped(t *testing.T, to string, scope onceward.ScopeFunc, cfg gateway.Config) string {
	t.Helper()
	g, err := gateway.New(to, memstore.New(memstore.Config{}), scope, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(g)
	s.Config.DisableGeneralOptionsHandler = true
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := g.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s.Listener.Addr().String()
}

// client is a connection that speaks in raw bytes.
type client struct {
	t *testing.T
	net.Conn
	br *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// head reads up to the empty line.
func (c *client) head() string {
	c.t.Helper()
	var b strings.Builder
	for {
		line, err := c.br.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			c.t.Fatalf("after %q: %v", b.String(), err)
		}
		if line == "\r\n" {
			return b.String()
		}
	}
}

// answer is what came back; err is a transfer that broke.
type answer struct {
	status  int
	header  http.Header
	body    string
	trailer http.Header
	err     error
}

// send sends one request over a connection of its own.
func send(t *testing.T, addr, method, target, body string, header ...string) answer {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: shop.test\r\n", method, target)
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	if body != "" || method == "POST" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	c := dial(t, addr)
	c.say(b.String() + "\r\n" + body)
	return c.answer(method)
}

func (c *client) answer(method string) answer {
	c.t.Helper()
	res, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body), res.Trailer, err}
}

func (a answer) outcome() string {
	word, _, _ := strings.Cut(a.header.Get("Idempotency-Status"), ";")
	return word
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s %.200q (%v)", a.status, a.header.Get("Idempotency-Status"), a.body, a.err)
}

func (a answer) want(t *testing.T, status int, outcome string) {
	t.Helper()
	if a.err != nil || a.status != status || a.outcome() != outcome {
		t.Errorf("answered %v, want %d %q", a, status, outcome)
	}
}

// TestMain fails the package if a goroutine of the gateway outlives the tests.
func TestMain(m *testing.M) { assert.Main(m, "onceward/gateway.") }
