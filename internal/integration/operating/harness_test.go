package operating

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/onceward/onceward/internal/integration/programs"
)

var bin string // the folder of the built programs

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "onceward-operating-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	build := func(folder string, raced bool) error {
		return programs.Build(filepath.Join(dir, filepath.Base(folder)), folder, raced)
	}
	code := 1
	if err := errors.Join(build("examples/orders", programs.Race), build("cmd/onceward", false), build("planner", false)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// program is one running program. Its log is in a file, where grep finds it.
type program struct {
	t       *testing.T
	cmd     *exec.Cmd
	url     string
	metrics string
	logName string
	done    chan struct{}
}

// start starts examples/orders with its metrics, writing to a log of its own.
func start(t *testing.T, flags ...string) *program {
	t.Helper()
	return startLogging(t, filepath.Join(t.TempDir(), "log"), flags...)
}

// startLogging starts examples/orders, appending to a log.
func startLogging(t *testing.T, logName string, flags ...string) *program {
	t.Helper()
	args := append([]string{"-addr", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-chaos", "-v"}, flags...)
	return startProgram(t, logName, exec.Command(filepath.Join(bin, "orders"), args...), regexp.MustCompile(`^listening on (http://\S+)`))
}

func startProgram(t *testing.T, logName string, cmd *exec.Cmd, listening *regexp.Regexp) *program {
	t.Helper()
	log, err := os.OpenFile(logName, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	before, err := os.ReadFile(logName)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: cmd, logName: logName, done: make(chan struct{})}
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	first, _ := lines.ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if strings.Contains(p.log(), "DATA RACE") {
			t.Error("the program has a data race")
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), p.log())
		}
	})
	at := listening.FindStringSubmatch(first)
	serving := regexp.MustCompile(`serving metrics",?[ "]+url[":=]+([^"\s]+)`).FindStringSubmatch(strings.TrimPrefix(p.log(), string(before)))
	if at == nil || serving == nil {
		t.Fatalf("the program's first line is %q, its log:\n%s", first, p.log())
	}
	p.url, p.metrics = at[1], serving[1]
	return p
}

// kill is kill -9, by pid. A process that is stopped dies of it too.
func (p *program) kill() {
	_ = syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(p.cmd.Process.Pid, s); err != nil {
		p.t.Fatal(err)
	}
}

// stopOutside sends a signal that stops or ends the program, and sees to it that the
// program does not keep the lock of its SQLite file by that: whoever is stopped inside a
// write transaction does, and then nobody can do anything.
func (p *program) stopOutside(s syscall.Signal, file string) {
	p.t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(1000)")
	if err != nil {
		p.t.Fatal(err)
	}
	defer db.Close()
	eventually(p.t, "it is stopped outside a transaction", func() bool {
		p.signal(s)
		conn, err := db.Conn(context.Background())
		if err != nil {
			p.t.Fatal(err)
		}
		defer conn.Close()
		if _, err = conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err == nil {
			_, err = conn.ExecContext(context.Background(), "ROLLBACK")
		}
		if err != nil {
			p.signal(syscall.SIGCONT)
		}
		return err == nil
	})
}

func (p *program) log() string {
	text, err := os.ReadFile(p.logName)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// waitLog waits until the log has a text.
func (p *program) waitLog(text string) {
	p.t.Helper()
	eventually(p.t, "the log says "+text, func() bool { return strings.Contains(p.log(), text) })
}

// client uses each connection once, so that nobody repeats a request but the test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

type answer struct {
	status  int
	outcome string
	header  http.Header
	body    string
}

// post sends an order under a key. It may be called from any goroutine; the zero
// answer means that none came.
func (p *program) post(key, order, chaos string) (a answer) {
	req, err := http.NewRequest("POST", p.url+"/create-order", strings.NewReader(order))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("X-User", "ann")
	if chaos != "" {
		req.Header.Set("X-Chaos", chaos)
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	outcome, _, _ := strings.Cut(resp.Header.Get("Idempotency-Status"), ";")
	return answer{resp.StatusCode, outcome, resp.Header, string(text)}
}

func (a answer) want(t *testing.T, status int, outcome string) answer {
	t.Helper()
	if a.status != status || a.outcome != outcome {
		t.Errorf("answered %d %s %.200q, want %d %s", a.status, a.outcome, a.body, status, outcome)
	}
	return a
}

// scrape reads the metrics as Prometheus does.
func (p *program) scrape() string {
	p.t.Helper()
	resp, err := client.Get(p.metrics)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("GET %s: %d, %v: %s", p.metrics, resp.StatusCode, err, text)
	}
	return string(text)
}

// orders is what was really done.
func (p *program) orders() string {
	p.t.Helper()
	resp, err := client.Get(p.url + "/orders")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// lockFile takes the write lock of an SQLite file, as a program does that does not let
// go of it.
func lockFile(t *testing.T, file string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() {
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		if err = errors.Join(err, conn.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(unlock)
	return unlock
}

// sh runs a piece of shell, as docs/operations.md has it, and returns what it printed.
func sh(t *testing.T, script string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", script)
	cmd.Env = append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return string(out)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 90 s: %s", what)
		}
	}
}
