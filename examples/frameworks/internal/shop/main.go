package shop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/examples/orders/ledger"
)

// Program is what a framework's example is made of.
type Program struct {
	*Shop
	Guard *onceward.Guard
	// Guarded is Guard.Handler or, with -atomic, Guard.Atomic; it requires a key where
	// nothing but that makes a request repeatable.
	Guarded func(http.Handler) http.Handler
	// UserHeader names the header that says who the user is, set by whatever
	// authenticates in front. Empty: there are no users.
	UserHeader string
	Chaos      bool
	Mount      string // which of its ways the example is to show
	Log        *slog.Logger
}

type userKey struct{}

// WithUser is what a framework's authentication tells of who asks.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// User is who asks.
func (p *Program) User(ctx context.Context) (string, error) {
	user, _ := ctx.Value(userKey{}).(string)
	if user == "" && p.UserHeader != "" {
		return "", fmt.Errorf("the request has no %s header", p.UserHeader)
	}
	return user, nil
}

// Scope is the guard's question, whose key it is.
func (p *Program) Scope(r *http.Request) (string, error) {
	if p.UserHeader == "" {
		return onceward.Unscoped(r)
	}
	return p.User(r.Context())
}

// Main is the main function of an example over net/http. Each mount is a way to put
// guard around the shop's routes; the first is what the example shows.
func Main(name string, mounts ...Mount) {
	Start(name, func(ctx context.Context, p *Program, l net.Listener) error {
		for _, m := range mounts {
			if p.Mount == "" || p.Mount == m.Name {
				handler := m.Handler(p, p.Guarded)
				if p.Chaos {
					handler = p.chaos(handler)
				}
				return Serve(ctx, p, l, handler)
			}
		}
		return fmt.Errorf("there is no -mount %s", p.Mount)
	})
}

// Mount is a way to put guard around the shop's routes.
type Mount struct {
	Name    string
	Handler func(p *Program, guard func(http.Handler) http.Handler) http.Handler
}

// Serve serves over net/http until ctx is done.
func Serve(ctx context.Context, p *Program, l net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           http.MaxBytesHandler(handler, 64<<20),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(p.Log.Handler(), slog.LevelWarn),
		Protocols:         new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return Until(ctx, func() error { return server.Serve(l) }, server.Shutdown)
}

// Until runs serve until ctx is done, then shutdown.
func Until(ctx context.Context, serve func() error, shutdown func(context.Context) error) error {
	failed := make(chan error, 1)
	go func() { failed <- serve() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return shutdown(patience)
}

// Start reads the command line, opens what it names and calls serve with it. When
// serve has returned, it waits for what the guard still runs.
func Start(name string, serve func(ctx context.Context, p *Program, l net.Listener) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	switch err := start(ctx, name, os.Args[1:], serve); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func start(ctx context.Context, name string, args []string, serve func(context.Context, *Program, net.Listener) error) (err error) {
	p := &Program{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	cfg := onceward.Config{Logger: p.Log}

	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8081", "listen on this `address`")
	store := flags.String("store", "memory:", "keep the keys in memory:, sqlite:FILE, postgres://… or redis://…")
	file := flags.String("orders", "", "keep the orders in this `file` (memory: and redis: only; the others keep them beside the keys)")
	atomic := flags.Bool("atomic", false, "commit the key, the order and the answer in one transaction (sqlite: and postgres: only)")
	hold := flags.Bool("hold", false, "never run a request again whose outcome nobody knows")
	volatile := flags.String("volatile", "", "`members` of a JSON order that a repeat may change, as dotted paths with commas between")
	flags.StringVar(&p.UserHeader, "user-header", "", "the request `header` that names the user, set by whatever authenticates in front")
	flags.BoolVar(&p.Chaos, "chaos", false, "obey requests that ask for failures, as chaos.go lists them")
	flags.StringVar(&p.Mount, "mount", "", "how the guard is put around the routes, if the example shows more than one `way`")
	flags.DurationVar(&cfg.Lease, "lease", 0, "how long a killed process blocks a key; 0 is the guard's default, as for the next five")
	flags.DurationVar(&cfg.MaxRuntime, "max-runtime", 0, "when a handler is cancelled")
	flags.DurationVar(&cfg.MaxTransaction, "max-transaction", 0, "when a handler is rolled back under -atomic")
	flags.DurationVar(&cfg.Retention, "retention", 0, "how long an answer is replayed")
	flags.DurationVar(&cfg.Tombstone, "tombstone", 0, "how long after that a repeat is refused instead of taken for a new request")
	flags.DurationVar(&cfg.SweepEvery, "sweep", 0, "how often expired keys are deleted")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *hold {
		cfg.Unknown = onceward.Hold
	}
	if *volatile != "" {
		cfg.Volatile = strings.Split(*volatile, ",")
	}

	keys, orders, closeStore, err := ledger.Open(ctx, *store, *file, p.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	p.Shop = &Shop{orders: orders}
	if _, ok := keys.(onceward.Transactor); *atomic && !ok {
		return fmt.Errorf("-atomic needs a database that has the orders too: sqlite: or postgres:, not %s", *store)
	}
	strict, err := p.guard(keys, cfg, *atomic)
	if err != nil {
		return err
	}

	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	// First the server, then the guard, whose handlers may outlive their clients.
	err = serve(ctx, p, listener)
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return errors.Join(err, p.Guard.Close(patience), strict.Close(patience))
}

// guard makes p's guard, and one that is stricter where a request needs a key:
// two guards on one store. It returns that one.
func (p *Program) guard(keys onceward.Store, cfg onceward.Config, atomic bool) (strict *onceward.Guard, err error) {
	if p.Guard, err = onceward.New(keys, p.Scope, cfg); err != nil {
		return nil, err
	}
	cfg.Require = true
	cfg.SweepEvery = -1 // the other one sweeps
	if strict, err = onceward.New(keys, p.Scope, cfg); err != nil {
		return nil, err
	}
	p.Guarded = func(app http.Handler) http.Handler {
		mux := http.NewServeMux()
		for pattern, g := range map[string]*onceward.Guard{"/": p.Guard, "POST /orders/{id}/add": strict} {
			if atomic {
				mux.Handle(pattern, g.Atomic(app))
			} else {
				mux.Handle(pattern, g.Handler(app))
			}
		}
		return mux
	}
	return strict, nil
}
