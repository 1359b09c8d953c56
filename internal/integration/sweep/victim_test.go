//go:build linux

package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/onceward/onceward"
)

// victimPlan is the environment variable that makes the test binary a victim.
const victimPlan = "ONCEWARD_SWEEP_VICTIM"

// The modes of a victim: how it mounts the guard.
const (
	rerun   = "handler-rerun"
	hold    = "handler-hold"
	resolve = "handler-resolve"
	atomic  = "atomic"
)

// plan is what a victim is told by its parent.
type plan struct {
	Store  string // sqlite, postgres, redis or memory
	Place  string // the database's file, connection string or URL
	Ledger string // a file for the effects, where Place has no room for them
	Mode   string
	Name   string // written beside each effect, and to be found among the server's connections
	Point  point  // where it dies; the zero value: nowhere
	Wrong  string // what is wrong with its store; "" is nothing

	Lease, StoreTimeout, MaxTransaction time.Duration
}

// victim is the process that is to die: a server with one guarded handler that
// has one effect.
type victim struct {
	plan   plan
	aim    aim
	store  onceward.Store
	ledger ledger
}

// ledger is where the handler has its effect, and where that can be looked up.
type ledger interface {
	// write adds an effect, under Atomic in ctx's transaction, otherwise in one of
	// its own, and returns its number.
	write(ctx context.Context, key, by string) (int64, error)
	// find returns the number of the key's first effect; 0 if it has none.
	find(ctx context.Context, key string) (int64, error)
}

func runVictim(spec string) int {
	v := &victim{}
	err := json.Unmarshal([]byte(spec), &v.plan)
	if err == nil {
		v.aim.point, v.aim.resume = v.plan.Point, make(chan struct{})
		err = v.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "victim:", err)
		return 1
	}
	return 0
}

func (v *victim) run() error {
	opening, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	closeAll, err := v.open(opening)
	if err != nil {
		return err
	}
	defer closeAll()
	guard, err := onceward.New(v.aim.stepped(v.store), onceward.Unscoped, v.config())
	if err != nil {
		return err
	}
	guarded := guard.Handler
	if v.plan.Mode == atomic {
		guarded = guard.Atomic
	}
	orders := guarded(http.HandlerFunc(v.order))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		v.aim.armed.Store(true)
		orders.ServeHTTP(&steppedWriter{ResponseWriter: w, aim: &v.aim}, r)
	})
	// How many statements there were since the request came.
	mux.HandleFunc("GET /statements", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, v.aim.statements.Load())
	})
	mux.HandleFunc("POST /go", v.aim.goOn)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: mux}
	go srv.Serve(ln)
	fmt.Println("ready http://" + ln.Addr().String())
	io.Copy(io.Discard, os.Stdin) // until the parent wants no more of it
	srv.Close()
	closing, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return guard.Close(closing)
}

func (v *victim) config() onceward.Config {
	cfg := onceward.Config{
		Lease: v.plan.Lease, StoreTimeout: v.plan.StoreTimeout, MaxTransaction: v.plan.MaxTransaction,
		SweepEvery: -1, // it would add statements and messages of its own
		Logger:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	switch v.plan.Mode {
	case hold:
		cfg.Unknown = onceward.Hold
	case resolve:
		cfg.Unknown = onceward.Resolve
		cfg.Resolve = v.resolve
	}
	return cfg
}

// order is the handler. Outside Atomic it does not watch its context, as most do
// not: a victim that was displaced goes on.
func (v *victim) order(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if v.plan.Mode != atomic {
		ctx = context.WithoutCancel(ctx)
	}
	v.aim.step(beforeWork)
	id, err := v.ledger.write(ctx, r.Header.Get("Idempotency-Key"), v.plan.Name)
	if err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("the work failed", "error", err)
		http.Error(w, "the work failed", http.StatusInternalServerError)
		return
	}
	v.aim.step(afterWork)
	a := made(id)
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	w.Write(a.Body)
}

// made is the answer to the request whose effect has this number. It names the
// number, so that two answers differ if there were two effects.
func made(id int64) *onceward.Response {
	header := http.Header{}
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Location", "/orders/"+strconv.FormatInt(id, 10))
	return &onceward.Response{Status: http.StatusCreated, Header: header, Body: fmt.Appendf(nil, "order %d is taken\n", id)}
}

func (v *victim) resolve(r *http.Request, _ onceward.Record) (*onceward.Response, error) {
	id, err := v.ledger.find(r.Context(), r.Header.Get("Idempotency-Key"))
	if err != nil || id == 0 {
		return nil, err
	}
	return made(id), nil
}
