// Command bench measures what this repository promises about speed and prints,
// for each promise, the target, what was measured and whether it is met. All
// are ratios or differences within one run on one machine; no test asserts them.
//
//	go run ./internal/integration/cmd/bench [-rounds 3] [-time 1s]
//
// Each benchmark runs once per round, so that a machine that is busy for a
// while is busy for both sides of a ratio; the median of the rounds counts.
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

// suites are the packages that have the benchmarks.
var suites = []struct{ path, pattern string }{
	{module, "^BenchmarkMemory$"},
	{module + "/internal/integration/stores", "^BenchmarkSQLite(GroupCommit|HotReplay)$"},
}

// row is one promise.
type row struct {
	what, target string
	// judge returns what was measured, in words, and whether it is enough.
	judge func(m medians) (measured string, met bool)
}

var rows = []row{
	{
		"memory store: a first request over the bare handler", "≤ 5 µs and ≤ 14 allocations more",
		func(m medians) (string, bool) {
			ns := m.get("Memory/first", "ns/op") - m.get("Memory/bare", "ns/op")
			allocs := m.get("Memory/first", "allocs/op") - m.get("Memory/bare", "allocs/op")
			return fmt.Sprintf("%.1f µs, %.0f allocations more", ns/1000, allocs), ns <= 5000 && allocs <= 14
		},
	},
	{
		"memory store: a replay against a first request", "cheaper",
		func(m medians) (string, bool) {
			r := m.get("Memory/replay", "ns/op") / m.get("Memory/first", "ns/op")
			return fmt.Sprintf("%.2f ×", r), r < 1
		},
	},
	{
		"SQLite, durable, 32 clients on one connection: throughput against one transaction per step", "≥ 4 ×",
		func(m medians) (string, bool) {
			r := m.get("SQLiteGroupCommit/pool-of-1", "x-each-alone")
			return fmt.Sprintf("%.1f × (%.0f requests/s)", r, m.get("SQLiteGroupCommit/pool-of-1", "req/s")), r >= 4
		},
	},
	{
		"SQLite, durable, 32 clients on 32 connections: the same", "≥ 4 ×",
		func(m medians) (string, bool) {
			r := m.get("SQLiteGroupCommit/pool-of-32", "x-each-alone")
			return fmt.Sprintf("%.1f × (%.0f requests/s)", r, m.get("SQLiteGroupCommit/pool-of-32", "req/s")), r >= 4
		},
	},
	{
		"SQLite, durable, 32 clients: p99 against p50", "< 5 ×",
		func(m medians) (string, bool) {
			r := m.get("SQLiteGroupCommit/pool-of-1", "p99/p50")
			return fmt.Sprintf("%.1f × (p50 %.1f ms)", r, m.get("SQLiteGroupCommit/pool-of-1", "p50-ms")), r < 5
		},
	},
	{
		"SQLite: one key replayed to 64 clients against reading its row", "≥ 0.8 ×",
		func(m medians) (string, bool) {
			r := m.get("SQLiteHotReplay", "x-plain-read")
			return fmt.Sprintf("%.2f ×", r), r >= 0.8
		},
	},
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
	if err := flags.Parse(args); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "onceward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)

	type built struct{ binary, dir, pattern string }
	var ready []built
	for i, s := range suites {
		dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", s.path).Output()
		if err != nil {
			return fmt.Errorf("go list %s: %w (run it inside the repository)", s.path, err)
		}
		binary := filepath.Join(temp, "bench"+strconv.Itoa(i))
		if out, err := exec.Command("go", "test", "-c", "-o", binary, s.path).CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", s.path, err, out)
		}
		ready = append(ready, built{binary, strings.TrimSpace(string(dir)), s.pattern})
	}
	samples := map[string][]float64{}
	for round := range *rounds {
		for _, b := range ready {
			fmt.Fprintf(stderr, "round %d of %d: %s\n", round+1, *rounds, b.pattern)
			cmd := exec.Command(b.binary, "-test.run=^$", "-test.bench="+b.pattern, "-test.benchtime="+*each)
			cmd.Dir = b.dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", b.pattern, err, out)
			}
			if err := collect(samples, out); err != nil {
				return err
			}
		}
	}
	report(stdout, medianOf(samples))
	return nil
}

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
}

func (m medians) get(name, unit string) float64 {
	v, ok := m.values[name+" "+unit]
	if !ok {
		*m.missing = append(*m.missing, name+" "+unit)
	}
	return v
}

func medianOf(samples map[string][]float64) medians {
	m := medians{map[string]float64{}, &[]string{}}
	for key, list := range samples {
		slices.Sort(list)
		m.values[key] = (list[(len(list)-1)/2] + list[len(list)/2]) / 2
	}
	return m
}

// report prints a table that reads well both on a terminal and in Markdown.
func report(w io.Writer, m medians) {
	fmt.Fprintf(w, "| what | target | measured | |\n|---|---|---|---|\n")
	for _, r := range rows {
		*m.missing = nil
		measured, met := r.judge(m)
		verdict := "met"
		if !met {
			verdict = "**missed**"
		}
		if len(*m.missing) > 0 {
			measured, verdict = "not measured: no "+strings.Join(*m.missing, ", "), "**missed**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", r.what, r.target, measured, verdict)
	}
	fmt.Fprintf(w, "\n%s/%s, %d processors, %s\n", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version())
}
