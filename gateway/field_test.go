package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/memstore"
)

// B104: a balancer gives the same request to a second gateway, because the first
// one's answer was a 503 or did not arrive. Both have one store.
func TestTwoGatewaysOnOneStoreAreOne(t *testing.T) {
	app := serve(t, true, func(a *arrival) bool {
		if a.URL.Path == "/busy" { // it acts, and says 503
			a.say("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		} else {
			a.say(created)
		}
		return true
	})
	store := memstore.New(memstore.Config{})
	var nodes []string
	for range 2 {
		g, err := gateway.New(app.url(), store, onceward.Unscoped, gateway.Config{OnServerError: gateway.HoldServerErrors})
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(g)
		t.Cleanup(func() { s.Close(); g.Close(context.Background()) })
		nodes = append(nodes, s.Listener.Addr().String())
	}
	send(t, nodes[0], "POST", "/orders", "tea", key, "a").want(t, 201, "executed")
	send(t, nodes[1], "POST", "/orders", "tea", key, "a").want(t, 201, "replayed")
	app.wantArrivals(1)
	send(t, nodes[0], "POST", "/busy", "tea", key, "b").want(t, 503, "outcome-unknown")
	send(t, nodes[1], "POST", "/busy", "tea", key, "b").want(t, 409, "outcome-unknown")
	app.wantArrivals(2)
}

// B107: the application is restarted under load, with connections kept alive.
// Whatever a client hears, each request reached the application as often as the
// answer says: once if it was executed, not at all if it was released, at most
// once if nobody knows.
func TestARestartOfTheApplicationUnderLoadDoublesNothing(t *testing.T) {
	var mu sync.Mutex
	arrivals := map[string]int{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		arrivals[r.Header.Get("X-Name")]++
		mu.Unlock()
		w.WriteHeader(http.StatusCreated)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	addr := front(t, "http://"+at, gateway.Config{})
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			s := &http.Server{Handler: handler}
			go s.Serve(l)
			select {
			case <-time.After(20 * time.Millisecond):
			case <-stop:
				s.Close()
				return
			}
			s.Close() // connections in use are cut, as by a kill
			for {
				if l, err = net.Listen("tcp", at); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
	}()
	type said struct{ name, outcome string }
	results := make(chan said, 4000)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			for i := range 150 {
				for _, named := range []string{"", "k"} {
					name := fmt.Sprintf("%d-%d%s", worker, i, named)
					req, _ := http.NewRequest("POST", "http://"+addr+"/orders", strings.NewReader("tea"))
					req.Header.Set("X-Name", name)
					if named != "" {
						req.Header.Set(key, name)
					}
					res, err := client.Do(req)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						continue
					}
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					outcome, _, _ := strings.Cut(res.Header.Get("Idempotency-Status"), ";")
					if named == "" {
						outcome = fmt.Sprint(res.StatusCode)
					}
					results <- said{name, outcome}
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	<-stopped
	close(results)
	counts := map[string]int{}
	for r := range results {
		counts[r.outcome]++
		n := arrivals[r.name]
		switch r.outcome {
		case "executed", "201":
			if n != 1 {
				t.Errorf("%s: %s, and it arrived %d times", r.name, r.outcome, n)
			}
		case "released", "503":
			if n != 0 {
				t.Errorf("%s: %s, and it arrived %d times", r.name, r.outcome, n)
			}
		case "outcome-unknown", "502":
			if n > 1 {
				t.Errorf("%s: %s, and it arrived %d times", r.name, r.outcome, n)
			}
		default:
			t.Errorf("%s: %s", r.name, r.outcome)
		}
	}
	t.Log(counts)
}

// B110, B111: bodies of any size pass without a key; with one a request may have
// so much, and an answer that has more is kept without its body.
func TestLargeBodies(t *testing.T) {
	large := strings.Repeat("x", 3<<20)
	app := serve(t, true, func(a *arrival) bool {
		a.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(large), large))
		return true
	})
	addr := front(t, app.url(), gateway.Config{Guard: onceward.Config{MaxRequest: 1 << 20}})
	got := send(t, addr, "POST", "/up", large, key, "k")
	got.want(t, http.StatusRequestEntityTooLarge, "too-large")
	app.wantArrivals(0)
	const form = "application/x-www-form-urlencoded"
	got = send(t, addr, "POST", "/up", "_key=k&text="+large, "Content-Type", form)
	got.want(t, http.StatusRequestEntityTooLarge, "too-large")
	app.wantArrivals(0)
	if got = send(t, addr, "POST", "/up", large); got.status != 200 || got.body != large {
		t.Errorf("without a key: %d, %d bytes", got.status, len(got.body))
	}
	app.wantArrivals(1)
	send(t, addr, "POST", "/up", "text="+large, "Content-Type", form).want(t, 200, "")
	app.wantArrivals(2)
	if raw := app.arrivals()[1]; !strings.HasSuffix(raw, "\r\n\r\ntext="+large) {
		t.Errorf("a form without a key arrived as %.100q, %d bytes", raw, len(raw))
	}
	got = send(t, addr, "POST", "/down", "x", key, "d")
	got.want(t, 200, "executed")
	if got.body != large {
		t.Errorf("%d bytes came", len(got.body))
	}
	got = send(t, addr, "POST", "/down", "x", key, "d")
	got.want(t, 200, "replayed")
	if got.body != "" || !strings.Contains(got.header.Get("Idempotency-Status"), "body=omitted") {
		t.Errorf("replayed %v", got)
	}
	app.wantArrivals(3)
}

// B115, B116, B119: a coded answer is replayed as it was, whatever coding the
// repeat asks for, and as long as it says.
func TestACodedAnswerIsReplayedAsItWas(t *testing.T) {
	const coded = "\x1f\x8bnot\x00gz\xff"
	app := serve(t, true, always("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\nEtag: \"a\"\r\nContent-Length: 9\r\n\r\n"+coded))
	addr := front(t, app.url(), gateway.Config{})
	for i, accept := range []string{"gzip", "identity", "br"} {
		got := send(t, addr, "POST", "/orders", "tea", key, "k", "Accept-Encoding", accept)
		got.want(t, 200, map[bool]string{true: "executed", false: "replayed"}[i == 0])
		for name, value := range map[string]string{"Content-Encoding": "gzip", "Vary": "Accept-Encoding", "Etag": `"a"`, "Content-Length": "9"} {
			if got.header.Get(name) != value {
				t.Errorf("%s: %q, want %q", name, got.header.Get(name), value)
			}
		}
		if got.body != coded {
			t.Errorf("the body is %q", got.body)
		}
	}
	app.wantArrivals(1)
}

// B118: a preflight is the application's to answer, and what the guard says can be
// read across origins where the application allows that.
func TestAcrossOriginsTheGuardsWordsCanBeRead(t *testing.T) {
	app := serve(t, true, func(a *arrival) bool {
		if a.Method == "OPTIONS" {
			a.say("HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: https://a.test\r\nAccess-Control-Allow-Headers: Idempotency-Key\r\n\r\n")
		} else {
			a.say("HTTP/1.1 201 Created\r\nAccess-Control-Allow-Origin: https://a.test\r\nContent-Length: 0\r\n\r\n")
		}
		return true
	})
	addr := front(t, app.url(), gateway.Config{})
	for range 2 {
		got := send(t, addr, "OPTIONS", "/orders", "", "Origin", "https://a.test", "Access-Control-Request-Headers", "idempotency-key")
		if got.status != 204 || got.header.Get("Access-Control-Allow-Headers") != "Idempotency-Key" || got.outcome() != "" {
			t.Errorf("the preflight: %v", got)
		}
	}
	got := send(t, addr, "POST", "/orders", "tea", key, "k", "Origin", "https://a.test")
	got.want(t, 201, "executed")
	if exposed := got.header.Get("Access-Control-Expose-Headers"); !strings.Contains(exposed, "Idempotency-Status") || !strings.Contains(exposed, "Retry-After") {
		t.Errorf("exposed: %q", exposed)
	}
}
