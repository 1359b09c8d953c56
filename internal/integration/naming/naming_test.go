package naming

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/pages"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/redisstore"
	"github.com/onceward/onceward/sqlitestore"
)

// Requirements 78 and 79: docs/keys.md shows the code that these tests run.
func TestTheDocumentShowsTheCodeThatRuns(t *testing.T) {
	pages.Hold(t, "keys.md", "naming.go", "naming.js")
}

// till takes orders, by key and by external_id, and counts them.
type till struct {
	url string

	mu     sync.Mutex
	orders []string          // guarded by mu
	named  map[string]string // guarded by mu
	lose   int               // so many answers go out and do not arrive; guarded by mu
	broken int               // so many requests fail; guarded by mu
	keys   []string          // of all requests; guarded by mu
}

func newTill(t *testing.T, retention time.Duration) *till {
	t.Helper()
	s := &till{named: map[string]string{}}
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{Require: true, Retention: retention})
	if err != nil {
		t.Fatal(err)
	}
	guarded := guard.Handler(http.HandlerFunc(s.create))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
		lose := s.lose > 0
		s.lose--
		s.mu.Unlock()
		if lose {
			guarded.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		guarded.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		if err := guard.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.url = server.URL
	return s
}

func (s *till) create(w http.ResponseWriter, r *http.Request) {
	var o struct {
		Item       string `json:"item"`
		ExternalID string `json:"external_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Item == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken--; s.broken >= 0 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if there, ok := s.named[o.ExternalID]; ok && o.ExternalID != "" {
		fmt.Fprint(w, there)
		return
	}
	s.orders = append(s.orders, o.Item)
	text := fmt.Sprint("order ", len(s.orders))
	s.named[o.ExternalID] = text
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, text)
}

// fail has so many answers lost, and so many requests fail.
func (s *till) fail(lose, broken int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose, s.broken = lose, broken
}

func (s *till) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.keys)
}

func (s *till) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.orders)
}

// noKeepAlive: else Go's client repeats a keyed request by itself.
var noKeepAlive = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func TestAnIntentHasOneNameForAllItsTries(t *testing.T) {
	s := newTill(t, 0)
	s.fail(2, 0)
	answer, err := order(t.Context(), noKeepAlive, s.url, `{"item":"tea"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	keys := s.seen()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "order 1" || s.count() != 1 || len(keys) != 3 || keys[0] != keys[2] {
		t.Errorf("answered %d %q, %v; %d orders; the keys were %q", answer.StatusCode, text, err, s.count(), keys)
	}
	s.fail(0, 1) // a failure frees the name, and the same name is sent again
	if again, err := order(t.Context(), noKeepAlive, s.url, `{"item":"tea"}`); err != nil || again.StatusCode != 201 || s.count() != 2 {
		t.Errorf("a second intent: %v, %v, %d orders", again, err, s.count())
	}
	if keys := s.seen(); len(keys) != 5 || keys[3] == keys[0] || keys[3] != keys[4] {
		t.Errorf("the keys were %q", keys)
	}
	if refused, err := order(t.Context(), noKeepAlive, s.url, `{}`); err != nil || refused.StatusCode != 400 {
		t.Errorf("a bad order: %v, %v", refused, err)
	}
}

// What no repeat mends is the caller's to see, and what nobody knows is looked at first.
func TestAnOrderIsNotRepeatedWhereThatChangesNothing(t *testing.T) {
	for _, c := range []struct {
		status  int
		outcome string
	}{
		{409, `outcome-unknown;key="k"`}, {502, `outcome-unknown;key="k"`}, {401, ""}, {422, `key-reused;key="k"`},
		{400, `key-invalid`}, {403, `released;key="k"`}, {413, `too-large;key="k"`}, {422, `key-expired;key="k"`}, {404, `executed;key="k"`},
	} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			if c.outcome != "" {
				w.Header().Set(onceward.StatusHeader, c.outcome)
			}
			w.WriteHeader(c.status)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		answer, err := order(ctx, noKeepAlive, server.URL, `{"item":"tea"}`)
		cancel()
		server.Close()
		if err != nil || answer.StatusCode != c.status || asked.Load() != 1 {
			t.Errorf("%d %s: %v, %v after %d tries", c.status, c.outcome, answer, err, asked.Load())
		}
	}
}

// What something on the way answers, and what passes with time, is no answer to the
// order: not the 403 of a firewall, not the 200 of a captive portal.
func TestAnOrderIsRepeatedUntilItsOwnAnswerComes(t *testing.T) {
	for _, c := range []struct {
		status  int
		outcome string
	}{{403, ""}, {200, ""}, {400, ""}, {408, ""}, {429, `released;key="k"`}, {409, `in-progress;key="k"`}, {503, `unavailable;key="k"`}, {500, `released;key="k"`}} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			status, outcome := c.status, c.outcome
			if asked.Add(1) > 1 {
				status, outcome = 201, `executed;key="k"`
			}
			if outcome != "" {
				w.Header().Set(onceward.StatusHeader, outcome)
			}
			w.WriteHeader(status)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		answer, err := order(ctx, noKeepAlive, server.URL, `{"item":"tea"}`)
		cancel()
		server.Close()
		if err != nil || answer.StatusCode != 201 || asked.Load() != 2 {
			t.Errorf("%d %s: %v, %v after %d tries", c.status, c.outcome, answer, err, asked.Load())
		}
	}
}

