package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// asCommand makes the test binary be the command, so that the tests run real
// processes of the code under test, under -race too.
const asCommand = "ONCEWARD_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a running `onceward`.
type process struct {
	*exec.Cmd
	url    string
	out    *bufio.Reader
	stderr *said
}

// said is what a process that may still run has said.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *said) Len() int { return len(s.String()) }

func newCommand(t *testing.T, args ...string) (*exec.Cmd, *said) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	stderr := new(said)
	cmd.Stderr = stderr
	return cmd, stderr
}

// startFault starts `onceward fault` on a free port and reads its address from
// its first line.
func startFault(t *testing.T, args ...string) *process {
	t.Helper()
	return startCommand(t, append([]string{"fault", "--listen", "127.0.0.1:0"}, args...)...)
}

func startCommand(t *testing.T, args ...string) *process {
	t.Helper()
	cmd, stderr := newCommand(t, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	p := &process{Cmd: cmd, out: bufio.NewReader(out), stderr: stderr}
	first, _ := p.out.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(first), "listening on ")
	if !ok || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("the first line is %q; stderr: %s", first, stderr)
	}
	p.url = url
	return p
}

// stop ends the process with a signal and returns the rest of its output.
func (p *process) stop(t *testing.T, sig os.Signal) string {
	t.Helper()
	if err := p.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	ended := time.AfterFunc(20*time.Second, func() { p.Process.Kill() })
	defer ended.Stop()
	rest, _ := io.ReadAll(p.out)
	if err := p.Wait(); err != nil {
		t.Errorf("after %v: %v; stderr: %s", sig, err, p.stderr)
	}
	return string(rest)
}

