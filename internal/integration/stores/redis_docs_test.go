package stores_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

const redisDocs = "../../../docs/redis.md"

// documented returns the code blocks of a section of docs/redis.md.
func documented(t *testing.T, heading string) []string {
	t.Helper()
	text, err := os.ReadFile(redisDocs)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/redis.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	parts := strings.Split(section, "```\n")
	var blocks []string
	for i := 1; i < len(parts); i += 2 {
		blocks = append(blocks, parts[i])
	}
	return blocks
}

// documentedACL is the rule that docs/redis.md gives for a user of the store's own.
func documentedACL(t *testing.T) []any {
	t.Helper()
	for _, block := range documented(t, "## Setting up a server") {
		if rule, ok := strings.CutPrefix(strings.TrimSpace(block), "ACL SETUSER "); ok {
			var words []any
			for _, word := range strings.Fields(rule) {
				words = append(words, word)
			}
			return words
		}
	}
	t.Fatal("docs/redis.md has no ACL rule")
	return nil
}

// documentedForCluster is what docs/redis.md adds to that for a Cluster's client.
func documentedForCluster(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(redisDocs)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("a Cluster's client\\s+needs\\s+`([^`]*)`").FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/redis.md does not say what a Cluster's client needs")
	}
	return strings.Fields(string(m[1]))
}

