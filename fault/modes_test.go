package fault_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/fault"
)

const form = "title=milk&_key=key-abc-123&note=%D0%B4%D0%B0"

// Each mode, over real sockets: what the application saw and what the client
// saw (every way in which a network fails at a request).
func TestEveryModeDoesWhatItSays(t *testing.T) {
	type want struct {
		upstream int    // whole requests at the application
		client   string // how the exchange ended for the client
		status   int    // what the client got
		fate     fault.Fate
		mode     string // in the log; empty: as set
		contains string
		header   [2]string
	}
	for _, c := range []struct {
		mode string
		want
	}{
		{"pass", want{1, "whole", 201, fault.Answered, "", "done 1 times", [2]string{"Idempotency-Status", "executed"}}},
		{"refuse", want{0, "reset", 0, fault.Reset, "", "", [2]string{}}},
		{"offline", want{0, "reset", 0, fault.Reset, "refuse", "", [2]string{}}},
		{"half-request", want{0, "reset", 0, fault.Reset, "", "", [2]string{}}},
		{"cut-after-forward", want{1, "reset", 0, fault.Reset, "", "", [2]string{}}},
		{"cut-mid-body", want{1, "cut", 201, fault.Cut, "", "done 1", [2]string{"Idempotency-Status", "executed"}}},
		{"500", want{0, "whole", 500, fault.StandIn, "", "500 Internal Server Error", [2]string{"Idempotency-Status", ""}}},
		{"502", want{0, "whole", 502, fault.StandIn, "", "502 Bad Gateway", [2]string{"Idempotency-Status", ""}}},
		{"503", want{0, "whole", 503, fault.StandIn, "", "503 Service Unavailable", [2]string{"Retry-After", ""}}},
		{"504", want{0, "whole", 504, fault.StandIn, "", "504 Gateway Timeout", [2]string{}}},
		{"503:ra=3", want{0, "whole", 503, fault.StandIn, "", "", [2]string{"Retry-After", "3"}}},
		{"429:ra=0", want{0, "whole", 429, fault.StandIn, "", "429 Too Many Requests", [2]string{"Retry-After", "0"}}},
		{"511", want{0, "whole", 511, fault.StandIn, "", "511", [2]string{}}},
		{"500-after", want{1, "whole", 500, fault.StandIn, "", "500 Internal Server Error", [2]string{"Idempotency-Status", ""}}},
		{"502-after", want{1, "whole", 502, fault.StandIn, "", "502 Bad Gateway", [2]string{"Idempotency-Status", ""}}},
		{"503-after:ra=7", want{1, "whole", 503, fault.StandIn, "", "", [2]string{"Retry-After", "7"}}},
		{"504-after", want{1, "whole", 504, fault.StandIn, "", "504 Gateway Timeout", [2]string{}}},
		{"slow:30ms", want{1, "whole", 201, fault.Answered, "", "done 1 times", [2]string{}}},
		{"slow-after:30ms", want{1, "whole", 201, fault.Answered, "", "done 1 times", [2]string{}}},
		{"slow:10ms+slow-after:10ms+cut-after-forward", want{1, "reset", 0, fault.Reset, "", "", [2]string{}}},
		{"slow:10ms+refuse", want{0, "reset", 0, fault.Reset, "", "", [2]string{}}},
		{"slow-after:10ms+502", want{0, "whole", 502, fault.StandIn, "", "", [2]string{}}},
		{"duplicate", want{2, "whole", 201, fault.Answered, "", "done 1 times", [2]string{"Idempotency-Status", "executed"}}},
		{"duplicate-concurrent", want{2, "whole", 201, fault.Answered, "", "times", [2]string{"Idempotency-Status", "executed"}}},
		{"captive-200", want{0, "whole", 200, fault.StandIn, "", "Free Wi-Fi", [2]string{"Content-Type", "text/html; charset=utf-8"}}},
		{"login-302", want{0, "whole", 302, fault.StandIn, "", "", [2]string{"Location", "/login"}}},
		{"login-302:/auth/sign-in?next=a", want{0, "whole", 302, fault.StandIn, "", "", [2]string{"Location", "/auth/sign-in?next=a"}}},
		{"login-200", want{0, "whole", 200, fault.StandIn, "", `type="password"`, [2]string{}}},
		{"waf-403", want{0, "whole", 403, fault.StandIn, "", "Access denied", [2]string{"Idempotency-Status", ""}}},
		{"blackhole:50ms", want{0, "reset", 0, fault.Reset, "", "", [2]string{}}},
		// On a fresh connection there is nothing to show: see resend_test.go.
		{"reset-once", want{1, "whole", 201, fault.Answered, "pass", "done 1 times", [2]string{}}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, nil)
			p, addr := start(t, up.URL, fault.Config{})
			if err := p.SetMode(c.mode); err != nil {
				t.Fatal(err)
			}
			g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/tasks?list=1", form,
				"Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", "key-abc-123")

			if g.kind() != c.client || g.status != c.status {
				t.Errorf("the client saw %s, status %d (%v); want %s, %d", g.kind(), g.status, g.err, c.client, c.status)
			}
			if !strings.Contains(g.body, c.contains) {
				t.Errorf("the client's body is %q, without %q", g.body, c.contains)
			}
			if name := c.want.header[0]; name != "" && g.header.Get(name) != c.want.header[1] {
				t.Errorf("%s is %q, want %q", name, g.header.Get(name), c.want.header[1])
			}
			whole := up.whole()
			if len(whole) != c.upstream {
				t.Errorf("the application saw %d whole requests, want %d", len(whole), c.upstream)
			}
			for _, s := range whole {
				if s.Method != "POST" || s.URI != "/tasks?list=1" || s.Body != form || s.Key != "key-abc-123" {
					t.Errorf("the application saw %+v", s)
				}
			}
			mode := c.want.mode
			if mode == "" {
				mode = c.mode
			}
			log := p.Log()
			if len(log) != 1 {
				t.Fatalf("the log has %d entries: %+v", len(log), log)
			}
			e := log[0]
			if e.Fate != c.fate || e.Forwarded != c.upstream || len(e.Upstream) != c.upstream || e.Status != c.status || e.Mode != mode {
				t.Errorf("the log says %+v", e)
			}
			if e.Method != "POST" || e.Path != "/tasks" || e.Query != "list=1" || e.Key != "key-abc-123" || e.By != "mode" {
				t.Errorf("the log says %+v", e)
			}
			if e.FormKey != "key-abc-123" && c.mode != "refuse" && c.mode != "offline" {
				t.Errorf("the log's _key is %q", e.FormKey)
			}
		})
	}
}

