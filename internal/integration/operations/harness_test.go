package operations

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	_ "modernc.org/sqlite"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/operation"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/riveroperation"
	"github.com/onceward/onceward/riveroperation/onpgx"
	"github.com/onceward/onceward/riveroperation/onsqlite"
	"github.com/onceward/onceward/sqlitestore"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(childAt); at != "" {
		os.Exit(child(at, os.Getenv(childDoes)))
	}
	// Most of these tests wait for River and not for a processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// What a work of these tests is told to do, as the job's input.
const (
	write  = "write" // one row into effects
	wait   = "wait"  // the same when the gate is open
	final  = "final" // fail for good, in words of its own
	wrong  = "wrong" // fail with words that are nobody's business
	panics = "panics"
	exits  = "exits" // end the goroutine
	early  = "early" // wait for the gate where it is in the transaction already
)

const secret = "password=hunter2"

// effects are what works do: rows that are counted.
const effectsTable = `CREATE TABLE IF NOT EXISTS effects (operation text NOT NULL, by text NOT NULL)`

// gate holds works back. Each that comes to it says so.
type gate struct {
	open    chan struct{}
	arrived chan string
}

func newGate() *gate { return &gate{open: make(chan struct{}), arrived: make(chan string, 100)} }

func (g *gate) pass(ctx context.Context, who string) error {
	g.arrived <- who
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// work is what all these tests have done, on any database.
func work[TTx any](g *gate, by string, exec func(ctx context.Context, tx TTx, query string, args ...any) error) riveroperation.Work[TTx] {
	return func(ctx context.Context, job operation.Job) (done riveroperation.Outcome[TTx], err error) {
		id := operation.Operation{Key: job.Key}.ID()
		do := string(job.Input)
		switch do {
		case wait:
			if err := g.pass(ctx, id); err != nil {
				return done, err
			}
		case final:
			return done, fmt.Errorf("stop: %w", &operation.Failure{Type: "urn:shop:no-paper", Title: "There is no paper", Detail: "Somebody buys some."})
		case wrong:
			return done, errors.New("cannot connect with " + secret)
		case panics:
			panic(secret)
		case exits:
			runtime.Goexit()
		}
		done.Result.Value = json.RawMessage(`{"did":"` + do + `"}`)
		done.Write = func(ctx context.Context, tx TTx) error {
			if err := exec(ctx, tx, `INSERT INTO effects (operation, by) VALUES ($1, $2)`, id, by); err != nil {
				return err
			}
			if do == early {
				return g.pass(ctx, id)
			}
			return nil
		}
		return done, nil
	}
}

// soon is how River is set in these tests, so that they end.
func soon(queues map[string]river.QueueConfig) river.Config {
	return river.Config{
		Queues: queues, FetchCooldown: 20 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
		MaxAttempts: 3, JobTimeout: time.Minute, RescueStuckJobsAfter: 2 * time.Minute,
		RetryPolicy: at(0),
	}
}

// at retries after so long.
type at time.Duration

func (d at) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(time.Duration(d)) }

var oneQueue = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}

// runner is what the tests use of both runners.
type runner interface {
	operation.Runner
	operation.Waiter
	onceward.Forgetter
	Start(context.Context) error
	Stop(context.Context) error
	Sweep(context.Context, int) (int, error)
}

// backend is one database with everything on it.
type backend struct {
	where  string // for a child: where the database is
	store  onceward.Store
	runner runner
	gate   *gate
	exec   func(query string, args ...any) error
	count  func(query string, args ...any) int
	cancel func(job int64) error
}

type change struct {
	river     func(*river.Config)
	retention time.Duration
	logger    *slog.Logger
}

func openSQLite(t testing.TB, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return db
}

// emptyFile has the tables and nothing in them, made once.
var emptyFile = sync.OnceValue(func() []byte {
	folder, err := os.MkdirTemp("", "operations-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "empty.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=synchronous(OFF)&_txlock=immediate")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1)
	err = riveroperation.Migrate(context.Background(), onsqlite.Pool(db, nil))
	if err = errors.Join(err, db.Close()); err != nil {
		panic(err)
	}
	made, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return made
})

func sqliteWork(g *gate, by string) riveroperation.Work[*sql.Tx] {
	return work(g, by, func(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, strings.ReplaceAll(query, "$", "?"), args...)
		return err
	})
}

