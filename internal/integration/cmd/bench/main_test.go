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
	report(&out, medianOf(samples))
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
	report(&out, medianOf(samples))
	for _, want := range []string{"| 6.0 µs, 14 allocations more | **missed** |", "| 0.43 × | met |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
