package programs_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/integration/programs"
)

func shell(script string) *programs.Program {
	return &programs.Program{Path: "/bin/sh", Args: []string{"-c", script}}
}

func TestAProgramTellsItsAddressInEachOfItsLives(t *testing.T) {
	p := shell("echo before; echo listening on http://127.0.0.1:$PORT; exec sleep 60")
	t.Cleanup(p.Kill)
	for _, port := range []string{"1", "2"} {
		p.Env = []string{"PORT=" + port}
		url, err := p.Start()
		if err != nil || url != "http://127.0.0.1:"+port {
			t.Fatalf("started at %q: %v", url, err)
		}
		p.Kill()
	}
	if n := strings.Count(p.Said(), "before\n"); n != 2 || p.Tail(1) != "listening on http://127.0.0.1:2\n" {
		t.Errorf("it said %q, at its end %q", p.Said(), p.Tail(1))
	}
}

func TestAProgramThatEndsBeforeItListensIsAnErrorWithItsLastWords(t *testing.T) {
	if _, err := shell("echo the disk is full >&2; exit 3").Start(); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("the error is %v", err)
	}
}

func TestTheLastWordsOfAProgramThatIsAskedToEndAreKept(t *testing.T) {
	p := shell("trap 'echo closing; exit 7' TERM; echo listening on http://127.0.0.1:1; while :; do sleep 0.05; done")
	t.Cleanup(p.Kill)
	if _, err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(); code != 7 || err != nil || p.Tail(1) != "closing\n" {
		t.Errorf("ended with %d, %v, saying %q", code, err, p.Tail(1))
	}
}

func TestKillEndsTheChildrenToo(t *testing.T) {
	p := shell("(while :; do echo alive; sleep 0.01; done) & echo listening on http://127.0.0.1:1; wait")
	if _, err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); !strings.Contains(p.Said(), "alive"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the child says nothing")
		}
	}
	p.Kill()
	p.Kill() // what is dead stays dead
	said := p.Said()
	time.Sleep(300 * time.Millisecond)
	if p.Said() != said {
		t.Error("a child says more after its program was killed")
	}
}
