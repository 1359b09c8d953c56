package keys_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/programs"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/redisstore"
	"github.com/onceward/onceward/sqlitestore"
)

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "onceward-keys-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "onceward")
	code := 1
	if err := programs.Build(binary, "cmd/onceward", false); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// backends open a fresh store, and say how the command names it.
var backends = map[string]func(t *testing.T) (onceward.Store, string){
	"sqlite": func(t *testing.T) (onceward.Store, string) {
		file := filepath.Join(t.TempDir(), "keys.db")
		db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close(context.Background()); db.Close() })
		return store, "sqlite:" + file
	},
	"postgres": func(t *testing.T) (onceward.Store, string) {
		dsn := servers.Postgres(t)
		pool, err := pgxpool.New(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		store, err := pgxstore.New(t.Context(), pool, pgxstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close(context.Background()); pool.Close() })
		return store, dsn
	},
	"redis": func(t *testing.T) (onceward.Store, string) {
		url := servers.Redis(t)
		options, err := redis.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(options)
		store, err := redisstore.New(t.Context(), client, redisstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		return store, url
	},
}

// shop is a guard around a handler that fails when it is told to.
type shop struct {
	t     *testing.T
	h     http.Handler
	store string
	guard *onceward.Guard
	rows  func() int // that the store has, those that are out of date among them
	runs  int
}

func onEachStore(t *testing.T, test func(t *testing.T, s *shop)) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, url := open(t)
			s := &shop{t: t, store: url, rows: func() int { return rowsAt(t, url) }}
			scope := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
			guard, err := onceward.New(store, scope, onceward.Config{Unknown: onceward.Hold, SweepEvery: -1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { guard.Close(context.Background()) })
			s.guard = guard
			s.h = guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.runs++
				if r.Header.Get("X-Fail") != "" {
					w.WriteHeader(500)
					return
				}
				w.Header().Set("Location", "/orders/7")
				w.WriteHeader(201)
				fmt.Fprint(w, "private")
			}))
			test(t, s)
		})
	}
}

// rowsAt counts what a store has, past the store.
func rowsAt(t *testing.T, address string) (n int) {
	t.Helper()
	ctx, err := t.Context(), error(nil)
	const query = "SELECT count(*) FROM idempotency_keys"
	switch {
	case strings.HasPrefix(address, "postgres"):
		pool, openErr := pgxpool.New(ctx, address)
		if openErr != nil {
			t.Fatal(openErr)
		}
		defer pool.Close()
		err = pool.QueryRow(ctx, query).Scan(&n)
	case strings.HasPrefix(address, "redis"):
		options, parseErr := redis.ParseURL(address)
		if parseErr != nil {
			t.Fatal(parseErr)
		}
		client := redis.NewClient(options)
		defer client.Close()
		var keys int64
		keys, err = client.DBSize(ctx).Result()
		n = int(keys)
	default:
		_, file, _ := strings.Cut(address, ":")
		db, openErr := sql.Open("sqlite", "file:"+strings.TrimPrefix(file, "//"))
		if openErr != nil {
			t.Fatal(openErr)
		}
		defer db.Close()
		err = db.QueryRowContext(ctx, query).Scan(&n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *shop) post(user, key string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/create-order", strings.NewReader("{}"))
	r.Header.Set("X-User", user)
	r.Header.Set("Idempotency-Key", key)
	for _, name := range headers {
		r.Header.Set(name, "1")
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w
}

// keys runs `onceward keys` and returns what it printed and its exit status.
func (s *shop) keys(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	cmd := exec.Command(binary, append([]string{"keys"}, args...)...)
	cmd.Env = append(os.Environ(), "ONCEWARD_STORE="+s.store)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

func (s *shop) must(args ...string) string {
	s.t.Helper()
	out, said, code := s.keys(args...)
	if code != 0 {
		s.t.Fatalf("keys %v: exit status %d: %s", args, code, said)
	}
	return out
}

func (s *shop) fails(why string, args ...string) {
	s.t.Helper()
	out, said, code := s.keys(args...)
	if code == 0 || !strings.Contains(said, why) {
		s.t.Errorf("keys %v: exit status %d, %q %q; want a failure that says %q", args, code, out, said, why)
	}
}

func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %q in\n%s", part, text)
		}
	}
}

func TestTheStoryOfAKeyIsFoundByTheKeyAndByItsIDInTheLog(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *shop) {
		s.post("ann", "k1")
		id := strings.Fields(s.must("hash", "k1"))[1]
		if id != onceward.NewKey("ann", "k1").RecordID() {
			t.Fatalf("hash says %s", id)
		}
		for _, name := range []string{"k1", id, id[:8]} {
			out := s.must("show", name)
			has(t, out, "completed", "POST /create-order", "201, 7 bytes", "Location: /orders/7")
			if strings.Contains(out, "private") {
				t.Error("the body is shown though nobody asked for it")
			}
		}
		has(t, s.must("show", "k1", "--body"), "private")
		s.fails("no such record", "show", "k2")
		s.fails("no such record", "show", "ffffffffffffffff")

		s.post("bob", "k1")
		s.fails("say whose", "show", "k1")
		has(t, s.must("show", "--scope", "bob", "k1"), "completed")
		if n := strings.Count(s.must("list"), "POST /create-order"); n != 2 {
			t.Errorf("%d records are listed, want 2", n)
		}
		if n := strings.Count(s.must("list", "--scope", "bob"), "POST /create-order"); n != 1 {
			t.Errorf("%d records of bob's are listed, want 1", n)
		}
	})
}

