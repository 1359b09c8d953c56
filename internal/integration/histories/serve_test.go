package histories

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is a worker that serves, and the file of effects that it shares with
// others.
type server struct {
	*process
	t   *testing.T
	url string
}

func serve(t *testing.T, address, effects string, flags ...string) *server {
	t.Helper()
	s := &server{process: start(t, append([]string{"serve", "-store", address, "-effects", effects}, flags...)...), t: t}
	s.url = "http://" + s.line()
	return s
}

// obey gives the worker an order and returns its answer.
func (s *server) obey(order string) string {
	s.t.Helper()
	s.say(order)
	line := s.line()
	if line == "" {
		s.t.Fatalf("the worker did not %s\n%s", order, s.err)
	}
	return line
}

// end ends the worker, which must leave nothing behind.
func (s *server) end() {
	s.t.Helper()
	line := s.obey("end")
	var left Left
	if err := json.Unmarshal([]byte(line), &left); err != nil {
		s.t.Fatalf("%v: %s", err, line)
	}
	if left != (Left{}) {
		s.t.Errorf("the worker has %d goroutines and %d files more than at its beginning\n%s", left.Goroutines, left.Files, left.Stacks)
	}
	if err := s.Wait(); err != nil {
		s.t.Errorf("the worker ended with %v\n%s", err, s.err)
	}
}

// post asks for key once.
func post(ctx context.Context, client *http.Client, url, key, query string, header ...string) (status int, body, outcome string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/?"+query, strings.NewReader(key))
	if err != nil {
		return 0, "", "", err
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", "text/plain")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.GetBody = nil // the transport is not to repeat anything by itself
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	outcome, _, _ = strings.Cut(resp.Header.Get("Idempotency-Status"), ";")
	return resp.StatusCode, string(text), outcome, err
}

// effectsIn counts the runs of each key.
func effectsIn(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	effects := map[string]int{}
	for key := range bytes.Lines(text) {
		effects[strings.TrimSpace(string(key))]++
	}
	return effects
}

// crowd is 200 clients who insist on their answers.
type crowd struct {
	t       *testing.T
	pick    func(rng *rand.Rand, client, turn int) (key string, server *server)
	turns   int
	now     func(*server) *server // who stands for a server that was killed; nil: none is
	mu      sync.Mutex
	answers map[string]string
	asked   int
	refused int
	hungUp  int
}

const people = 200

func (c *crowd) run() {
	c.t.Helper()
	c.answers = map[string]string{}
	transport := &http.Transport{MaxIdleConnsPerHost: people}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range people {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for turn := range c.turns {
				key, server := c.pick(rng, i, turn)
				c.insist(ctx, client, rng, key, server)
			}
		})
	}
	wg.Wait()
}

// insist asks until there is an answer that acknowledges.
func (c *crowd) insist(ctx context.Context, client *http.Client, rng *rand.Rand, key string, server *server) {
	query := fmt.Sprint("sleep=", len(key)%5*3, "ms") // part of the request: the same for everybody
	for {
		once, cancel := ctx, context.CancelFunc(func() {})
		if rng.IntN(20) == 0 { // somebody without patience
			once, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(10))*time.Millisecond)
		}
		header := []string{}
		if rng.IntN(2) == 0 {
			header = []string{"Prefer", "wait=5"}
		}
		at := server
		if c.now != nil {
			at = c.now(server)
		}
		status, body, outcome, err := post(once, client, at.url, key, query, header...)
		cancel()
		c.mu.Lock()
		c.asked++
		switch {
		case err != nil && ctx.Err() != nil:
			c.t.Errorf("ONCEWARD_SEED=%d: nobody answered for %s in time: %v", seed, key, err)
		case err != nil:
			c.hungUp++
		case outcome == "executed" || outcome == "replayed":
			if status != http.StatusCreated {
				c.t.Errorf("ONCEWARD_SEED=%d: %s was answered with %d: %s", seed, key, status, body)
			}
			if first, ok := c.answers[key]; ok && first != body {
				c.t.Errorf("ONCEWARD_SEED=%d: %s was answered with %q and with %q", seed, key, first, body)
			}
			c.answers[key] = body
			c.mu.Unlock()
			return
		case status == http.StatusConflict || status == http.StatusServiceUnavailable:
			c.refused++
		default:
			c.t.Errorf("ONCEWARD_SEED=%d: %s got %d, %s: %s", seed, key, status, outcome, body)
		}
		c.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		time.Sleep(time.Duration(10+rng.IntN(40)) * time.Millisecond)
	}
}

// exactlyOnce compares what the handlers did with what the clients were told.
func (c *crowd) exactlyOnce(effects map[string]int) {
	c.t.Helper()
	c.t.Logf("seed %d: %d requests for %d keys; %d were refused for the moment, %d clients hung up", seed, c.asked, len(c.answers), c.refused, c.hungUp)
	for key, n := range effects {
		if n != 1 {
			c.t.Errorf("ONCEWARD_SEED=%d: %s was run %d times", seed, key, n)
		}
		if c.answers[key] == "" {
			c.t.Errorf("ONCEWARD_SEED=%d: %s was run, and nobody knows", seed, key)
		}
	}
	for key := range c.answers {
		if effects[key] == 0 {
			c.t.Errorf("ONCEWARD_SEED=%d: %s was answered and never run", seed, key)
		}
	}
}

// nothingLeft ends the servers and looks at what their store has: a row for each
// key, and none in progress.
func nothingLeft(t *testing.T, address string, keys int, servers ...*server) {
	t.Helper()
	for _, s := range servers {
		s.end()
	}
	rows(t, address, keys)
}

func rows(t *testing.T, address string, want int) {
	t.Helper()
	store := open(t, address)
	all, running, err := store.Rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all != want || running != 0 {
		t.Errorf("ONCEWARD_SEED=%d: the store has %d rows, %d of them in progress, want %d", seed, all, running, want)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// anyOf sends half of a crowd's requests for a few keys that everybody wants at
// the same time, and the rest for keys that one or two want, to any server.
func anyOf(servers ...*server) func(rng *rand.Rand, client, turn int) (string, *server) {
	return func(rng *rand.Rand, client, turn int) (string, *server) {
		server := servers[rng.IntN(len(servers))]
		switch rng.IntN(4) {
		case 0:
			return fmt.Sprintf("own-%d-%d", client, turn), server
		case 1:
			return fmt.Sprintf("pair-%d-%d", client/2, turn), server
		}
		return fmt.Sprintf("hot-%d-%d", turn, rng.IntN(4)), server
	}
}

// B005, B017, B091, B092: 200 clients, hot keys, two processes, one store,
// some of whose answers are lost on the way, by the store or with the connection:
// every key is run once, everybody gets its answer, and nothing is left behind.
func TestTwoHundredClientsTwoProcessesOneStore(t *testing.T) {
	onShared(t, func(t *testing.T, address string) {
		effects := filepath.Join(t.TempDir(), "effects")
		lose := []string{"-lose", "0.01", "-seed", fmt.Sprint(seed)}
		through, cutter := cutting(t, address, 0)
		servers := []*server{serve(t, through, effects, lose...), serve(t, through, effects, lose...)}
		if cutter != nil {
			cutter.Cut(0.003)
		}
		c := &crowd{t: t, pick: anyOf(servers...), turns: 12}
		c.run()
		if cutter != nil {
			cutter.Cut(0)
			t.Logf("%d connections were cut", len(cutter.Cuts()))
		}
		ran := effectsIn(t, effects)
		c.exactlyOnce(ran)
		nothingLeft(t, address, len(ran), servers...)
	})
}
