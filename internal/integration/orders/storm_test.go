package orders_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Clients that repeat until they are acknowledged, a process that is killed in
// their midst again and again: nothing that was acknowledged is lost, nothing
// is there twice. In one transaction with its answer an order needs no name of its
// own for that.
func TestKill9InTheMidstOfManyOrdersLosesAndDoublesNothing(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		const clients, kills, pause = 8, 6, 200 * time.Millisecond
		addr := s.url
		var over atomic.Bool
		var wg sync.WaitGroup
		var mu sync.Mutex
		acknowledged := map[string]order{}
		for c := range clients {
			wg.Go(func() {
				for i := 0; !over.Load(); i++ {
					name := fmt.Sprintf("client %d's %d", c, i)
					r := request{
						key:     fmt.Sprintf("%q", name),
						body:    fmt.Sprintf(is(s.b, `{"item":%q,"qty":1,"external_id":%[1]q}`, `{"item":%q,"qty":1}`), name),
						chaos:   "then_sleep_ms=20", // the gap that a kill has to hit
						prefer:  "wait=2",
						timeout: 5 * time.Second,
					}
					ok := within(time.Minute, func() bool {
						a, err := tryAt(addr, r)
						if err != nil || a.status >= 400 || a.outcome() != "executed" && a.outcome() != "replayed" {
							return false
						}
						mu.Lock()
						acknowledged[name] = a.order(t)
						mu.Unlock()
						return true
					})
					if !ok {
						t.Errorf("%s order was not acknowledged within a minute", name)
					}
				}
			})
		}
		for range kills {
			time.Sleep(pause + rand.N(pause))
			s.Kill()
			s.restart()
		}
		time.Sleep(pause)
		over.Store(true)
		wg.Wait()
		for _, o := range s.wantEffects(len(acknowledged)) {
			if acknowledged[o.Item] != o {
				t.Errorf("the shop has %+v, acknowledged was %+v", o, acknowledged[o.Item])
			}
		}
		t.Logf("%d orders, %d kills", len(acknowledged), kills)
	}, "-lease", "1s")
}

// The same clients through a network that loses, cuts, repeats and answers in
// the program's place.
func TestABadNetworkLosesAndDoublesNothing(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		const clients, each = 6, 15
		bad := s.behindFaults("")
		plan := "refuse=0.08,half-request=0.08,cut-after-forward=0.12,cut-mid-body=0.08,502=0.06,503-after=0.08," +
			"duplicate=0.1,duplicate-concurrent=0.1,captive-200=0.05,slow=20ms"
		if err := bad.SetPlan(plan); err != nil {
			t.Fatal(err)
		}
		seen := make([]order, clients*each)
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				for i := range each {
					n := c*each + i
					// No name of its own: the key alone has to do.
					r := request{key: fmt.Sprint("key-", n), body: fmt.Sprintf(`{"item":"item %d","qty":1}`, n), prefer: "wait=5"}
					ok := within(time.Minute, func() bool {
						a, err := tryAt(bad.url, r)
						if err != nil || a.status != http.StatusCreated || a.outcome() != "executed" && a.outcome() != "replayed" {
							return false
						}
						seen[n] = a.order(t)
						return true
					})
					if !ok {
						t.Errorf("order %d was not acknowledged within a minute", n)
					}
				}
			})
		}
		wg.Wait()
		met := bad.State().Changing
		t.Logf("requests by what they met: %v", met)
		for _, mode := range []string{"refuse", "half-request", "cut-after-forward", "cut-mid-body", "502", "503-after", "duplicate", "duplicate-concurrent", "captive-200"} {
			if met[mode] == 0 {
				t.Errorf("no request met %s: %v", mode, met)
			}
		}
		there := map[order]bool{}
		for _, o := range s.wantEffects(clients * each) {
			there[o] = true
		}
		for n, o := range seen {
			if !there[o] {
				t.Errorf("order %d was acknowledged as %+v, which the shop does not have", n, o)
			}
		}
	})
}
