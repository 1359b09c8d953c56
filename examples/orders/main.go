// Command orders is the smallest real use of onceward: a shop that takes an
// order once, however often its request is sent.
//
//	go run ./examples/orders -store sqlite:orders.db
//	curl -i localhost:8081/create-order -H 'Idempotency-Key: k1' -d '{"item":"tea","qty":2}'   # twice
//	curl localhost:8081/orders                                                                 # one
//
// An order may have a name of its client's own, "external_id", by which it is
// one order under any key and for ever; its ETag, sent back as If-Match, keeps
// one client from undoing what another has just done to it.
//
// This file is the wiring and shop.go the service. The package ledger keeps the
// orders and reads preconditions; chaos.go, which only -chaos switches on, makes the
// service fail in chosen ways, for tests.
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
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/examples/orders/ledger"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	level := new(slog.LevelVar)
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	cfg := onceward.Config{Logger: log}

	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:8081", "listen on this `address`")
	storeURL := flags.String("store", "memory:", "keep the keys in memory:, sqlite:FILE, postgres://… or redis://…")
	file := flags.String("orders", "", "keep the orders in this `file` (memory: and redis: only; the others keep them beside the keys)")
	atomic := flags.Bool("atomic", false, "commit the key, the order and the answer in one transaction (sqlite: and postgres: only)")
	hold := flags.Bool("hold", false, "never run a request again whose outcome nobody knows")
	userHeader := flags.String("user-header", "", "the request `header` that names the user, set by whatever authenticates in front")
	withChaos := flags.Bool("chaos", false, "obey requests that ask for failures, as chaos.go lists them")
	volatile := flags.String("volatile", "", "`members` of a JSON order that a repeat may change, as dotted paths with commas between")
	flags.DurationVar(&cfg.Lease, "lease", 0, "how long a killed process blocks a key; 0 is the guard's default, as for the next five")
	flags.DurationVar(&cfg.MaxRuntime, "max-runtime", 0, "when a handler is cancelled")
	flags.DurationVar(&cfg.MaxTransaction, "max-transaction", 0, "when a handler is rolled back under -atomic")
	flags.DurationVar(&cfg.Retention, "retention", 0, "how long an answer is replayed")
	flags.DurationVar(&cfg.Tombstone, "tombstone", 0, "how long after that a repeat is refused instead of taken for a new request")
	flags.DurationVar(&cfg.SweepEvery, "sweep", 0, "how often expired keys are deleted")
	flags.BoolFunc("v", "log also which keys are swept", func(string) error { level.Set(slog.LevelDebug); return nil })
	metrics := flags.String("metrics", "", "serve metrics for Prometheus on this `address`; \":9464\" is this machine alone")
	if err := flags.Parse(args); err != nil {
		return err
	}

	if *hold {
		cfg.Unknown = onceward.Hold
	}
	if *volatile != "" {
		cfg.Volatile = strings.Split(*volatile, ",")
	}

	store, orders, closeStore, err := ledger.Open(ctx, *storeURL, *file, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	observer, closeMetrics, err := observed(*metrics, store, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeMetrics()) }()
	cfg.Observer = observer

	// Whose request is it? The guard keeps each user's keys apart. A service
	// that has no users says so by name.
	scope := onceward.Unscoped
	user := func(*http.Request) (string, error) { return "", nil }
	if *userHeader != "" {
		user = fromHeader(*userHeader)
		scope = user
	}
	if _, ok := store.(onceward.Transactor); *atomic && !ok {
		return fmt.Errorf("-atomic needs a database that has the orders too: sqlite: or postgres:, not %s", *storeURL)
	}
	guards, handler, err := guard(store, scope, cfg, *atomic, routes(&shop{orders, user}), *withChaos)
	if err != nil {
		return err
	}
	return serve(ctx, *addr, handler, guards, log, stdout)
}

// guard stands around everything, and is stricter around the route that needs a
// key: two guards on one store.
func guard(store onceward.Store, scope onceward.ScopeFunc, cfg onceward.Config, atomic bool, app http.Handler, withChaos bool) (guards []*onceward.Guard, _ http.Handler, err error) {
	if withChaos {
		app = chaos(app)
	}
	strict := cfg
	strict.Require = true
	strict.SweepEvery = -1 // the other one sweeps
	mux := http.NewServeMux()
	for pattern, cfg := range map[string]onceward.Config{"/": cfg, adding: strict} {
		g, err := onceward.New(store, scope, cfg)
		if err != nil {
			return nil, nil, err
		}
		guards = append(guards, g)
		if atomic {
			mux.Handle(pattern, g.Atomic(app))
		} else {
			mux.Handle(pattern, g.Handler(app))
		}
	}
	if withChaos {
		return guards, dieAtAnswer(mux), nil
	}
	return guards, mux, nil
}

// fromHeader trusts a header that names the user. A request without it has not
// come through whatever authenticates: a fault of the set-up, which the guard
// answers with 500 and a line in the log.
func fromHeader(name string) onceward.ScopeFunc {
	return func(r *http.Request) (string, error) {
		user := r.Header.Get(name)
		if user == "" {
			return "", fmt.Errorf("the request has no %s header", name)
		}
		return user, nil
	}
}

// serve serves until ctx is done, then finishes what runs: first the server,
// then the guards, whose handlers may outlive their clients.
func serve(ctx context.Context, addr string, handler http.Handler, guards []*onceward.Guard, log *slog.Logger, stdout io.Writer) error {
	server := &http.Server{
		Handler:           http.MaxBytesHandler(handler, 64<<20),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		Protocols:         new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	err = server.Shutdown(patience)
	for _, g := range guards {
		err = errors.Join(err, g.Close(patience))
	}
	return err
}
