package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/fault"
)

// keyed sends one POST with a key over a connection of its own.
func keyed(t *testing.T, url string, header ...string) (status int, outcome, body string) {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader("tea"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "k")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	outcome, _, _ = strings.Cut(res.Header.Get("Idempotency-Status"), ";")
	return res.StatusCode, outcome, string(text)
}

func TestTheGatewayKeepsItsAnswersOverARestart(t *testing.T) {
	app, applied := application(t)
	file := filepath.Join(t.TempDir(), "keys.db")
	for i, want := range []string{"executed", "replayed"} {
		p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "sqlite:"+file, "--scope", "cookie:who", "--except", "/login", "--log", "json")
		if status, outcome, body := keyed(t, p.url+"/orders", "Cookie", "who=ann"); status != 201 || outcome != want {
			t.Errorf("answered %d %s %s, want %s", status, outcome, body, want)
		}
		if status, outcome, _ := keyed(t, p.url+"/orders"); status != 401 || outcome != "" {
			t.Errorf("without a cookie: %d %s", status, outcome)
		}
		if status, outcome, _ := keyed(t, p.url+"/login"); status != 201 || outcome != "" {
			t.Errorf("outside: %d %s", status, outcome)
		}
		rest := p.stop(t, syscall.SIGTERM)
		if !strings.Contains(rest, "to "+app+", scope cookie:who") {
			t.Errorf("stdout: %q", rest)
		}
		if !strings.Contains(p.stderr.String(), `"outcome":"`+want+`"`) {
			t.Errorf("the log: %s", p.stderr)
		}
		if n := applied.Load(); n != int32(i+2) { // an order, and a sign-in each time
			t.Errorf("the application was asked %d times", n)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
}

// What was sent is waited for; an end by a signal leaves nothing unknown.
func TestTheGatewayEndsWhenItsNamedRequestsHave(t *testing.T) {
	came, release := make(chan bool), make(chan bool)
	var applied atomic.Int32
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		applied.Add(1)
		came <- true
		<-release
		w.WriteHeader(http.StatusCreated)
	}))
	defer app.Close()
	file := filepath.Join(t.TempDir(), "keys.db")
	start := func() *process {
		return startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app.URL, "--store", "sqlite:"+file, "--scope", "unscoped", "--log", "none")
	}
	p := start()
	answered := make(chan int, 1)
	go func() {
		status, _, _ := keyed(t, p.url)
		answered <- status
	}()
	<-came
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	release <- true
	if status := <-answered; status != 201 {
		t.Errorf("answered %d", status)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	p = start()
	if status, outcome, _ := keyed(t, p.url); status != 201 || outcome != "replayed" || applied.Load() != 1 {
		t.Errorf("after the restart: %d %s, applied %d times", status, outcome, applied.Load())
	}
	p.stop(t, syscall.SIGTERM)
}

func TestTheGatewayBelievesSignedTokensOnly(t *testing.T) {
	app, applied := application(t)
	secret := filepath.Join(t.TempDir(), "secret")
	const text = "a secret of at least thirty-two bytes"
	if err := os.WriteFile(secret, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "memory:", "--scope", "jwt:sub", "--jwt-secret", secret, "--jwt-from", "cookie:access")
	token := func(secret, sub string) string {
		enc := base64.RawURLEncoding
		signed := enc.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + enc.EncodeToString([]byte(`{"sub":"`+sub+`"}`))
		m := hmac.New(sha256.New, []byte(secret))
		m.Write([]byte(signed))
		return "access=" + signed + "." + enc.EncodeToString(m.Sum(nil))
	}
	for i, c := range []struct {
		cookie, outcome string
		status          int
	}{
		{token(text, "ann"), "executed", 201}, {token(text, "ann"), "replayed", 201}, {token(text, "bob"), "executed", 201}, {token(text+"x", "ann"), "", 401},
	} {
		if status, outcome, _ := keyed(t, p.url, "Cookie", c.cookie); status != c.status || outcome != c.outcome {
			t.Errorf("%d: %d %s, want %d %s", i, status, outcome, c.status, c.outcome)
		}
	}
	if n := applied.Load(); n != 2 {
		t.Errorf("the application was asked %d times", n)
	}
	p.stop(t, syscall.SIGTERM)
	if !strings.Contains(p.stderr.String(), "kept in memory") {
		t.Errorf("stderr: %s", p.stderr)
	}
}

