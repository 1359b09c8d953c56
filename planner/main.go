// Command planner is a planner for pupils: homework written down in five seconds,
// without a network and without a passport, and surely saved.
//
//	go run ./planner -addr 127.0.0.1:8080 -data ./planner-data
//
// Everything that it knows is in one file, planner.db, in the data folder.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // people's zones, also on a machine that has none

	"github.com/onceward/onceward/outbox"
	"github.com/onceward/onceward/planner/internal/export"
	"github.com/onceward/onceward/planner/internal/store"
	"github.com/onceward/onceward/planner/internal/web"
	"github.com/onceward/onceward/sqlitestore"
)

// stopWithin is how long a graceful shutdown waits for what runs. It is longer
// than any handler may take (web's 30 s): a change that was begun is finished and
// answered, and nobody's tap falls between two versions.
const stopWithin = 40 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// run is the whole program; it returns when ctx is done and everything that ran
// is finished. The address that it listens on is printed to stdout, the log goes
// to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("planner", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:8080", "listen on this `address`")
	data := flags.String("data", "./planner-data", "keep everything in this `folder`")
	demo := flags.Bool("seed-demo", false, "fill the account \"demo\" and print its password")
	limits := flags.Bool("limits", false, "count tries to log in and to register from this machine too")
	waits := flags.String("outbox", "", "change the outbox's limits, in ms and bytes, as `JSON` (for tests): {\"softLimit\":2000}")
	proxies := flags.String("trust-proxy", "", "believe X-Forwarded-For and X-Forwarded-Proto of these `networks` (CIDR, with commas)")
	metrics := flags.String("metrics", "", "serve metrics for Prometheus on this `address`; \":9464\" is this machine alone")
	page := flags.String("records", "", "serve a read-only page with the keys' states on this `address`; \":9465\" is this machine alone")
	if err := flags.Parse(args); err != nil {
		return err
	}
	trusted, err := networks(*proxies)
	if err != nil {
		return err
	}
	script, err := scriptLimits(*waits)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	// River's own: it tells now and then that all is well.
	quiet := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

	db, err := store.Open(ctx, *data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	secret, err := db.Secret(ctx, "owner")
	if err != nil {
		return err
	}
	// The keys live in the planner's own file and share its writer: one fsync may
	// serve a key and somebody else's task.
	keys, err := sqlitestore.New(ctx, db.Write, sqlitestore.Config{Read: db.Read})
	if err != nil {
		return err
	}
	// Closing has its own time, for ctx is over by then: the guard first, since what
	// runs still writes, then the keys, then the file.
	closing := func(close func(context.Context) error) {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		err = errors.Join(err, close(end))
	}
	defer closing(keys.Close)
	observer, closeMetrics, err := observed(*metrics, keys, log)
	if err != nil {
		return err
	}
	defer closing(closeMetrics)
	closePage, err := paged(*page, keys, log)
	if err != nil {
		return err
	}
	defer closing(closePage)
	exports, err := export.Open(ctx, db, export.Config{Logger: log, River: quiet})
	if err != nil {
		return err
	}
	if err := exports.Start(ctx); err != nil {
		return err
	}
	defer closing(exports.Stop)
	app, err := web.New(web.Config{DB: db, Keys: keys, Exports: exports, Secret: secret, Logger: log, Limits: *limits, Proxies: trusted, Outbox: script, Observer: observer})
	if err != nil {
		return err
	}
	defer closing(app.Close)
	if *demo {
		if err := seedDemo(ctx, app, stdout); err != nil {
			return err
		}
	}
	listener, err := listen(*addr)
	if err != nil {
		return err
	}
	announce(stdout, listener.Addr(), *data)

	sweeping, stopSweeping := context.WithCancel(ctx)
	swept := make(chan struct{})
	go func() { defer close(swept); sweep(sweeping, app, exports, log) }()
	err = serve(ctx, listener, app, log)
	stopSweeping()
	<-swept
	return err
}

// serve answers requests until ctx is done. Then no connection is accepted any
// more, and what runs is finished and answered. (Changes whose clients have left
// are the guard's to wait for.)
func serve(ctx context.Context, listener net.Listener, app *web.App, log *slog.Logger) error {
	server := &http.Server{
		Handler:           app,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		// Long, for a connection that the server closes while a request is on its
		// way is what makes a browser send that request a second time by itself.
		IdleTimeout: 3 * time.Minute,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("planner: serving: %w", err)
	case <-ctx.Done():
	}
	log.Info("planner: stopping")
	app.Drain()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		return fmt.Errorf("planner: stopping: %w", err)
	}
	return nil
}

// sweep deletes now and then what is no longer needed.
func sweep(ctx context.Context, app *web.App, exports *export.Exports, log *slog.Logger) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := errors.Join(app.Accounts().Sweep(ctx), exports.Sweep(ctx))
		for err == nil {
			var n int64
			if n, err = app.Tasks().Sweep(ctx, 500); n < 500 {
				break
			}
		}
		if err != nil && ctx.Err() == nil {
			log.Error("planner: sweeping", "error", err)
		}
	}
}

// scriptLimits reads the flag -outbox. The names are those of the outbox's own
// configuration.
func scriptLimits(text string) (outbox.ScriptConfig, error) {
	if text == "" {
		return outbox.ScriptConfig{}, nil
	}
	var l struct {
		Retention, MaxAge, SoftLimit, HardLimit, HardLimitMax int64
		Backoff, BackoffVisible, BackoffHidden, KickEvery     int64
		MaxBody, MaxBytes                                     int64
		MaxEntries                                            int
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return outbox.ScriptConfig{}, fmt.Errorf("planner: -outbox: %w", err)
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return outbox.ScriptConfig{
		Retention: ms(l.Retention), MaxAge: ms(l.MaxAge),
		SoftLimit: ms(l.SoftLimit), HardLimit: ms(l.HardLimit), HardLimitMax: ms(l.HardLimitMax),
		Backoff: ms(l.Backoff), BackoffVisible: ms(l.BackoffVisible), BackoffHidden: ms(l.BackoffHidden), KickEvery: ms(l.KickEvery),
		MaxBody: l.MaxBody, MaxBytes: l.MaxBytes, MaxEntries: l.MaxEntries,
	}, nil
}

func networks(list string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for s := range strings.SplitSeq(list, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("planner: -trust-proxy: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}
