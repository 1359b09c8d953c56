package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/records"
	"github.com/onceward/onceward/telemetry"
	"github.com/onceward/onceward/telemetry/scrape"
)

// gatewayFlags are the flags of `onceward gateway`, as they were written.
type gatewayFlags struct {
	listen, to, store, scope        string
	header, field                   string
	anonymous, on5xx, except, trust string
	logForm, metrics, records       string
	lease, retention, maxRuntime    time.Duration
	bodyTimeout                     time.Duration
	maxRequest                      int64
	jwtFrom, jwtKey, jwtSecret      string
	jwtIssuer, jwtAudience          string
}

const gatewayHelp = `
Whose key is it? --scope says where a request bears that:

  cookie:NAME   a cookie that the app gave out and nobody can guess, and that
                stays the same as long as a request may be repeated. Django:
                cookie:sessionid. Flask's session cookie does not stay the same:
                see docs/python.md
  header:NAME   a credential (header:Authorization), or an account's name that a
                proxy in front sets; clients must not be able to set it themselves
  jwt:CLAIM     a claim of a signed token, such as jwt:sub
  unscoped      all callers share one space of keys

A POST, PUT, PATCH or DELETE with an Idempotency-Key header, or with the form
field _key, reaches the app once. Everything else passes as it came.

When a request was sent and no answer came back, its key is held: repeats get
409, and "onceward keys list --stuck" shows it.
`

