package onceward

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	mrand "math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Guard does named work once and replays the answer. It is safe for concurrent
// use; one Guard may wrap any number of handlers.
type Guard struct {
	*shared
	cfg Config
}

// shared is what a Guard and those that [Guard.With] made of it have in common.
type shared struct {
	store   Store
	scope   ScopeFunc
	spool   spool
	flights flights
	late    chan struct{} // bounds the completions that are still being tried
	stop    context.CancelFunc
	swept   chan struct{} // closed when the sweeper has ended
}

// New returns a Guard over a store. scope says whose key a request carries; it
// is positional because getting it wrong shows one person another's answers.
// The caller ends the Guard with [Guard.Close].
func New(store Store, scope ScopeFunc, cfg Config) (*Guard, error) {
	if store == nil {
		return nil, errors.New("onceward: New needs a store")
	}
	if scope == nil {
		return nil, errors.New("onceward: New needs a scope function (Unscoped, if all callers share their keys)")
	}
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	g := &Guard{cfg: cfg, shared: &shared{
		store: cfg.watch(store), scope: scope,
		spool:   spool{dir: cfg.SpoolDir, max: cfg.MaxSpool},
		flights: flights{byKey: make(map[Key]flight)},
		late:    make(chan struct{}, 64),
		swept:   make(chan struct{}),
	}}
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	if sweeper, ok := store.(Sweeper); ok && cfg.SweepEvery > 0 {
		go g.sweep(ctx, sweeper)
	} else {
		close(g.swept)
	}
	return g, nil
}

// With returns a Guard for some routes, whose configuration change has altered.
// It shares everything else with g: the store, what runs, the sweeper and Close.
// MaxSpool, SpoolDir and SweepEvery stay g's.
func (g *Guard) With(change func(*Config)) (*Guard, error) {
	cfg := g.cfg
	change(&cfg)
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	return &Guard{cfg: cfg, shared: g.shared}, nil
}

// Close refuses further named requests with 503 and waits, as long as ctx
// allows, for the handlers that run and for completions that are still being
// tried. Call it after http.Server.Shutdown and before closing the store.
func (g *Guard) Close(ctx context.Context) error {
	g.stop()
	err := g.flights.close(ctx)
	select {
	case <-g.swept:
	case <-ctx.Done():
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("onceward: close: %w", err)
	}
	return nil
}

// Handler wraps next: a request with a key runs it once, and repeats of the
// request get the same answer. It belongs inside authentication (the scope must
// be known) and outside everything that changes data. A request without a key
// passes through untouched unless Config.Require is set.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.cfg.guards(r.Method) {
			next.ServeHTTP(w, r)
			return
		}
		u := &run{lease: lease{request: request{g: g, w: w, r: r, start: time.Now()}}}
		u.serve(next)
	})
}

// request is one guarded request's way through the guard.
type request struct {
	g       *Guard
	w       http.ResponseWriter
	r       *http.Request
	start   time.Time
	key     string // as the client named it
	id      Key
	print   Fingerprint
	body    *buffer
	store   buffer      // what body points to once it is read
	bodyErr error       // why it could not be read whole
	asking  lazyContext // of the first Claim
	attempt int
	patient time.Duration          // Call.Wait
	route   atomic.Pointer[string] // of a ServeMux that was passed inside the guard; observed only
}

// serve is the order of things. Everything before the claim can be repeated
// without harm; nothing has run until the claim is ours.
func (u *run) serve(next http.Handler) {
	q := &u.request
	running := false
	defer func() {
		if !running {
			q.body.free()
		}
	}()
	claim, ok := q.admit(next)
	if !ok {
		return
	}
	rec, claimed, err := q.claim(claim, q.ask)
	switch {
	case errors.Is(err, errUnreachable) && q.g.cfg.FailOpen:
		q.happened(EventUnguarded, err)
		q.log(statusUnavailable, 0, fmt.Errorf("it runs unguarded: %w", err))
		q.r.Body = q.body.body()
		next.ServeHTTP(q.w, q.r)
	case err != nil:
		q.refuse(err)
	case claimed:
		running = true
		u.execute(next, rec)
	default:
		q.replay(rec)
	}
}

