package clients

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/sqlitestore"
)

// A worker is a process of this test's binary that makes the calls which its
// standard input names, one in a line, and prints what each returned.

const workerEnv = "ONCEWARD_TEST_WORKER"

// workerConfig is what a worker is told.
type workerConfig struct {
	Store  string // a file, or the address of a Postgres
	Mode   string // do, hold or atomic
	Strike string // where it kills itself: "", before work, after work, after completion
}

func TestMain(m *testing.M) {
	if text := os.Getenv(workerEnv); text != "" {
		var cfg workerConfig
		if err := json.Unmarshal([]byte(text), &cfg); err == nil {
			err = work(cfg, os.Stdin, os.Stdout)
			fmt.Fprintln(os.Stderr, "worker:", err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// database is a store with the table of effects beside it.
type database struct {
	store  onceward.Store
	apply  func(ctx context.Context, key string, atomic bool) error // one effect
	count  func(key string) (int, error)
	create func() error
	close  func()
}

func openDatabase(ctx context.Context, where string) (*database, error) {
	if strings.HasPrefix(where, "postgres") {
		return openPostgres(ctx, where)
	}
	db, err := sql.Open("sqlite", "file:"+where+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	store, err := sqlitestore.New(ctx, db, sqlitestore.Config{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &database{
		store: store,
		apply: func(ctx context.Context, key string, atomic bool) error {
			exec := db.ExecContext
			if atomic {
				exec = sqlitestore.Tx(ctx).ExecContext
			}
			_, err := exec(ctx, `INSERT INTO effects VALUES (?)`, key)
			return err
		},
		count: func(key string) (n int, err error) {
			err = db.QueryRow(`SELECT count(*) FROM effects WHERE key = ?`, key).Scan(&n)
			return n, err
		},
		create: func() error { _, err := db.Exec(`CREATE TABLE effects (key text NOT NULL)`); return err },
		close:  func() { _, _ = store.Close(context.Background()), db.Close() },
	}, nil
}

func openPostgres(ctx context.Context, url string) (*database, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	store, err := pgxstore.New(ctx, pool, pgxstore.Config{})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &database{
		store: store,
		apply: func(ctx context.Context, key string, atomic bool) (err error) {
			const insert = `INSERT INTO effects VALUES ($1)`
			if atomic {
				_, err = pgxstore.Tx(ctx).Exec(ctx, insert, key)
			} else {
				_, err = pool.Exec(ctx, insert, key)
			}
			return err
		},
		count: func(key string) (n int, err error) {
			err = pool.QueryRow(context.Background(), `SELECT count(*) FROM effects WHERE key = $1`, key).Scan(&n)
			return n, err
		},
		create: func() error {
			_, err := pool.Exec(context.Background(), `CREATE TABLE effects (key text NOT NULL)`)
			return err
		},
		close: func() { _ = store.Close(context.Background()); pool.Close() },
	}, nil
}

// work is the worker's program. It ends with its input.
func work(cfg workerConfig, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	db, err := openDatabase(ctx, cfg.Store)
	if err != nil {
		return err
	}
	config := onceward.Config{Lease: lease, SweepEvery: -1}
	if cfg.Mode == "hold" {
		config.Unknown = onceward.Hold
	}
	guard, err := onceward.New(db.store, onceward.Unscoped, config)
	if err != nil {
		return err
	}
	strike := func(here string) {
		if here == cfg.Strike {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until it takes effect
		}
	}
	fmt.Fprintln(out, "ready")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		key := lines.Text()
		do := onceward.Do[int]
		if cfg.Mode == "atomic" {
			do = onceward.DoAtomic[int]
		}
		pid, replayed, err := do(ctx, guard, onceward.Call{Scope: "queue", Key: key, Name: "effect", Input: []byte(key)}, func(ctx context.Context) (int, error) {
			strike("before work")
			if err := db.apply(ctx, key, cfg.Mode == "atomic"); err != nil {
				return 0, err
			}
			strike("after work")
			return os.Getpid(), nil
		})
		if err == nil {
			strike("after completion")
		}
		switch {
		case err == nil:
			fmt.Fprintln(out, "result", pid, replayed)
		case errors.Is(err, onceward.ErrInProgress):
			fmt.Fprintln(out, "in progress")
		case errors.Is(err, onceward.ErrOutcomeUnknown):
			fmt.Fprintln(out, "unknown")
		default:
			fmt.Fprintln(out, "error", strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	return errors.Join(lines.Err(), guard.Close(ctx))
}

// worker is a running worker, as its parent sees it.
type worker struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startWorker(t *testing.T, cfg workerConfig) *worker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(cfg)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd, in, bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if !w.lines.Scan() || w.lines.Text() != "ready" {
		t.Fatalf("the worker says %q", w.lines.Text())
	}
	return w
}

// call asks for one call. "" means that the worker is dead.
func (w *worker) call(key string) string {
	if _, err := fmt.Fprintln(w.in, key); err != nil || !w.lines.Scan() {
		return ""
	}
	return w.lines.Text()
}

// lease of a worker's claims.
const lease = time.Second

// settled calls until the first call, which began at a time, is no longer in progress.
// It says so at once only if its lease is over, which a slow machine may bring about.
func (w *worker) settled(t *testing.T, key string, began time.Time) (said string, waited bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if said = w.call(key); said != "in progress" {
			return said, waited || time.Since(began) > lease
		}
		waited = true
	}
	t.Fatal("it is in progress for ever")
	return "", false
}

// onEach runs a test on a fresh SQLite file and a fresh Postgres database.
func onEach(t *testing.T, test func(t *testing.T, where string, db *database)) {
	for name, where := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "queue.db") },
		"postgres": func(t *testing.T) string { return servers.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			at := where(t)
			db, err := openDatabase(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.close)
			if err := db.create(); err != nil {
				t.Fatal(err)
			}
			test(t, at, db)
		})
	}
}
