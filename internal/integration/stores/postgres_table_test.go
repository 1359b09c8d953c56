package stores_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
)

// What becomes of the table: migrations, sweeps, bloat, and what the admin tools read.

func TestPostgresIsMigratedByManyAtOnce(t *testing.T) {
	for _, isolation := range []string{"read committed", "serializable"} {
		dsn := servers.Postgres(t)
		var wg sync.WaitGroup
		for range 8 {
			pool := openPgPool(t, dsn, "default_transaction_isolation", isolation)
			wg.Go(func() {
				store, err := pgxstore.New(t.Context(), pool, pgxstore.Config{})
				if err != nil {
					t.Error(err)
					return
				}
				store.Close(t.Context())
			})
		}
		wg.Wait()
	}
}

func TestPostgresRefusesANewerSchema(t *testing.T) {
	pool := openPgPool(t, servers.Postgres(t))
	openPgStore(t, pool, pgxstore.Config{})
	if _, err := pool.Exec(t.Context(), "UPDATE idempotency_schema SET version = version + 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := pgxstore.New(t.Context(), pool, pgxstore.Config{}); !errors.Is(err, pgxstore.ErrNewerSchema) {
		t.Errorf("New: %v, want ErrNewerSchema", err)
	}
}

// What Schema prints is what New would make, and a program that may create nothing
// can live on it.
func TestPostgresSchemaIsEnoughForAProgramWithoutRights(t *testing.T) {
	dsn := servers.Postgres(t)
	admin := openPgPool(t, dsn)
	role := fmt.Sprintf("plain_%d", time.Now().UnixNano())
	conn, err := admin.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Conn().PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE ROLE " + role + " LOGIN")
	t.Cleanup(func() {
		conn, err := admin.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		if _, err := conn.Conn().PgConn().Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role).ReadAll(); err != nil {
			t.Error(err)
		}
	})
	pool := openPgPool(t, strings.Replace(dsn, "onceward@", role+"@", 1))
	run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	if _, err := pgxstore.New(t.Context(), pool, pgxstore.Config{}); err == nil {
		t.Fatal("a role without rights has made the table")
	}
	run(pgxstore.Schema())
	run("GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys TO " + role + "; GRANT SELECT ON idempotency_schema TO " + role)
	store := openPgStore(t, pool, pgxstore.Config{})
	c := pgClaim("k")
	if _, claimed, err := store.Claim(t.Context(), c); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	if err := store.Complete(t.Context(), c.Key, c.Token, testAnswer("x"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if n, err := store.Sweep(t.Context(), 10); err != nil || n != 0 {
		t.Errorf("Sweep: %d, %v", n, err)
	}
}

func TestPostgresRefusesADatabaseThatCannotKeepEveryPath(t *testing.T) {
	dsn := servers.Postgres(t)
	pool := openPgPool(t, dsn)
	name := fmt.Sprintf("latin_%d", time.Now().UnixNano())
	if _, err := pool.Exec(t.Context(), "CREATE DATABASE "+name+" ENCODING 'LATIN1' TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	before, after, _ := strings.Cut(dsn, "/test_")
	_, params, _ := strings.Cut(after, "?")
	latin := openPgPool(t, before+"/"+name+"?"+params)
	if _, err := pgxstore.New(t.Context(), latin, pgxstore.Config{}); err == nil || !strings.Contains(err.Error(), "LATIN1") {
		t.Errorf("New on LATIN1: %v", err)
	}
}

// A path may hold what no text column takes.
func TestPostgresKeepsOddPaths(t *testing.T) {
	for _, mode := range []string{"cache_statement", "simple_protocol"} {
		store := openPgStore(t, openPgPool(t, servers.Postgres(t), "default_query_exec_mode", mode), pgxstore.Config{})
		for _, path := range []string{"/a\x00b", "/\xff\xfe", `/'; DROP TABLE idempotency_keys; --`, "/заказ\\", "/$1"} {
			c := pgClaim(path)
			c.Path = path
			if _, claimed, err := store.Claim(t.Context(), c); err != nil || !claimed {
				t.Errorf("%q: %v, %v", path, claimed, err)
			}
			rec, _, err := store.Look(t.Context(), c.Key)
			want := strings.ToValidUTF8(strings.ReplaceAll(path, "\x00", "\uFFFD"), "\uFFFD")
			if err != nil || rec.Path != want {
				t.Errorf("%q is kept as %q, %v", path, rec.Path, err)
			}
			c.Key = onceward.NewKey("user", "atomic "+path)
			if rec, _, err := store.Transact(t.Context(), c, func(context.Context) (onceward.Verdict, *onceward.Response, error) {
				return onceward.Commit, testAnswer("x"), nil
			}); err != nil || rec.Path != want {
				t.Errorf("Transact %q: %q, %v", path, rec.Path, err)
			}
		}
	}
}

// A sweep passes over what another transaction has locked, and a claim never waits
// for a sweep that waits.
func TestPostgresSweepWaitsForNobody(t *testing.T) {
	s := newPGShop(t)
	for i := range 250 { // more than one step
		c := pgClaim(fmt.Sprint("old-", i))
		if _, _, err := s.store.Claim(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := s.store.Complete(t.Context(), c.Key, c.Token, testAnswer("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	locked := onceward.NewKey("user", "old-7")
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM idempotency_keys WHERE key = $1 FOR UPDATE", locked.ID[:]); err != nil {
		t.Fatal(err)
	}
	if n, err := s.store.Sweep(t.Context(), 10000); err != nil || n != 249 {
		t.Errorf("Sweep beside a lock: %d, %v; want 249", n, err)
	}
	tx.Rollback(t.Context())
	if n, err := s.store.Sweep(t.Context(), 10000); err != nil || n != 1 {
		t.Errorf("Sweep after it: %d, %v; want 1", n, err)
	}
	// It reads the index of what may be over, not the table.
	s.exec("SET enable_seqscan = on")
	s.exec(`INSERT INTO idempotency_keys (scope, key, fingerprint, method, path, token, attempt, held, created_at, lease_until, keep, expires_at, sweep_at)
		SELECT '\x00', int8send(i), '\x00', '', '', '\x00', 1, false, now(), now(), 0, now() + interval '1 day', now() + interval '1 day' FROM generate_series(1, 20000) i`)
	s.exec("ANALYZE idempotency_keys")
	rows, err := s.pool.Query(t.Context(), `EXPLAIN SELECT ctid FROM idempotency_keys
		WHERE sweep_at <= (SELECT clock_timestamp()) AND expires_at <= (SELECT clock_timestamp()) ORDER BY sweep_at LIMIT 100 FOR UPDATE SKIP LOCKED`)
	if err != nil {
		t.Fatal(err)
	}
	plan := ""
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan += line + "\n"
	}
	if !strings.Contains(plan, "idempotency_keys_sweep") {
		t.Errorf("the sweep's plan:\n%s", plan)
	}
}

// B094: completing rewrites a row on its own page and leaves the indexes alone.
func TestPostgresCompletesInPlace(t *testing.T) {
	s := newPGShop(t)
	s.exec("ALTER TABLE idempotency_keys SET (autovacuum_enabled = off)")
	const keys = 2000
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range keys / 4 {
				c := pgClaim(fmt.Sprintf("%d-%d", g, i))
				c.Lease, c.Keep = 30*time.Second, 24*time.Hour
				if _, _, err := s.store.Claim(t.Context(), c); err != nil {
					t.Error(err)
				}
				if err := s.store.Extend(t.Context(), c.Key, c.Token, 30*time.Second, false); err != nil {
					t.Error(err)
				}
				if err := s.store.Complete(t.Context(), c.Key, c.Token, testAnswer(strings.Repeat("x", 300)), 24*time.Hour); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// The sessions report what they did when they are idle, or when they end.
	s.pool.Reset()
	var updates, hot int
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := s.pool.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'").Scan(&updates, &hot)
		if err != nil {
			t.Fatal(err)
		}
		if updates >= keys*2*9/10 || time.Now().After(deadline) {
			break
		}
	}
	if updates < keys*2*9/10 {
		t.Fatalf("the server reports %d updates of %d", updates, 2*keys)
	}
	// A minute that ends in between touches the index for some.
	if float64(hot) < 0.9*float64(updates) {
		t.Errorf("%d of %d updates were in place, want nearly all", hot, updates)
	}
}

// A replay locks no row and takes no transaction id.
func TestPostgresReplayWritesNothing(t *testing.T) {
	s := newPGShop(t)
	c := pgClaim("hot")
	if _, _, err := s.store.Claim(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Complete(t.Context(), c.Key, c.Token, testAnswer("x"), time.Hour); err != nil {
		t.Fatal(err)
	}
	next := func() (id int) {
		return s.count("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
	}
	used := 0
	for range 20 { // others on the same server take some now and then
		before := next()
		for range 20 {
			if rec, claimed, err := s.store.Claim(t.Context(), pgClaim("hot")); err != nil || claimed || rec.Response == nil {
				t.Fatal(claimed, err)
			}
			if rec, ran, err := s.store.Transact(t.Context(), pgClaim("hot"), nil); err != nil || ran || rec.Response == nil {
				t.Fatal(ran, err)
			}
		}
		if used = next() - before; used == 0 {
			break
		}
	}
	if used != 0 {
		t.Errorf("40 replays took %d transaction ids", used)
	}
	if n := s.count("SELECT xmax::text::bigint FROM idempotency_keys"); n != 0 {
		before := s.count("SELECT count(*) FROM idempotency_keys WHERE xmax::text::bigint >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
		if before != 0 {
			t.Errorf("the row is locked by %d", n)
		}
	}
}

func TestPostgresListsAndForgets(t *testing.T) {
	s := newPGShop(t)
	ctx := t.Context()
	claim := func(scope, key string, lease time.Duration) onceward.Claim {
		c := pgClaim(key)
		c.Key, c.Lease = onceward.NewKey(scope, key), lease
		if _, claimed, err := s.store.Claim(ctx, c); err != nil || !claimed {
			t.Fatal(claimed, err)
		}
		return c
	}
	live := claim("ann", "live", time.Hour)
	over := claim("ann", "over", 0)
	held := claim("ann", "held", time.Hour)
	if err := s.store.Extend(ctx, held.Key, held.Token, time.Hour, true); err != nil {
		t.Fatal(err)
	}
	done := claim("ben", "done", time.Hour)
	if err := s.store.Complete(ctx, done.Key, done.Token, &onceward.Response{Status: 201, Body: []byte("body")}, time.Hour); err != nil {
		t.Fatal(err)
	}
	gone := claim("ben", "gone", time.Hour)
	if err := s.store.Complete(ctx, gone.Key, gone.Token, testAnswer("x"), 0); err != nil {
		t.Fatal(err)
	}
	list := func(q onceward.Query) (keys []onceward.Key) {
		t.Helper()
		recs, err := s.store.List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range recs {
			keys = append(keys, r.Key)
			if r.State == onceward.Completed && (r.Response.Status != 201 || r.Response.Body != nil) {
				t.Errorf("the listed answer is %+v", r.Response)
			}
			if whole, found, err := s.store.Look(ctx, r.Key); err != nil || !found || whole.Token != r.Token || whole.Held != r.Held || whole.Fingerprint != r.Fingerprint {
				t.Errorf("Look: %v, %v, %+v; listed was %+v", found, err, whole, r)
			}
		}
		return keys
	}
	want := func(what string, q onceward.Query, claims ...onceward.Claim) {
		t.Helper()
		var keys []onceward.Key
		for _, c := range claims {
			keys = append(keys, c.Key)
		}
		slices.SortFunc(keys, onceward.Key.Compare)
		if got := list(q); !slices.Equal(got, keys) {
			t.Errorf("%s: %d records, want %d: %v", what, len(got), len(keys), got)
		}
	}
	ann := live.Key.Scope
	want("all", onceward.Query{}, live, over, held, done)
	want("a scope", onceward.Query{Scope: &ann}, live, over, held)
	want("a prefix", onceward.Query{Prefix: done.Key.ID[:3]}, done)
	want("completed", onceward.Query{State: onceward.Completed}, done)
	want("in progress", onceward.Query{State: onceward.InProgress}, live, over, held)
	want("stuck", onceward.Query{Stuck: true}, over, held)
	all := list(onceward.Query{})
	if got := list(onceward.Query{Limit: 2}); !slices.Equal(got, all[:2]) {
		t.Errorf("the first page is %v", got)
	}
	if got := list(onceward.Query{After: all[1]}); !slices.Equal(got, all[2:]) {
		t.Errorf("the second page is %v", got)
	}
	if _, found, err := s.store.Look(ctx, gone.Key); err != nil || found {
		t.Errorf("Look at what is over: %v, %v", found, err)
	}
	if err := s.store.Forget(ctx, ann); err != nil {
		t.Fatal(err)
	}
	want("after Forget", onceward.Query{}, done)
	if err := s.store.Extend(ctx, live.Key, live.Token, time.Hour, false); !errors.Is(err, onceward.ErrClaimLost) {
		t.Errorf("Extend of a forgotten claim: %v", err)
	}
}

// Close refuses, waits for what runs, and ends its own connections.
func TestPostgresCloses(t *testing.T) {
	s := newPGShop(t)
	store, err := pgxstore.New(t.Context(), s.pool, pgxstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	in, out, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, _, err := store.Transact(t.Context(), pgClaim("k"), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			close(in)
			<-out
			return order("k")(ctx)
		})
		ended <- err
	}()
	<-in
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := store.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close while work runs: %v", err)
	}
	if _, _, err := store.Claim(t.Context(), pgClaim("late")); !errors.Is(err, pgxstore.ErrClosed) {
		t.Errorf("Claim after Close: %v", err)
	}
	if _, _, err := store.Transact(t.Context(), pgClaim("late"), order("late")); !errors.Is(err, pgxstore.ErrClosed) {
		t.Errorf("Transact after Close: %v", err)
	}
	close(out)
	if err := <-ended; err != nil {
		t.Errorf("the work under way: %v", err)
	}
	for range 2 {
		if err := store.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if n := s.orders("k"); n != 1 {
		t.Errorf("%d orders", n)
	}
}

// A pool that has nothing to give costs no lease, and what has ended its context
// while waiting keeps no connection.
func TestPostgresKeepsLeasesUnderLoad(t *testing.T) {
	s := newPGShop(t, "pool_max_conns", "2")
	ctx := t.Context()
	var claims []onceward.Claim
	for i := range 20 {
		c := pgClaim(fmt.Sprint(i))
		if _, claimed, err := s.store.Claim(ctx, c); err != nil || !claimed {
			t.Fatal(claimed, err)
		}
		claims = append(claims, c)
	}
	one, err := s.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, c := range claims {
		wg.Go(func() {
			if err := s.store.Extend(ctx, c.Key, c.Token, time.Hour, false); err != nil {
				t.Errorf("Extend: %v", err)
			}
			var err error
			if i%2 == 0 {
				err = s.store.Complete(ctx, c.Key, c.Token, testAnswer("x"), time.Hour)
			} else {
				err = s.store.Release(ctx, c.Key, c.Token)
			}
			if err != nil {
				t.Errorf("Complete or Release: %v", err)
			}
		})
	}
	wg.Wait()
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, _, err := s.store.Claim(short, pgClaim("waits")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim on a used-up pool: %v", err)
	}
	one.Release()
	two.Release()
	s.mustBeIdle()
}
