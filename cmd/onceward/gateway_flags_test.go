package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mirror is an application that does as its path says, and tells what it was asked.
// Whoever hangs in it says so before.
func mirror(t *testing.T) (url string, hangs chan bool) {
	t.Helper()
	end, hangs := make(chan struct{}), make(chan bool, 10)
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/fails":
			w.WriteHeader(http.StatusInternalServerError)
		case "/hangs":
			hangs <- true
			<-end
		default:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, r.RequestURI+" "+r.Header.Get("X-Forwarded-Proto"))
		}
	}))
	app.Config.DisableGeneralOptionsHandler = true
	app.Start()
	t.Cleanup(app.Close)
	t.Cleanup(func() { close(end) })
	return app.URL, hangs
}

// say sends a text over a connection of its own and reads the first answer.
func say(t *testing.T, url, text string) (status int, outcome, retryAfter, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%.80q: %v", text, err)
		return 0, "", "", ""
	}
	defer res.Body.Close()
	all, _ := io.ReadAll(res.Body)
	outcome, _, _ = strings.Cut(res.Header.Get("Idempotency-Status"), ";")
	return res.StatusCode, outcome, res.Header.Get("Retry-After"), string(all)
}

// Each flag does in a real process what its line of the help says, and nothing does
// it without the flag.
func TestEachFlagOfTheGatewayActs(t *testing.T) {
	t.Parallel()
	app, _ := mirror(t)
	const (
		tea     = "Host: shop\r\nContent-Length: 3\r\nX-User: ann\r\nIdempotency-Key: k\r\n\r\ntea"
		nobody  = "Host: shop\r\nContent-Length: 3\r\nIdempotency-Key: k\r\n\r\ntea"
		half    = "Host: shop\r\nContent-Length: 9\r\nX-User: ann\r\nIdempotency-Key: half\r\n\r\ntea"
		own     = "Host: shop\r\nContent-Length: 3\r\nX-User: ann\r\nX-Name: k\r\n\r\ntea"
		proxied = "Host: shop\r\nContent-Length: 3\r\nX-User: ann\r\nX-Forwarded-Proto: https\r\n\r\ntea"
		form    = "Host: shop\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 14\r\nX-User: ann\r\n\r\n_key=a&token=b"
	)
	type answer struct {
		status int
		word   string // the outcome, or how the body ends
	}
	post := func(rest string) string { return "POST /orders HTTP/1.1\r\n" + rest }
	for _, c := range []struct {
		flags string
		sends []string
		with  []answer
		bare  []answer // without the flags; nil: not tried
	}{
		{"--on-5xx hold", []string{"POST /fails HTTP/1.1\r\n" + tea, "POST /fails HTTP/1.1\r\n" + tea},
			[]answer{{500, "outcome-unknown"}, {409, "outcome-unknown"}}, []answer{{500, "released"}, {500, "released"}}},
		{"--anonymous pass", []string{post(nobody), post(nobody)},
			[]answer{{201, ""}, {201, ""}}, []answer{{401, ""}, {401, ""}}},
		{"--trust-proxy 127.0.0.1/32", []string{post(proxied)}, []answer{{201, " https"}}, []answer{{201, " http"}}},
		{"--trust-proxy 10.0.0.0/8", []string{post(proxied)}, []answer{{201, " http"}}, nil},
		{"--max-request 2", []string{post(tea)}, []answer{{413, "too-large"}}, []answer{{201, "executed"}}},
		{"--max-runtime 100ms", []string{"POST /hangs HTTP/1.1\r\n" + tea}, []answer{{503, "in-progress"}}, nil},
		{"--body-timeout 200ms", []string{post(half), post(tea)}, []answer{{408, ""}, {201, "executed"}}, nil},
		{"--key-header X-Name", []string{post(own), post(own), post(tea)},
			[]answer{{201, "executed"}, {201, "replayed"}, {201, ""}}, []answer{{201, ""}, {201, ""}, {201, "executed"}}},
		{"--key-field token", []string{post(form), post(strings.Replace(form, "=a", "=c", 1))},
			[]answer{{201, "executed"}, {422, "key-reused"}}, []answer{{201, "executed"}, {201, "executed"}}},
		{"--key-field -", []string{post(form), post(form)}, []answer{{201, ""}, {201, ""}}, nil},
		{"--except /orders,/hooks/*", []string{post(tea), "POST /hooks/a HTTP/1.1\r\n" + tea, "POST /ordersx HTTP/1.1\r\n" + tea},
			[]answer{{201, ""}, {201, ""}, {201, "executed"}}, nil},
		{"", []string{"OPTIONS * HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n\r\n"}, []answer{{201, "* http"}}, nil},
	} {
		t.Run(c.flags, func(t *testing.T) {
			t.Parallel()
			for flags, want := range map[string][]answer{c.flags: c.with, " ": c.bare} {
				if want == nil {
					continue
				}
				p := startCommand(t, append([]string{"gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "sqlite:" + filepath.Join(t.TempDir(), "keys.db"),
					"--scope", "header:X-User", "--log", "none"}, strings.Fields(flags)...)...)
				for i, text := range c.sends {
					status, outcome, _, body := say(t, p.url, text)
					if status != want[i].status || outcome != want[i].word && (outcome != "" || !strings.HasSuffix(body, want[i].word)) {
						t.Errorf("%q, request %d: %d %s %q, want %v", flags, i+1, status, outcome, body, want[i])
					}
				}
				if err := p.Process.Kill(); err != nil { // one of them hangs
					t.Error(err)
				}
			}
		})
	}
}

