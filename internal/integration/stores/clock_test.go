package stores_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/redisstore"
)

// B095 for the stores that measure on their server's clock: what a process thinks of
// the time decides nothing. In a testing/synctest bubble package time says what the
// test wants, for the store, its client library and the guard alike, so a store inside
// one and a store outside are two processes whose clocks differ, on one server. The
// bubble's clock stands still while anything waits for the network; nothing here needs
// a timer to fire. (sqlitestore measures on the process's own clock: the package
// histories sets that one.)

// clocks are how far a process's clock is from the server's. Zero stands for the
// bubble's own beginning, the year 2000.
var clocks = map[string]time.Duration{"10 minutes ahead": 10 * time.Minute, "10 minutes behind": -10 * time.Minute, "in the year 2000": 0}

// outside does things outside any bubble, in real time.
type outside struct {
	calls chan func()
	done  chan struct{}
}

func newOutside(t *testing.T) *outside {
	o := &outside{make(chan func()), make(chan struct{})}
	go func() {
		for f := range o.calls {
			f()
			o.done <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(o.calls) })
	return o
}

func (o *outside) do(f func()) { o.calls <- f; <-o.done }

func (o *outside) sleep(d time.Duration) { o.do(func() { time.Sleep(d) }) }

// clocked is one of the two processes.
type clocked struct {
	name  string
	store onceward.Store
	guard *onceward.Guard
	do    func(func())
	runs  atomic.Int64
}

func (s *clocked) claim(t *testing.T, c onceward.Claim) (rec onceward.Record, claimed bool) {
	t.Helper()
	var err error
	s.do(func() {
		// Whoever judges by two clocks at once asks for ever.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		rec, claimed, err = s.store.Claim(ctx, c)
	})
	if err != nil {
		t.Fatalf("%s: Claim: %v", s.name, err)
	}
	return rec, claimed
}

func (s *clocked) complete(t *testing.T, c onceward.Claim, retain time.Duration) {
	t.Helper()
	var err error
	s.do(func() { err = s.store.Complete(context.Background(), c.Key, c.Token, testAnswer(s.name), retain) })
	if err != nil {
		t.Fatalf("%s: Complete: %v", s.name, err)
	}
}

// post sends a request to this side's guard.
func (s *clocked) post(handler http.Handler, key string) (w *httptest.ResponseRecorder) {
	s.do(func() {
		r := httptest.NewRequest("POST", "/orders", strings.NewReader(key))
		r = r.WithContext(context.Background())
		r.Header.Set("Idempotency-Key", strings.ReplaceAll(key, " ", "-"))
		w = httptest.NewRecorder()
		handler.ServeHTTP(w, r)
	})
	return w
}

func (s *clocked) handler(t testing.TB) http.Handler {
	return s.guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		w.WriteHeader(201)
		_, _ = w.Write([]byte(s.name))
	}))
}

// twoClocks runs f with a process whose clock is right and one whose clock is not.
// open opens a store where it is called; what it returns closes it.
func twoClocks(t *testing.T, open func() (onceward.Store, func(), error), f func(t *testing.T, out *outside, right, wrong *clocked)) {
	for name, ahead := range clocks {
		t.Run(name, func(t *testing.T) {
			out := newOutside(t)
			right := &clocked{name: "the right clock", do: out.do}
			begin := func(s *clocked) (end func()) {
				store, closeStore, err := open()
				if err == nil {
					s.store = store
					s.guard, err = onceward.New(store, onceward.Unscoped, onceward.Config{SweepEvery: -1})
				}
				if err != nil {
					t.Fatal(err)
				}
				return func() {
					if err := s.guard.Close(context.Background()); err != nil {
						t.Error(err)
					}
					closeStore()
				}
			}
			endRight := begin(right)
			defer endRight()
			now := time.Now().Round(0)
			synctest.Test(t, func(t *testing.T) {
				if ahead != 0 {
					time.Sleep(time.Until(now.Add(ahead)))
				}
				wrong := &clocked{name: "the wrong clock", do: func(f func()) { f() }}
				endWrong := begin(wrong)
				defer endWrong()
				var real time.Time
				out.do(func() { real = time.Now() })
				if off := time.Since(real); off > -9*time.Minute && off < 9*time.Minute {
					t.Fatalf("the wrong clock is off by %v only", off)
				}
				f(t, out, right, wrong)
			})
		})
	}
}

// eachWay runs f twice: what one begins the other judges.
func eachWay(right, wrong *clocked, f func(way string, a, b *clocked)) {
	f("right then wrong", right, wrong)
	f("wrong then right", wrong, right)
}

