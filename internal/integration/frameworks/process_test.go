package frameworks

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a running program of examples/frameworks.
type process struct {
	t    *testing.T
	url  string
	args []string // without its address
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	mu   sync.Mutex    // guards said
	said bytes.Buffer  // its standard error, of all its lives
}

func start(t *testing.T, command string, flags ...string) *process {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, args: slices.Concat([]string{filepath.Join(folder, command), "-chaos"}, flags)}
	p.run("127.0.0.1:0")
	t.Cleanup(func() {
		p.kill()
		p.mu.Lock()
		defer p.mu.Unlock()
		text := p.said.String()
		if strings.Contains(text, "DATA RACE") || t.Failed() {
			t.Errorf("the program said:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return p
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) run(addr string) {
	p.t.Helper()
	p.cmd = exec.Command(p.args[0], append([]string{"-addr", addr}, p.args[1:]...)...)
	p.cmd.Stderr = p
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	first, err := lines.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSuffix(first, "\n"), "listening on ")
	if err != nil || !ok {
		_ = p.cmd.Process.Kill()
		p.t.Fatalf("the program's first line is %q: %v", first, err)
	}
	p.url, p.done = url, make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		_ = p.cmd.Wait()
		close(p.done)
	}()
}

// kill is kill -9, by pid.
func (p *process) kill() {
	_ = syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// restart waits for the program's end and starts it again, on its store and at its
// address.
func (p *process) restart() {
	p.t.Helper()
	<-p.done
	p.run(strings.TrimPrefix(p.url, "http://"))
}

// eventually waits for something that has no event to wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
