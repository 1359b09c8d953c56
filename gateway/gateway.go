package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward"
)

// ServerErrors says what becomes of a key whose request the application
// answered with a 5xx.
type ServerErrors uint8

const (
	// ReleaseServerErrors frees the key: the retry is a real one. It suits an
	// application that undoes what it began when it fails, as one transaction for
	// each request does. 502 and 504 are held all the same: a proxy says these when
	// it does not know what became of the request.
	ReleaseServerErrors ServerErrors = iota
	// HoldServerErrors holds the key: 409 outcome-unknown for every repeat.
	HoldServerErrors
)

// Config changes what a [Gateway] does by default. The zero value is the safe
// default. New copies it.
type Config struct {
	// Guard is the guard's own configuration. Its Unknown may be Hold or Resolve;
	// Rerun, the zero value, is Hold here: the gateway cannot know whether the
	// application minds a second run. Its Logger is the gateway's too. Its MaxMemory
	// is 64 KiB where it is zero: anybody may send bodies, and many at once. Its Host
	// is the host that the application is told, where it is nil: one gateway may stand
	// before several names, and a session's cookie or a token may be good for all.
	Guard onceward.Config
	// OnServerError says what an answered 5xx does to the key. By default it
	// frees it.
	OnServerError ServerErrors
	// Except lists paths that stand outside the guard, such as "/login": their
	// requests pass even with a key. A star at the end stands for anything:
	// "/hooks/*". By default there are none.
	Except []string
	// PassAnonymous lets a request with a key pass unguarded when its scope is
	// unknown ([Anonymous]). By default it is refused: 401.
	PassAnonymous bool
	// TrustProxies are the networks whose X-Forwarded-For, -Host, -Proto and
	// Forwarded are believed, and passed on with the peer's address appended. By
	// default nobody's are: what the client sent is replaced.
	TrustProxies []netip.Prefix
	// DialTimeout bounds the opening of a connection to the application. Zero
	// means 5 s.
	DialTimeout time.Duration
	// BodyTimeout bounds the arrival of a body that is read here before it is passed
	// on, because its request has a key or its key may stand in it: within so long it
	// has to end, or to bring another 64 KiB; else it is 408, and nobody has seen
	// anything of it. An answer to a request with a key has to be taken as fast; else
	// its client is cut off, and finds it when it asks again. Zero means 30 s, negative:
	// no limit. What is streamed between client and application is theirs to bound.
	BodyTimeout time.Duration
}

// Gateway is the proxy with its guard, an http.Handler. It is safe for
// concurrent use. Its server should have DisableGeneralOptionsHandler set, so
// that "OPTIONS *" reaches the application, and a ReadHeaderTimeout and a
// MaxHeaderBytes of far less than the 1 MiB that net/http lets each client hold.
type Gateway struct {
	cfg     Config
	target  string // host:port
	scope   onceward.ScopeFunc
	guard   *onceward.Guard
	guarded http.Handler
	pooled  *http.Transport // for safe methods
	single  *http.Transport // for all others: each connection carries one request
	forSafe *httputil.ReverseProxy
	forRest *httputil.ReverseProxy
	log     *slog.Logger
}

// New returns a Gateway in front of the application at to, which is
// http://host:port. The store stays the caller's, who closes it after
// [Gateway.Close]. scope says whose key a request bears: [Cookie], [Header],
// [JWT] or [onceward.Unscoped].
func New(to string, store onceward.Store, scope onceward.ScopeFunc, cfg Config) (*Gateway, error) {
	target, err := parseTarget(to)
	if err != nil {
		return nil, err
	}
	if cfg.OnServerError > HoldServerErrors {
		return nil, fmt.Errorf("gateway: Config.OnServerError has no meaning: %d", cfg.OnServerError)
	}
	if cfg.DialTimeout < 0 {
		return nil, fmt.Errorf("gateway: Config.DialTimeout is negative: %v", cfg.DialTimeout)
	}
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = 5 * time.Second
	}
	if cfg.BodyTimeout == 0 {
		cfg.BodyTimeout = 30 * time.Second
	}
	cfg.Except = append([]string(nil), cfg.Except...)
	for _, path := range cfg.Except {
		if !strings.HasPrefix(path, "/") || strings.Contains(strings.TrimSuffix(path, "*"), "*") {
			return nil, fmt.Errorf("gateway: Config.Except: %q is no path; write /login, or /hooks/* for all below", path)
		}
	}
	cfg.TrustProxies = append([]netip.Prefix(nil), cfg.TrustProxies...)
	if cfg.Guard.Unknown == onceward.Rerun {
		cfg.Guard.Unknown = onceward.Hold
	}
	if cfg.Guard.MaxMemory == 0 {
		cfg.Guard.MaxMemory = 64 << 10
	}
	g := &Gateway{target: target, scope: scope, log: cfg.Guard.Logger}
	if cfg.Guard.Host == nil {
		cfg.Guard.Host = g.host
	}
	guard, err := onceward.New(store, scope, cfg.Guard)
	if err != nil {
		return nil, err
	}
	g.cfg, g.guard = cfg, guard
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	g.guarded = guard.Handler(http.HandlerFunc(g.forward))
	g.pooled = newTransport(cfg.DialTimeout)
	g.single = newTransport(cfg.DialTimeout)
	g.single.DisableKeepAlives = true
	dial := g.single.DialContext
	g.single.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return newWitness(conn), nil
	}
	g.forSafe, g.forRest = g.proxy(g.pooled), g.proxy(g.single)
	return g, nil
}

