package frameworks

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/integration/programs"
)

// process is a running program of examples/frameworks.
type process struct {
	programs.Program
	t    *testing.T
	url  string
	args []string // without its address
}

func start(t *testing.T, command string, flags ...string) *process {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, Program: programs.Program{Path: filepath.Join(folder, command)}, args: append([]string{"-chaos"}, flags...)}
	p.run("127.0.0.1:0")
	t.Cleanup(func() {
		p.Kill()
		if p.Raced() || t.Failed() {
			t.Errorf("the program said:\n%s", p.Tail(60))
		}
	})
	return p
}

func (p *process) run(addr string) {
	p.t.Helper()
	p.Args = append([]string{"-addr", addr}, p.args...)
	url, err := p.Start()
	if err != nil {
		p.t.Fatal(err)
	}
	p.url = url
}

// restart waits for the program's end and starts it again, on its store and at its
// address.
func (p *process) restart() {
	p.t.Helper()
	if _, err := p.Wait(); err != nil {
		p.t.Fatal(err)
	}
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
