package orders_test

import (
	"context"
	"database/sql"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/onceward/onceward/internal/integration/orders"
	"github.com/onceward/onceward/internal/integration/servers"
)

// backend is one store that the program can be started on, and the guard's mode.
type backend struct {
	name string
	// flags names a fresh store; the same flags again mean the same store.
	flags func(t *testing.T) []string
	// durable: the keys survive the process, and a second process may share them.
	durable bool
	// apart: each process keeps the orders in a file of its own.
	apart bool
	// atomic: claim, order and answer are one transaction.
	atomic bool
	// serial: handlers run one after another, and so a duplicate, too, waits until
	// the one before it has ended.
	serial bool
}

// A handler that many tests hold up for longer than a transaction may take
// wants more than the default.
var patient = []string{"-atomic", "-max-transaction", "30s"}

var backends = []backend{
	{name: "memory", apart: true, flags: func(t *testing.T) []string {
		return []string{"-store", "memory:", "-orders", filepath.Join(t.TempDir(), "orders.jsonl")}
	}},
	{name: "sqlite", durable: true, flags: sqliteFlags},
	{name: "postgres", durable: true, flags: postgresFlags},
	{name: "redis", durable: true, apart: true, flags: func(t *testing.T) []string {
		return []string{"-store", servers.Redis(t), "-orders", filepath.Join(t.TempDir(), "orders.jsonl")}
	}},
	{name: "sqlite-atomic", durable: true, atomic: true, serial: true, flags: func(t *testing.T) []string {
		return slices.Concat(patient, sqliteFlags(t))
	}},
	{name: "postgres-atomic", durable: true, atomic: true, flags: func(t *testing.T) []string {
		return slices.Concat(patient, postgresFlags(t))
	}},
}

func sqliteFlags(t *testing.T) []string {
	return []string{"-store", "sqlite:" + filepath.Join(t.TempDir(), "orders.db")}
}

// All tests share one server, so each program has few of its connections.
func postgresFlags(t *testing.T) []string {
	return []string{"-store", servers.Postgres(t) + "&pool_max_conns=4"}
}

// onEachStore runs a test on a fresh store of every kind that
// [orders.RunsOn] gives it.
func onEachStore(t *testing.T, test func(t *testing.T, b backend)) {
	t.Helper()
	t.Parallel()
	name, _, _ := strings.Cut(t.Name(), "/")
	for _, b := range backends {
		if slices.Contains(orders.RunsOn(name), b.name) && asked(name, b.name) {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				test(t, b)
			})
		}
	}
}

// onServer is onEachStore with a program that runs on it.
func onServer(t *testing.T, test func(t *testing.T, s *server), flags ...string) {
	t.Helper()
	onEachStore(t, func(t *testing.T, b backend) { test(t, start(t, b, flags...)) })
}

func TestTheBackendsAreThoseOfTheTable(t *testing.T) {
	var names []string
	for _, b := range backends {
		names = append(names, b.name)
	}
	if !slices.Equal(names, orders.Backends) {
		t.Errorf("the tests know %v, the table has %v", names, orders.Backends)
	}
}

// startTwo starts two processes with the same keys; where these cannot be
// shared, one, twice.
func startTwo(t *testing.T, b backend, flags ...string) [2]*server {
	t.Helper()
	store := b.flags(t)
	one := startOn(t, b, store, flags...)
	if !b.durable {
		return [2]*server{one, one}
	}
	return [2]*server{one, startOn(t, b, b.beside(t, store), flags...)}
}

// beside is how another process is started on the keys that store names.
func (b backend) beside(t *testing.T, store []string) []string {
	t.Helper()
	if b.apart {
		return slices.Concat(store, []string{"-orders", filepath.Join(t.TempDir(), "orders.jsonl")})
	}
	return store
}

// wantEffectsOfTwo checks how many orders two processes have together.
func wantEffectsOfTwo(two [2]*server, n int) {
	two[0].t.Helper()
	if two[0].b.apart && two[0] != two[1] {
		if got := len(two[0].orders()) + len(two[1].orders()); got != n {
			two[0].t.Errorf("effects=%d, want %d", got, n)
		}
		return
	}
	two[0].wantEffects(n)
	two[1].wantEffects(n)
}

