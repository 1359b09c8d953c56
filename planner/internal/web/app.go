// Package web is the planner as a browser sees it: pages, forms and fragments.
// Reading order: routes.go (what there is), app.go (who stands around it), then
// actions.go and pages.go (what each does), view.go (how a row looks).
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
	"github.com/onceward/onceward/outbox"
	"github.com/onceward/onceward/planner/internal/account"
	"github.com/onceward/onceward/planner/internal/export"
	"github.com/onceward/onceward/planner/internal/store"
	"github.com/onceward/onceward/planner/internal/task"
)

const (
	// retention is how long the guard remembers an answer, and maxAge how old a
	// waiting change may be when it is sent by itself: a pupil's weekend without
	// a phone is shorter than either, and what is sent by itself is always younger
	// than what the guard remembers.
	retention = 7 * 24 * time.Hour
	maxAge    = 6 * 24 * time.Hour
	// maxWait is how long a form's second submission waits for the first one's
	// answer, instead of showing a person a page that says "409".
	maxWait = 5 * time.Second
	// maxBody is the largest request; a title has 500 characters.
	maxBody = 64 << 10
	// runTime bounds a handler whose client may have left.
	runTime = 30 * time.Second
	// lease is how long the keys of a planner that was killed hold their repeats
	// back. Handlers take milliseconds, and a change that ran twice after all
	// would still be one: it sets a value, or makes the row of its id.
	lease = 5 * time.Second

	loginPath = "/auth/login"
	keyField  = "_key"
)

// Config is what an App needs. DB, Keys, Exports and Secret are required.
type Config struct {
	DB      *store.DB
	Keys    onceward.Store  // the guard's, in the same database
	Exports *export.Exports // the caller starts and stops it
	Secret  []byte          // makes the owner's tags of waiting changes
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Logger is told of requests and decisions. Nil means none.
	Logger *slog.Logger
	// Outbox changes the limits of the browser's half: the times, sizes and
	// numbers that are not zero. Its Retention is the guard's too.
	Outbox outbox.ScriptConfig
	// Limits counts tries to log in and to register for callers on this machine
	// too; by default only for others.
	Limits bool
	// Proxies are believed about whom they speak for (X-Forwarded-For and
	// X-Forwarded-Proto). None are by default.
	Proxies []netip.Prefix
	// Observer is the guard's. The zero value observes nothing.
	Observer onceward.Observer
}

// App is the planner's http.Handler. It is safe for concurrent use.
type App struct {
	cfg      Config
	log      *slog.Logger
	now      func() time.Time
	accounts *account.Accounts
	tasks    *task.Tasks
	guard    *onceward.Guard
	status   http.Handler // what became of a named request
	ops      *operation.Operations
	static   *static
	handler  http.Handler
	closing  atomic.Bool
}

// New puts the planner together. The caller ends it with Close.
func New(cfg Config) (*App, error) {
	if cfg.DB == nil || cfg.Keys == nil || cfg.Exports == nil || len(cfg.Secret) == 0 {
		return nil, errors.New("planner: web.New needs DB, Keys, Exports and Secret")
	}
	a := &App{cfg: cfg, log: cfg.Logger, now: cfg.Now, static: newStatic()}
	script := &a.cfg.Outbox
	script.Worker, script.Login, script.KeyField, script.Status = "/sw.js", loginPath, keyField, "/idempotency/"
	script.Retention = cmp.Or(script.Retention, retention)
	script.MaxAge = cmp.Or(script.MaxAge, maxAge)
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.now == nil {
		a.now = time.Now
	}
	a.accounts = account.New(cfg.DB, a.now)
	a.tasks = task.New(cfg.DB, a.now)

	guard, err := onceward.New(cfg.Keys, outbox.Owned(scope, cfg.Secret), onceward.Config{
		FormField:  keyField,
		MaxWait:    maxWait,
		MaxRuntime: runTime,
		Lease:      lease,
		Retention:  script.Retention,
		MaxRequest: maxBody,
		Error:      a.refuse,
		Logger:     a.log,
		Observer:   cfg.Observer,
	})
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	a.guard = guard
	a.status = guard.Status()
	if a.ops, err = a.newOperations(); err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	a.handler = a.observe(a.routes())
	return a, nil
}

// ServeHTTP serves the whole site.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Accounts are the people of this planner.
func (a *App) Accounts() *account.Accounts { return a.accounts }

// Tasks are their tasks.
func (a *App) Tasks() *task.Tasks { return a.tasks }

// Drain makes /readyz say that no new work should come; what runs goes on, and
// nobody waits for a file any longer.
func (a *App) Drain() {
	a.closing.Store(true)
	a.ops.Close()
}

// Close waits, as long as ctx allows, for the changes that still run, also those
// whose clients have left. Call it after http.Server.Shutdown and before the
// database is closed.
func (a *App) Close(ctx context.Context) error {
	a.Drain()
	return a.guard.Close(ctx)
}

// guarded is what stands around everything that belongs to one person, outermost
// first. The order matters, and is not a question of taste:
//
//	Edge outside everything, or the outbox would see redirects that it cannot read;
//	session outside the guard, or the guard would not know whose key it is (it
//	answers 500 then, loudly, instead of mixing people up);
//	Repeats around the guard, whose replay of "accepted" it brings up to date;
//	the guard outside the handlers, and nothing that changes data outside the guard.
func (a *App) guarded(handlers http.Handler) http.Handler {
	return outbox.Edge(a.bounded(a.session(a.ops.Repeats(a.guard.Atomic(handlers)))), outbox.EdgeConfig{
		Login:     loginPath,
		Retention: a.cfg.Outbox.Retention,
		Logger:    a.log,
	})
}

// bounded refuses what no page of ours would send: requests of other sites, and
// bodies that are too large.
func (a *App) bounded(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, http.StatusForbidden, "err.403")
	}))
	limited := http.MaxBytesHandler(next, maxBody)
	return cross.Handler(limited)
}

// scope says whose key a request carries: the account's, so that one person's
// phone and laptop share their keys and two people never do. Empty means that
// session did not run, and the guard says so.
func scope(r *http.Request) (string, error) {
	return userOf(r).ID, nil
}