// admit reads all that a claim needs. Where it reports false the request has been
// answered, by a refusal or by next, which a request without a key reaches
// untouched.
func (q *request) admit(next http.Handler) (Claim, bool) {
	found, err := q.findKey()
	if err != nil {
		q.refuse(err)
		return Claim{}, false
	}
	if !found && !q.g.cfg.Require {
		next.ServeHTTP(q.w, q.r)
		return Claim{}, false
	}
	scope, err := q.askScope()
	if err == nil && !found {
		err = ErrKeyMissing
	}
	if err == nil {
		q.id = NewKey(scope, q.key)
		err = q.readBody()
	}
	if err == nil {
		err = q.checkField()
	}
	var fp Fingerprint
	if err == nil {
		fp, err = q.g.cfg.fingerprint(q.r, q.id, q.body)
	}
	if err != nil {
		q.refuse(err)
		return Claim{}, false
	}
	return q.bid(fp), true
}

// bid is the claim that this request is to make.
func (q *request) bid(fp Fingerprint) Claim {
	q.print = fp
	claim := Claim{
		Key: q.id, Fingerprint: fp, Method: q.r.Method, Path: q.r.URL.Path,
		// A claim that is in progress here must not count as absent because a wall
		// clock was set forward, however short the retention is.
		Lease: q.g.cfg.Lease, Keep: max(q.g.cfg.kept(), 24*time.Hour),
	}
	if q.g.cfg.Unknown != Rerun {
		claim.Keep = -1
	}
	return claim
}

// askScope asks whose key this is, and refuses loudly where nobody can tell.
func (q *request) askScope() (string, error) {
	r := q.r
	if q.key != "" && len(r.Header[q.g.cfg.Header]) == 0 {
		r = r.WithContext(context.WithValue(r.Context(), keyInBody{}, q.key))
	}
	scope, err := q.g.scope(r)
	if err == nil && scope == "" {
		err = errScopeMissing
	}
	if err == nil {
		return scope, nil
	}
	if own := (*ProblemError)(nil); !errors.As(err, &own) {
		q.g.logger(slog.LevelError, "onceward: no scope for a request with a key: mount the guard inside authentication",
			"method", q.r.Method, "path", q.r.URL.Path, "error", err)
	}
	return "", err
}

// claim asks for the key until it is ours (claimed; the flight is left open),
// answered (the record is complete), or the wait is over (an error).
func (q *request) claim(c Claim, ask func(Claim) (Record, bool, error)) (rec Record, claimed bool, err error) {
	cfg := &q.g.cfg
	deadline := time.Now().Add(q.patience())
	pause := 25 * time.Millisecond
	for {
		alone, ok := q.g.flights.enter(q.id)
		if !ok {
			return rec, false, fmt.Errorf("%w: the server is shutting down", ErrUnavailable)
		}
		rand.Read(c.Token[:])
		c.TakeOver = alone && cfg.Unknown == Rerun
		rec, claimed, err = q.askOnce(c, alone, ask)
		if err == nil && claimed {
			q.g.flights.started(q.id, alone)
			return rec, true, nil
		}
		if err == nil {
			err = cfg.judge(c, rec)
		}
		again := false
		if errors.Is(err, ErrOutcomeUnknown) {
			switch {
			case !alone && !rec.Held:
				err = nil // it runs here, or somebody here is finding out
			case alone && cfg.Unknown == Resolve:
				again, err = q.resolveOnce(rec)
			}
		}
		q.g.flights.left(q.id, alone)
		if err != nil || rec.State == Completed {
			return rec, false, err
		}
		if again {
			continue
		}
		left := time.Until(deadline)
		if left <= 0 {
			return rec, false, &busyError{http.StatusConflict, retryAfter(rec.LeaseLeft)}
		}
		timer := time.NewTimer(min(left, pause+mrand.N(pause/4)))
		select {
		case <-q.g.flights.ended(q.id):
		case <-timer.C:
			pause = min(2*pause, time.Second)
		case <-q.r.Context().Done():
			timer.Stop()
			return rec, false, &busyError{http.StatusConflict, retryAfter(rec.LeaseLeft)}
		}
		timer.Stop()
	}
}

