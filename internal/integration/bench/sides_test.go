package bench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
)

// slice is how long one side runs before the next has its turn.
const slice = 250 * time.Millisecond

// ids numbers all requests of the process, so that no two have the same key.
var ids atomic.Uint64

// side is one of several ways to do the same.
type side struct {
	name    string
	request func(id uint64) error
	// beside, if there is one, runs while the side has its turn, until ctx ends.
	beside func(ctx context.Context) error

	ran       time.Duration
	latencies []time.Duration
}

// run sends requests from n clients for one slice. Each client sends its next
// request when it has the answer to the last.
func (s *side) run(b *testing.B, n int) {
	b.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	if s.beside != nil {
		ctx, cancel := context.WithTimeout(context.Background(), slice)
		defer cancel()
		wg.Go(func() {
			if err := s.beside(ctx); err != nil {
				b.Errorf("%s: %v", s.name, err)
			}
		})
	}
	begin := time.Now()
	for range n {
		wg.Go(func() {
			var mine []time.Duration
			for sent := time.Now(); sent.Sub(begin) < slice; {
				if err := s.request(ids.Add(1)); err != nil {
					b.Errorf("%s: %v", s.name, err)
					break
				}
				now := time.Now()
				mine = append(mine, now.Sub(sent))
				sent = now
			}
			mu.Lock()
			defer mu.Unlock()
			s.latencies = append(s.latencies, mine...)
		})
	}
	wg.Wait()
	s.ran += time.Since(begin)
}

func (s *side) rate() float64 { return float64(len(s.latencies)) / s.ran.Seconds() }

// quantile is the latency that a share q of the requests did not exceed.
func (s *side) quantile(q float64) time.Duration {
	slices.Sort(s.latencies)
	return s.latencies[min(int(q*float64(len(s.latencies))), len(s.latencies)-1)]
}

// inTurn lets the sides run in turn. Before the measuring each has one slice that
// does not count: connections are made, statements prepared, caches filled.
func inTurn(b *testing.B, clients int, sides ...*side) {
	b.Helper()
	for _, s := range sides {
		s.run(b, clients)
		s.ran, s.latencies = 0, nil
	}
	for b.Loop() {
		for _, s := range sides {
			if s.run(b, clients); len(s.latencies) == 0 || b.Failed() {
				b.Fatalf("%s: %d requests", s.name, len(s.latencies))
			}
		}
	}
	b.ReportMetric(0, "ns/op") // an op is a slice of each: its time says nothing
}

// reportRates reports each side's throughput, and that of each but the last as a
// multiple of the last's.
func reportRates(b *testing.B, sides ...*side) {
	b.Helper()
	last := sides[len(sides)-1]
	for _, s := range sides {
		b.ReportMetric(s.rate(), s.name+"/s")
		if s != last {
			b.ReportMetric(s.rate()/last.rate(), s.name+"-x-"+last.name)
		}
	}
}

// answered is the cheapest http.ResponseWriter that knows what it was told.
type answered struct {
	header http.Header
	status int
}

func (a *answered) Header() http.Header { return a.header }

func (a *answered) WriteHeader(status int) {
	if status >= 200 {
		a.status = status
	}
}

func (a *answered) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return len(p), nil
}

const orderBody = `{"item":"notebook","qty":1}`

// order puts one order to h, as a server would, and wants it to be made.
func order(h http.Handler, key string) error {
	r, err := http.NewRequest("POST", "http://shop.example/create-order", strings.NewReader(orderBody))
	if err != nil {
		return err
	}
	r.Header["Content-Type"] = []string{"application/json"}
	r.Header["Idempotency-Key"] = []string{key}
	w := &answered{header: make(http.Header)}
	h.ServeHTTP(w, r)
	if w.status != http.StatusCreated {
		return fmt.Errorf("the answer is %d %v", w.status, w.header)
	}
	return nil
}

func ordering(h http.Handler) func(id uint64) error {
	return func(id uint64) error { return order(h, keyOf(id)) }
}

// keyOf has the length of a UUID, which some insist on.
func keyOf(id uint64) string { return fmt.Sprintf("%036d", id) }

// guardOf makes a guard that sweeps only when it is told to.
func guardOf(b *testing.B, store onceward.Store) *onceward.Guard {
	b.Helper()
	guard, err := onceward.New(store, onceward.Unscoped, onceward.Config{SweepEvery: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := guard.Close(ctx); err != nil {
			b.Error(err)
		}
	})
	return guard
}