// The half of half-request has arrived when the upstream's connection breaks.
func TestHalfARequestIsHeadAndHalfTheBody(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetMode("half-request"); err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("0123456789", 20_000)
	send(oneShot(20*time.Second), "PUT", "http://"+addr+"/file", body)
	until(t, "the upstream has seen the half", func() bool { return len(up.all()) == 1 })
	s := up.all()[0]
	if s.BodyErr == nil {
		t.Error("the upstream's handler read the body to a clean end")
	}
	if s.ContentLength != int64(len(body)) || s.Body != body[:len(body)/2] {
		t.Errorf("of %d bytes (announced: %d) the upstream saw %d, want half", len(body), s.ContentLength, len(s.Body))
	}
	if e := p.Log()[0]; e.Forwarded != 0 || e.Fate != fault.Reset {
		t.Errorf("the log says %+v", e)
	}
}

// A request without a body loses half of its head, so that nothing can run.
func TestHalfARequestWithoutABodyRunsNothing(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetMode("half-request"); err != nil {
		t.Fatal(err)
	}
	if g := send(oneShot(20*time.Second), "DELETE", "http://"+addr+"/tasks/1", ""); g.kind() != "reset" {
		t.Errorf("the client saw %s", g.kind())
	}
	if err := p.SetMode("pass"); err != nil {
		t.Fatal(err)
	}
	send(oneShot(20*time.Second), "DELETE", "http://"+addr+"/tasks/2", "")
	if all := up.all(); len(all) != 1 || all[0].URI != "/tasks/2" {
		t.Errorf("the application saw %+v", all)
	}
}