// askOnce calls ask. A store that panics ends the flight too, or the key would
// be running here for ever.
func (q *request) askOnce(c Claim, alone bool, ask func(Claim) (Record, bool, error)) (rec Record, claimed bool, err error) {
	returned := false
	defer func() {
		if !returned {
			q.g.flights.left(q.id, alone)
		}
	}()
	rec, claimed, err = ask(c)
	returned = true
	return rec, claimed, err
}

// resolveOnce calls resolve. An application that panics there ends the flight too.
func (q *request) resolveOnce(rec Record) (again bool, err error) {
	returned := false
	defer func() {
		if !returned {
			q.g.flights.left(q.id, true)
		}
	}()
	again, err = q.resolve(rec)
	returned = true
	return again, err
}

// judge says what another's record means for a claim; nil: it is complete and
// ours to replay, or in progress.
func (c *Config) judge(claim Claim, rec Record) error {
	switch {
	case rec.Fingerprint.Version != claim.Fingerprint.Version:
		return fmt.Errorf("%w: the record has fingerprint version %d", ErrUnavailable, rec.Fingerprint.Version)
	case rec.Fingerprint != claim.Fingerprint:
		return ErrKeyReused
	case rec.State == Completed && rec.Response != nil:
		if c.Tombstone > 0 && rec.Age > c.Retention {
			return ErrKeyExpired
		}
		return nil
	case rec.State != InProgress:
		return fmt.Errorf("%w: the record is in state %v and has no answer", ErrUnavailable, rec.State)
	case rec.Held || rec.LeaseLeft <= 0 && c.Unknown != Rerun:
		return ErrOutcomeUnknown
	}
	return nil
}

// retryAfter is 2 s, but never past the lease's end.
func retryAfter(leaseLeft time.Duration) time.Duration {
	return max(time.Second, min(2*time.Second, leaseLeft))
}

// patience is how long this request may wait for another's answer.
func (q *request) patience() time.Duration {
	most := max(0, q.g.cfg.MaxWait)
	if q.g.cfg.Wait || isNavigation(q.r) {
		return most
	}
	if q.patient > 0 {
		return min(most, q.patient)
	}
	for _, line := range q.r.Header.Values("Prefer") {
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 32)
			if err == nil {
				return min(most, time.Duration(n)*time.Second)
			}
		}
	}
	return 0
}

