package stores_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
)

// eachCut calls f with the connection lost at its first message, then at its
// second, and so on until none is left, and says how often it was lost.
func eachCut(t *testing.T, c *cutter, f func(name string)) {
	t.Helper()
	for _, answer := range []bool{false, true} {
		cuts := 0
		for n := 0; ; n++ {
			if n == 30 {
				t.Fatal("there is no end of messages")
			}
			c.arm(n, answer)
			f(fmt.Sprintf("message %d, answer lost %v", n, answer))
			if !c.disarm() {
				break
			}
			cuts++
		}
		if cuts < 2 {
			t.Errorf("answer lost %v: %d messages were cut", answer, cuts)
		}
	}
}

// The connection is lost at each message of one Transact in turn, before the
// message arrives and after it was executed, the COMMIT among them: each time one
// order is made and its answer is had, at once and again.
func TestPostgresTransactSurvivesALostConnectionAtEachMessage(t *testing.T) {
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		for _, verdict := range []onceward.Verdict{onceward.Commit, onceward.Undo} {
			t.Run(fmt.Sprint(mode, " ", verdict), func(t *testing.T) {
				s := newPGShop(t)
				c, dsn := newCutter(t, s.dsn)
				// Without a reserve the search for the answer has the pool's one connection.
				params, cfg := []string{"default_query_exec_mode", mode}, pgxstore.Config{}
				if mode == "exec" {
					params, cfg.Reserve = append(params, "pool_max_conns", "1"), -1
				}
				store := openPgStore(t, openPgPool(t, dsn, params...), cfg)
				eachCut(t, c, func(key string) {
					rec := s.do(store, key, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
						if err := pgInsertOrder(ctx, key); err != nil {
							return onceward.Abort, nil, err
						}
						return verdict, &onceward.Response{Status: 201, Body: []byte(key)}, nil
					})
					c.armed.Store(-1)
					want := 0
					if verdict == onceward.Commit {
						want = 1
					}
					if n := s.orders(key); n != want || rec.Response == nil || string(rec.Response.Body) != key {
						t.Errorf("%s: %d orders, want %d; the answer is %+v", key, n, want, rec)
					}
					s.mustReplay(key, 201)
				})
			})
		}
	}
}

// If nobody can tell whether the COMMIT has happened, that is what is said, and
// the repeat finds out.
func TestPostgresTransactSaysThatNobodyKnows(t *testing.T) {
	s := newPGShop(t)
	c, dsn := newCutter(t, s.dsn)
	store := openPgStore(t, openPgPool(t, dsn), pgxstore.Config{Reserve: -1})
	s.do(store, "warm", order("warm"))
	_, ran, err := store.Transact(t.Context(), pgClaim("k"), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		v, resp, err := order("k")(ctx)
		c.arm(0, true)
		c.deaf.Store(true)
		return v, resp, err
	})
	if ran || !errors.Is(err, onceward.ErrInProgress) {
		t.Errorf("ran %v, error %v; want ErrInProgress", ran, err)
	}
	if !c.disarm() {
		t.Fatal("the COMMIT was not cut")
	}
	s.do(store, "k", order("k"))
	if n := s.orders("k"); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}

// Claim, Extend, Complete and Release are repeated under their token when the
// connection is lost: the caller does not notice.
func TestPostgresSurvivesALostConnectionAtEachMessage(t *testing.T) {
	for _, isolation := range []string{"read committed", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			s := newPGShop(t)
			cut, dsn := newCutter(t, s.dsn)
			store := openPgStore(t, openPgPool(t, dsn, "default_transaction_isolation", isolation), pgxstore.Config{})
			ctx := t.Context()
			eachCut(t, cut, func(key string) {
				old, c, gone := pgClaim(key), pgClaim(key), pgClaim(key+" released")
				old.Lease, c.TakeOver = 0, true
				if _, claimed, err := store.Claim(ctx, old); err != nil || !claimed {
					t.Fatalf("%s: Claim: %v, %v", key, claimed, err)
				}
				if rec, claimed, err := store.Claim(ctx, c); err != nil || !claimed || rec.Attempt != 2 {
					t.Fatalf("%s: take-over: %v, %v, %+v", key, claimed, err, rec)
				}
				if err := store.Extend(ctx, c.Key, c.Token, time.Hour, false); err != nil {
					t.Fatalf("%s: Extend: %v", key, err)
				}
				if err := store.Complete(ctx, c.Key, c.Token, testAnswer(key), time.Hour); err != nil {
					t.Fatalf("%s: Complete: %v", key, err)
				}
				if _, claimed, err := store.Claim(ctx, gone); err != nil || !claimed {
					t.Fatalf("%s: Claim: %v, %v", key, claimed, err)
				}
				if err := store.Release(ctx, gone.Key, gone.Token); err != nil {
					t.Fatalf("%s: Release: %v", key, err)
				}
				cut.armed.Store(-1)
				if rec, found, err := store.Look(ctx, c.Key); err != nil || !found || string(rec.Response.Body) != key {
					t.Errorf("%s: Look: %v, %v, %+v", key, found, err, rec)
				}
				if _, found, err := store.Look(ctx, gone.Key); err != nil || found {
					t.Errorf("%s: a released key: %v, %v", key, found, err)
				}
			})
		})
	}
}

