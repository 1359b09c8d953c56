package main

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestTheMedianOfTheRoundsIsJudged(t *testing.T) {
	samples := map[string][]float64{}
	for _, multiple := range []float64{1.1, 4.4, 4.6} {
		text := fmt.Sprintf(`goos: linux
BenchmarkSQLiteGroupCommit/pool-of-1-%[1]d  	1000	 4.0 p50-ms	 3.5 p99/p50	 4000 req/s	 %[2]g x-each-alone
PASS
`, runtime.GOMAXPROCS(0), multiple)
		if err := collect(samples, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	report(&out, rows, medianOf(samples))
	for _, want := range []string{
		"| ≥ 4 × | 4.4 × (4000 requests/s) | met |",
		"| < 5 × | 3.5 × (p50 4.0 ms) | met |",
		"| cheaper | not measured: no Memory/replay ns/op, Memory/first ns/op | **missed** |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestATargetThatIsMissedIsSaid(t *testing.T) {
	samples := map[string][]float64{
		"Memory/bare ns/op": {1000}, "Memory/first ns/op": {7000}, "Memory/replay ns/op": {3000},
		"Memory/bare allocs/op": {3}, "Memory/first allocs/op": {17},
	}
	var out strings.Builder
	report(&out, rows, medianOf(samples))
	for _, want := range []string{"| 6.0 µs, 14 allocations more | **missed** |", "| 0.43 × | met |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestATapsCostIsJudgedInEachBrowser(t *testing.T) {
	samples := map[string][]float64{
		"OutboxTap/chromium more-ms": {4.9}, "OutboxTap/chromium announced-ms": {7}, "OutboxTap/chromium excluded-ms": {2.1}, "OutboxTap/chromium cold-ms": {40},
		"OutboxTap/firefox more-ms": {8.2}, "OutboxTap/firefox announced-ms": {12}, "OutboxTap/firefox excluded-ms": {3.8}, "OutboxTap/firefox cold-ms": {90},
	}
	var out strings.Builder
	report(&out, taps, medianOf(samples))
	for _, want := range []string{
		"Chromium | ≤ 5 ms more | 4.9 ms more (7.0 ms against 2.1 ms; the first after the worker was stopped: 40 ms) | met |",
		"Firefox | ≤ 8 ms more | 8.2 ms more (12.0 ms against 3.8 ms; the first after the worker was stopped: 90 ms) | **missed** |",
		"WebKit | ≤ 5 ms more | not measured: no OutboxTap/webkit more-ms,",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	m := medianOf(samples)
	m.some = true
	out.Reset()
	report(&out, taps, m)
	if strings.Contains(out.String(), "WebKit") || !strings.Contains(out.String(), "Firefox") {
		t.Errorf("a part of the benchmarks was asked for, and the table is\n%s", out.String())
	}
}

func TestOthersStandBesideWithTheirOwnBareHandler(t *testing.T) {
	samples := map[string][]float64{
		"BesideDBOS/first bare/s": {800}, "BesideDBOS/first atomic/s": {700}, "BesideDBOS/first atomic-x-bare": {0.875},
		"BesideDBOS/replay atomic/s": {2000}, "BesideDBOS/first dbos/s": {250}, "BesideDBOS/first dbos-x-bare": {0.3125},
	}
	var out strings.Builder
	reportBeside(&out, medianOf(samples))
	for _, want := range []string{
		"in its own transaction | 800/s | each runs again |",
		"Onceward Atomic round the same handler | 700/s (0.88 × bare) | 2000/s |",
		"| 250/s (0.31 × bare) | not measured: no BesideDBOS/replay dbos/s |",
		"the bare handler | not measured: no BesideFiber/first nethttp/s |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestASweepThatCostsTooMuchIsSaid(t *testing.T) {
	samples := map[string][]float64{
		"SQLiteLarge keys": {1e6}, "SQLiteLarge empty-p50-ms": {2}, "SQLiteLarge large-p50-ms": {2.4},
		"SQLiteLarge large-p99-ms": {4}, "SQLiteLarge large-max-ms": {9}, "SQLiteLarge swept-p99-ms": {9}, "SQLiteLarge swept-max-ms": {10},
	}
	var out strings.Builder
	report(&out, rows, medianOf(samples))
	for _, want := range []string{
		"| ≤ 1.3 × | 1.20 × (1 million keys: 2.40 ms) | met |",
		"| ≤ 2 × | 2.25 × (9.0 ms; the slowest 10.0 ms, without 9.0 ms) | **missed** |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
