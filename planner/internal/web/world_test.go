package web

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata"

	"golang.org/x/crypto/argon2"

	"github.com/onceward/onceward/planner/internal/export"
	"github.com/onceward/onceward/planner/internal/store"
	"github.com/onceward/onceward/sqlitestore"
)

// world is a planner on a real database behind a real server, with two people.
type world struct {
	t   *testing.T
	db  *store.DB
	app *App
	// exports are not started: a test that needs files starts them.
	exports *export.Exports
	server  *httptest.Server
	clock   *clock
	log     *lockedBuffer
	anna    *person
	boris   *person
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
func (l *lockedBuffer) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

const password = "correct horse"

// It is Sunday, 29 November 2026, half past eleven in the evening in Moscow.
func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, store.File), emptyFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := sqlitestore.New(t.Context(), db.Write, sqlitestore.Config{Read: db.Read})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, db: db, log: &lockedBuffer{}, clock: &clock{now: time.Date(2026, 11, 29, 20, 30, 0, 0, time.UTC)}}
	w.exports, err = export.Open(t.Context(), db, export.Config{Now: w.clock.Now, Poll: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(w.log, nil)), River: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{DB: db, Keys: keys, Exports: w.exports, Secret: []byte("a secret of this test"), Now: w.clock.Now,
		Logger: slog.New(slog.NewTextHandler(w.log, nil))}
	for _, c := range change {
		c(&cfg)
	}
	if w.app, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewServer(w.app)
	t.Cleanup(func() {
		w.server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, err := range []error{w.exports.Stop(ctx), w.app.Close(ctx), keys.Close(ctx), db.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	w.anna, w.boris = w.person("anna"), w.person("boris")
	return w
}

// emptyFile is a database with its tables and nothing in them, made once: a
// hundred worlds need not each make them again.
var emptyFile = sync.OnceValue(func() []byte {
	folder, err := os.MkdirTemp("", "planner-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	db, err := store.Open(ctx, folder)
	if err != nil {
		panic(err)
	}
	keys, err := sqlitestore.New(ctx, db.Write, sqlitestore.Config{Read: db.Read})
	if err != nil {
		panic(err)
	}
	if _, err := export.Open(ctx, db, export.Config{}); err != nil {
		panic(err)
	}
	if err := errors.Join(keys.Close(ctx), db.Close()); err != nil {
		panic(err)
	}
	file, err := os.ReadFile(filepath.Join(folder, store.File))
	if err != nil {
		panic(err)
	}
	return file
})

// person has an account and a browser with its session.
type person struct {
	w     *world
	id    string
	token string
	http.Client
}

// person adds an account. Its password is hashed at the lowest cost: a test has
// many people.
func (w *world) person(login string) *person {
	w.t.Helper()
	p := &person{w: w, id: "id-of-" + login}
	b64 := base64.RawStdEncoding.EncodeToString
	salt := []byte("salt of " + login)
	hash := fmt.Sprintf("$argon2id$v=%d$m=8,t=1,p=1$%s$%s", argon2.Version, b64(salt), b64(argon2.IDKey([]byte(password), salt, 1, 8, 1, 32)))
	if _, err := w.db.Write.Exec(`INSERT INTO users (id, login, pass_hash, tz, tz_auto, created_at) VALUES (?, ?, ?, 'Europe/Moscow', 1, 1)`, p.id, login, hash); err != nil {
		w.t.Fatal(err)
	}
	var err error
	if p.token, err = w.app.Accounts().StartSession(w.t.Context(), p.id, "test"); err != nil {
		w.t.Fatal(err)
	}
	p.Client = *w.browser()
	p.cookie(p.token)
	return p
}

// browser keeps cookies and shows redirects instead of following them.
func (w *world) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (p *person) cookie(token string) {
	u, _ := url.Parse(p.w.server.URL)
	p.Jar.SetCookies(u, []*http.Cookie{{Name: cookieName, Value: token, Path: "/"}})
}

// answer is what came back, read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %v\n%.300s", a.status, a.header, a.body) }

// headers are pairs of name and value.
func (p *person) do(method, path, form string, headers ...string) answer {
	p.w.t.Helper()
	return p.w.do(&p.Client, method, path, form, headers...)
}

func (w *world) do(client *http.Client, method, path, form string, headers ...string) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, w.server.URL+path, strings.NewReader(form))
	if err != nil {
		w.t.Fatal(err)
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		w.t.Errorf("%s %s: %v", method, path, err)
		return answer{header: http.Header{}}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Errorf("%s %s: %v", method, path, err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

func (p *person) get(path string, headers ...string) answer {
	p.w.t.Helper()
	return p.do(http.MethodGet, path, "", headers...)
}

func (p *person) post(path, form string, headers ...string) answer {
	p.w.t.Helper()
	return p.do(http.MethodPost, path, form, headers...)
}

// hx are the headers of htmx's requests.
func hx(more ...string) []string { return append([]string{"HX-Request", "true"}, more...) }

// named adds a key.
func named(key string, more ...string) []string {
	return append([]string{"Idempotency-Key", key}, more...)
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.Read.QueryRow(query, args...).Scan(&n); err != nil {
		w.t.Fatal(query, err)
	}
	return n
}

// dump is all that people have, as one text: two dumps are equal if nothing has
// changed. Sessions and the guard's own keys are not in it.
func (w *world) dump() string {
	w.t.Helper()
	var b strings.Builder
	for _, q := range []string{
		`SELECT * FROM users ORDER BY id`, `SELECT * FROM series ORDER BY user_id, id`, `SELECT * FROM tasks ORDER BY user_id, id`,
		`SELECT hex(scope) AS whose, hex(id) AS what, kind, CAST(input AS TEXT) AS input FROM onceward_operations ORDER BY 1, 2`,
		`SELECT count(*) AS jobs FROM river_job`, `SELECT user_id, name, length(body) AS size FROM exports ORDER BY user_id, id`,
	} {
		rows, err := w.db.Read.Query(q)
		if err != nil {
			w.t.Fatal(err)
		}
		cols, _ := rows.Columns()
		for rows.Next() {
			row := make([]any, len(cols))
			to := make([]any, len(cols))
			for i := range row {
				to[i] = &row[i]
			}
			if err := rows.Scan(to...); err != nil {
				w.t.Fatal(err)
			}
			for i, c := range cols {
				fmt.Fprintf(&b, "%s=%v ", c, row[i])
			}
			b.WriteByte('\n')
		}
		if err := rows.Err(); err != nil {
			w.t.Fatal(err)
		}
		rows.Close()
	}
	return b.String()
}

// task adds a task of Anna's.
func (w *world) task(id, text string) {
	w.t.Helper()
	if a := w.anna.post("/tasks", url.Values{"id": {id}, "text": {text}}.Encode(), hx()...); a.status != http.StatusCreated {
		w.t.Fatalf("adding %q: %v", text, a)
	}
}