// A KeyFrom around a whole router meets requests that have no request_id.
func TestARequestWithoutARequestIDPasses(t *testing.T) {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{KeyFrom: requestID})
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close(context.Background())
	h := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	for _, body := range []string{``, `[1,2]`, `"text"`, `null`, `{"item":"tea"}`, `{"request_id":7}`, `{"request_id":`} {
		r := httptest.NewRequest("POST", "/anything", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 || w.Body.String() != body || w.Header().Get(onceward.StatusHeader) != "" {
			t.Errorf("%s: %d %q %s", body, w.Code, w.Body, w.Header().Get(onceward.StatusHeader))
		}
	}
}

func TestANaturalNameSaysWhatMakesTwoTwo(t *testing.T) {
	same := nameOf("invoice", "2026-11", "117")
	if same != nameOf("invoice", "2026-11", "117") {
		t.Error("the same invoice has two names")
	}
	for _, parts := range [][]string{{"invoice", "2026-12", "117"}, {"invoice", "2026-111", "17"}, {"invoice", "2026-11117"}, {"refund", "2026-11", "117"}, {"invoice", "2026-11", "117", ""}} {
		if nameOf(parts...) == same {
			t.Errorf("%q has the name of another", parts)
		}
	}
	if long := nameOf("тетрадь", strings.Repeat("я", 300)); len(nameOf("notebook", long)) > 255 {
		t.Error("a name is too long")
	}
	s := newTill(t, 0)
	for _, c := range []struct {
		key, body string
		want      int
	}{{same, `{"item":"tea"}`, 201}, {same, `{"item":"tea"}`, 201}, {same, `{"item":"jam"}`, 422}} {
		r, err := http.NewRequest("POST", s.url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", c.key)
		answer, err := noKeepAlive.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != c.want {
			t.Errorf("%s was answered %d, want %d", c.body, answer.StatusCode, c.want)
		}
	}
	if s.count() != 1 {
		t.Errorf("%d orders", s.count())
	}
}

const (
	someUUID = "7f0c2f3e-9f0c-4d8e-8f62-0d1c9a6b7e55"
	someKey  = someUUID + ".tyBWXNGiIH-zLq04GgjRnA" // as the root package's example has it
)

// Requirement 79.
func TestAKeyOfUUIDAndPayloadTellsWhatItIsFor(t *testing.T) {
	if key := payloadKey(someUUID, "POST", "/create-order", `{"item":"book"}`); key != someKey {
		t.Errorf("the key is %s, want %s", key, someKey)
	}
	for _, c := range []struct {
		key, method, path, body string
		want                    bool
	}{
		{someKey, "POST", "/create-order", `{"item":"book"}`, true},
		{someKey, "POST", "/create-order", `{"item":"books"}`, false},
		{someKey, "PUT", "/create-order", `{"item":"book"}`, false},
		{someKey, "POST", "/create-orders", `{"item":"book"}`, false},
		{someUUID, "POST", "/create-order", `{"item":"book"}`, false},
	} {
		if got := belongs(c.key, c.method, c.path, c.body); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if uuid := uuid4(); !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(uuid) || uuid == uuid4() {
		t.Errorf("%s is no UUIDv4", uuid)
	}
}

// Requirement 75: a request_id in the body, checked in the database or in Redis.
func TestARequestIDInTheBodyIsAKeyOnEveryStore(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) onceward.Store{
		"memory": func(*testing.T) onceward.Store { return memstore.New(memstore.Config{}) },
		"sqlite": func(t *testing.T) onceward.Store {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "keys.db")+"?_pragma=busy_timeout(10000)")
			if err != nil {
				t.Fatal(err)
			}
			store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close(context.Background()); db.Close() })
			return store
		},
		"postgres": func(t *testing.T) onceward.Store {
			pool, err := pgxpool.New(t.Context(), servers.Postgres(t))
			if err != nil {
				t.Fatal(err)
			}
			store, err := pgxstore.New(t.Context(), pool, pgxstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close(context.Background()); pool.Close() })
			return store
		},
		"redis": func(t *testing.T) onceward.Store {
			options, err := redis.ParseURL(servers.Redis(t))
			if err != nil {
				t.Fatal(err)
			}
			client := redis.NewClient(options)
			t.Cleanup(func() { client.Close() })
			store, err := redisstore.New(t.Context(), client, redisstore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			guard, err := onceward.New(open(t), onceward.Unscoped, onceward.Config{KeyFrom: requestID, Wait: true, Require: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := guard.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			var effects atomic.Int64
			h := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body) // the handler sees all of it
				w.WriteHeader(http.StatusCreated)
				fmt.Fprintf(w, "order %d: %s", effects.Add(1), body)
			}))
			post := func(kind, body string) *httptest.ResponseRecorder {
				r := httptest.NewRequest("POST", "/create-order", strings.NewReader(body))
				r.Header.Set("Content-Type", kind)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if w := post("application/json", `{"request_id":"r1","item":"tea"}`); w.Code != 201 || w.Body.String() != `order 1: {"request_id":"r1","item":"tea"}` {
						t.Errorf("%d %s", w.Code, w.Body)
					}
				})
			}
			all.Wait()
			for _, c := range []struct {
				kind, body string
				want       int
			}{
				{"application/json", `{"request_id":"r2","item":"tea"}`, 201},
				{"application/json", `{"request_id":"r1","item":"jam"}`, 422},
				{"application/json", `{"item":"tea"}`, 400},
				{"application/json", `{"request_id":`, 400},
				{"text/plain", `{"request_id":"r1","item":"tea"}`, 400},
			} {
				if w := post(c.kind, c.body); w.Code != c.want {
					t.Errorf("%s %s: %d %s, want %d", c.kind, c.body, w.Code, w.Body, c.want)
				}
			}
			if n := effects.Load(); n != 2 {
				t.Errorf("effects=%d, want 2", n)
			}
		})
	}
}

