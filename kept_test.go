package onceward_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// How long what is kept, and what is kept before whom.

// A tombstone is part of how long every kind of answer is kept: the handler's, the one
// that was found by Resolve, and the one that was committed with its work.
func TestEveryKindOfAnswerHasItsTombstone(t *testing.T) {
	const retention, tombstone = time.Hour, 24 * time.Hour
	expires := func(t *testing.T, r *rig, first string) {
		t.Helper()
		want(t, r.post("k", "1"), 201, first)
		time.Sleep(retention - time.Minute)
		want(t, r.post("k", "1"), 201, "replayed")
		time.Sleep(2 * time.Minute)
		want(t, r.post("k", "1"), 422, "key-expired")
		time.Sleep(tombstone - 3*time.Minute)
		want(t, r.post("k", "1"), 422, "key-expired")
		time.Sleep(time.Hour)
		want(t, r.post("k", "1"), 201, "executed")
	}
	t.Run("resolved", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cfg := onceward.Config{Retention: retention, Tombstone: tombstone, Unknown: onceward.Resolve}
			cfg.Resolve = func(*http.Request, onceward.Record) (*onceward.Response, error) {
				return &onceward.Response{Status: 201, Body: []byte("found")}, nil
			}
			r := newRig(t, orphan(t, cfg, "k", "1"), cfg, created)
			time.Sleep(31 * time.Second)
			expires(t, r, "replayed")
		})
	})
	t.Run("atomic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			expires(t, newAtomicRig(t, newLedger(), onceward.Config{Retention: retention, Tombstone: tombstone}, keep(201)), "executed")
		})
	})
	t.Run("recorded late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &faulty{Store: memstore.New(memstore.Config{}), complete: failing(1)}
			r := newRig(t, store, onceward.Config{Retention: retention, Tombstone: tombstone}, created)
			want(t, r.post("k", "1"), 201, "executed;unrecorded")
			time.Sleep(time.Second)
			expires(t, r, "replayed")
		})
	})
}

// A claim whose process died is known for a day past its lease, however short the
// retention: another request under its key is told so, and is not run in its place.
func TestAnAbandonedClaimIsKnownForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onceward.Config{Retention: time.Minute}
		r := newRig(t, orphan(t, cfg, "k", "1"), cfg, created)
		for range 2 {
			time.Sleep(12*time.Hour - 10*time.Second)
			want(t, r.post("k", "2"), 422, "key-reused")
		}
		time.Sleep(time.Hour)
		want(t, r.post("k", "2"), 201, "executed")
		r.wantRuns(1)
	})
}

// However many wait for what nobody knows, one of them asks, and the others get what
// it has found.
func TestOneRequestAtATimeAsksWhatBecameOfIt(t *testing.T) {
	for name, found := range map[string]*onceward.Response{"it was done": {Status: 201, Body: []byte("found")}, "it was not done": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asking, asked, together atomic.Int64
				cfg := onceward.Config{Unknown: onceward.Resolve, Wait: true}
				cfg.Resolve = func(*http.Request, onceward.Record) (*onceward.Response, error) {
					asked.Add(1)
					if asking.Add(1) > 1 {
						together.Add(1)
					}
					time.Sleep(time.Second) // the bank is slow
					asking.Add(-1)
					return found, nil
				}
				r := newRig(t, orphan(t, cfg, "k", "1"), cfg, created)
				time.Sleep(31 * time.Second)
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						if w := r.post("k", "1"); w.Code != 201 {
							t.Errorf("%d, %s: %s", w.Code, w.Header().Get("Idempotency-Status"), w.Body)
						}
					})
				}
				all.Wait()
				if asked.Load() != 1 || together.Load() != 0 {
					t.Errorf("it was asked %d times, %d of them while another was asking; want once", asked.Load(), together.Load())
				}
				if found == nil {
					r.wantRuns(1)
				} else {
					r.wantRuns(0)
				}
			})
		})
	}
}

