package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/histories"
	"github.com/onceward/onceward/internal/wall"
)

// setting is how a worker serves.
type setting struct {
	address, effects string
	atomic           bool
	lease, retention time.Duration
	lose             float64
	seed             uint64
}

// serve is an HTTP server with a guarded handler. It says "ready", then its
// address, and obeys standard input:
//
//	clock D   sets the wall clock so far ahead; negative: behind
//	sweep     deletes what is absent, and says "swept N"
//	end       closes everything and says, as a histories.Left, what is left
//
// The handler of POST /?sleep=D takes that time and then has its effect: a line
// with the key in the file of effects; with atomic, a row with the key in the store's
// own database, in the transaction that keeps the answer.
func serve(ctx context.Context, s setting) error {
	before := histories.Beginning()
	store, err := histories.Open(ctx, s.address)
	if err != nil {
		return err
	}
	effects, err := os.OpenFile(s.effects, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	guarded := store.Store
	if s.lose > 0 && !s.atomic { // a Lossy is no Transactor
		guarded = histories.NewLossy(store.Store, s.lose, s.seed)
	}
	guard, err := onceward.New(guarded, onceward.Unscoped, onceward.Config{Lease: s.lease, Retention: s.retention, Require: true})
	if err != nil {
		return err
	}
	var runs atomic.Int64
	wrap, effect := guard.Handler, func(_ context.Context, key string) error {
		_, err := effects.WriteString(key + "\n")
		return err
	}
	if s.atomic {
		wrap, effect = guard.Atomic, store.Effect
	}
	mux := http.NewServeMux()
	mux.Handle("POST /", wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != key {
			http.Error(w, "the body is not the key's", http.StatusBadRequest)
			return
		}
		if d, err := time.ParseDuration(r.URL.Query().Get("sleep")); err == nil {
			time.Sleep(d)
		}
		if err := effect(r.Context(), key); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s is run %d of process %d", key, runs.Add(1), os.Getpid())
	})))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux}
	var serving sync.WaitGroup
	serving.Go(func() { err = server.Serve(listener) })
	fmt.Println("ready")
	fmt.Println(listener.Addr())

	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		word, argument, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "clock":
			ahead, err := time.ParseDuration(argument)
			if err != nil {
				return err
			}
			wall.Set(ahead)
			fmt.Println("clock")
		case "sweep":
			n, err := store.Store.(onceward.Sweeper).Sweep(ctx, 1<<20)
			if err != nil {
				return err
			}
			fmt.Println("swept", n)
		case "end":
			closed := server.Shutdown(ctx)
			serving.Wait()
			if errors.Is(err, http.ErrServerClosed) {
				err = nil
			}
			err = errors.Join(err, closed, guard.Close(ctx), store.Close(ctx), effects.Close())
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(histories.WhatIsLeft(before))
		}
	}
	return errors.New("nobody said end")
}