// script runs JavaScript that has what naming.js exports, as a browser would.
func script(t *testing.T, text string, args ...string) (printed string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("node is not installed")
		}
		t.Skip("node is not installed: apt-get install nodejs")
	}
	module, err := filepath.Abs("naming.js")
	if err != nil {
		t.Fatal(err)
	}
	text = fmt.Sprintf("import { Intent, place, payloadKey } from 'file://%s';\nconst [url] = process.argv.slice(-1);\n", filepath.ToSlash(module)) + text
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, node, append([]string{"--input-type=module", "-e", text, "--"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestInABrowserAnIntentHasOneNameUntilItIsDelivered(t *testing.T) {
	s := newTill(t, 0)
	s.fail(1, 0)
	got := script(t, `
		const press = new Intent(), body = '{"item":"tea"}', names = new Set();
		for (let tries = 0; ; tries++) {
			names.add(press.key);
			try {
				const answer = await press.send(url, body);
				console.log(answer.status, await answer.text(), tries, names.size, names.has(press.key));
				break;
			} catch (e) { if (tries > 9) throw e; }
		}
		const answer = await press.send(url, body); // pressed again: another order
		console.log(await answer.text());
		const before = press.key;
		press.changed();
		console.log(press.key !== before);`, s.url)
	// A browser, and node, may repeat a request whose connection died by
	// themselves; then the first press needs one try.
	if got = regexp.MustCompile(`^(201 order 1) [01] 1 `).ReplaceAllString(got, "$1 1 "); got != "201 order 1 1 false\norder 2\ntrue" || s.count() != 2 {
		t.Errorf("printed %q, and there are %d orders", got, s.count())
	}
}

func TestInABrowserAnOwnIDHoldsLongerThanItsKey(t *testing.T) {
	s := newTill(t, 300*time.Millisecond)
	got := script(t, `
		const id = crypto.randomUUID(), tea = { item: 'tea', qty: 1 };
		const say = async (answer) => console.log(answer.status, await answer.text(), answer.headers.get('Idempotency-Status').split(';')[0]);
		await say(await place(url, tea, id));
		await say(await place(url, tea, id));
		await new Promise((resolve) => setTimeout(resolve, 700));
		await say(await place(url, tea, id));
		await say(await place(url, tea));`, s.url)
	if want := "201 order 1 executed\n201 order 1 replayed\n200 order 1 executed\n201 order 2 executed"; got != want || s.count() != 2 {
		t.Errorf("printed\n%s\nwant\n%s\nand there are %d orders", got, want, s.count())
	}
}

// Requirement 79: a browser and a Go program make the same key.
func TestInABrowserTheKeyOfUUIDAndPayloadIsTheSame(t *testing.T) {
	body := `{"item":"Купить тетрадь"}`
	got := script(t, fmt.Sprintf(`
		console.log(await payloadKey(%q, 'POST', '/create-order', '{"item":"book"}'));
		console.log(await payloadKey(%[1]q, 'POST', '/create-order', %q));`, someUUID, body))
	if want := someKey + "\n" + payloadKey(someUUID, "POST", "/create-order", body); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}
