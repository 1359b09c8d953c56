package stores_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/redisstore"
)

// Two programs share a Redis. An order that is sent to one, and once more to the
// other because its answer was lost, is one order.
func Example_redis() {
	var t example
	defer t.end()
	opts, err := redis.ParseURL(servers.Redis(&t))
	if err != nil {
		panic(err)
	}
	orders := 0
	program := func() *httptest.Server {
		client := redis.NewClient(opts)
		t.Cleanup(func() { client.Close() })
		store, err := redisstore.New(context.Background(), client, redisstore.Config{})
		if err != nil {
			panic(err)
		}
		scope := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
		guard, err := onceward.New(store, scope, onceward.Config{})
		if err != nil {
			panic(err)
		}
		server := httptest.NewServer(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			orders++
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "order %d", orders)
		})))
		t.Cleanup(server.Close)
		return server
	}
	for _, server := range []*httptest.Server{program(), program()} {
		req, err := http.NewRequest("POST", server.URL+"/create-order", strings.NewReader(`{"item":"tea"}`))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Idempotency-Key", "order-1")
		req.Header.Set("X-User", "ann")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, string(body), resp.Header.Get("Idempotency-Status"))
	}
	fmt.Println(orders, "order was made")
	// Output:
	// 201 order 1 executed;key="order-1"
	// 201 order 1 replayed;key="order-1"
	// 1 order was made
}

// example is what a test is to the servers that it starts.
type example struct{ cleanups []func() }

func (*example) Helper()                           {}
func (e *example) Cleanup(f func())                { e.cleanups = append(e.cleanups, f) }
func (*example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*example) Skipf(format string, args ...any)  { panic(fmt.Sprintf(format, args...)) }

func (e *example) end() {
	for i := len(e.cleanups) - 1; i >= 0; i-- {
		e.cleanups[i]()
	}
}