// post sends one POST over a connection of its own; 0 is a broken connection.
func post(t *testing.T, url, body string) int {
	t.Helper()
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Post(url, "application/json", strings.NewReader(body))
	if errors.Is(err, syscall.ECONNRESET) {
		return 0
	}
	if err != nil {
		t.Fatalf("POST %s: %v", url, err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func application(t *testing.T) (url string, applied *atomic.Int32) {
	applied = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		applied.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(s.Close)
	return s.URL, applied
}

func TestFaultListensOnAFreePortAndEndsCleanlyOnASignal(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		app, applied := application(t)
		p := startFault(t, "--to", app, "--plan", "POST /lost -> cut-after-forward; POST /down -> 502", "--seed", "42")
		for path, want := range map[string]int{"/lost": 0, "/down": 502, "/other": 201} {
			if got := post(t, p.url+path, "{}"); got != want {
				t.Errorf("%s: %d, want %d", path, got, want)
			}
		}
		if n := applied.Load(); n != 2 {
			t.Errorf("the application was asked %d times, want 2", n)
		}
		// What is under way does not hold up the end.
		if got := post(t, p.url+"/.fault", `{"mode":"blackhole"}`); got != 200 {
			t.Errorf("steering: %d", got)
		}
		held := make(chan error, 1)
		go func() {
			_, err := http.Post(p.url+"/held", "text/plain", nil)
			held <- err
		}()
		waitForOpen(t, p.url)
		rest := p.stop(t, sig)
		if err := <-held; err == nil {
			t.Error("the held request was answered")
		}
		for _, want := range []string{"to " + app + ", seed 42, mode plan, plan \"POST /lost -> cut-after-forward=1; POST /down -> 502=1\"", "steer it at " + p.url + "/.fault"} {
			if !strings.Contains(rest, want) {
				t.Errorf("stdout has no %q:\n%s", want, rest)
			}
		}
		if p.stderr.Len() > 0 {
			t.Errorf("stderr: %s", p.stderr)
		}
	}
}

func waitForOpen(t *testing.T, url string) {
	t.Helper()
	for range 500 {
		res, err := http.Get(url + "/.fault")
		if err != nil {
			t.Fatal(err)
		}
		var s struct{ Open int }
		err = json.NewDecoder(res.Body).Decode(&s)
		res.Body.Close()
		if err == nil && s.Open == 1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no request was held")
}

// fates reads a log file, which is in the order in which requests ended, and
// returns in the order of arrival what makes a run the same as another.
func fates(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	out := make([]string, len(lines))
	for _, line := range lines {
		var n struct{ N int }
		var e struct {
			Path, Mode, Fate  string
			Forwarded, Status int
		}
		if err := errors.Join(json.Unmarshal([]byte(line), &n), json.Unmarshal([]byte(line), &e)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if n.N < 1 || n.N > len(out) || out[n.N-1] != "" {
			t.Fatalf("%d lines, and this one has the number %d", len(out), n.N)
		}
		out[n.N-1] = fmt.Sprint(e)
	}
	return out
}

func TestFaultReplaysARunFromItsPrintedSeed(t *testing.T) {
	app, _ := application(t)
	runOnce := func(file string, args ...string) (fate []string, out string) {
		p := startFault(t, append([]string{"--to", app, "--log", file, "--plan", "cut-after-forward=0.3,502=0.1,half-request=0.2,duplicate=0.2,slow=0.5:1ms"}, args...)...)
		for i := range 40 {
			post(t, fmt.Sprintf("%s/%d", p.url, i), "{}")
		}
		out = p.stop(t, syscall.SIGTERM)
		return fates(t, file), out
	}
	dir := t.TempDir()
	first, out := runOnce(filepath.Join(dir, "1"))
	seed := regexp.MustCompile(`seed (\d+)`).FindStringSubmatch(out)
	if seed == nil {
		t.Fatalf("no seed is printed: %s", out)
	}
	again, _ := runOnce(filepath.Join(dir, "2"), "--seed", seed[1])
	if len(first) != 40 || !reflect.DeepEqual(first, again) {
		t.Errorf("seed %s gave\n%v\nthen\n%v", seed[1], first, again)
	}
	if info, err := os.Stat(filepath.Join(dir, "1")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log file: %v, %v", info.Mode(), err)
	}
}

func TestFaultTakesMatchScriptModeLoginAndLogOnStdout(t *testing.T) {
	app, _ := application(t)
	p := startFault(t, "--to", app, "--match", "POST /a*", "--plan", "503", "--script", "POST /a -> login-302", "--login", "/sign-in", "--log", "-")
	noRedirect := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := noRedirect.Post(p.url+"/a", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 302 || res.Header.Get("Location") != "/sign-in" {
		t.Errorf("the script's step: %d, %q", res.StatusCode, res.Header.Get("Location"))
	}
	if got := post(t, p.url+"/a", ""); got != 503 {
		t.Errorf("/a: %d", got)
	}
	if got := post(t, p.url+"/b", ""); got != 201 {
		t.Errorf("/b: %d", got)
	}
	if rest := p.stop(t, syscall.SIGTERM); strings.Count(rest, `{"n":`) != 3 {
		t.Errorf("stdout: %s", rest)
	}

	p = startFault(t, "--to", app, "--mode", "offline")
	if got := post(t, p.url+"/", ""); got != 0 {
		t.Errorf("offline: %d", got)
	}
	p.stop(t, syscall.SIGTERM)
}

func TestFaultWarnsWhenTheNetworkCanSteerIt(t *testing.T) {
	cmd, stderr := newCommand(t, "fault", "--listen", "0.0.0.0:0", "--to", "http://127.0.0.1:1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: cmd, out: bufio.NewReader(out), stderr: stderr}
	if first, _ := p.out.ReadString('\n'); !strings.HasPrefix(first, "listening on http://127.0.0.1:") {
		t.Errorf("the first line is %q", first)
	}
	p.out.ReadString('\n')
	p.out.ReadString('\n')
	p.stop(t, syscall.SIGTERM)
	if !strings.Contains(stderr.String(), "is open to the network") {
		t.Errorf("stderr: %q", stderr)
	}
}

func TestACallThatCannotBeUnderstoodSaysWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const to = "http://127.0.0.1:1"
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{nil, 2, "onceward: which command?"},
		{[]string{"fualt"}, 2, `there is no command "fualt"`},
		{[]string{"gatway", "--listen", ":8080"}, 2, "  fault "},
		{[]string{"fault"}, 2, "--to http://127.0.0.1:8000"},
		{[]string{"fault", "--to", "127.0.0.1:8000"}, 2, "write http://host:port"},
		{[]string{"fault", "--to", to, "--plan", "cut=0.3"}, 2, `--plan: there is no mode "cut"; the modes are`},
		{[]string{"fault", "--to", to, "--match", "tasks"}, 2, "--match: match"},
		{[]string{"fault", "--to", to, "--script", "502=0.1"}, 2, "no mode"},
		{[]string{"fault", "--to", to, "--mode", "off"}, 2, `no mode "off"`},
		{[]string{"fault", "--to", to, "--seed", "-1"}, 2, "no whole number"},
		{[]string{"fault", "--to", to, "--login", "x"}, 2, "is no path"},
		{[]string{"fault", "--to", to, "--speed", "1"}, 2, "flag provided but not defined: -speed"},
		{[]string{"fault", "--to", to, "more"}, 2, `what is "more" for?`},
		{[]string{"fault", "--to", to, "--log", t.TempDir()}, 1, "--log: open"},
		{[]string{"fault", "--to", to, "--listen", taken.Addr().String()}, 1, "--listen 127.0.0.1:0 takes a free port"},
	} {
		cmd, stderr := newCommand(t, c.args...)
		out, _ := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(stderr.String(), c.stderr) || len(out) > 0 {
			t.Errorf("onceward %q: exit %d, want %d; stdout %q, stderr:\n%s\nwant %q", c.args, code, c.code, out, stderr, c.stderr)
		}
	}
}

func TestHelpGoesToStdout(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"help"}, []string{"usage: onceward COMMAND", "fault "}},
		{[]string{"--help"}, []string{"usage: onceward COMMAND"}},
		{[]string{"fault", "-h"}, []string{"usage: onceward fault", "-plan", "-seed", "cut-after-forward", "/.fault"}},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), c.args, nil, strings.NewReader(""), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%q: exit %d, stderr %q", c.args, code, &stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%q: no %q in\n%s", c.args, want, &stdout)
			}
		}
	}
}