// The same of a key that its own process has given up with its outcome unknown: those
// who come while one asks are not made to ask as well.
func TestOneRequestAtATimeAsksAboutAHeldKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		cfg := onceward.Config{Unknown: onceward.Resolve, Wait: true}
		cfg.Resolve = func(*http.Request, onceward.Record) (*onceward.Response, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			return &onceward.Response{Status: 201, Body: []byte("found")}, nil
		}
		r := newRig(t, nil, cfg, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "half done", 500) })
		want(t, r.post("k", "1"), 500, "outcome-unknown")
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if w := r.post("k", "1"); w.Code != 201 && w.Code != 409 {
					t.Errorf("%d, %s: %s", w.Code, w.Header().Get("Idempotency-Status"), w.Body)
				}
			})
		}
		all.Wait()
		if asked.Load() != 1 {
			t.Errorf("it was asked %d times, want once", asked.Load())
		}
		want(t, r.post("k", "1"), 201, "replayed")
		r.wantRuns(1)
	})
}

// While an answer that could not be recorded is still being tried, its lease is
// renewed: a repeat at another process does not run the work again.
func TestTheLeaseIsRenewedWhileALateCompletionIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(memstore.Config{})
		down := time.Now().Add(33 * time.Second)
		store := &faulty{Store: mem}
		store.complete = func() error {
			if time.Now().Before(down) {
				return context.DeadlineExceeded
			}
			return nil
		}
		here := newRig(t, store, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(9 * time.Second) // not renewed by then: the claim ends at 30 s
			created(w, r)
		})
		there := newRig(t, mem, onceward.Config{}, created) // another process
		want(t, here.post("k", "1"), 201, "executed;unrecorded")
		time.Sleep(22 * time.Second) // 31 s after the claim
		want(t, there.post("k", "1"), 409, "in-progress")
		time.Sleep(7 * time.Second)
		want(t, there.post("k", "1"), 201, "replayed")
		here.wantRuns(1)
		there.wantRuns(0)
	})
}

// Until the answer is recorded, the client has not a byte of it: neither its status,
// nor its header, nor its body, be it in memory or on disk.
func TestNoByteGoesOutBeforeTheAnswerIsRecorded(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789"), 400<<10/10)
	answers := map[string]http.HandlerFunc{
		"small":     created,
		"no body":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"a refusal": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusConflict) },
		"large":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(large) },
		"in pieces": func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				_, _ = io.WriteString(w, "piece ")
			}
		},
	}
	for name, app := range answers {
		for _, way := range []string{"Handler", "Atomic"} {
			t.Run(name+" through "+way, func(t *testing.T) {
				gate := &recording{Store: memstore.New(memstore.Config{})}
				var r *rig
				if way == "Atomic" {
					l := newLedger()
					l.Store = gate
					r = newAtomicRig(t, l, onceward.Config{}, app)
				} else {
					r = newRig(t, gate, onceward.Config{}, app)
				}
				w := &watched{ResponseRecorder: httptest.NewRecorder(), recorded: &gate.recorded}
				r.h.ServeHTTP(w, request("k", "1"))
				if w.early != "" || w.bytes == 0 && name != "no body" || !gate.recorded.Load() {
					t.Errorf("before the answer was recorded: %q; %d bytes in all, recorded %v", w.early, w.bytes, gate.recorded.Load())
				}
				want(t, w.ResponseRecorder, w.Code, "executed")
			})
		}
	}
}

// recording is a store that tells when it has completed a record.
type recording struct {
	onceward.Store
	recorded atomic.Bool
}

func (r *recording) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	err := r.Store.Complete(ctx, key, tok, resp, retain)
	r.recorded.Store(err == nil)
	return err
}

// watched is a client who tells what reached it too early.
type watched struct {
	*httptest.ResponseRecorder
	recorded *atomic.Bool
	early    string
	bytes    int
}

func (w *watched) note(what string) {
	if !w.recorded.Load() {
		w.early += what + " "
	}
}

func (w *watched) WriteHeader(code int) {
	w.note("status")
	w.ResponseRecorder.WriteHeader(code)
}

func (w *watched) Write(b []byte) (int, error) {
	w.note("body")
	w.bytes += len(b)
	return w.ResponseRecorder.Write(b)
}

func (w *watched) Flush() {
	w.note("flush")
	w.ResponseRecorder.Flush()
}
