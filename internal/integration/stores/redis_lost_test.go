package stores_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

// redisCutter passes connections on to a server. When it is armed it lets the next
// command through, waits until the server has answered it, and cuts the
// connection instead of passing the answer on.
type redisCutter struct {
	net.Listener
	upstream string
	armed    atomic.Bool
	cuts     atomic.Int32
	answers  atomic.Int64 // pieces that came from the server
	conns    sync.WaitGroup
}

func startCutter(t testing.TB, upstream string) *redisCutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &redisCutter{Listener: l, upstream: upstream}
	c.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.conns.Go(func() { c.pass(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); c.conns.Wait() })
	return c
}

func (c *redisCutter) pass(client net.Conn) {
	server, err := net.Dial("tcp", c.upstream)
	if err != nil {
		client.Close()
		return
	}
	var both sync.WaitGroup
	end := func() { client.Close(); server.Close() }
	both.Go(func() { defer end(); io.Copy(server, client) })
	both.Go(func() {
		defer end()
		for buf := make([]byte, 64<<10); ; {
			n, err := server.Read(buf)
			if n > 0 && c.armed.CompareAndSwap(true, false) {
				c.cuts.Add(1)
				return
			}
			c.answers.Add(1)
			if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	})
	both.Wait()
}

// An answer of the server is lost after the work is done there: the call fails,
// and repeated under the same token it finds what it has done. Whether the guard
// repeats it or the client library does makes no difference.
func TestALostAnswerOfRedisIsFoundAgain(t *testing.T) {
	for name, retries := range map[string]int{"repeated by the caller": -1, "repeated by the client": 3} {
		t.Run(name, func(t *testing.T) {
			direct := redisClient(t, servers.Redis(t))
			opts := *direct.Options()
			proxy := startCutter(t, opts.Addr)
			client := redis.NewClient(&redis.Options{Addr: proxy.Addr().String(), DB: opts.DB, MaxRetries: retries, PoolSize: 1, ContextTimeoutEnabled: true})
			defer client.Close()
			store := openRedis(t, client, redisstore.Config{})
			ctx := t.Context()

			// lose makes the call with its answer cut, and then, if that failed,
			// once more.
			lose := func(what string, call func() error) {
				t.Helper()
				if err := client.Ping(ctx).Err(); err != nil { // the connection stands
					t.Fatal(err)
				}
				before := proxy.cuts.Load()
				proxy.armed.Store(true)
				err := call()
				if proxy.armed.Load() || proxy.cuts.Load() != before+1 {
					t.Fatalf("%s: no answer was cut", what)
				}
				if (err != nil) != (retries < 0) || errors.Is(err, onceward.ErrClaimLost) {
					t.Fatalf("%s, its answer lost: %v", what, err)
				}
				if err != nil {
					if err := call(); err != nil {
						t.Fatalf("%s, repeated: %v", what, err)
					}
				}
			}
			c := redisClaim("user", "key", 1)
			// Another process, which has not met the key yet.
			stranger := func() *redisstore.Store { return openRedis(t, client, redisstore.Config{}) }
			claim := func(c onceward.Claim, attempt int) func() error {
				store := stranger()
				return func() error {
					rec, claimed, err := store.Claim(ctx, c)
					if err == nil && (!claimed || rec.Attempt != attempt || rec.Token != c.Token) {
						t.Fatalf("claimed %v, attempt %d; want its own claim, attempt %d", claimed, rec.Attempt, attempt)
					}
					return err
				}
			}
			lose("Claim", claim(c, 1))
			lose("Extend", func() error { return store.Extend(ctx, c.Key, c.Token, 0, false) })
			next := c
			next.Token[0], next.TakeOver = 9, true
			lose("Claim by take-over", claim(next, 2))
			lose("Complete", func() error { return store.Complete(ctx, next.Key, next.Token, testAnswer("done"), time.Hour) })
			replay := func(store *redisstore.Store) func() error {
				return func() error {
					rec, claimed, err := store.Claim(ctx, c)
					if err == nil && (claimed || string(rec.Response.Body) != "done") {
						t.Fatalf("claimed %v, %v", claimed, rec.Response)
					}
					return err
				}
			}
			lose("a replay", replay(stranger()))
			// Where the key is known a lost reading costs only the script's reading.
			if err := replay(store)(); err != nil {
				t.Fatal(err)
			}
			proxy.armed.Store(true)
			if err := replay(store)(); err != nil || proxy.armed.Load() {
				t.Errorf("a replay whose first reading is lost: cut %v, error %v", !proxy.armed.Load(), err)
			}
			other := redisClaim("user", "other", 1)
			lose("Claim of another key", claim(other, 1))
			lose("Release", func() error { return store.Release(ctx, other.Key, other.Token) })
			if _, found, err := store.Look(ctx, other.Key); err != nil || found {
				t.Errorf("after Release: found %v, error %v", found, err)
			}
		})
	}
}

// The same below a whole crowd: every request whose answers are cut now and then
// ends with its own answer, and runs once, because each call repeats under its
// token.
func TestACrowdWhoseAnswersAreLostRunsOnce(t *testing.T) {
	direct := redisClient(t, servers.Redis(t))
	proxy := startCutter(t, direct.Options().Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr().String(), DB: direct.Options().DB, ContextTimeoutEnabled: true})
	defer client.Close()
	store := openRedis(t, client, redisstore.Config{})
	requests := crowdOf(8, 50, store)
	defer requests.end()
	ctx, cancel := context.WithCancel(t.Context())
	var cutting sync.WaitGroup
	cutting.Go(func() {
		// By answers, not by time: on a slow machine a cut each few milliseconds
		// would leave no answer whole.
		for next := int64(0); ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if n := proxy.answers.Load(); n >= next {
				proxy.armed.Store(true)
				next = n + 30
			}
		}
	})
	requests.awaitRequests(t, 1000)
	cancel()
	cutting.Wait()
	proxy.armed.Store(false)
	requests.end()
	if n := proxy.cuts.Load(); n < 20 {
		t.Errorf("%d answers were cut only", n)
	}
	if claims, answers := requests.settle(t); claims+answers > 0 || len(requests.claimed) != len(requests.completed) {
		t.Errorf("%d requests, %d completed, %d claims and %d answers lost", len(requests.claimed), len(requests.completed), claims, answers)
	}
}