// storeClock is what every store must judge by its server's clock. Five minutes are
// over for nobody; thirty milliseconds are over for everybody.
func storeClock(t *testing.T, out *outside, right, wrong *clocked) {
	const soon, later = 30 * time.Millisecond, 5 * time.Minute
	about := func(what string, got, want time.Duration) {
		t.Helper()
		if got > want || got < want-2*time.Minute {
			t.Errorf("%s is %v, want about %v", what, got, want)
		}
	}
	eachWay(right, wrong, func(way string, a, b *clocked) {
		bid := func(key string, n byte, lease, keep time.Duration) onceward.Claim {
			c := redisClaim("clock", way+key, n)
			c.Lease, c.Keep, c.TakeOver = lease, keep, n > 1
			return c
		}
		// A lease that runs, and one that is over.
		c := bid("lease", 1, later, time.Hour)
		a.claim(t, c)
		rec, claimed := b.claim(t, bid("lease", 2, later, time.Hour))
		if claimed {
			t.Errorf("%s: a lease of %v was taken for over", way, later)
		}
		about(way+": the lease left", rec.LeaseLeft, later)
		about(way+": the negative age", -rec.Age, 0)
		a.do(func() {
			if err := a.store.Extend(context.Background(), c.Key, c.Token, soon, false); err != nil {
				t.Errorf("%s: Extend: %v", way, err)
			}
		})
		out.sleep(2 * soon)
		if rec, claimed := b.claim(t, bid("lease", 3, later, time.Hour)); !claimed || rec.Attempt != 2 {
			t.Errorf("%s: a lease that is over was not taken over: claimed %v, attempt %d, left %v", way, claimed, rec.Attempt, rec.LeaseLeft)
		}
		// A claim that is forgotten, and one that is not yet.
		a.claim(t, bid("kept", 1, soon, later))
		a.claim(t, bid("forgotten", 1, soon, soon))
		// An answer that is kept, and one whose retention is over.
		for key, retain := range map[string]time.Duration{"answer": later, "old answer": soon} {
			c := bid(key, 1, later, time.Hour)
			a.claim(t, c)
			a.complete(t, c, retain)
		}
		out.sleep(3 * soon)
		other := bid("kept", 2, later, time.Hour)
		other.Fingerprint.Version++
		if _, claimed := b.claim(t, other); claimed {
			t.Errorf("%s: an abandoned claim was forgotten %v too early", way, later)
		}
		other = bid("forgotten", 2, later, time.Hour)
		other.Fingerprint.Version++
		if _, claimed := b.claim(t, other); !claimed {
			t.Errorf("%s: an abandoned claim was not forgotten", way)
		}
		rec, _ = b.claim(t, bid("answer", 2, later, time.Hour))
		if rec.State != onceward.Completed {
			t.Fatalf("%s: an answer kept for %v is %v", way, later, rec.State)
		}
		about(way+": the negative age of an answer", -rec.Age, 0)
		if rec, claimed := b.claim(t, bid("old answer", 2, later, time.Hour)); !claimed || rec.Attempt != 1 {
			t.Errorf("%s: an answer was kept past its retention: claimed %v, attempt %d", way, claimed, rec.Attempt)
		}
		// Through the guard.
		first := a.post(a.handler(t), way+" guarded")
		second := b.post(b.handler(t), way+" guarded")
		if first.Code != 201 || second.Code != 201 || second.Body.String() != a.name || second.Header().Get("Idempotency-Replayed") != "1" {
			t.Errorf("%s: %d, then %d %v: %s", way, first.Code, second.Code, second.Header(), second.Body)
		}
	})
	if r, w := right.runs.Load(), wrong.runs.Load(); r != 1 || w != 1 {
		t.Errorf("the handlers ran %d and %d times, want once each", r, w)
	}
}

