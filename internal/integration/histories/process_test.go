package histories

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// workerBinary is built once, without the race detector: a hundred thousand calls
// would take minutes with it.
var workerBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "onceward-histories-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "worker")
	out, err := exec.Command("go", "build", "-o", binary, "./worker").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if binary, err := workerBinary(); err == nil {
		os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

// process is a running worker.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	err *strings.Builder
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	binary, err := workerBinary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(t.Context(), binary, args...), err: new(strings.Builder)}
	p.Stderr = p.err
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if line := p.line(); line != "ready" {
		t.Fatalf("the worker says %q, want ready\n%s", line, p.err)
	}
	return p
}

func (p *process) say(line string) { io.WriteString(p.in, line+"\n") }

func (p *process) line() string {
	p.out.Scan()
	return p.out.Text()
}

// begin starts a worker on plan and lets it go.
func (h *harness) begin(plan Plan) *recorded {
	h.t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		h.t.Fatal(err)
	}
	file := filepath.Join(h.t.TempDir(), "history")
	p := &recorded{process: start(h.t, "history", "-store", h.address, "-plan", string(text), "-out", file), file: file, plan: plan}
	h.files = append(h.files, file)
	p.say("go")
	return p
}

// recorded is a worker that writes a history.
type recorded struct {
	*process
	file string
	plan Plan
}

// made counts the calls that the worker has written down.
func (p *recorded) made(t *testing.T) int {
	t.Helper()
	ops, err := Read(p.file)
	if err != nil {
		t.Fatal(err)
	}
	return len(ops)
}

// killAt ends the worker with -9 when it has written down some number of calls.
func (p *recorded) killAt(t *testing.T, calls int) {
	t.Helper()
	const bytes = 300 // a call and its answer have more, a call alone less
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Wait()
	}()
	for {
		info, err := os.Stat(p.file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() >= int64(calls)*bytes {
			break
		}
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
	}
	_ = p.Process.Kill() // it may have ended just now
	<-ended
}

// harness lets processes work on one store.
type harness struct {
	t       *testing.T
	address string
	cutter  *Cutter // nil: the store has no server
	seed    uint64
	rng     *rand.Rand
	files   []string
	kills   int
	from    int // the next round's first key
}

const processes = 3

// round lets three processes make ops calls together. One of them is killed
// in the middle, and another takes its place.
func (h *harness) round(number, ops int, hot bool) {
	h.t.Helper()
	plan := Plan{
		Seed: h.seed + uint64(number), Scope: fmt.Sprint("run-", h.seed), From: h.from,
		Keys: max(16, ops/25), Window: 16, Ops: ops / processes, Clients: 24, Lose: 0.01,
	}
	if hot {
		plan.Keys, plan.Window, plan.Lose, plan.Calm = max(4, ops/500), 4, 0.003, true
	}
	h.from += plan.Keys
	var workers []*recorded
	if h.cutter != nil { // nothing is cut while a process starts
		h.cutter.Cut(0)
	}
	for i := range processes {
		plan.Process = number*(processes+1) + i
		workers = append(workers, h.begin(plan))
	}
	if h.cutter != nil && number%2 == 0 {
		h.cutter.Cut(0.001)
	}
	victim := workers[h.rng.IntN(processes)]
	victim.killAt(h.t, int(float64(plan.Ops)*(0.1+0.7*h.rng.Float64())))
	made := victim.made(h.t)
	if made < plan.Ops {
		h.kills++
		plan.Process = number*(processes+1) + processes
		plan.Made = made
		if h.cutter != nil {
			h.cutter.Cut(0)
		}
		workers = append(workers, h.begin(plan))
	}
	for _, w := range workers {
		if w == victim {
			continue
		}
		if err := w.Wait(); err != nil {
			h.t.Errorf("ONCEWARD_SEED=%d: a worker ended with %v\n%s", seed, err, w.err)
		}
	}
}

// calls is how many each store gets: a sample here, a hundred thousand in
// `make sweep`.
func calls(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ONCEWARD_HISTORIES")
	if text == "" {
		return 24_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestProcessesThatAreKilledLeaveEveryStoreLinearizable(t *testing.T) {
	onShared(t, func(t *testing.T, address string) {
		through, cutter := cutting(t, address, 0)
		h := &harness{t: t, address: through, cutter: cutter, seed: seed, rng: rand.New(rand.NewPCG(seed, 3))}
		begun := time.Now()
		const step = 12_000
		left := calls(t)
		for number := 0; left > 0; number++ {
			h.round(number, min(left, step), number == 1)
			left -= step
		}
		var cuts []int64
		if cutter != nil {
			if cuts = cutter.Cuts(); len(cuts) == 0 {
				t.Errorf("ONCEWARD_SEED=%d: no connection was cut", seed)
			}
		}
		h.look(Plan{Seed: seed, Process: 900, Scope: fmt.Sprint("run-", seed), Keys: h.from})
		made := time.Since(begun)
		begun = time.Now()
		ops, err := Read(h.files...)
		if err != nil {
			t.Fatal(err)
		}
		// Those that died had begun some that nobody wrote down.
		if want := calls(t) * 95 / 100; len(ops) < want {
			t.Errorf("ONCEWARD_SEED=%d: %d calls were made, want at least %d", seed, len(ops), want)
		}
		linearizable(t, ops, cuts...)
		t.Logf("made in %v, judged in %v; %d processes were killed in the middle, %d connections cut", made.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond), h.kills, len(cuts))
		if h.kills == 0 {
			t.Errorf("ONCEWARD_SEED=%d: no process was killed in the middle", seed)
		}
	})
}

// look asks for every key once more.
func (h *harness) look(plan Plan) {
	h.t.Helper()
	if h.cutter != nil {
		h.cutter.Cut(0)
	}
	ctx := h.t.Context()
	store, err := Open(ctx, h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	file := filepath.Join(h.t.TempDir(), "history")
	r, err := NewRecorder(file)
	if err != nil {
		h.t.Fatal(err)
	}
	plan.Look(ctx, store, r)
	h.files = append(h.files, file)
	if err := r.Close(); err != nil {
		h.t.Error(err)
	}
	if err := store.Close(ctx); err != nil {
		h.t.Error(err)
	}
}
