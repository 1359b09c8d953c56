package fault_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/fault"
)

// warm makes a client whose one connection to addr is open and idle.
func warm(t *testing.T, addr string) *http.Client {
	t.Helper()
	tr := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr, Timeout: 20 * time.Second}
	if g := send(c, "GET", "http://"+addr+"/warm", ""); g.err != nil {
		t.Fatal(g.err)
	}
	return c
}

// B098 (golang/go#19943): net/http's Transport takes the header
// Idempotency-Key as leave to send a POST again when a reused connection dies
// unanswered. The application, which has no guard, does the work twice, and the
// client never learns of it.
func TestGoResendsAKeyedPostByItself(t *testing.T) {
	for name, c := range map[string]struct {
		header  []string
		body    func() io.Reader
		applied int
		kind    string
	}{
		"keyed, without a body":            {[]string{"Idempotency-Key", "k1"}, func() io.Reader { return nil }, 2, "whole"},
		"keyed, with a body to rewind":     {[]string{"Idempotency-Key", "k1"}, func() io.Reader { return strings.NewReader("milk") }, 2, "whole"},
		"keyed by the other name":          {[]string{"X-Idempotency-Key", "k1"}, func() io.Reader { return strings.NewReader("milk") }, 2, "whole"},
		"keyed, with a body read once":     {[]string{"Idempotency-Key", "k1"}, func() io.Reader { return io.MultiReader(strings.NewReader("milk")) }, 1, "eof"},
		"without a key":                    {nil, func() io.Reader { return strings.NewReader("milk") }, 1, "eof"},
		"with a key that Go does not know": {[]string{"Onceward-Key", "k1"}, func() io.Reader { return strings.NewReader("milk") }, 1, "eof"},
		"without a key and without a body": {nil, func() io.Reader { return nil }, 1, "eof"},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, nil)
			p, addr := start(t, up.URL, fault.Config{Plan: mustPlan(t, "reset-once")})
			client := warm(t, addr)
			req, err := http.NewRequest("POST", "http://"+addr+"/tasks", c.body())
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(c.header); i += 2 {
				req.Header.Set(c.header[i], c.header[i+1])
			}
			var g got
			res, err := client.Do(req)
			if g.err = err; err == nil {
				_, g.err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			if g.kind() != c.kind {
				t.Errorf("the client saw %s, want %s", g.kind(), c.kind)
			}
			applied := 0
			for _, s := range up.whole() {
				if s.Method == "POST" {
					applied++
				}
			}
			if applied != c.applied {
				t.Errorf("one call to Do was applied %d times, want %d", applied, c.applied)
			}
			log := p.Log()[1:]
			if e := log[0]; e.Mode != "reset-once" || e.Fate != fault.Closed || e.Forwarded != 1 || e.OnConn != 2 || e.Conn != 1 {
				t.Errorf("the first attempt is in the log as %+v", e)
			}
			if len(log) != c.applied {
				t.Errorf("the log has %d attempts", len(log))
			} else if c.applied == 2 && (log[1].Mode != "pass" || log[1].Conn != 2 || log[1].OnConn != 1 || log[1].Key != log[0].Key) {
				t.Errorf("the second attempt is in the log as %+v", log[1])
			}
		})
	}
}

// In a script the step waits for a reused connection, and is used up once.
func TestAScriptedResetOnceWaitsForAReusedConnection(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetScript("POST /* -> reset-once"); err != nil {
		t.Fatal(err)
	}
	if g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/", "x"); g.status != 201 {
		t.Errorf("on a fresh connection: %+v", g)
	}
	if s := p.State().Script; s != "POST /* -> reset-once" {
		t.Errorf("the script is now %q", s)
	}
	c := warm(t, addr)
	if g := send(c, "POST", "http://"+addr+"/", "x"); g.kind() != "eof" {
		t.Errorf("on a reused connection: %s", g.kind())
	}
	c = warm(t, addr)
	if g := send(c, "POST", "http://"+addr+"/", "x"); g.status != 201 {
		t.Errorf("after the script: %+v", g)
	}
}

// The proxy itself never re-sends, whatever the request's header says: its own
// connections to the upstream are used once.
func TestTheProxyNeverResends(t *testing.T) {
	url, got := rawUpstream(t, "\r\n\r\n", "")
	for range 3 {
		_, addr := start(t, url, fault.Config{})
		g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/", "", "Idempotency-Key", "k1")
		if g.kind() != "eof" {
			t.Errorf("the client saw %s", g.kind())
		}
		if n := len(got()); n != 1 {
			t.Errorf("the upstream was asked %d times", n)
		}
	}
}