// What is kept is kept for --retention, and whoever comes meanwhile is not sent away for
// longer than --lease.
func TestTheGatewaysTimesAreThoseOfItsFlags(t *testing.T) {
	t.Parallel()
	app, hanging := mirror(t)
	p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "sqlite:"+filepath.Join(t.TempDir(), "keys.db"),
		"--scope", "unscoped", "--log", "none", "--retention", "1s", "--lease", "1s")
	const tea = "Host: shop\r\nContent-Length: 3\r\nIdempotency-Key: k\r\n\r\ntea"
	first := time.Now()
	if _, outcome, _, _ := say(t, p.url, "POST /orders HTTP/1.1\r\n"+tea); outcome != "executed" {
		t.Errorf("the first is %q", outcome)
	}
	_, outcome, _, _ := say(t, p.url, "POST /orders HTTP/1.1\r\n"+tea)
	if outcome != "replayed" && time.Since(first) < time.Second {
		t.Errorf("the repeat is %q", outcome)
	}
	time.Sleep(1100 * time.Millisecond)
	if _, outcome, _, _ := say(t, p.url, "POST /orders HTTP/1.1\r\n"+tea); outcome != "executed" {
		t.Errorf("past its retention it is %q", outcome)
	}
	hangs := strings.Replace("POST /hangs HTTP/1.1\r\n"+tea, ": k", ": h", 1)
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, hangs); err != nil {
		t.Fatal(err)
	}
	<-hanging
	if status, outcome, after, _ := say(t, p.url, hangs); status != http.StatusConflict || outcome != "in-progress" || after != "1" {
		t.Errorf("meanwhile it is %d %q, to come back after %q s, want 409, in-progress, 1", status, outcome, after)
	}
	if err := p.Process.Kill(); err != nil {
		t.Error(err)
	}
}

// Whoever does not finish a request's head is sent away, and holds nobody else up.
func TestTheGatewayWaitsTenSecondsForAHead(t *testing.T) {
	t.Parallel()
	app, applied := application(t)
	p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "memory:", "--scope", "unscoped", "--log", "none")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: shop\r\nX-A: "); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(60 * time.Second))
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection stays open: %v", err)
	}
	if n := applied.Load(); n != 0 {
		t.Errorf("the application was asked %d times", n)
	}
	p.stop(t, syscall.SIGTERM)
}