func TestTheGatewayWarnsOfAScopeThatMayBeMeantOtherwise(t *testing.T) {
	for scope, warning := range map[string]string{
		"header:X-User": "can name himself in X-User", "cookie:session": "it changes with the session",
		"header:authorization": "", "cookie:sessionid": "",
	} {
		p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", "http://127.0.0.1:1", "--store", "sqlite:"+filepath.Join(t.TempDir(), "k"), "--scope", scope)
		p.stop(t, syscall.SIGTERM)
		if got := p.stderr.String(); warning == "" && got != "" || !strings.Contains(got, warning) {
			t.Errorf("%s: %q", scope, got)
		}
	}
}

func TestACallOfTheGatewayThatCannotBeUnderstoodSaysWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := []string{"--to", "http://127.0.0.1:1", "--store", "memory:", "--scope", "cookie:s"}
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{nil, 2, "which app is behind? Write --to"},
		{full[:2], 2, "where are the records kept? Write --store sqlite:keys.db"},
		{full[:4], 2, "whose keys are they? Write --scope cookie:NAME"},
		{append(full, "--to", "127.0.0.1:8000"), 2, "write http://host:port"},
		{append(full, "--to", "http://127.0.0.1:8000/app"), 2, "write http://host:port"},
		{append(full, "--scope", "session"), 2, `--scope "session" is neither cookie:NAME, header:NAME, jwt:CLAIM nor unscoped`},
		{append(full, "--scope", "cookie:"), 2, "neither cookie:NAME"},
		{append(full, "--scope", "cookie:a b"), 2, "neither cookie:NAME"},
		{append(full, "--scope", "jwt:sub"), 2, "Write --jwt-key FILE (public keys) or --jwt-secret FILE"},
		{append(full, "--scope", "jwt:sub", "--jwt-secret", file), 2, "less than 32 can be guessed"},
		{append(full, "--scope", "jwt:sub", "--jwt-secret", file+"x"), 2, "--jwt-secret: open"},
		{append(full, "--scope", "jwt:sub", "--jwt-key", file), 2, "--jwt-key: there is no PEM block"},
		{append(full, "--scope", "jwt:sub", "--jwt-key", file, "--jwt-from", "access"), 2, "--jwt-from"},
		{append(full, "--jwt-issuer", "x"), 2, "go with --scope jwt:CLAIM"},
		{append(full, "--anonymous", "yes"), 2, "--anonymous \"yes\" is neither refuse nor pass"},
		{append(full, "--on-5xx", "ignore"), 2, "--on-5xx \"ignore\" is neither release nor hold"},
		{append(full, "--trust-proxy", "127.0.0.1"), 2, "is no network; write 127.0.0.1/32"},
		{append(full, "--except", "login"), 2, "write /login"},
		{append(full, "--lease", "-1s"), 2, "--lease -1s: write a duration above zero"},
		{append(full, "--retention", "0"), 2, "--retention 0s"},
		{append(full, "--body-timeout", "0"), 2, "--body-timeout 0s: write a duration above zero"},
		{append(full, "--max-request", "0"), 2, "--max-request 0"},
		{append(full, "--log", "xml"), 2, "--log \"xml\""},
		{append(full, "more"), 2, `what is "more" for?`},
		{append(full, "--store", "keys.db"), 1, "--store: it is none of memory:, sqlite:FILE"},
		{append(full, "--store", "sqlite:"+file+"/keys.db"), 1, "--store: "},
		{append(full, "--listen", taken.Addr().String()), 1, "--listen 127.0.0.1:0 takes a free port"},
	} {
		cmd, stderr := newCommand(t, append([]string{"gateway"}, c.args...)...)
		out, _ := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(stderr.String(), c.stderr) || len(out) > 0 {
			t.Errorf("gateway %q: exit %d, want %d; stdout %q, stderr:\n%s\nwant %q", c.args, code, c.code, out, stderr, c.stderr)
		}
	}
}