func TestB095PostgresJudgesByItsServersClock(t *testing.T) {
	dsn := servers.Postgres(t)
	admin := openPgPool(t, dsn)
	if _, err := admin.Exec(t.Context(), "CREATE TABLE orders (id serial, key text NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	open := func() (onceward.Store, func(), error) {
		pool, err := pgxpool.New(context.Background(), dsn)
		if err != nil {
			return nil, nil, err
		}
		store, err := pgxstore.New(context.Background(), pool, pgxstore.Config{})
		return store, func() {
			if err := store.Close(context.Background()); err != nil {
				t.Error(err)
			}
			pool.Close()
		}, err
	}
	twoClocks(t, open, func(t *testing.T, out *outside, right, wrong *clocked) {
		out.do(func() {
			if _, err := admin.Exec(context.Background(), "TRUNCATE idempotency_keys, orders"); err != nil {
				t.Error(err)
			}
		})
		storeClock(t, out, right, wrong)

		// The same in one transaction, and again when its retention is over.
		atomics := map[*clocked]http.Handler{}
		for _, s := range []*clocked{right, wrong} {
			short, err := s.guard.With(func(c *onceward.Config) { c.Retention = time.Second })
			if err != nil {
				t.Fatal(err)
			}
			atomics[s] = short.Atomic(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := pgInsertOrder(r.Context(), r.Header.Get("Idempotency-Key")); err != nil {
					http.Error(w, err.Error(), 500)
					return
				}
				w.WriteHeader(201)
			}))
		}
		eachWay(right, wrong, func(way string, a, b *clocked) {
			if w := a.post(atomics[a], way); w.Code != 201 {
				t.Errorf("%s: %d %s", way, w.Code, w.Body)
			}
			out.sleep(1100 * time.Millisecond)
			if w := b.post(atomics[b], way); w.Code != 201 || w.Header().Get("Idempotency-Replayed") != "" {
				t.Errorf("%s: an answer was kept past its retention: %d %v", way, w.Code, w.Header())
			}
			c, d := pgClaim(way+" transact"), pgClaim(way+" transact")
			c.Keep = 5 * time.Minute
			for i, s := range []*clocked{a, b} {
				s.do(func() {
					rec, ran, err := s.store.(onceward.Transactor).Transact(context.Background(), []onceward.Claim{c, d}[i], func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
						return onceward.Commit, testAnswer(s.name), pgInsertOrder(ctx, way+" transact")
					})
					if err != nil || ran != (i == 0) || string(rec.Response.Body) != a.name || rec.Age < 0 || rec.Age > time.Minute {
						t.Errorf("%s: Transact by %s: ran %v, %v, %+v", way, s.name, ran, err, rec)
					}
				})
			}
		})
		// What is swept is what is over by the server's clock, whoever sweeps.
		eachWay(right, wrong, func(way string, a, b *clocked) {
			for key, retain := range map[string]time.Duration{"swept": 30 * time.Millisecond, "kept": 5 * time.Minute} {
				c := redisClaim("clock", way+key, 1)
				a.claim(t, c)
				a.complete(t, c, retain)
			}
			out.sleep(60 * time.Millisecond)
			var before, over, after int
			count := func(n *int, where string) {
				out.do(func() {
					if err := admin.QueryRow(context.Background(), "SELECT count(*) FROM idempotency_keys"+where).Scan(n); err != nil {
						t.Error(err)
					}
				})
			}
			count(&before, "")
			count(&over, " WHERE expires_at <= clock_timestamp()")
			b.do(func() {
				if _, err := b.store.(onceward.Sweeper).Sweep(context.Background(), 1000); err != nil {
					t.Error(err)
				}
			})
			count(&after, "")
			if over == 0 || before-after < over {
				t.Errorf("%s: %d of %d records were over, %d are left", way, over, before, after)
			}
			if rec, claimed := b.claim(t, redisClaim("clock", way+"kept", 2)); claimed || rec.State != onceward.Completed {
				t.Errorf("%s: the sweep deleted what was not over", way)
			}
		})
		// And what is written for people is the server's time too.
		var wrongly, orders int
		out.do(func() {
			err := admin.QueryRow(context.Background(), `SELECT count(*) FROM idempotency_keys WHERE abs(extract(epoch FROM created_at - clock_timestamp())) > 300
				OR completed_at NOT BETWEEN created_at AND clock_timestamp()`).Scan(&wrongly)
			if err == nil {
				err = admin.QueryRow(context.Background(), "SELECT count(*) FROM orders").Scan(&orders)
			}
			if err != nil {
				t.Error(err)
			}
		})
		if wrongly != 0 || orders != 2*3 {
			t.Errorf("%d records bear a time that is not the server's; %d orders, want 6", wrongly, orders)
		}
	})
}

func TestB095RedisJudgesByItsServersClock(t *testing.T) {
	url := servers.Redis(t)
	open := func() (onceward.Store, func(), error) {
		opts, err := redis.ParseURL(url)
		if err != nil {
			return nil, nil, err
		}
		opts.ContextTimeoutEnabled = true
		client := redis.NewClient(opts)
		store, err := redisstore.New(context.Background(), client, redisstore.Config{})
		return store, func() { client.Close() }, err
	}
	admin := redisClient(t, url)
	twoClocks(t, open, func(t *testing.T, out *outside, right, wrong *clocked) {
		out.do(func() {
			if err := admin.FlushDB(context.Background()).Err(); err != nil {
				t.Error(err)
			}
		})
		storeClock(t, out, right, wrong)
	})
}