// B097: while Redis is down a claim fails in the time that its context allows.
func TestARedisThatHangsIsNotWaitedForLonger(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	live := servers.StartRedis(t)
	hangs := atomic.Bool{}
	client := redis.NewClient(&redis.Options{
		Addr: live.Addr, ContextTimeoutEnabled: true,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if hangs.Load() {
				addr = l.Addr().String()
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	defer client.Close()
	store := openRedis(t, client, redisstore.Config{})
	mustClaim(t, store, redisClaim("user", "key", 1))
	hangs.Store(true)
	live.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	result := make(chan error, 1)
	go func() { _, _, err := store.Claim(ctx, redisClaim("user", "other", 1)); result <- err }()
	select {
	case err := <-result:
		if err == nil {
			t.Error("a claim on a server that hangs succeeds")
		}
	case <-time.After(20 * time.Second):
		t.Error("a claim whose context has ended still waits for a server that hangs")
	}
}

// B097: Redis is down before the claim: 503, and nothing has run. It goes down
// between the work and its record: the client gets the true answer, marked as
// not recorded; the guard goes on trying, and when Redis is back the repeat is a
// replay.
func TestAGuardOutlivesItsRedis(t *testing.T) {
	server := servers.StartRedis(t, "appendonly", "yes", "appendfsync", "always")
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { client.Close() })
	shop := newRedisShop(t, openRedis(t, client, redisstore.Config{}), onceward.Config{})

	server.Kill()
	if status := <-shop.post(); status != 503 {
		t.Errorf("with Redis down the order is answered with %d, want 503", status)
	}
	if len(shop.running) > 0 {
		t.Error("with Redis down the handler runs")
	}

	server.Start(t)
	first := shop.post()
	shop.await(t)
	server.Kill()
	shop.answer <- 201
	if status := <-first; status != 201 {
		t.Errorf("the order whose record is lost is answered with %d, want its own 201", status)
	}
	server.Start(t)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		status := <-shop.post()
		if len(shop.running) > 0 {
			t.Fatal("the repeat runs the handler again")
		}
		if status == 201 {
			break
		}
		if status != 409 && status != 503 || time.Now().After(deadline) {
			t.Fatalf("the repeat is answered with %d", status)
		}
	}
}
