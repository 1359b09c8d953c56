package shop

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver, under the name "sqlite"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/sqlitestore"
)

// Program is what a framework's example is made of.
type Program struct {
	*Shop
	Guard *onceward.Guard
	// Guarded is Guard.Handler or, with -atomic, Guard.Atomic.
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
	store := flags.String("store", "memory:", "keep the keys in memory: or sqlite:FILE")
	file := flags.String("orders", "", "keep the orders in this database `file` (memory: only; sqlite: keeps them beside the keys)")
	atomic := flags.Bool("atomic", false, "commit the key, the order and the answer in one transaction (sqlite: only)")
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

	scheme, database, _ := strings.Cut(*store, ":")
	switch {
	case *store == "memory:":
		database = *file
		p.Log.Warn("the keys are kept in memory: a restart forgets them, and a second process would not see them")
	case scheme != "sqlite" || database == "":
		return fmt.Errorf("-store %q is neither memory: nor sqlite:FILE", *store)
	}
	db, err := openSQLite(database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if p.Shop, err = openShop(ctx, db); err != nil {
		return err
	}
	keys := onceward.Store(memstore.New(memstore.Config{}))
	if scheme == "sqlite" {
		store, err := sqlitestore.New(ctx, db, sqlitestore.Config{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close(context.Background())) }()
		keys = store
	}
	if p.Guard, err = onceward.New(keys, p.Scope, cfg); err != nil {
		return err
	}
	p.Guarded = p.Guard.Handler
	if *atomic {
		if _, ok := keys.(onceward.Transactor); !ok {
			return fmt.Errorf("-atomic needs a database that has the orders too: sqlite:, not %s", *store)
		}
		p.Guarded = p.Guard.Atomic
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
	return errors.Join(err, p.Guard.Close(patience))
}

// openSQLite opens one file for the keys and the orders; without a name, a database
// in memory. SQLite has one writer at a time: with one connection those of this
// process queue for it in memory, and those of another process are waited for.
// Every commit is synced.
func openSQLite(name string) (*sql.DB, error) {
	dsn := "file::memory:"
	if name != "" {
		name, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		dsn = (&url.URL{Scheme: "file", Path: filepath.ToSlash(name), RawQuery: url.Values{
			"_txlock": {"immediate"},
			"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"},
		}.Encode()}).String()
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}
