package operations

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
	"github.com/onceward/onceward/riveroperation"
	"github.com/onceward/onceward/riveroperation/onpgx"
	"github.com/onceward/onceward/riveroperation/onsqlite"
)

// The test binary runs itself as a worker: another process, which can be killed. Its
// gate opens when it is told so on standard input; what comes to the gate it tells on
// standard output.
const (
	childAt   = "ONCEWARD_OPERATIONS_AT"   // sqlite:file or the address of a Postgres
	childDoes = "ONCEWARD_OPERATIONS_DOES" // how it signs its effects
	// Set for a worker that never gives up a try. Such a one does not rescue either:
	// River judges a job by the time that the rescuer itself would allow.
	childPatient = "ONCEWARD_OPERATIONS_PATIENT"
)

// quickly is for workers that die: a try is given up two seconds after it began.
func quickly(cfg *river.Config) {
	cfg.JobTimeout, cfg.RescueStuckJobsAfter = time.Second, 2*time.Second
}

func child(where, by string) int {
	ctx := context.Background()
	g := newGate()
	var r interface {
		Start(context.Context) error
	}
	// One at a time: when it has done a second job, it is through with the first.
	cfg := soon(map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}})
	quickly(&cfg)
	if os.Getenv(childPatient) != "" {
		cfg.JobTimeout = -1 // its job ends from outside, not by its own time
	}
	if file, ok := strings.CutPrefix(where, "sqlite:"); ok {
		db := openSQLite(failing{}, file)
		cfg.PollOnly = true
		var err error
		r, err = riveroperation.New(onsqlite.Pool(db, nil), riveroperation.Config[sqlTx]{Works: map[string]riveroperation.Work[sqlTx]{"work": sqliteWork(g, by)}, River: cfg})
		if err != nil {
			fmt.Println("error", err)
			return 1
		}
	} else {
		pool, err := pgxpool.New(ctx, where)
		if err == nil {
			r, err = riveroperation.New(onpgx.Pool(pool), riveroperation.Config[pgTx]{Works: map[string]riveroperation.Work[pgTx]{"work": postgresWork(g, by)}, River: cfg})
		}
		if err != nil {
			fmt.Println("error", err)
			return 1
		}
	}
	if err := r.Start(ctx); err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("ready")
	go func() {
		for who := range g.arrived {
			fmt.Println("arrived", who)
		}
	}()
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return 1
	}
	close(g.open)
	select {}
}

// failing ends the process where a test would fail.
type failing struct{ testing.TB }

func (failing) Helper()           {}
func (failing) Fatal(args ...any) { fmt.Println(append([]any{"error"}, args...)...); os.Exit(1) }

// process is a worker in another process.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string
}

func spawn(t *testing.T, b *backend, by string, env ...string) *process {
	t.Helper()
	where := b.where
	if !strings.Contains(where, "://") && !strings.Contains(where, "host=") {
		where = "sqlite:" + where
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childAt+"="+where, childDoes+"="+by), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, in: in, lines: make(chan string, 100)}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { p.kill() })
	p.says("ready")
	return p
}

// says waits for a line that begins so.
func (p *process) says(what string) {
	p.t.Helper()
	timeout := time.After(60 * time.Second)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok || strings.HasPrefix(line, "error") {
				p.t.Fatalf("the worker said %q where it should have said %q", line, what)
			}
			if strings.HasPrefix(line, what) {
				return
			}
		case <-timeout:
			p.t.Fatalf("the worker did not say %q", what)
		}
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait()
}

