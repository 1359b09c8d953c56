package fault_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/fault"
)

func transport(t *testing.T, base http.RoundTripper, mode string) (*fault.Transport, *http.Client) {
	t.Helper()
	tr, err := fault.NewTransport(base, fault.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.SetMode(mode); err != nil {
		t.Fatal(err)
	}
	return tr, &http.Client{Transport: tr, Timeout: 20 * time.Second, CheckRedirect: oneShot(0).CheckRedirect}
}

func TestEveryModeMeansTheSameInATransport(t *testing.T) {
	for _, c := range []struct {
		mode     string
		upstream int
		client   string
		status   int
		fate     fault.Fate
	}{
		{"pass", 1, "whole", 201, fault.Answered},
		{"refuse", 0, "reset", 0, fault.Reset},
		{"half-request", 0, "reset", 0, fault.Reset},
		{"cut-after-forward", 1, "reset", 0, fault.Reset},
		{"cut-mid-body", 1, "cut", 201, fault.Cut},
		{"502", 0, "whole", 502, fault.StandIn},
		{"502-after", 1, "whole", 502, fault.StandIn},
		{"slow:10ms", 1, "whole", 201, fault.Answered},
		{"slow:10ms+refuse", 0, "reset", 0, fault.Reset},
		{"slow-after:10ms", 1, "whole", 201, fault.Answered},
		{"slow-after:10ms+504-after", 1, "whole", 504, fault.StandIn},
		{"duplicate", 2, "whole", 201, fault.Answered},
		{"duplicate-concurrent", 2, "whole", 201, fault.Answered},
		{"captive-200", 0, "whole", 200, fault.StandIn},
		{"login-302", 0, "whole", 302, fault.StandIn},
		{"login-200", 0, "whole", 200, fault.StandIn},
		{"waf-403", 0, "whole", 403, fault.StandIn},
		{"blackhole:20ms", 0, "reset", 0, fault.Reset},
	} {
		t.Run(c.mode, func(t *testing.T) {
			up := newUpstream(t, nil)
			tr, client := transport(t, nil, c.mode)
			g := send(client, "POST", up.URL+"/tasks?q=1", form, "Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", "k1")
			if g.kind() != c.client || g.status != c.status {
				t.Errorf("the client saw %s, %d (%v)", g.kind(), g.status, g.err)
			}
			whole := up.whole()
			if len(whole) != c.upstream || slices.ContainsFunc(whole, func(s seen) bool { return s.Body != form || s.Key != "k1" || s.URI != "/tasks?q=1" }) {
				t.Errorf("the application saw %+v", whole)
			}
			if e := tr.Log()[0]; e.Fate != c.fate || e.Forwarded != c.upstream || len(e.Upstream) != c.upstream || e.Status != c.status ||
				e.Mode != c.mode || e.Key != "k1" || e.Path != "/tasks" || e.Query != "q=1" {
				t.Errorf("the log says %+v", e)
			}
			var broken *fault.Error
			if c.client == "reset" && (!errors.As(g.err, &broken) || broken.Forwarded != c.upstream || !errors.Is(g.err, syscall.ECONNRESET)) {
				t.Errorf("the client's error is %v", g.err)
			}
		})
	}
}

func TestATransportAndAProxyChooseAlike(t *testing.T) {
	const plan = "cut-after-forward=0.3,502=0.2,duplicate=0.2,slow=0.2:1ms"
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{Plan: mustPlan(t, plan), Seed: 3})
	tr, err := fault.NewTransport(nil, fault.Config{Plan: mustPlan(t, plan), Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		send(oneShot(20*time.Second), "POST", "http://"+addr+"/", "x")
		send(&http.Client{Transport: tr}, "POST", up.URL+"/", "x")
	}
	a, b := p.Log(), tr.Log()
	for i := range a {
		if a[i].Mode != b[i].Mode || a[i].Fate != b[i].Fate || a[i].Status != b[i].Status || a[i].Forwarded != b[i].Forwarded {
			t.Errorf("request %d: the proxy has %+v, the transport %+v", i, a[i], b[i])
		}
	}
}

func TestATransportsBlackholeEndsWithTheContext(t *testing.T) {
	tr, client := transport(t, nil, "blackhole")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://127.0.0.1:1/", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if e := tr.Log()[0]; e.Fate != fault.Left || e.Forwarded != 0 {
		t.Errorf("the log says %+v", e)
	}
}

func TestATransportHasNoConnectionsToReset(t *testing.T) {
	up := newUpstream(t, nil)
	tr, client := transport(t, nil, "reset-once")
	if g := send(client, "POST", up.URL+"/", "x"); g.err == nil || !strings.Contains(g.err.Error(), "reset-once needs connections") {
		t.Errorf("%+v", g)
	}
	if e := tr.Log()[0]; e.Fate != fault.Broken || len(up.all()) != 0 {
		t.Errorf("the log says %+v", e)
	}
}

// handler is a base without a network: the application in the same process.
type handler struct{ http.Handler }

func (h handler) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Result(), nil
}

func TestATransportWorksOverAHandler(t *testing.T) {
	var keys []string
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
		}
		w.WriteHeader(http.StatusNoContent)
	})
	tr, client := transport(t, handler{app}, "pass")
	if err := tr.SetScript("duplicate, half-request, cut-mid-body"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"whole", "reset", "reset"} {
		if g := send(client, "POST", "http://app.test/", "body", "Idempotency-Key", "k1"); g.kind() != want {
			t.Errorf("the client saw %s, want %s", g.kind(), want)
		}
	}
	if !slices.Equal(keys, []string{"k1", "k1", "k1"}) {
		t.Errorf("the application did the work for %q", keys)
	}
}

// B098 for the other half: with a base that keeps its connections alive, an
// attempt is still one attempt.
func TestATransportsBaseDoesNotResend(t *testing.T) {
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		for _, body := range []string{"", "milk"} {
			up := newUpstream(t, nil)
			_, addr := start(t, up.URL, fault.Config{Plan: mustPlan(t, "reset-once")})
			base := &http.Transport{MaxConnsPerHost: 1}
			defer base.CloseIdleConnections()
			tr, client := transport(t, base, "pass")
			send(client, "GET", "http://"+addr+"/warm", "")
			if g := send(client, "POST", "http://"+addr+"/", body, header, "k1"); g.err == nil {
				t.Errorf("%s, body %q: the client saw %+v", header, body, g)
			}
			if n := len(up.whole()); n != 2 {
				t.Errorf("%s, body %q: the application saw %d requests, want the GET and one POST", header, body, n)
			} else if s := up.whole()[1]; s.Header.Get(header) != "k1" || s.Body != body || s.ContentLength != int64(len(body)) {
				t.Errorf("the application saw %+v", s)
			}
			if e := tr.Log()[1]; e.Fate != fault.Broken {
				t.Errorf("the log says %+v", e)
			}
		}
	}
}