// asRedisCLI prints an answer of HGETALL as redis-cli does.
func asRedisCLI(name string, values []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "> HGETALL %s\n", name)
	if len(values) == 0 {
		b.WriteString("(empty array)\n")
	}
	for i, value := range values {
		fmt.Fprintf(&b, "%*d) \"", len(fmt.Sprint(len(values))), i+1)
		for _, c := range []byte(value) {
			switch {
			case c == '\\' || c == '"':
				b.WriteByte('\\')
				b.WriteByte(c)
			case strings.IndexByte("\n\r\t\a\b", c) >= 0:
				b.WriteString(map[byte]string{'\n': `\n`, '\r': `\r`, '\t': `\t`, '\a': `\a`, '\b': `\b`}[c])
			case c < ' ' || c > '~':
				fmt.Fprintf(&b, `\x%02x`, c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteString("\"\n")
	}
	return b.String()
}

// whatVaries are the moments and the token, which are others each time.
var whatVaries = regexp.MustCompile(`(\d+\) "(?:at|le|tk)"\n ?\d+\) )"(?:[^"\\]|\\.)*"`)

// The documented keys are what the guard around a real /create-order handler
// leaves in a real server, in each state.
func TestTheDocumentedKeysAreTheRealOnes(t *testing.T) {
	client := redisClient(t, servers.Redis(t)+"?protocol=2") // HGETALL keeps its order there
	store := openRedis(t, client, redisstore.Config{})
	shop := newRedisShop(t, store, onceward.Config{})
	ctx := t.Context()

	check := func(state string, ttl time.Duration) {
		t.Helper()
		name := shop.name
		values, err := client.Do(ctx, "HGETALL", name).StringSlice()
		if err != nil {
			t.Fatal(err)
		}
		got := asRedisCLI(name, values)
		var want string
		if blocks := documented(t, "### "+state); len(blocks) > 0 {
			want = blocks[0]
		}
		if whatVaries.ReplaceAllString(got, "$1…") != whatVaries.ReplaceAllString(want, "$1…") {
			t.Errorf("%s: docs/redis.md says\n%sand Redis\n%s", state, want, got)
		}
		left := client.TTL(ctx, name).Val()
		if left > ttl || left < ttl-20*time.Second {
			t.Errorf("%s: the key goes in %v, want %v", state, left, ttl)
		}
	}

	first := shop.post()
	shop.await(t)
	names := client.Keys(ctx, "*").Val()
	if len(names) != 1 {
		t.Fatalf("the keys are %q", names)
	}
	shop.name = names[0]
	check("In progress", 86430*time.Second)
	shop.answer <- http.StatusCreated
	if status := <-first; status != http.StatusCreated {
		t.Fatalf("the order is answered with %d", status)
	}
	check("Completed", 86400*time.Second)
	if bytes := client.MemoryUsage(ctx, shop.name, 0).Val(); bytes > 400 {
		t.Errorf("a small record has %d bytes, want at most 400", bytes)
	}

	fail := func(shop *redisShop) {
		t.Helper()
		client.Del(ctx, shop.name)
		failed := shop.post()
		shop.await(t)
		shop.answer <- http.StatusServiceUnavailable
		if status := <-failed; status != http.StatusServiceUnavailable {
			t.Fatalf("the failed order is answered with %d", status)
		}
	}
	fail(shop)
	check("Released", -2)
	holding := newRedisShop(t, store, onceward.Config{Unknown: onceward.Hold})
	holding.name = shop.name
	fail(holding)
	check("Held", -1)
}

// redisShop is a guarded /create-order whose handler waits for the test.
type redisShop struct {
	url     string
	name    string // of its record in Redis
	running chan struct{}
	answer  chan int
}

func newRedisShop(t *testing.T, store onceward.Store, cfg onceward.Config) *redisShop {
	t.Helper()
	s := &redisShop{running: make(chan struct{}, 1), answer: make(chan int)}
	scope := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	guard, err := onceward.New(store, scope, cfg)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /create-order", func(w http.ResponseWriter, r *http.Request) {
		s.running <- struct{}{}
		status, ok := <-s.answer
		if !ok {
			return // the test is over
		}
		if status != http.StatusCreated {
			http.Error(w, "the shop is closed", status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/orders/17")
		w.WriteHeader(status)
		io.WriteString(w, `{"id":17,"item":"tea","qty":2}`+"\n")
	})
	server := httptest.NewServer(guard.Handler(mux))
	t.Cleanup(func() {
		close(s.answer)
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := guard.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	s.url = server.URL
	return s
}

// post sends the documented request; its answer's status comes later.
func (s *redisShop) post() <-chan int {
	status := make(chan int, 1)
	go func() {
		req, err := http.NewRequest("POST", s.url+"/create-order", strings.NewReader(`{"item":"tea","qty":2}`))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "order-1")
		req.Header.Set("X-User", "ann")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			close(status)
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	return status
}

func (s *redisShop) await(t *testing.T) {
	t.Helper()
	select {
	case <-s.running:
	case <-time.After(20 * time.Second):
		t.Fatal("the handler does not run")
	}
}

// The numbers that docs/redis.md gives for memory are bounds on every build of
// Redis; what an allocator makes of them differs by some bytes.
func TestRecordsAreAsSmallAsDocumented(t *testing.T) {
	client := redisClient(t, servers.Redis(t))
	store := openRedis(t, client, redisstore.Config{})
	ctx := t.Context()
	for _, c := range []struct {
		name                  string
		resp                  *onceward.Response
		inProgress, completed int64
		encoding              string
	}{
		{"204", &onceward.Response{Status: 204}, 320, 320, "listpack"},
		{"small", &onceward.Response{Status: 201,
			Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/orders/17"}},
			Body:   []byte(`{"id":17,"item":"tea","qty":2}` + "\n")}, 320, 400, "listpack"},
		{"usual", &onceward.Response{Status: 201,
			Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/orders/CBGJ4A6XPQ5UKOYZ2WSMNVLEDI"}, "Cache-Control": {"no-store"}},
			Body:   []byte(`{"id":"CBGJ4A6XPQ5UKOYZ2WSMNVLEDI","item":"tea","qty":2,"status":"placed"}` + "\n")}, 320, 560, "listpack"},
		{"at the limit", &onceward.Response{Status: 200, Body: []byte(strings.Repeat("b", 504))}, 320, 1000, "listpack"},
		{"past it", &onceward.Response{Status: 200, Body: []byte(strings.Repeat("b", 505))}, 320, 2000, "hashtable"},
	} {
		client.FlushDB(ctx)
		claim := redisClaim("user", c.name, 1)
		claim.Path = "/create-order"
		mustClaim(t, store, claim)
		name := client.Keys(ctx, "*").Val()[0]
		inProgress := client.MemoryUsage(ctx, name, 0).Val()
		if err := store.Complete(ctx, claim.Key, claim.Token, c.resp, time.Hour); err != nil {
			t.Fatal(err)
		}
		completed := client.MemoryUsage(ctx, name, 0).Val()
		t.Logf("%s: %d bytes in progress, %d completed", c.name, inProgress, completed)
		if inProgress > c.inProgress || completed > c.completed {
			t.Errorf("%s: %d bytes in progress, %d completed; want at most %d and %d", c.name, inProgress, completed, c.inProgress, c.completed)
		}
		if got := client.ObjectEncoding(ctx, name).Val(); got != c.encoding {
			t.Errorf("%s: the encoding is %s, want %s", c.name, got, c.encoding)
		}
	}
}

// A first request is two round trips and a repeat is one, in a Cluster too.
func TestRedisRoundTrips(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		store := openRedis(t, client, redisstore.Config{})
		ctx := t.Context()
		request := func(key string, n byte) {
			t.Helper()
			c := redisClaim("user", key, n)
			_, claimed, err := store.Claim(ctx, c)
			if err == nil && claimed {
				err = store.Complete(ctx, c.Key, c.Token, testAnswer(key), time.Hour)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 50 { // every server knows the scripts, every connection stands
			request(fmt.Sprint("warm-", i), 1)
			request(fmt.Sprint("warm-", i), 2)
		}
		trips := &tripCounter{}
		client.AddHook(trips)
		request("key", 1)
		if n := trips.taken(); n != 2 {
			t.Errorf("a first request is %d round trips, want 2", n)
		}
		request("key", 2)
		if n := trips.taken(); n != 1 {
			t.Errorf("a repeat is %d round trips, want 1", n)
		}
		store = openRedis(t, client, redisstore.Config{}) // another process
		trips.taken()
		request("key", 3)
		if n := trips.taken(); n != 1 {
			t.Errorf("a repeat that reaches another process is %d round trips, want 1", n)
		}
	})
}