// An answer without a body is cut in its head: nothing of it may pass for an
// answer.
func TestAnAnswerWithoutABodyIsCutInItsHead(t *testing.T) {
	up := newUpstream(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetMode("cut-mid-body"); err != nil {
		t.Fatal(err)
	}
	g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/tasks", "x")
	if g.err == nil || g.status != 0 {
		t.Errorf("the client saw %d, %s", g.status, g.kind())
	}
	if e := p.Log()[0]; e.Fate != fault.Cut || e.Status != 0 || !slices.Equal(e.Upstream, []int{204}) {
		t.Errorf("the log says %+v", e)
	}
}

// B109's shape: a chunked answer that breaks is no clean 200.
func TestAChunkedAnswerCutMidBodyIsBroken(t *testing.T) {
	up := newUpstream(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		for range 4 {
			w.Write([]byte(strings.Repeat("x", 1000)))
			w.(http.Flusher).Flush()
		}
	})
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetMode("cut-mid-body"); err != nil {
		t.Fatal(err)
	}
	g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/", "x")
	if g.status != 200 || g.err == nil || len(g.body) == 0 || len(g.body) >= 4000 {
		t.Errorf("the client saw %d, %d bytes, %s", g.status, len(g.body), g.kind())
	}
}

func TestABlackholeLastsUntilTheClientLeaves(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetMode("blackhole"); err != nil {
		t.Fatal(err)
	}
	leave := sendAndLeave(t, "http://"+addr+"/")
	until(t, "the request is held", func() bool { return p.State().Open == 1 })
	leave()
	until(t, "the proxy has noticed", func() bool { return p.Log()[0].Fate == fault.Left })
	if n := len(up.all()); n != 0 {
		t.Errorf("the application saw %d requests", n)
	}
}

func TestAChangeOfModeEndsABlackholeUnforwarded(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetMode("blackhole"); err != nil {
		t.Fatal(err)
	}
	held := make(chan got, 1)
	go func() { held <- send(oneShot(time.Minute), "POST", "http://"+addr+"/held", "x") }()
	until(t, "the request is held", func() bool { return p.State().Open == 1 })
	// A script changes neither plan nor mode.
	if err := p.SetScript("502"); err != nil {
		t.Fatal(err)
	}
	select {
	case g := <-held:
		t.Fatalf("a script ended the black hole: %+v", g)
	case <-time.After(100 * time.Millisecond):
	}
	if err := p.SetMode("pass"); err != nil {
		t.Fatal(err)
	}
	if g := <-held; g.kind() != "reset" {
		t.Errorf("the held client saw %s", g.kind())
	}
	if n := len(up.all()); n != 0 {
		t.Errorf("the application saw %d requests", n)
	}
}

// Scenario 6 of the browser suite: the hang that is there already stays, whatever the
// network does next.
func TestABlackholeWithADurationOutlivesAChangeOfMode(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetMode("blackhole:300ms"); err != nil {
		t.Fatal(err)
	}
	held := make(chan got, 1)
	begun := time.Now()
	go func() { held <- send(oneShot(time.Minute), "POST", "http://"+addr+"/held", "x") }()
	until(t, "the request is held", func() bool { return p.State().Open == 1 })
	if err := p.SetMode("pass"); err != nil {
		t.Fatal(err)
	}
	if g := <-held; g.kind() != "reset" || time.Since(begun) < 300*time.Millisecond {
		t.Errorf("the held client saw %s after %v", g.kind(), time.Since(begun))
	}
}

