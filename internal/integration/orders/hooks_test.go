package orders_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/redisstore"
	"github.com/onceward/onceward/sqlitestore"
)

// Moments between two steps of the guard, which no request can choose: here the
// store is in the test's hands, and the guard and HTTP are real.

// hooked is a store that calls the test before what it does.
type hooked struct {
	onceward.Store
	beforeClaim    func()
	beforeComplete func()
	report         func(onceward.Record) onceward.Record
}

func (h *hooked) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	if h.beforeClaim != nil {
		h.beforeClaim()
	}
	rec, claimed, err := h.Store.Claim(ctx, c)
	if h.report != nil {
		rec = h.report(rec)
	}
	return rec, claimed, err
}

func (h *hooked) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	if h.beforeComplete != nil {
		h.beforeComplete()
	}
	return h.Store.Complete(ctx, key, tok, resp, retain)
}

// hookedTransactor is a hooked store for Atomic.
type hookedTransactor struct{ *hooked }

func (h hookedTransactor) Transact(ctx context.Context, c onceward.Claim, work func(context.Context) (onceward.Verdict, *onceward.Response, error)) (onceward.Record, bool, error) {
	if h.beforeClaim != nil {
		h.beforeClaim()
	}
	rec, ran, err := h.Store.(onceward.Transactor).Transact(ctx, c, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		verdict, resp, err := work(ctx)
		if h.beforeComplete != nil {
			h.beforeComplete()
		}
		return verdict, resp, err
	})
	if h.report != nil {
		rec = h.report(rec)
	}
	return rec, ran, err
}

// onHooked runs a test with a guarded handler over each store. The handler
// counts its effects.
func onHooked(t *testing.T, test func(t *testing.T, h *hooked, url string, effects *atomic.Int64)) {
	t.Helper()
	onEachStore(t, func(t *testing.T, b backend) {
		h := &hooked{Store: openStore(t, b)}
		store := onceward.Store(h)
		if b.atomic {
			store = hookedTransactor{h}
		}
		url, effects := guarded(t, b, store, onceward.Config{MaxTransaction: 30 * time.Second}, nil)
		test(t, h, url, effects)
	})
}

// openStore opens a backend's store in the test's own process.
func openStore(t *testing.T, b backend) onceward.Store {
	t.Helper()
	flags := b.flags(t)
	address := flags[slices.Index(flags, "-store")+1]
	switch scheme, _, _ := strings.Cut(address, ":"); scheme {
	case "memory":
		return memstore.New(memstore.Config{})
	case "sqlite":
		return openSQLite(t)
	case "postgres":
		pool, err := pgxpool.New(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		store, err := pgxstore.New(t.Context(), pool, pgxstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(context.Background()); err != nil {
				t.Errorf("closing the store: %v", err)
			}
			pool.Close()
		})
		return store
	case "redis":
		options, err := goredis.ParseURL(address)
		if err != nil {
			t.Fatal(err)
		}
		options.ContextTimeoutEnabled = true
		client := goredis.NewClient(options)
		t.Cleanup(func() { _ = client.Close() })
		store, err := redisstore.New(t.Context(), client, redisstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return store
	default:
		t.Fatalf("nobody knows how to open %s", address)
		return nil
	}
}

func openSQLite(t *testing.T) onceward.Store {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "keys.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Errorf("closing the store: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("closing the database: %v", err)
		}
	})
	return store
}

// guarded serves a guarded handler that counts its effects and answers with
// their number. outer, if given, stands around the guard.
func guarded(t *testing.T, b backend, store onceward.Store, cfg onceward.Config, outer func(http.Handler) http.Handler) (string, *atomic.Int64) {
	t.Helper()
	guard, err := onceward.New(store, onceward.Unscoped, cfg)
	if err != nil {
		t.Fatal(err)
	}
	effects := new(atomic.Int64)
	wrap := is(b, guard.Handler, func(next http.Handler) http.Handler { return guard.Atomic(next) })
	handler := wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Err() != nil {
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintln(w, effects.Add(1))
	}))
	if outer != nil {
		handler = outer(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		closeGuard(t, guard)
	})
	return server.URL, effects
}

