// Command bench measures what this repository promises about speed and prints,
// for each promise, the target, what was measured and whether it is met; and
// beside them what others do in the same run. All are ratios or differences within
// one run on one machine; no test asserts them.
//
//	go run ./internal/integration/cmd/bench [-rounds 3] [-time 1s] [-large]
//
// The outbox is measured in three browsers, by node (make install).
//
// Each benchmark runs once per round, so that a machine that is busy for a
// while is busy for both sides of a ratio; the median of the rounds counts. The
// tables of many keys are made once: a million keys, or with -large (or
// BENCH_LARGE=1) ten millions, which takes many minutes and about ten gigabytes of
// the temporary folder.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/onceward/onceward"

// suite is some of a package's benchmarks.
type suite struct {
	path, pattern string
	once          bool   // not in every round, because its setting up takes long
	script        string // a script for node instead, that prints such lines
}

var suites = []suite{
	{path: module, pattern: "^BenchmarkMemory$"},
	{path: module + "/gateway", pattern: "^BenchmarkGatewayGet$"},
	{path: module + "/internal/integration/stores", pattern: "^Benchmark(SQLiteGroupCommit|(SQLite|Postgres|Redis)HotReplay)$"},
	{path: module + "/internal/integration/bench", pattern: "^Benchmark((SQLite|Postgres)Atomic|(Postgres|Redis)Trips|Beside(Fiber|DBOS))$"},
	{path: module + "/internal/integration/bench", pattern: "^Benchmark(SQLite|Postgres)Large$", once: true},
	{path: module + "/internal/integration", script: "browser/taps.bench.js"},
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 3, "how often each benchmark runs")
	each := flags.String("time", "1s", "how long, as go test -benchtime takes it")
	only := flags.String("only", "", "only the suites whose package or script has this in its name")
	large := flags.Bool("large", os.Getenv("BENCH_LARGE") == "1", "ten million keys in the large tables instead of one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "onceward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	env := os.Environ()
	if *large {
		env = append(env, "BENCH_KEYS=10000000")
	}

	type built struct{ binary, dir string }
	ready := map[string]built{}
	suites := slices.DeleteFunc(slices.Clone(suites), func(s suite) bool { return !strings.Contains(s.path+" "+s.script, *only) })
	for _, s := range suites {
		if _, ok := ready[s.path]; ok {
			continue
		}
		dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", s.path).Output()
		if err != nil {
			return fmt.Errorf("go list %s: %w (run it inside the repository)", s.path, err)
		}
		if s.script != "" {
			ready[s.path] = built{"", strings.TrimSpace(string(dir))}
			continue
		}
		binary := filepath.Join(temp, "bench"+strconv.Itoa(len(ready)))
		if out, err := exec.Command("go", "test", "-c", "-o", binary, s.path).CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", s.path, err, out)
		}
		ready[s.path] = built{binary, strings.TrimSpace(string(dir))}
	}
	samples := map[string][]float64{}
	for round := range *rounds {
		for _, s := range suites {
			if s.once && round > 0 {
				continue
			}
			fmt.Fprintf(stderr, "round %d of %d: %s%s\n", round+1, *rounds, s.pattern, s.script)
			cmd := exec.Command(ready[s.path].binary, "-test.run=^$", "-test.timeout=1h", "-test.bench="+s.pattern, "-test.benchtime="+*each)
			cmd.Dir, cmd.Env = ready[s.path].dir, env
			if s.once {
				cmd.Args[len(cmd.Args)-1] = "-test.benchtime=" + onceTime
			}
			if s.script != "" {
				cmd = exec.Command("node", s.script)
				cmd.Dir, cmd.Env = ready[s.path].dir, env
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s%s: %w\n%s", s.pattern, s.script, err, out)
			}
			if err := collect(samples, out); err != nil {
				return err
			}
		}
	}
	m := medianOf(samples)
	m.some = *only != ""
	report(stdout, rows, m)
	fmt.Fprintln(stdout)
	report(stdout, taps, m)
	reportBeside(stdout, m)
	fmt.Fprintf(stdout, "\n%s/%s, %d processors, %s\n", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version())
	return nil
}

// onceTime is how long what runs once is measured, whatever -time says.
const onceTime = "6s"

// collect reads the lines of the testing package's benchmark format: a name,
// the number of iterations, then pairs of value and unit.
func collect(samples map[string][]float64, out []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		// A name ends in -N, the number of processors; the benchmark's own name
		// may hold hyphens too.
		if procs := "-" + strconv.Itoa(runtime.GOMAXPROCS(0)); strings.HasSuffix(name, procs) {
			name = strings.TrimSuffix(name, procs)
		}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("not a benchmark's line: %q", lines.Text())
			}
			key := name + " " + fields[i+1]
			samples[key] = append(samples[key], v)
		}
	}
	return lines.Err()
}

// medians holds one number for each benchmark and unit.
type medians struct {
	values  map[string]float64
	missing *[]string
	some    bool // what was not measured was not wanted
}

func (m medians) get(name, unit string) float64 {
	v, ok := m.values[name+" "+unit]
	if !ok {
		*m.missing = append(*m.missing, name+" "+unit)
	}
	return v
}

func medianOf(samples map[string][]float64) medians {
	m := medians{values: map[string]float64{}, missing: &[]string{}}
	for key, list := range samples {
		slices.Sort(list)
		m.values[key] = (list[(len(list)-1)/2] + list[len(list)/2]) / 2
	}
	return m
}

// notMeasured says which numbers are missing, if any, and forgets them.
func (m medians) notMeasured() string {
	missing := *m.missing
	*m.missing = nil
	if len(missing) == 0 {
		return ""
	}
	return "not measured: no " + strings.Join(missing, ", ")
}

// report prints a table that reads well both on a terminal and in Markdown.
func report(w io.Writer, rows []row, m medians) {
	fmt.Fprintf(w, "| what | target | measured | |\n|---|---|---|---|\n")
	for _, r := range rows {
		measured, met := r.judge(m)
		verdict := "met"
		if !met {
			verdict = "**missed**"
		}
		if none := m.notMeasured(); none != "" {
			if m.some {
				continue
			}
			measured, verdict = none, "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", r.what, r.target, measured, verdict)
	}
}

// reportBeside prints the table of what others do.
func reportBeside(w io.Writer, m medians) {
	fmt.Fprintf(w, "\n| beside, in the same run | first requests | replays | what it does not promise |\n|---|---|---|---|\n")
	for _, r := range beside {
		first := rate(m, r.first, r.name, r.bare)
		if none := m.notMeasured(); none != "" {
			if m.some {
				continue
			}
			first = none
		}
		replays := "each runs again"
		if r.replay != "" {
			replays = rate(m, r.replay, r.name, "")
			if none := m.notMeasured(); none != "" {
				replays = none
			}
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", r.what, first, replays, r.not)
	}
}

func rate(m medians, benchmark, name, bare string) string {
	text := fmt.Sprintf("%.0f/s", m.get(benchmark, name+"/s"))
	if bare != "" {
		text += fmt.Sprintf(" (%.2f × bare)", m.get(benchmark, name+"-x-"+bare))
	}
	return text
}
