package oncetest_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/oncetest"
)

// A handler may be wrong for less time than it takes to start a copy of a request, in a
// test whose store is a map. It is caught all the same where it asks its context between
// looking and acting, and where it remembers when it has answered.
func TestCopiesAtOnceCatchTheQuickToo(t *testing.T) {
	for name, between := range map[string]func(w http.ResponseWriter, r *http.Request){
		"asks its context": func(_ http.ResponseWriter, r *http.Request) { _ = r.Context().Err() },
		"answers first":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "an order") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, body := range []string{"item=tea", ""} {
				var keys sync.Map
				var orders atomic.Int64
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					key := r.Header.Get("Idempotency-Key")
					if _, known := keys.Load(key); !known {
						between(w, r)
						orders.Add(1)
						keys.Store(key, true)
					}
					if name != "answers first" {
						_, _ = io.WriteString(w, "an order")
					}
				})
				cfg := oncetest.Config{Effects: func() int { return int(orders.Load()) }}
				said := ""
				for range 5 { // a busy machine may start a copy when the others have ended
					r, err := http.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					r.Header.Set("Idempotency-Key", oncetest.NewKey())
					said += try(t, func(tb testing.TB) { cfg.AssertConcurrent(tb, h, r) })
				}
				if !strings.Contains(said, "copies sent at once were done") {
					t.Errorf("body %q: it said %q", body, said)
				}
			}
		})
	}
}