// A worker is killed in the middle: before it has written anything, and in the
// transaction in which it has. Another one does the work, and there is one effect.
func TestAWorkerKilledInTheMiddleLeavesOneResult(t *testing.T) {
	t.Parallel()
	for _, do := range []string{wait, early} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			onEach(t, change{}, func(t *testing.T, b *backend) {
				s := newShop(t, b, true, onceward.Config{})
				to := s.post("k", do).header.Get("Location")
				first := spawn(t, b, "first", childPatient+"=1")
				first.says("arrived")
				first.kill()
				if n := b.count(countEffects); n != 0 {
					t.Fatalf("the killed worker left %d effects", n)
				}
				if a := s.get(to); a.body.State != "pending" {
					t.Errorf("after the kill: %v", a)
				}
				second := spawn(t, b, "second")
				if _, err := io.WriteString(second.in, "\n"); err != nil {
					t.Fatal(err)
				}
				if a := s.until(to); a.body.State != "complete" || string(a.body.Result) != `{"did":"`+do+`"}` {
					t.Errorf("%v", a)
				}
				if a := s.post("k", do); a.code != 202 || a.body.State != "complete" {
					t.Errorf("%v", a)
				}
				if n, mine, jobs := b.count(countEffects), b.count(countEffects+` WHERE by = 'second'`), b.count(countJobs); n != 1 || mine != 1 || jobs != 1 {
					t.Errorf("%d effects, %d of them the second's, %d jobs", n, mine, jobs)
				}
			})
		})
	}
}

// A worker that stands still is believed dead, and its job is done by another; then it
// goes on. What it does comes to nothing.
func TestAWorkerThatWasBelievedDeadChangesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, change{}, func(t *testing.T, b *backend) {
		s := newShop(t, b, true, onceward.Config{})
		to := s.post("k", wait).header.Get("Location")
		first := spawn(t, b, "first", childPatient+"=1")
		first.says("arrived")
		if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		second := spawn(t, b, "second")
		if _, err := io.WriteString(second.in, "\n"); err != nil {
			t.Fatal(err)
		}
		if a := s.until(to); a.body.State != "complete" {
			t.Fatalf("%v", a)
		}
		if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(first.in, "\n"); err != nil {
			t.Fatal(err)
		}
		// It works on: the next job of its own shows that it is through with the old one.
		second.kill()
		next := s.post("next", wait).header.Get("Location")
		if a := s.until(next); a.body.State != "complete" {
			t.Errorf("%v", a)
		}
		if n, firsts := b.count(countEffects), b.count(countEffects+` WHERE by = 'first'`); n != 2 || firsts != 1 {
			t.Errorf("%d effects, %d of them the first's", n, firsts)
		}
	})
}

// The last try's worker died: nobody knows what it did outside the database, and the
// status says so.
func TestTheDeathOfTheLastTryIsUnknown(t *testing.T) {
	t.Parallel()
	onEach(t, change{river: func(cfg *river.Config) { quickly(cfg); cfg.MaxAttempts = 1 }}, func(t *testing.T, b *backend) {
		s := newShop(t, b, true, onceward.Config{})
		to := s.post("k", wait).header.Get("Location")
		first := spawn(t, b, "first", childPatient+"=1")
		first.says("arrived")
		first.kill()
		spawn(t, b, "second")
		a := s.until(to)
		if a.code != 200 || a.body.State != "unknown" || !strings.Contains(a.body.Detail, "Nobody can tell") {
			t.Errorf("%v", a)
		}
		if a := s.post("k", wait); a.code != 202 || a.body.State != "unknown" || a.header.Get("Location") != to {
			t.Errorf("%v", a)
		}
		if n := b.count(countJobs); n != 1 {
			t.Errorf("%d jobs", n)
		}
	})
}

// A process that accepts and one that works need not be the same; those who wait at
// the first are told of what the second does.
func TestAWaitEndsWhenAnotherProcessHasDoneTheWork(t *testing.T) {
	t.Parallel()
	onEach(t, change{}, func(t *testing.T, b *backend) {
		s := newShop(t, b, true, onceward.Config{})
		to := s.post("k", write).header.Get("Location")
		done := make(chan answer)
		go func() { done <- s.get(to + "?wait=25") }()
		spawn(t, b, "other")
		if a := <-done; a.body.State != "complete" {
			t.Errorf("%v", a)
		}
	})
}

func jobOf(user, key, do string) operation.Job {
	return operation.Job{Key: onceward.NewKey(user, key), Kind: "work", Input: []byte(do)}
}