func closeGuard(t *testing.T, guard *onceward.Guard) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := guard.Close(ctx); err != nil {
		t.Errorf("closing the guard: %v", err)
	}
}

func mustTry(t *testing.T, url string, r request) answer {
	t.Helper()
	a, err := tryAt(url, r)
	if err != nil {
		t.Errorf("no answer: %v", err)
	}
	return a
}

// The pause stands between the work's end and its record; whoever waits must
// not take the key in it.
func TestB019APauseBeforeTheRecordLetsNoWaiterRun(t *testing.T) {
	onHooked(t, func(t *testing.T, h *hooked, url string, effects *atomic.Int64) {
		working := make(chan struct{})
		var once sync.Once
		h.beforeComplete = func() {
			once.Do(func() { close(working) })
			time.Sleep(500 * time.Millisecond)
		}
		first := make(chan answer, 1)
		go func() { first <- mustTry(t, url, request{key: "k"}) }()
		<-working
		var sends []func() answer
		for range 10 {
			sends = append(sends, func() answer { return mustTry(t, url, request{key: "k", prefer: "wait=10"}) })
		}
		answers := parallel(sends...)
		run := (<-first).want(t, http.StatusCreated, "executed")
		for _, a := range answers {
			a.wantReplayOf(t, run)
		}
		if n := effects.Load(); n != 1 {
			t.Errorf("effects=%d, want 1", n)
		}
	})
}

// A duplicate's claim is on its way while the first completes.
func TestB026ALateDuplicateMeetsTheCompletedRecord(t *testing.T) {
	onHooked(t, func(t *testing.T, h *hooked, url string, effects *atomic.Int64) {
		var claims atomic.Int64
		completed, late := make(chan struct{}), make(chan struct{})
		h.beforeClaim = func() {
			if claims.Add(1) == 1 {
				close(late)
				<-completed
			}
		}
		duplicate := make(chan answer, 1)
		go func() { duplicate <- mustTry(t, url, request{key: "k"}) }()
		<-late
		first := mustTry(t, url, request{key: "k"}).want(t, http.StatusCreated, "executed")
		close(completed)
		(<-duplicate).wantReplayOf(t, first)
		mustTry(t, url, request{key: "k"}).wantReplayOf(t, first)
		if n := effects.Load(); n != 1 {
			t.Errorf("effects=%d, want 1", n)
		}
	})
}

// A request that arrives with its own deadline already past: the claim has a
// lease like any other and ends like any other.
func TestB032NoTimeLeftIsAValue(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		for _, left := range []time.Duration{0, -time.Hour} {
			t.Run(left.String(), func(t *testing.T) {
				url, effects := guarded(t, b, openStore(t, b), onceward.Config{}, func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						ctx, cancel := context.WithDeadline(r.Context(), time.Now().Add(left))
						defer cancel()
						next.ServeHTTP(w, r.WithContext(ctx))
					})
				})
				first := mustTry(t, url, request{key: "k"}).want(t, http.StatusCreated, "executed")
				mustTry(t, url, request{key: "k"}).wantReplayOf(t, first)
				if n := effects.Load(); n != 1 {
					t.Errorf("effects=%d, want 1", n)
				}
			})
		}
	})
}