// ask puts one claim to the store. An error leaves open whether the claim was
// made, so the same call is repeated under the same token; if that does not
// help, the claim is given back behind the caller's answer.
func (q *request) ask(c Claim) (rec Record, claimed bool, err error) {
	// Not the request's context: a client who hangs up now must not leave a
	// claim behind that nobody owns.
	ctx := &q.asking
	if ctx.parent != nil {
		ctx = new(lazyContext) // a waiter asks again
	}
	q.g.bound(ctx, q.r)
	defer ctx.cancel(nil)
	for try := range 3 {
		if try > 0 {
			time.Sleep(time.Duration(try) * 20 * time.Millisecond)
		}
		rec, claimed, err = q.g.store.Claim(ctx, c)
		if err == nil {
			return rec, claimed, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	q.g.giveBack(c.Key, c.Token)
	if errors.Is(err, ErrEncoding) { // it was reached, and has a record of a later version
		return rec, false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return rec, false, fmt.Errorf("%w: %w: %w", ErrUnavailable, errUnreachable, err)
}

// giveBack releases a claim that may have been made without our knowing. It
// tries until the claim's lease would be over anyway.
func (g *Guard) giveBack(key Key, tok Token) {
	g.later(func(ctx context.Context) error { return g.store.Release(ctx, key, tok) }, nil)
}

// later repeats a store call behind the answer, with growing pauses, for at
// most one lease. It does nothing when too many such calls are under way.
func (g *Guard) later(call func(context.Context) error, after func(error)) {
	select {
	case g.late <- struct{}{}:
	default:
		if after != nil {
			after(fmt.Errorf("%w: too many store calls are being repeated", ErrUnavailable))
		}
		return
	}
	g.flights.begin()
	go func() {
		defer g.flights.end()
		defer func() { <-g.late }()
		end := time.Now().Add(g.cfg.Lease)
		pause := 50 * time.Millisecond
		var err error
		for {
			err = g.once(call)
			if err == nil || errors.Is(err, ErrClaimLost) || time.Now().Add(pause).After(end) {
				break
			}
			time.Sleep(pause)
			pause = min(2*pause, 2*time.Second)
		}
		if after != nil {
			after(err)
		}
	}()
}

// bound prepares the context of a store call for r. It outlives the client.
func (g *Guard) bound(ctx *lazyContext, r *http.Request) {
	ctx.parent, ctx.detached, ctx.enforced = r.Context(), true, true
	ctx.deadline = time.Now().Add(g.cfg.StoreTimeout)
}

// once makes one store call under its own time limit.
func (g *Guard) once(call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.StoreTimeout)
	defer cancel()
	return call(ctx)
}

// sweep deletes what is absent anyway, now and then.
func (g *Guard) sweep(ctx context.Context, s Sweeper) {
	defer close(g.swept)
	const step = 500
	for {
		pause := g.cfg.SweepEvery
		pause += time.Duration(float64(pause) * (mrand.Float64() - 0.5) / 2)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			if g.sweepOnce(s, step) < step {
				break
			}
			pause = 10 * time.Millisecond // let claims in between two steps
		}
	}
}

func (g *Guard) logger(level slog.Level, msg string, args ...any) {
	if g.cfg.Logger != nil {
		g.cfg.Logger.Log(context.Background(), level, msg, args...)
	}
}

// log writes the one line of a decision. One grep for the record's id tells
// its whole story.
func (q *request) log(outcome string, status int, err error) {
	q.observe(outcome, status, err)
	l := q.g.cfg.Logger
	if l == nil && errors.Is(err, errScopeMissing) {
		l = slog.Default() // the program is wired wrongly: silence would be no help
	}
	if l == nil {
		return
	}
	level := slog.LevelInfo
	if status >= 500 || err != nil && (outcome == outcomeClaimLost || strings.HasPrefix(outcome, statusExecuted)) {
		level = slog.LevelWarn
	}
	attrs := make([]slog.Attr, 0, 10)
	if q.id != (Key{}) {
		attrs = append(attrs, slog.String("record", q.id.RecordID()), slog.String("scope", q.id.ScopeID()))
	}
	if outcome != "" {
		attrs = append(attrs, slog.String("outcome", outcome))
	}
	attrs = append(attrs, slog.String("method", q.r.Method), slog.String("path", q.r.URL.Path))
	if status != 0 {
		attrs = append(attrs, slog.Int("status", status))
	}
	ms := float64(time.Since(q.start).Microseconds()) / 1000
	attrs = append(attrs, slog.Float64("ms", math.Round(ms*100)/100))
	if q.attempt > 0 {
		attrs = append(attrs, slog.Int("attempt", q.attempt))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", textOf(err)))
	}
	l.LogAttrs(context.WithoutCancel(q.r.Context()), level, "onceward", attrs...)
}