// is names the program's outcome: that of the guard's Handler, or that of Atomic.
func is[T any](b backend, handler, atomic T) T {
	if b.atomic {
		return atomic
	}
	return handler
}

// sample is how much of a thing to do whose work is the guard's and the same on
// every store: all of it on two, a part on the others.
func (b backend) sample(all, part int) int {
	if b.name == "memory" || b.name == "sqlite" {
		return all
	}
	return part
}

// duplicate sends what runs already. It is told to come back or, where handlers
// run one after another, gets the answer when there is one.
func (s *server) duplicate(r request) {
	s.t.Helper()
	a := s.send(r)
	if s.b.serial {
		a.want(s.t, http.StatusCreated, "replayed")
	} else {
		a.wantBusy(s.t)
	}
}

// storeURL is what the program was given with -store.
func (s *server) storeURL() string {
	return s.args[slices.Index(s.args, "-store")+1]
}

// database opens the server's own SQLite file beside it.
func (s *server) database() *sql.DB {
	s.t.Helper()
	file, ok := strings.CutPrefix(s.storeURL(), "sqlite:")
	if !ok {
		s.t.Fatalf("%s has no file", s.b.name)
	}
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// postgres connects to the server's own database beside it.
func (s *server) postgres() *pgx.Conn {
	s.t.Helper()
	u, err := url.Parse(s.storeURL())
	if err != nil {
		s.t.Fatal(err)
	}
	u.RawQuery = "sslmode=disable"
	conn, err := pgx.Connect(s.t.Context(), u.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// kept returns a function that counts the records in the server's store; nil if
// nobody but the server can see them.
func (s *server) kept() func() int {
	s.t.Helper()
	const count = `SELECT count(*) FROM idempotency_keys`
	var conn *pgx.Conn
	switch scheme, _, _ := strings.Cut(s.storeURL(), ":"); scheme {
	case "sqlite":
		db := s.database()
		return func() int { return ask[int](s.t, db, count) }
	case "postgres":
		conn = s.postgres()
		return func() (n int) {
			if err := conn.QueryRow(s.t.Context(), count).Scan(&n); err != nil {
				s.t.Error(err)
			}
			return n
		}
	case "redis":
		options, err := goredis.ParseURL(s.storeURL())
		if err != nil {
			s.t.Fatal(err)
		}
		client := goredis.NewClient(options)
		s.t.Cleanup(func() { _ = client.Close() })
		return func() int {
			n, err := client.DBSize(s.t.Context()).Result()
			if err != nil {
				s.t.Error(err)
			}
			return int(n)
		}
	}
	return nil
}

// ask asks for one value.
func ask[T any](t *testing.T, db *sql.DB, query string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// gate stands between the program and the server of its store, and can shut.
type gate struct {
	t        *testing.T
	listener net.Listener
	server   string

	mu    sync.Mutex
	shut  bool       // guarded by mu
	conns []net.Conn // guarded by mu; of both sides
	wg    sync.WaitGroup
}

// behindGate leads the flags of a store through a gate.
func behindGate(t *testing.T, store []string) (*gate, []string) {
	t.Helper()
	store = slices.Clone(store)
	i := slices.Index(store, "-store") + 1
	u, err := url.Parse(store[i])
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, server: u.Host}
	if g.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	u.Host = g.listener.Addr().String()
	store[i] = u.String()
	g.wg.Go(g.accept)
	t.Cleanup(func() {
		_ = g.listener.Close()
		g.close()
		g.wg.Wait()
	})
	return g, store
}

func (g *gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", g.server, 10*time.Second)
		g.mu.Lock()
		if err != nil || g.shut {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
		} else {
			g.conns = append(g.conns, client, server)
			for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
				g.wg.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
					_ = pair[1].Close()
				})
			}
		}
		g.mu.Unlock()
	}
}

// close cuts every connection and lets nobody in.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns = nil
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}