func TestAHeldKeyIsEndedByAnOperatorAndItIsWrittenDown(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *shop) {
		for _, key := range []string{"gone", "there"} {
			if w := s.post("ann", key, "X-Fail"); w.Code != 500 || !strings.HasPrefix(w.Header().Get("Idempotency-Status"), "outcome-unknown") {
				t.Fatalf("%d %v", w.Code, w.Header())
			}
		}
		out := s.must("list", "--stuck")
		if strings.Count(out, "held") != 2 {
			t.Fatal(out)
		}
		s.fails("--reason", "release", "gone")
		s.fails("--status", "complete", "there", "--reason", "x")
		s.fails("no such record", "release", "nothing", "--reason", "x")
		has(t, s.must("show", "gone"), "held")

		s.must("release", "gone", "--reason", "the bank says no", "--who", "olga")
		if w := s.post("ann", "gone"); w.Code != 201 || s.runs != 3 {
			t.Errorf("%d after %d runs: a released key runs again", w.Code, s.runs)
		}
		answer := filepath.Join(t.TempDir(), "answer")
		if err := os.WriteFile(answer, []byte(`{"id":9}`), 0o600); err != nil {
			t.Fatal(err)
		}
		s.must("complete", "there", "--status", "201", "--header", "location: /orders/9", "--answer", answer, "--reason", "order 9 is it", "--who", "olga")
		w := s.post("ann", "there")
		if w.Code != 201 || w.Header().Get("Location") != "/orders/9" || w.Body.String() != `{"id":9}` || w.Header().Get("Idempotency-Replayed") != "1" || s.runs != 3 {
			t.Errorf("%d %v %q after %d runs: a completed key is replayed", w.Code, w.Header(), w.Body, s.runs)
		}
		has(t, s.must("show", "there"), "complete by olga: order 9 is it", time.Now().UTC().Format("2006-01-02"))
		has(t, s.must("show", "gone"), "release by olga: the bank says no")
		s.fails("only a claim in progress", "release", "there", "--reason", "x")
		if out := s.must("list", "--stuck"); strings.Contains(out, "held") {
			t.Error(out)
		}
		s.must("sweep") // nothing of this is out of date
		has(t, s.must("show", "there"), "completed")
		has(t, s.must("show", "gone"), "completed")
	})
}

// What is out of date goes, on a store that does not delete it by itself, and nothing
// else does.
func TestSweepDeletesWhatIsOutOfDate(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *shop) {
		for i := range 3 {
			s.post("ann", fmt.Sprint("kept-", i))
		}
		short, err := s.guard.With(func(c *onceward.Config) { c.Retention = time.Millisecond })
		if err != nil {
			t.Fatal(err)
		}
		long := s.h
		s.h = short.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) }))
		for i := range 7 {
			s.post("ann", fmt.Sprint("old-", i))
		}
		s.h = long
		if w := s.post("ann", "held", "X-Fail"); w.Code != 500 {
			t.Fatal(w.Code)
		}
		time.Sleep(20 * time.Millisecond)
		out := s.must("sweep")
		if !strings.HasPrefix(s.store, "redis") && !strings.Contains(out, "7") {
			t.Errorf("sweep says %q, want that 7 are deleted", out)
		}
		if rows := s.rows(); rows != 4 {
			t.Errorf("%d records are left, want 4", rows)
		}
		for _, key := range []string{"kept-0", "kept-1", "kept-2", "held"} {
			s.must("show", key)
		}
		s.fails("no such record", "show", "old-0")
	})
}

func TestTheSchemaThatIsPrintedIsTheOneThatIsUsed(t *testing.T) {
	t.Parallel()
	schema := func(name string) string {
		out, err := exec.Command(binary, "keys", "schema", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	t.Run("sqlite", func(t *testing.T) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "keys.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(schema("sqlite")); err != nil {
			t.Fatal(err)
		}
		store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("postgres", func(t *testing.T) {
		pool, err := pgxpool.New(t.Context(), servers.Postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Conn().PgConn().Exec(t.Context(), schema("postgres")).ReadAll(); err != nil {
			t.Fatal(err)
		}
		conn.Release()
		store, err := pgxstore.New(t.Context(), pool, pgxstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestACallThatCannotBeUnderstoodSaysWhatToWrite(t *testing.T) {
	s := &shop{t: t}
	for why, args := range map[string][]string{
		"which action":    {},
		"no action":       {"frobnicate"},
		"needs a key":     {"show"},
		"one at a time":   {"show", "a", "b"},
		"which store":     {"list"},
		"schema of what":  {"schema", "oracle"},
		"not defined":     {"list", "--frob"},
		"is none of":      {"list", "--store", "mongodb:x"},
		"no such file":    {"list", "--store", "sqlite:/nowhere/at-all.db"},
		"neither in-prog": {"list", "--store", "sqlite:" + empty(t), "--state", "odd"},
	} {
		s.fails(why, args...)
	}
}

func empty(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "keys.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