// The server ends all connections again and again while requests run: every call
// is answered, and every key has one order.
func TestPostgresSurvivesTerminatedBackends(t *testing.T) {
	s := newPGShop(t)
	pool := openPgPool(t, s.dsn, "application_name", "victim", "pool_max_conns", "8")
	store := openPgStore(t, pool, pgxstore.Config{})
	stop := make(chan struct{})
	var killers sync.WaitGroup
	var killed, calls atomic.Int64 // killed: how often something was ended
	killers.Go(func() {
		// Not more often than a few calls end: on a slow machine each would meet it
		// again and again, until its tries are used up.
		for next := int64(0); ; {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			n := calls.Load()
			if n < next {
				continue
			}
			next = n + 8
			if s.count("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'victim'") > 0 {
				killed.Add(1)
			}
		}
	})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 40 {
				key := fmt.Sprintf("atomic-%d-%d", g, i)
				s.do(store, key, order(key))
				calls.Add(1)
				c := pgClaim(fmt.Sprintf("apart-%d-%d", g, i))
				if _, claimed, err := store.Claim(t.Context(), c); err != nil || !claimed {
					t.Errorf("Claim: %v, %v", claimed, err)
				} else if err := store.Complete(t.Context(), c.Key, c.Token, testAnswer("x"), time.Hour); err != nil {
					t.Errorf("Complete: %v", err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	killers.Wait()
	if n := killed.Load(); n < 5 {
		t.Errorf("connections were terminated %d times only", n)
	}
	if n, keys := s.count("SELECT count(*) FROM orders"), s.count("SELECT count(DISTINCT key) FROM orders"); n != 160 || keys != 160 {
		t.Errorf("%d orders for %d keys, want 160", n, keys)
	}
}

// kill -9 of a server process, after which PostgreSQL ends all others and recovers
// from its log: nothing that was confirmed is lost, nothing is done twice, and what
// was under way is repeated under its token until it is answered.
func TestPostgresLosesNothingConfirmedWhenItIsKilled(t *testing.T) {
	s := &pgShop{TB: t, dsn: servers.DurablePostgres(t)}
	s.pool = openPgPool(t, s.dsn)
	s.exec("CREATE TABLE orders (id serial, key text NOT NULL)")
	s.store = openPgStore(t, s.pool, pgxstore.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var confirmed sync.Map
	var answered atomic.Int64
	stop := make(chan struct{})
	until := func(f func() error) error {
		for {
			err := f()
			if err == nil || errors.Is(err, onceward.ErrClaimLost) || ctx.Err() != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("atomic-%d-%d", g, i)
				c := pgClaim(key)
				err := until(func() error {
					rec, _, err := s.store.Transact(ctx, c, order(key))
					if err == nil && rec.State != onceward.Completed {
						err = onceward.ErrInProgress
					}
					return err
				})
				if err != nil {
					t.Errorf("%s: %v", key, err)
				}
				confirmed.Store(key, 1)
				key = fmt.Sprintf("apart-%d-%d", g, i)
				c = pgClaim(key)
				err = until(func() error {
					_, claimed, err := s.store.Claim(ctx, c)
					if err == nil && !claimed {
						t.Errorf("%s: not claimed", key)
					}
					return err
				})
				if err == nil {
					err = until(func() error {
						return s.store.Complete(ctx, c.Key, c.Token, testAnswer(key), time.Hour)
					})
				}
				if err != nil {
					t.Errorf("%s: %v", key, err)
				}
				confirmed.Store(key, 0)
				answered.Add(1)
			}
		})
	}
	for range 3 {
		for before := answered.Load(); answered.Load() < before+20 && ctx.Err() == nil; {
			time.Sleep(5 * time.Millisecond)
		}
		var pid int
		err := until(func() error {
			return s.pool.QueryRow(ctx, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() LIMIT 1").Scan(&pid)
		})
		if err != nil {
			t.Fatal(err)
		}
		killServerProcess(t, pid)
	}
	for before := answered.Load(); answered.Load() < before+20 && ctx.Err() == nil; {
		time.Sleep(5 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	confirmed.Range(func(key, orders any) bool {
		k := key.(string)
		rec, found, err := s.store.Look(ctx, onceward.NewKey("user", k))
		if err != nil || !found || rec.State != onceward.Completed || !strings.Contains(string(rec.Response.Body), k) {
			t.Errorf("%s was confirmed and is: found %v, error %v, %+v", k, found, err, rec)
		}
		if n := s.orders(k); n != orders {
			t.Errorf("%s: %d orders", k, n)
		}
		return true
	})
}
