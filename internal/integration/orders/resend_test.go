package orders_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// What was found by trying, kept as regression tests.

// keptAlive is a client with one warm connection to url.
func keptAlive(t *testing.T, url string) *http.Client {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	t.Cleanup(client.CloseIdleConnections)
	resp, err := client.Get(url + "/orders")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return client
}

// Go's http.Transport sends a POST again by itself when a reused connection
// dies without an answer and the request carries one of two headers. The guard
// reads one of them: with the other, the program works as if unguarded.
func TestGosOwnResendIsTwoEffectsWithoutTheGuardAndOneWithIt(t *testing.T) {
	for header, effects := range map[string]int{"X-Idempotency-Key": 2, "Idempotency-Key": 1} {
		t.Run(header, func(t *testing.T) {
			onServer(t, func(t *testing.T, s *server) {
				bad := s.behindFaults("POST /create-order -> reset-once")
				a, err := tryAt(bad.url, request{client: keptAlive(t, bad.url), header: http.Header{header: {"k"}}})
				if err != nil {
					t.Fatal(err)
				}
				if n := len(bad.Log()); n != 3 { // the warm-up and two for the one that was asked for
					t.Fatalf("%d requests came, want 3: %+v", n, bad.Log())
				}
				s.wantEffects(effects)
				if effects == 1 {
					a.want(t, http.StatusCreated, "replayed")
				} else {
					a.want(t, http.StatusCreated, "")
				}
			})
		})
	}
}

func TestGosOwnResendOfARequestWithoutABodyIsCaughtToo(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		o := s.send(request{key: "create"}).order(t)
		bad := s.behindFaults("POST /orders/* -> reset-once")
		req, err := http.NewRequest(http.MethodPost, bad.url+"/orders/"+o.ID+"/cancel", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "k")
		resp, err := keptAlive(t, bad.url).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		answer{status: resp.StatusCode, header: resp.Header}.want(t, http.StatusOK, "replayed")
	})
}

// guardedProxy is a guard in front of a reverse proxy in front of the program,
// which sees no keys and so guards nothing.
func guardedProxy(t *testing.T, s *server) *httptest.Server {
	t.Helper()
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(guard.Handler(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Idempotency-Key")
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}))
	t.Cleanup(func() {
		front.Close()
		closeGuard(t, guard)
	})
	return front
}

// ReverseProxy watches the connection by itself and cancels its upstream when
// the client leaves, unless the request's context can be cancelled at all.
func TestAClientThatLeavesDoesNotCancelAProxiedRequest(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		front := guardedProxy(t, s)
		_, err := tryAt(front.URL, request{key: "k", chaos: "sleep_ms=2500", timeout: 1500 * time.Millisecond})
		if !isTimeout(err) {
			t.Fatalf("the client was to leave: %v", err)
		}
		var a answer
		eventually(t, "the stored answer", func() bool {
			a, err = tryAt(front.URL, request{key: "k"})
			return err == nil && a.status != http.StatusConflict
		})
		a.want(t, http.StatusCreated, "replayed")
		if got := s.wantEffects(1)[0]; got != a.order(t) {
			t.Errorf("the client sees %+v, the shop has %+v", a.order(t), got)
		}
	})
}

// Also B108: what an upstream promised and did not send is not kept, and the
// client sees a broken transfer, not a whole answer.
func TestAnAnswerThatAnUpstreamBreaksOffIsNotKept(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		front := guardedProxy(t, s)
		a, err := tryAt(front.URL, request{key: "k", body: named, chaos: "panic=abort&bytes=100000"})
		if err == nil {
			t.Errorf("half an answer came as a whole one: %v", a)
		}
		s.wantEffects(1)
		whole, err := tryAt(front.URL, request{key: "k", body: named})
		if err != nil {
			t.Fatal(err)
		}
		whole.want(t, http.StatusOK, "executed").order(t)
		s.wantEffects(1)
	})
}

func TestHalfAnAnswerIsNotKept(t *testing.T) {
	for name, how := range map[string]string{
		"before its first byte":    "panic=abort&bytes=100000",
		"in its middle":            "panic=abort&bytes=100000&flush=1",
		"larger than kept":         "panic=abort&bytes=4000000",
		"promised and not written": "answer=short&bytes=100000",
		"promised, large":          "answer=short&bytes=4000000",
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, s *server) {
				body := is(s.b, named, oneTea)
				a, err := s.try(request{key: "k", body: body, chaos: how})
				if err == nil {
					t.Errorf("half an answer came as a whole one: %v", a)
				}
				s.wantEffects(is(s.b, 1, 0))
				whole := s.send(request{key: "k", body: body}).want(t, is(s.b, http.StatusOK, http.StatusCreated), "executed")
				if list := s.wantEffects(1); len(list) != 1 || whole.order(t) != list[0] {
					t.Errorf("the retry shows %v, the shop has %+v", whole, list)
				}
			})
		})
	}
}

func TestAPanicIsNoAnswerAndStaysAPanic(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		s.wantPanic(request{key: "k", chaos: "panic=1"})
		s.send(request{key: "k"}).want(t, http.StatusCreated, "executed")
		s.wantEffects(1)
		said := s.Said()
		if !strings.Contains(said, "panic serving") && !another.recovers || !strings.Contains(said, "chaos.go") {
			t.Errorf("nobody reported the panic with the handler's own stack:\n%s", said)
		}
	})
}
