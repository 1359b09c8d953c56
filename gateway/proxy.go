package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
)

// newTransport makes the connections to the application: HTTP/1 only, no
// compression of its own, no proxy from the environment.
//
// net/http's Transport sends a request again by itself when a reused connection
// dies before the answer: one of a safe method, and one of any method that bears
// Idempotency-Key or X-Idempotency-Key and has no body (or one that can be
// rewound); see golang.org/issue/19943. The application may have done the work.
// Taking the header away would hide the key from it. What it never does is send
// again on a connection that was not used before, so requests of unsafe methods
// get a new connection each (Gateway.single). That also spares them the
// connection that the application is just closing because it was idle, where a
// lost request could not be told from one that was carried out.
func newTransport(dialTimeout time.Duration) *http.Transport {
	t := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		DisableCompression:    true,
		MaxIdleConns:          512,
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       30 * time.Second,
		ExpectContinueTimeout: time.Second,
		Protocols:             new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t
}

// witness is a connection for one request that remembers whether anything was written
// to it.
type witness struct {
	net.Conn
	wrote  atomic.Bool
	closed chan struct{}
	close  func() // closes it, once
}

func newWitness(conn net.Conn) *witness {
	c := &witness{Conn: conn, closed: make(chan struct{})}
	c.close = sync.OnceFunc(func() { close(c.closed) })
	return c
}

// Write tells of a failure when the connection is closed, unless it kept all back. An
// application may answer and close before it has read all ("413", and no more of it):
// then its answer is here, or about to be, and net/http would take whichever it heard
// of first, the answer or the failure. Without an answer it hears from reading that the
// connection is dead.
func (c *witness) Write(p []byte) (int, error) {
	first := !c.wrote.Swap(true)
	n, err := c.Conn.Write(p)
	switch {
	case err == nil:
	case first && n == 0:
		c.wrote.Store(false)
	default:
		<-c.closed
	}
	return n, err
}

func (c *witness) Close() error {
	c.close()
	return c.Conn.Close()
}

// traced notes the connection that a request gets.
func traced(ctx context.Context, c *call) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { c.conn, _ = info.Conn.(*witness) },
	})
}

// sent reports whether the application may have seen something of the request.
func (c *call) sent() bool { return c.conn != nil && c.conn.wrote.Load() }

// buffers are the copying buffers of all gateways.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[32 << 10]byte); ok {
		return buf[:]
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buf []byte) { b.pool.Put((*[32 << 10]byte)(buf)) }

var copyBuffers buffers

func (g *Gateway) proxy(t *http.Transport) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      t,
		BufferPool:     &copyBuffers,
		ModifyResponse: g.answered,
		ErrorHandler:   g.failed,
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
}

// rewrite says what of the request goes on: all of it, as it came.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	out.URL = g.place(in)
	g.forwarded(in, out)
	c := callOf(in.Context())
	if c == nil {
		withTrailer(out, in, announced(in))
	} else {
		withTrailer(out, in, c.trailer)
		out.Method = c.method
		if c.guarded {
			out.Header.Del("Expect") // the body is here already
		}
	}
	if up := out.Header.Get("Upgrade"); up != "" && (in.Method != http.MethodGet || !strings.EqualFold(up, "websocket")) {
		// Whatever else the protocol is, its requests would pass unseen through the
		// open tunnel (h2c: golang.org/issue/80416). A server may ignore an upgrade.
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
}

// place is where a request goes: its target, byte for byte, at the application.
func (g *Gateway) place(in *http.Request) *url.URL {
	u := &url.URL{Scheme: "http", Host: g.target, Path: in.URL.Path, RawPath: in.URL.RawPath, RawQuery: in.URL.RawQuery, ForceQuery: in.URL.ForceQuery}
	target := in.RequestURI
	if target == "" || target == "*" {
		return u
	}
	path, _, _ := strings.Cut(target, "?")
	if !strings.HasPrefix(path, "/") { // the absolute form
		_, rest, _ := strings.Cut(path, "://")
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			path = rest[slash:]
		} else {
			path = "/"
		}
	}
	// An opaque part is written as it is, unless it looks like an authority.
	if !strings.HasPrefix(path, "//") {
		u.Opaque = path
	}
	return u
}

// ours are the fields that the gateway writes.
var ours = map[string]bool{"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true, "Forwarded": true}

// owned reports whether a field is ours, by whatever name: to a CGI-like application
// (all of Python's and PHP's) a dash and an underscore are one.
func owned(name string) bool {
	return ours[http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))]
}

// trusts reports whether the peer is one of Config.TrustProxies.
func (g *Gateway) trusts(in *http.Request) bool {
	if len(g.cfg.TrustProxies) == 0 {
		return false
	}
	peer, err := netip.ParseAddrPort(in.RemoteAddr)
	return err == nil && slices.ContainsFunc(g.cfg.TrustProxies, func(network netip.Prefix) bool { return network.Contains(peer.Addr().Unmap()) })
}