// runGateway is `onceward gateway`.
func runGateway(ctx context.Context, args, env []string, _ io.Reader, stdout, stderr io.Writer) int {
	var f gatewayFlags
	fs := flag.NewFlagSet("gateway", flag.ContinueOnError)
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	fs.StringVar(&f.to, "to", "", "the app behind, as http://`host:port`")
	fs.StringVar(&f.store, "store", "", "where the records are: sqlite:`FILE`, postgres://…, redis://… or memory:\n(or set ONCEWARD_STORE)")
	fs.StringVar(&f.scope, "scope", "", "whose keys: cookie:`NAME`, header:NAME, jwt:CLAIM or unscoped")
	fs.StringVar(&f.anonymous, "anonymous", "refuse", "a key with no scope: `refuse` (401) or pass unguarded")
	fs.StringVar(&f.except, "except", "", "`paths` outside the guard, with commas: /login,/hooks/*")
	fs.StringVar(&f.on5xx, "on-5xx", "release", "an answered 5xx: `release` the key (502 and 504 are held) or hold it")
	fs.StringVar(&f.trust, "trust-proxy", "", "believe X-Forwarded-* of these `networks` (CIDR, with commas)")
	fs.StringVar(&f.header, "key-header", "", "the key's header `name`; by default Idempotency-Key")
	fs.StringVar(&f.field, "key-field", "", "the key's form field `name`; by default _key, - for none")
	fs.DurationVar(&f.lease, "lease", 30*time.Second, "how long a claim outlives a gateway that died")
	fs.DurationVar(&f.retention, "retention", 24*time.Hour, "how long an answer is kept and replayed")
	fs.DurationVar(&f.maxRuntime, "max-runtime", 5*time.Minute, "how long the app may take for a request with a key")
	fs.Int64Var(&f.maxRequest, "max-request", 32<<20, "the largest body, in `bytes`, that takes a key")
	fs.DurationVar(&f.bodyTimeout, "body-timeout", 30*time.Second, "a body that is read before it goes on brings 64 KiB, or its\nend, within so long, else 408; and so is an answer taken")
	fs.StringVar(&f.jwtFrom, "jwt-from", "header:Authorization", "where the token stands: cookie:`NAME` or header:NAME")
	fs.StringVar(&f.jwtKey, "jwt-key", "", "`file` with the public keys (PEM) that verify it: RSA, ECDSA, Ed25519")
	fs.StringVar(&f.jwtSecret, "jwt-secret", "", "`file` with the shared secret that verifies it (HMAC)")
	fs.StringVar(&f.jwtIssuer, "jwt-issuer", "", "the `iss` that is required")
	fs.StringVar(&f.jwtAudience, "jwt-audience", "", "the `aud` that is required")
	fs.StringVar(&f.metrics, "metrics", "", "serve /metrics for Prometheus on this `address`; \":9464\" is this machine alone")
	fs.StringVar(&f.records, "records", "", "serve a read-only page with the keys' states on this `address`; \":9465\" is this\nmachine alone, there is no password")
	fs.StringVar(&f.logForm, "log", "text", "the log on stderr: text, json or none")
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), "usage: onceward gateway --to http://127.0.0.1:8000 --store sqlite:keys.db --scope cookie:NAME [flags]\n\n")
		fs.PrintDefaults()
		fmt.Fprint(fs.Output(), gatewayHelp)
	}
	if over, code := parse(fs, args, stdout, stderr); over {
		return code
	}
	f.store = storeName(f.store, env)
	switch {
	case f.to == "":
		return refuse(stderr, "gateway", "which app is behind? Write --to http://127.0.0.1:8000")
	case f.store == "":
		return refuse(stderr, "gateway", "where are the records kept? Write --store sqlite:keys.db, or set ONCEWARD_STORE")
	case f.scope == "":
		return refuse(stderr, "gateway", "whose keys are they? Write --scope cookie:NAME, with the cookie that the app signs people in by")
	}
	log, err := f.logger(stderr)
	if err != nil {
		return refuse(stderr, "gateway", "%s", err)
	}
	scope, err := f.scopeFunc()
	if err != nil {
		return refuse(stderr, "gateway", "%s", gatewayPlain(err))
	}
	cfg, err := f.config(log)
	if err != nil {
		return refuse(stderr, "gateway", "%s", gatewayPlain(err))
	}
	store, closeStore, err := openStore(ctx, f.store, storeUse{memory: true, create: true, log: log})
	if err != nil {
		return gatewayFailed(stderr, fmt.Errorf("--store: %w", err))
	}
	defer closeStore()
	observer, closeMetrics, err := f.observed(store, log)
	if err != nil {
		return gatewayFailed(stderr, fmt.Errorf("--metrics: %w", err))
	}
	defer closeMetrics()
	cfg.Guard.Observer = observer
	closePage, err := f.paged(store, log)
	if err != nil {
		return gatewayFailed(stderr, fmt.Errorf("--records: %w", err))
	}
	defer closePage()
	g, err := gateway.New(f.to, store, scope, cfg)
	if err != nil {
		return refuse(stderr, "gateway", "%s", gatewayPlain(err))
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return gatewayFailed(stderr, errors.Join(fmt.Errorf("%w; --listen 127.0.0.1:0 takes a free port", err), g.Close(ctx)))
	}
	f.warn(l.Addr(), stderr)
	fmt.Fprintf(stdout, "listening on http://%s\n", reachable(l.Addr()))
	fmt.Fprintf(stdout, "to %s, scope %s\n", f.to, f.scope)
	if err := serveGateway(ctx, g, l, f.maxRuntime, log); err != nil {
		return gatewayFailed(stderr, err)
	}
	return exitOK
}

// observed serves metrics where --metrics says, and returns what feeds them.
func (f *gatewayFlags) observed(store onceward.Store, log *slog.Logger) (onceward.Observer, func(), error) {
	if f.metrics == "" {
		return onceward.Observer{}, func() {}, nil
	}
	endpoint, err := scrape.Listen(f.metrics, log)
	if err != nil {
		return onceward.Observer{}, nil, err
	}
	end := func() { _ = endpoint.Close(context.Background()) }
	claims, _ := store.(onceward.Lister)
	observer, err := telemetry.New(endpoint.Meters(), nil, telemetry.Config{Claims: claims})
	if err != nil {
		end()
		return observer, nil, err
	}
	log.Info("serving metrics", "url", endpoint.URL())
	return observer, end, nil
}

// paged serves the records' page where --records says.
func (f *gatewayFlags) paged(store onceward.Store, log *slog.Logger) (func(), error) {
	if f.records == "" {
		return func() {}, nil
	}
	page, err := records.Listen(f.records, store, log)
	if err != nil {
		return nil, err
	}
	log.Info("serving records", "url", page.URL())
	return func() { _ = page.Close(context.Background()) }, nil
}