func TestTheGatewaysHelpNamesEveryFlag(t *testing.T) {
	cmd, _ := newCommand(t, "gateway", "-h")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"usage: onceward gateway", "-listen", "-to", "-store", "-scope", "-anonymous", "-on-5xx", "-trust-proxy", "-except", "-jwt-key", "cookie:NAME", "jwt:CLAIM"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A websocket and an event stream do not keep the gateway from ending.
func TestAStreamDoesNotHoldUpTheGatewaysEnd(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer app.Close()
	p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app.URL, "--store", "memory:", "--scope", "unscoped", "--log", "none")
	res, err := http.Get(p.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); line != "data: 1\n" {
		t.Fatalf("%q, %v", line, err)
	}
	p.stop(t, syscall.SIGTERM)
}

func TestTheGatewayServesItsMetricsToNobodyElse(t *testing.T) {
	app, _ := application(t)
	p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "sqlite:"+filepath.Join(t.TempDir(), "keys.db"), "--scope", "cookie:who", "--metrics", "127.0.0.1:0")
	keyed(t, p.url+"/orders", "Cookie", "who=ann")
	m := regexp.MustCompile(`serving metrics" url=(http://127\.0\.0\.1:\d+/metrics)`).FindStringSubmatch(p.stderr.String())
	if m == nil {
		t.Fatalf("the log does not say where the metrics are: %s", p.stderr)
	}
	for url, said := range map[string]bool{m[1]: true, p.url + "/metrics": false} {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		for _, line := range []string{`onceward_outcome="executed"} 1`, "onceward_claims_open{"} {
			if strings.Contains(string(text), line) != said {
				t.Errorf("%s: %q is there: %v\n%s", url, line, !said, text)
			}
		}
	}
	if rest := p.stop(t, syscall.SIGTERM); !strings.Contains(rest, "scope cookie:who") {
		t.Errorf("stdout: %q", rest)
	}
}

// A head of more than 64 KiB is 431, and the application is not asked.
func TestTheGatewayTakesHeadsOf64KiB(t *testing.T) {
	app, applied := application(t)
	p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "memory:", "--scope", "unscoped", "--log", "none")
	for size, want := range map[int]int{60_000: 201, 80_000: 431} {
		if status, _, body := keyed(t, p.url, "X-A", strings.Repeat("a", size)); status != want {
			t.Errorf("%d bytes: %d %.100s", size, status, body)
		}
	}
	if n := applied.Load(); n != 1 {
		t.Errorf("the application was asked %d times", n)
	}
	p.stop(t, syscall.SIGTERM)
}

// The page is on its own listener, behind no path of the application's, and has no key,
// no cookie and no answer on it.
func TestTheGatewayShowsItsRecordsToNobodyElse(t *testing.T) {
	app, _ := application(t)
	p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "sqlite:"+filepath.Join(t.TempDir(), "keys.db"), "--scope", "cookie:who", "--records", "127.0.0.1:0")
	if status, outcome, _ := keyed(t, p.url+"/orders", "Cookie", "who=a-secret-session"); status != 201 || outcome != "executed" {
		t.Errorf("answered %d %s", status, outcome)
	}
	m := regexp.MustCompile(`serving records" url=(http://127\.0\.0\.1:\d+/)`).FindStringSubmatch(p.stderr.String())
	if m == nil {
		t.Fatalf("the log does not say where the page is: %s", p.stderr)
	}
	id := onceward.NewKey("", "k").RecordID()
	for url, said := range map[string]bool{m[1]: true, m[1] + "?id=" + id: true, m[1] + "?show=stuck": false, p.url + "/": false} {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if strings.Contains(string(text), id) != said || said && !strings.Contains(string(text), "POST /orders") {
			t.Errorf("%s: %q is there: %v\n%s", url, id, !said, text)
		}
		if strings.Contains(string(text), "a-secret-session") {
			t.Errorf("%s has the session", url)
		}
	}
	p.stop(t, syscall.SIGTERM)
	cmd, stderr := newCommand(t, "gateway", "--to", app, "--store", "memory:", "--scope", "cookie:who", "--records", "nowhere")
	if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), "--records: ") {
		t.Errorf("%v: %s", err, stderr)
	}
}

func TestEachModeOfTheBadNetworkHasAWord(t *testing.T) {
	for _, mode := range fault.Modes() {
		if modeHelp[mode] == "" {
			t.Errorf("fault --help says nothing of %s", mode)
		}
	}
	if len(modeHelp) != len(fault.Modes()) {
		t.Errorf("%d words for %d modes", len(modeHelp), len(fault.Modes()))
	}
}
