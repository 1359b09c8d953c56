package redisstore_test

import (
	"context"
	"log"
	"log/slog"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/redisstore"
)

// A single server. For Sentinel make the client with redis.NewFailoverClient,
// for a Cluster with redis.NewClusterClient; the rest is the same.
func Example() {
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:6379",
		ContextTimeoutEnabled: true, // a call ends in time when Redis hangs
	})
	defer client.Close()

	store, err := redisstore.New(context.Background(), client, redisstore.Config{Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	scope := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	guard, err := onceward.New(store, scope, onceward.Config{})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", guard.Handler(http.NotFoundHandler()))
}