func postgresWork(g *gate, by string) riveroperation.Work[pgx.Tx] {
	return work(g, by, func(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
}

func newRunner[TTx any](t *testing.T, db riveroperation.Database[TTx], w riveroperation.Work[TTx], c change) *riveroperation.Runner[TTx] {
	t.Helper()
	if err := riveroperation.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	cfg := riveroperation.Config[TTx]{Works: map[string]riveroperation.Work[TTx]{"work": w}, River: soon(oneQueue), Retention: c.retention, Logger: c.logger}
	if c.river != nil {
		c.river(&cfg.River)
	}
	r, err := riveroperation.New(db, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

func onSQLite(t *testing.T, c change) *backend {
	t.Helper()
	b := &backend{gate: newGate(), where: filepath.Join(t.TempDir(), "shop.db")}
	if err := os.WriteFile(b.where, emptyFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	db := openSQLite(t, b.where)
	t.Cleanup(func() { db.Close() })
	store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	poll := c.river
	c.river = func(cfg *river.Config) {
		cfg.PollOnly = true
		if poll != nil {
			poll(cfg)
		}
	}
	r := newRunner(t, onsqlite.Pool(db, nil), sqliteWork(b.gate, "here"), c)
	b.store, b.runner = store, r
	b.exec = func(query string, args ...any) error { _, err := db.Exec(query, args...); return err }
	b.count = func(query string, args ...any) (n int) {
		t.Helper()
		if err := db.QueryRow(query, args...).Scan(&n); err != nil {
			t.Fatal(query, err)
		}
		return n
	}
	b.cancel = func(job int64) error { _, err := r.Client().JobCancel(context.Background(), job); return err }
	if err := b.exec(effectsTable); err != nil {
		t.Fatal(err)
	}
	return b
}

func onPostgres(t *testing.T, c change) *backend {
	t.Helper()
	b := &backend{gate: newGate(), where: servers.Postgres(t)}
	pool, err := pgxpool.New(t.Context(), b.where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := pgxstore.New(t.Context(), pool, pgxstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r := newRunner(t, onpgx.Pool(pool), postgresWork(b.gate, "here"), c)
	b.store, b.runner = store, r
	b.exec = func(query string, args ...any) error {
		_, err := pool.Exec(context.Background(), query, args...)
		return err
	}
	b.count = func(query string, args ...any) (n int) {
		t.Helper()
		if err := pool.QueryRow(context.Background(), query, args...).Scan(&n); err != nil {
			t.Fatal(query, err)
		}
		return n
	}
	b.cancel = func(job int64) error { _, err := r.Client().JobCancel(context.Background(), job); return err }
	if err := b.exec(effectsTable); err != nil {
		t.Fatal(err)
	}
	return b
}

// onEach runs a test on both databases. The runner is not started.
func onEach(t *testing.T, c change, test func(t *testing.T, b *backend)) {
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, onSQLite(t, c)) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, onPostgres(t, c)) })
}

func (b *backend) start(t *testing.T) {
	t.Helper()
	if err := b.runner.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const (
	countOperations = `SELECT count(*) FROM onceward_operations`
	countJobs       = `SELECT count(*) FROM river_job`
	countEffects    = `SELECT count(*) FROM effects`
)

// shop is a service that accepts long work: POST /works, whose body says what the
// work is to do.
type shop struct {
	t      *testing.T
	b      *backend
	ops    *operation.Operations
	server *httptest.Server
	after  func(w http.ResponseWriter) bool // what the handler does behind Accept; true: it has answered
}

func who(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }

// atomic is whether the guard is Atomic.
func newShop(t *testing.T, b *backend, atomic bool, cfg onceward.Config) *shop {
	t.Helper()
	guard, err := onceward.New(b.store, who, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, b: b}
	s.ops, err = operation.New(b.runner, who, operation.Config{Records: b.store.(onceward.Looker)})
	if err != nil {
		t.Fatal(err)
	}
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		do, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if s.after == nil {
			s.ops.Accept(w, r, "work", do)
			return
		}
		op, err := s.ops.Submit(r, "work", do)
		if err != nil {
			s.ops.Refuse(w, r, err)
		} else if !s.after(w) {
			s.ops.Accepted(w, r, op)
		}
	})
	guarded := guard.Handler(app)
	if atomic {
		guarded = guard.Atomic(app)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /works", s.ops.Repeats(guarded))
	mux.Handle("GET /operations/{id}", s.ops)
	s.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.ops.Close()
		s.server.Close()
		if err := guard.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// answer is what came back, read whole.
type answer struct {
	code   int
	header http.Header
	text   string
	body   struct {
		ID, State, Type, Title, Detail, Location string
		Created, Finished                        time.Time
		Result                                   json.RawMessage
		Status                                   *int
	}
}

func (a answer) String() string { return fmt.Sprintf("%d %v\n%s", a.code, a.header, a.text) }

// send sends a request; headers are pairs of name and value.
func (s *shop) send(method, path, body string, headers ...string) answer {
	s.t.Helper()
	req, err := http.NewRequest(method, s.server.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-User", "anna")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Error(err)
		return answer{header: http.Header{}}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Error(err)
	}
	a := answer{code: res.StatusCode, header: res.Header, text: string(text)}
	if strings.Contains(res.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(text, &a.body); err != nil {
			s.t.Errorf("%s is no JSON: %v", text, err)
		}
	}
	return a
}

func (s *shop) post(key, do string, headers ...string) answer {
	s.t.Helper()
	return s.send("POST", "/works", do, append([]string{"Idempotency-Key", key}, headers...)...)
}

func (s *shop) get(location string, headers ...string) answer {
	s.t.Helper()
	return s.send("GET", location, "", headers...)
}

// until asks for a status until it is no longer pending.
func (s *shop) until(location string) answer {
	s.t.Helper()
	deadline := time.Now().Add(100 * time.Second)
	for {
		a := s.get(location + "?wait=5")
		if a.body.State != "pending" || time.Now().After(deadline) {
			return a
		}
	}
}

func all(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}
