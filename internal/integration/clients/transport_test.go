package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/fault"
	"github.com/onceward/onceward/internal/integration/programs"
)

// shop is a running examples/orders.
type shop struct {
	programs.Program
	addr string
	args []string // without its address
}

func startShop(t *testing.T) *shop {
	t.Helper()
	dir := t.TempDir()
	s := &shop{Program: programs.Program{Path: filepath.Join(dir, "orders")}, addr: "127.0.0.1:0"}
	if err := programs.Build(s.Path, "examples/orders", false); err != nil {
		t.Fatal(err)
	}
	// The key and the order are one transaction: a kill doubles nothing.
	s.args = []string{"-atomic", "-store", "sqlite:" + filepath.Join(dir, "orders.db")}
	s.run(t)
	t.Cleanup(s.Kill)
	return s
}

func (s *shop) run(t *testing.T) {
	t.Helper()
	s.Args = append([]string{"-addr", s.addr}, s.args...)
	url, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	s.addr = strings.TrimPrefix(url, "http://")
}

// orders are the items that were ordered, and how often.
func (s *shop) orders(t *testing.T) map[string]int {
	t.Helper()
	res, err := http.Get("http://" + s.addr + "/orders")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all []struct{ Item string }
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, o := range all {
		count[o.Item]++
	}
	return count
}

// S6, B010, B098: two hundred orders, a network that loses three answers in ten
// and does worse, and a shop that is killed twice meanwhile.
func TestAClientLosesAndDoublesNothingOverABadNetworkAndTwoKills(t *testing.T) {
	const orders = 200
	s := startShop(t)
	plan, err := fault.ParsePlan("cut-after-forward=0.3,cut-mid-body=0.05,502-after=0.05,502=0.05,refuse=0.03,half-request=0.03,reset-once=0.03,duplicate=0.03,duplicate-concurrent=0.03")
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := fault.New("http://"+s.addr, fault.Config{Plan: plan, Seed: 42})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = proxy.Serve(listener) }()
	t.Cleanup(func() { _ = proxy.Close() })

	var attempts, done atomic.Int64
	transport, err := onceward.NewTransport(nil, onceward.TransportConfig{
		Hosts: []string{"127.0.0.1"}, Backoff: 2 * time.Millisecond, MaxBackoff: 50 * time.Millisecond,
		MaxAttempts: -1, MaxElapsed: 2 * time.Minute, AttemptTimeout: 20 * time.Second,
		Observe: func(onceward.TransportAttempt) { attempts.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	next := make(chan int)
	ids := make([]string, orders)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range next {
				name := fmt.Sprint("order-", i)
				res, err := placeOrder(context.Background(), client, "http://"+listener.Addr().String()+"/create-order", name, fmt.Sprintf(`{"item":"item %d","qty":1}`, i))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				_, err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if err != nil || res.StatusCode != http.StatusCreated {
					t.Errorf("%s: %d, %v", name, res.StatusCode, err)
				}
				ids[i] = res.Header.Get("Location")
				done.Add(1)
			}
		})
	}
	for i := range orders {
		if i == orders/3 || i == 2*orders/3 {
			s.Kill()
			time.Sleep(100 * time.Millisecond)
			s.run(t)
		}
		next <- i
	}
	close(next)
	all.Wait()
	made, doubled := s.orders(t), 0
	for _, n := range made {
		doubled += n - 1
	}
	if lost := orders - len(made); lost != 0 || doubled != 0 || done.Load() != orders {
		t.Errorf("lost=%d doubled=%d; %d answered", lost, doubled, done.Load())
	}
	seen := map[string]bool{}
	for i, id := range ids {
		if id == "" || seen[id] {
			t.Errorf("order %d is at %q", i, id)
		}
		seen[id] = true
	}
	t.Logf("%d orders took %d attempts", orders, attempts.Load())
	if attempts.Load() < orders*6/5 {
		t.Errorf("%d attempts only: the network was good", attempts.Load())
	}
	if seen := int64(len(proxy.Log())); seen > attempts.Load() {
		t.Errorf("the network saw %d requests, and we made %d attempts", seen, attempts.Load())
	}
}