// F9, F6: what a client gave up on still arrives, and may be done after its own
// repetition.
func TestASlowRequestArrivesEvenIfItsClientHasLeft(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetScript("slow:1500ms"); err != nil {
		t.Fatal(err)
	}
	leave := sendAndLeave(t, "http://"+addr+"/")
	until(t, "the request is held", func() bool { return p.State().Open == 1 })
	leave()
	if g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/", "again"); g.body != "done 1 times" {
		t.Errorf("the second request was answered %q", g.body)
	}
	until(t, "the late one has arrived", func() bool { return len(up.whole()) == 2 })
	if s := up.whole()[1]; s.Body != "x" {
		t.Errorf("the application saw %q last", s.Body)
	}
	until(t, "the late one has ended", func() bool { return p.Log()[0].Fate == fault.Left })
	if e := p.Log()[0]; e.Forwarded != 1 {
		t.Errorf("the log says %+v", e)
	}
}

func TestSlowWaitsBeforeForwardingAndSlowAfterAfterIt(t *testing.T) {
	const d = 250 * time.Millisecond
	arrived := make(chan time.Time, 1)
	up := newUpstream(t, func(_ int, _ http.ResponseWriter, _ *http.Request) { arrived <- time.Now() })
	p, addr := start(t, up.URL, fault.Config{})
	for _, mode := range []string{"slow:250ms", "slow-after:250ms"} {
		if err := p.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		sent := time.Now()
		g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/", "x")
		ended := time.Now()
		there := <-arrived
		if g.status != 200 {
			t.Errorf("%s: %+v", mode, g)
		}
		if mode == "slow:250ms" && there.Sub(sent) < d {
			t.Errorf("%s: forwarded after %v", mode, there.Sub(sent))
		}
		if mode == "slow-after:250ms" && ended.Sub(there) < d {
			t.Errorf("%s: answered %v after it had arrived", mode, ended.Sub(there))
		}
	}
}

// F5: the two copies are in the application at the same time.
func TestConcurrentDuplicatesOverlapAndTheFirstAnswerWins(t *testing.T) {
	both := make(chan struct{})
	up := newUpstream(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-r.Context().Done():
			return
		}
		if n == 1 {
			time.Sleep(700 * time.Millisecond)
		}
		w.Write([]byte{'0' + byte(n)})
	})
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetMode("duplicate-concurrent"); err != nil {
		t.Fatal(err)
	}
	if g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/", form); g.body != "2" {
		t.Errorf("the client saw %q (%s), want the answer that was whole first", g.body, g.kind())
	}
	if e := p.Log()[0]; e.Forwarded != 2 || !slices.Equal(e.Upstream, []int{200, 200}) {
		t.Errorf("the log says %+v", e)
	}
}

func TestASequentialDuplicateComesAfterTheFirstAnswer(t *testing.T) {
	up := newUpstream(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader([]int{201, 409}[n-1])
	})
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetMode("duplicate"); err != nil {
		t.Fatal(err)
	}
	if g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/", form); g.status != 201 {
		t.Errorf("the client saw %d", g.status)
	}
	if e := p.Log()[0]; !slices.Equal(e.Upstream, []int{201, 409}) {
		t.Errorf("the log says %+v", e)
	}
}

// A network makes nothing up: a dead upstream is a dead connection, except
// where a proxy's answer was asked for.
func TestAnUpstreamThatIsDownIsAReset(t *testing.T) {
	for mode, want := range map[string]string{
		"pass": "reset", "cut-after-forward": "reset", "cut-mid-body": "reset", "duplicate": "reset",
		"duplicate-concurrent": "reset", "half-request": "reset", "slow:1ms": "reset", "502-after": "whole",
	} {
		p, addr := start(t, "http://127.0.0.1:1", fault.Config{})
		if err := p.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		if g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/", "x"); g.kind() != want {
			t.Errorf("%s: the client saw %s, want %s", mode, g.kind(), want)
		}
		if e := p.Log()[0]; e.Forwarded != 0 || e.Err == "" {
			t.Errorf("%s: the log says %+v", mode, e)
		}
	}
}