// maxHead is how much of a request's head is read. Servers of applications take far less
// (gunicorn and nginx 8 KiB of a line, Node.js 16 KiB of all), and net/http's 1 MiB would let
// five hundred clients that never finish theirs hold a gigabyte.
const maxHead = 64 << 10

// serveGateway runs the gateway until ctx ends, then waits for what runs.
func serveGateway(ctx context.Context, g *gateway.Gateway, l net.Listener, patience time.Duration, log *slog.Logger) error {
	srv := &http.Server{
		Handler:                      g,
		ReadHeaderTimeout:            10 * time.Second,
		MaxHeaderBytes:               maxHead,
		IdleTimeout:                  2 * time.Minute,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	// Requests with a key run to their end, so that none becomes unknown; others
	// get a moment: a stream would never end by itself.
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = srv.Shutdown(short)
	long, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience+5*time.Second)
	defer cancel()
	closed := g.Close(long)
	_ = srv.Close()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, closed)
}

// warn tells what may be meant otherwise than it is.
func (f *gatewayFlags) warn(at net.Addr, stderr io.Writer) {
	if f.store == "memory:" {
		fmt.Fprint(stderr, "onceward gateway: the keys are kept in memory: a restart forgets them, and a second gateway would not see them\n")
	}
	if f.scope == "cookie:session" {
		fmt.Fprint(stderr, "onceward gateway: if \"session\" is the cookie that Flask or Starlette keep a session in, it changes with the session, and a repeat may look like somebody else's: see docs/python.md\n")
	}
	name, ok := strings.CutPrefix(f.scope, "header:")
	if ok && !strings.EqualFold(name, "Authorization") {
		fmt.Fprintf(stderr, "onceward gateway: whoever reaches %s can name himself in %s; only what sets that header should reach it\n", at, name)
	}
}

func (f *gatewayFlags) logger(stderr io.Writer) (*slog.Logger, error) {
	switch f.logForm {
	case "text":
		return slog.New(slog.NewTextHandler(stderr, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(stderr, nil)), nil
	case "none":
		return slog.New(slog.DiscardHandler), nil
	}
	return nil, fmt.Errorf("--log %q is neither text, json nor none", f.logForm)
}

func (f *gatewayFlags) config(log *slog.Logger) (gateway.Config, error) {
	cfg := gateway.Config{BodyTimeout: f.bodyTimeout, Guard: onceward.Config{
		Header: f.header, FormField: f.field, Logger: log,
		Lease: f.lease, Retention: f.retention, MaxRuntime: f.maxRuntime, MaxRequest: f.maxRequest,
	}}
	switch f.anonymous {
	case "refuse":
	case "pass":
		cfg.PassAnonymous = true
	default:
		return cfg, fmt.Errorf("--anonymous %q is neither refuse nor pass", f.anonymous)
	}
	switch f.on5xx {
	case "release":
	case "hold":
		cfg.OnServerError = gateway.HoldServerErrors
	default:
		return cfg, fmt.Errorf("--on-5xx %q is neither release nor hold", f.on5xx)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"lease", f.lease}, {"retention", f.retention}, {"max-runtime", f.maxRuntime}, {"body-timeout", f.bodyTimeout}} {
		if d.value <= 0 {
			return cfg, fmt.Errorf("--%s %v: write a duration above zero, such as 30s", d.name, d.value)
		}
	}
	if f.maxRequest <= 0 {
		return cfg, fmt.Errorf("--max-request %d: write a number of bytes above zero", f.maxRequest)
	}
	cfg.Except = list(f.except)
	for _, text := range list(f.trust) {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return cfg, fmt.Errorf("--trust-proxy %q is no network; write 127.0.0.1/32 or 10.0.0.0/8", text)
		}
		cfg.TrustProxies = append(cfg.TrustProxies, network)
	}
	return cfg, nil
}

// list splits at commas; an empty text is an empty list.
func list(text string) []string {
	if text == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func gatewayFailed(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "onceward gateway: %s\n", gatewayPlain(err))
	return exitFailed
}

// gatewayPlain is the error's text without the names of packages.
func gatewayPlain(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "gateway: "), "onceward: ")
}
