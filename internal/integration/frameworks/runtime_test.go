package frameworks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A handler that outlives MaxRuntime still has what its framework gave it. No other
// request may be given the same meanwhile: each is answered with its own order.
func TestAHandlerPastMaxRuntimeMeetsNoOtherRequest(t *testing.T) {
	for _, p := range columns {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			flags := []string{"-max-runtime", "200ms"}
			if p.mount != "" {
				flags = append(flags, "-mount", p.mount)
			}
			program := start(t, p.command, flags...)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
			t.Cleanup(client.CloseIdleConnections)
			order := func(item, chaos string) (status int, ordered string) {
				req, err := http.NewRequest(http.MethodPost, program.url+"/create-order", strings.NewReader(fmt.Sprintf(`{"item":%q,"qty":1}`, item)))
				if err != nil {
					t.Error(err)
					return 0, ""
				}
				set(req.Header, "Idempotency-Key", item, "X-Chaos", chaos)
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return 0, ""
				}
				defer resp.Body.Close()
				var o struct{ Item string }
				_ = json.NewDecoder(resp.Body).Decode(&o) // a refusal has none
				return resp.StatusCode, o.Item
			}
			slow := []string{"slow-0", "slow-1", "slow-2"}
			var all sync.WaitGroup
			for _, item := range slow {
				all.Go(func() {
					if status, got := order(item, "sleep_ms=2500&deaf=1"); status != http.StatusServiceUnavailable {
						t.Errorf("%s was answered %d %q", item, status, got)
					}
				})
			}
			for worker := range 4 {
				all.Go(func() {
					for i, end := 0, time.Now().Add(4*time.Second); time.Now().Before(end) || i < 5; i++ {
						item := fmt.Sprintf("quick-%d-%d", worker, i)
						status, got := order(item, "")
						if status == http.StatusServiceUnavailable {
							continue // the machine is so busy that this one was too slow as well
						}
						if status != http.StatusCreated || got != item {
							t.Errorf("%s was answered %d %q", item, status, got)
						}
						time.Sleep(5 * time.Millisecond)
					}
				})
			}
			all.Wait()
			resp, err := client.Get(program.url + "/orders")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var orders []struct{ Item string }
			if err := json.NewDecoder(resp.Body).Decode(&orders); err != nil || len(orders) < 20 {
				t.Errorf("%d orders, %v", len(orders), err)
			}
			there := map[string]int{}
			for _, o := range orders {
				if there[o.Item]++; there[o.Item] > 1 {
					t.Errorf("%s is ordered twice", o.Item)
				}
			}
		})
	}
}