// host is what the application takes for the host of a request, without the port: a
// gateway has one, and whoever comes to it through another (a tunnel, a container's
// mapping) means the same application.
func (g *Gateway) host(in *http.Request) string {
	host := withoutPort(in.Host)
	if g.trusts(in) {
		// Quoted, none is part of another host's name. What Forwarded says is left out:
		// it has the client's address too, which changes between two tries.
		for _, line := range in.Header["X-Forwarded-Host"] {
			host += strconv.Quote(withoutPort(line))
		}
	}
	return strings.ToLower(host)
}

func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]") // an IPv6 address without a port
}

// forwarded tells the application who asked for what. net/http has taken away
// what the client said about that.
func (g *Gateway) forwarded(in, out *http.Request) {
	// What the client says of itself must not come in by another door.
	for name := range out.Header {
		if strings.Contains(name, "_") && owned(name) {
			delete(out.Header, name)
		}
	}
	if !g.trusts(in) {
		(&httputil.ProxyRequest{In: in, Out: out}).SetXForwarded()
		return
	}
	out.Header["X-Forwarded-For"] = in.Header["X-Forwarded-For"]
	(&httputil.ProxyRequest{In: in, Out: out}).SetXForwarded()
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
		if lines := in.Header[name]; lines != nil {
			out.Header[name] = lines
		}
	}
}

// answered sees the head of the application's answer.
func (g *Gateway) answered(res *http.Response) error {
	if res.StatusCode < http.StatusContinue {
		return fmt.Errorf("gateway: the application answered with status %d", res.StatusCode)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	res.Body = &wholeBody{ReadCloser: res.Body, log: g.log, r: res.Request}
	c := callOf(res.Request.Context())
	if c == nil || !c.guarded {
		if len(res.TransferEncoding) == 1 && res.TransferEncoding[0] == "chunked" {
			res.Header.Set("Transfer-Encoding", "chunked") // net/http would count a short body
		}
		return nil
	}
	release := res.StatusCode >= http.StatusInternalServerError && res.StatusCode != http.StatusBadGateway && res.StatusCode != http.StatusGatewayTimeout
	switch word, _, _ := strings.Cut(res.Header.Get(onceward.StatusHeader), ";"); word {
	case "in-progress", "unavailable", "released", "outcome-unknown":
		// The application has a guard of its own, and this is no answer to the request:
		// kept as one, "in-progress" would be all that any repeat hears.
		c.w.word, release = res.Header.Get(onceward.StatusHeader), true
	}
	if release && (res.StatusCode < http.StatusInternalServerError || g.cfg.OnServerError == ReleaseServerErrors) {
		onceward.MarkTransient(res.Request.Context())
	}
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	endless := res.ContentLength < 0 && len(res.TransferEncoding) == 0
	// Of an answer that only the end of its connection ends nobody can say whether
	// it is whole: it must not be kept. Streamed, it is completed without a body.
	c.streams = endless || strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
	return nil
}

// wholeBody never lets an answer that was cut short look like a whole one,
// whoever reads it.
type wholeBody struct {
	io.ReadCloser
	log *slog.Logger
	r   *http.Request
}

func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if b.r.Context().Err() == nil {
		warn(b.log, b.r, "gateway: the application's answer was cut short", "error", err.Error())
	}
	panic(http.ErrAbortHandler)
}

// warn logs what happened to a request, with its record's id where it has one: one
// grep finds why nobody knows what became of it.
func warn(log *slog.Logger, r *http.Request, msg string, args ...any) {
	all := []any{"method", r.Method, "path", r.URL.Path}
	if key, _, ok := onceward.Named(r.Context()); ok {
		all = append([]any{"record", key.RecordID()}, all...)
	}
	log.Warn(msg, append(all, args...)...)
}

// failed answers where the application did not.
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, err error) {
	c := callOf(r.Context())
	if r.Context().Err() != nil && (c == nil || !c.guarded) {
		panic(http.ErrAbortHandler) // the client is gone
	}
	if c != nil && c.body.broken.Load() {
		warn(g.log, r, "gateway: a request's body broke off on its way to the application", "error", err.Error())
		refuse(w, r, brokenBody)
		return
	}
	dial := (*net.OpError)(nil)
	sent := c == nil || c.sent()
	if errors.As(err, &dial) && dial.Op == "dial" {
		sent = false
	}
	warn(g.log, r, "gateway: the application did not answer", "sent", sent, "error", err.Error())
	if !sent {
		onceward.MarkTransient(r.Context()) // nothing was written: certainly nothing was done
		w.Header().Set("Retry-After", "2")
		refuse(w, r, refusal{http.StatusServiceUnavailable, problemUnavailable,
			"The application cannot be reached; nothing was sent to it. Send the same request again after Retry-After.",
			"Сейчас не получилось, ничего не изменено. Попробуйте ещё раз через несколько секунд."})
		return
	}
	status := http.StatusBadGateway
	if timeout := net.Error(nil); errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		status = http.StatusGatewayTimeout
	}
	if c == nil {
		refuse(w, r, refusal{status, "about:blank", "The application did not answer.", "Приложение не ответило. Попробуйте ещё раз."})
		return
	}
	refuse(w, r, refusal{status, problemUnknown,
		"The request was sent to the application, and no answer came back: nobody knows what became of it. Look whether its effect is there before you do it again.",
		"Неизвестно, выполнилось ли это действие. Проверьте, и если его нет, сделайте заново."})
}