func parseTarget(to string) (hostPort string, err error) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return "", fmt.Errorf("gateway: target %q: write http://host:port and nothing after it; paths are carried as they are, and TLS is not spoken to the application", to)
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "80"), nil
	}
	return u.Host, nil
}

// Close refuses further requests with a key, waits, as long as ctx allows, for
// those that run, and closes idle connections. Call it after
// http.Server.Shutdown and before closing the store.
func (g *Gateway) Close(ctx context.Context) error {
	err := g.guard.Close(ctx)
	g.pooled.CloseIdleConnections()
	g.single.CloseIdleConnections()
	return err
}

// call is what the gateway knows of one request that may change something.
type call struct {
	w       *final   // the guard puts its own in its place
	method  string   // as it came
	guarded bool     // it runs under a claim
	streams bool     // its answer goes out as it comes
	conn    *witness // the connection that it got, if any
	body    *arriving
	trailer []string // the names of the fields that its head announced
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		refuse(w, r, refusal{status: http.StatusNotImplemented, kind: "about:blank", en: "There is no tunnel here", ru: "Туннеля здесь нет."})
		return
	}
	if r.Method == "PRI" && r.ProtoMajor == 2 {
		refuse(w, r, refusal{status: http.StatusHTTPVersionNotSupported, kind: "about:blank", en: "HTTP/1.1 is spoken here", ru: "Здесь говорят по HTTP/1.1."})
		return
	}
	if !r.ProtoAtLeast(1, 1) && r.Header["Content-Length"] == nil && (r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch) {
		refuse(w, r, refusal{status: http.StatusLengthRequired, kind: "about:blank", en: "A body needs a Content-Length in HTTP/1.0", ru: "В HTTP/1.0 телу нужен Content-Length."})
		return
	}
	out := &final{
		ResponseWriter: w,
		timeout:        g.cfg.BodyTimeout,
		expected:       r.Header["Expect"] != nil,
		// Somebody in front may have taken another place for this request's end (a
		// Content-Length beside the chunks, chunks in HTTP/1.0), which cannot be seen
		// here. What follows on the connection must not be taken for a request (RFC
		// 9112 section 6.1).
		last: len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1),
	}
	w = out
	w.Header()["Content-Type"] = nil // an answer that says no type gets none, the kept one too
	if safe(r.Method) {
		if r.ContentLength != 0 {
			r = r.WithContext(r.Context()) // net/http goes by the body of its own
			out.upload = bounded(w, r, 0)
		}
		g.forSafe.ServeHTTP(w, r)
		return
	}
	c := &call{w: out, method: r.Method, trailer: announced(r)}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	// Many servers take "patch" for PATCH, and browsers send it so: the guard has to
	// see what the application may make of it, which gets it as it came.
	r.Method = strings.ToUpper(r.Method)
	if g.outside(r) {
		c.body = bounded(w, r, 0)
		g.forward(w, r)
		return
	}
	c.body = bounded(w, r, g.cfg.BodyTimeout)
	g.guarded.ServeHTTP(w, r)
}

// outside reports whether the guard has nothing to do with the request, key or
// not.
func (g *Gateway) outside(r *http.Request) bool {
	for _, path := range g.cfg.Except {
		prefix, below := strings.CutSuffix(path, "*")
		if below && strings.HasPrefix(r.URL.Path, prefix) || r.URL.Path == path {
			return true
		}
	}
	if !g.cfg.PassAnonymous {
		return false
	}
	_, err := g.scope(r)
	return errors.Is(err, ErrAnonymous)
}

// forward passes one request that may change something to the application.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	if c.guarded = w != http.ResponseWriter(c.w); c.guarded {
		w = &held{w, c}
	} else {
		c.w.upload = c.body
	}
	if c.body.late {
		refuse(w, r, lateBody)
		return
	}
	c.body.release()
	g.forRest.ServeHTTP(w, r.WithContext(traced(r.Context(), c)))
}