// A store asked with a lease of nothing keeps a lease's end, and it is over.
func TestB032AClaimWithoutALeaseCanBeTakenOver(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		store := openStore(t, b)
		for i, lease := range []time.Duration{0, -time.Hour} {
			t.Run(lease.String(), func(t *testing.T) {
				c := onceward.Claim{Key: onceward.NewKey("s", fmt.Sprint("key-", i)), Token: onceward.Token{1}, Lease: lease, Keep: 2 * time.Hour}
				if _, claimed, err := store.Claim(t.Context(), c); !claimed || err != nil {
					t.Fatalf("first claim: %v, %v", claimed, err)
				}
				c.Token, c.TakeOver, c.Lease = onceward.Token{2}, true, time.Minute
				rec, claimed, err := store.Claim(t.Context(), c)
				if !claimed || err != nil || rec.Attempt != 2 {
					t.Errorf("take-over: %+v, %v, %v", rec, claimed, err)
				}
			})
		}
	})
}

// The client is cut off at the very moment between the work and its record.
func TestB034AHangUpBetweenWorkAndRecordLosesNothing(t *testing.T) {
	onHooked(t, func(t *testing.T, h *hooked, url string, effects *atomic.Int64) {
		ctx, hangUp := context.WithCancel(t.Context())
		recorded := make(chan struct{})
		h.beforeComplete = func() {
			hangUp()
			time.Sleep(200 * time.Millisecond) // the server notices
			close(recorded)
			h.beforeComplete = nil
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/create-order", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "k")
		if resp, err := fresh.Do(req); err == nil {
			resp.Body.Close()
			t.Error("the client was to hang up")
		}
		<-recorded
		var a answer
		eventually(t, "the stored answer", func() bool {
			a = doNil(t, url, "k")
			return a.status != http.StatusConflict
		})
		a.want(t, http.StatusCreated, "replayed")
		if n := effects.Load(); n != 1 {
			t.Errorf("effects=%d, want 1", n)
		}
	})
}

// doNil sends a POST without a body.
func doNil(t *testing.T, url, key string) answer {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url+"/create-order", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := fresh.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return answer{status: resp.StatusCode, header: resp.Header}
}

// The claim was written under a clock that is an hour ahead, or behind.
func TestB040RetryAfterIsClampedWhateverTheClocksSay(t *testing.T) {
	onHooked(t, func(t *testing.T, h *hooked, url string, effects *atomic.Int64) {
		held := make(chan struct{})
		entered := make(chan struct{})
		h.beforeComplete = func() {
			close(entered)
			<-held
		}
		first := make(chan answer, 1)
		go func() { first <- mustTry(t, url, request{key: "k"}) }()
		<-entered
		var left atomic.Int64
		h.report = func(rec onceward.Record) onceward.Record {
			rec.LeaseLeft = time.Duration(left.Load())
			return rec
		}
		for _, d := range []time.Duration{time.Hour, 30 * time.Second, time.Second, time.Millisecond, 0, -time.Hour} {
			left.Store(int64(d))
			mustTry(t, url, request{key: "k"}).wantBusy(t)
		}
		close(held)
		(<-first).want(t, http.StatusCreated, "executed")
		if n := effects.Load(); n != 1 {
			t.Errorf("effects=%d, want 1", n)
		}
	})
}

// Requirement 63's "per route": two guards over one store, each with its own
// retention.
func TestRequirement63EachRouteMayHaveItsOwnRetention(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Config{})
	short, shortEffects := guarded(t, backend{}, store, onceward.Config{Retention: 300 * time.Millisecond}, nil)
	long, longEffects := guarded(t, backend{}, store, onceward.Config{}, nil)
	mustTry(t, short, request{key: "a"}).want(t, http.StatusCreated, "executed")
	mustTry(t, long, request{key: "b"}).want(t, http.StatusCreated, "executed")
	time.Sleep(600 * time.Millisecond)
	mustTry(t, short, request{key: "a"}).want(t, http.StatusCreated, "executed")
	mustTry(t, long, request{key: "b"}).want(t, http.StatusCreated, "replayed")
	if a, b := shortEffects.Load(), longEffects.Load(); a != 2 || b != 1 {
		t.Errorf("effects=%d and %d, want 2 and 1", a, b)
	}
}
