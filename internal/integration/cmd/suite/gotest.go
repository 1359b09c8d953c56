package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// longest begin first, so that none of them runs alone at the end; each package is
// tested once, however often it is named.
var longest = []string{
	"./internal/integration/stores", "./internal/integration/orders", "./internal/integration/histories",
	"./internal/integration/frameworks", "./internal/integration/gateway", "./internal/integration/operating",
}

func runGo(ctx context.Context, w *workplace) (counts, error) {
	ctx, cancel := context.WithTimeout(ctx, 45*time.Minute)
	defer cancel()
	// -count=1: some tests read the repository through other programs, which
	// the test cache cannot see.
	// Three packages at a time on two processors: much of a test is waiting. With
	// four the waits of one run out while the others compute.
	side := fmt.Sprintf("-p=%d", runtime.NumCPU()+1)
	args := []string{"test", "-race", "-count=1", side, "-timeout=20m", "-json"}
	return goTests(ctx, w, args, append(longest, "work")...)
}

// goTests runs the tests of packages, with args before them, and once more
// alone what failed.
func goTests(ctx context.Context, w *workplace, args []string, packages ...string) (counts, error) {
	g := newGoReader(w.out)
	err := w.lines(ctx, "", g.line, "go", slices.Concat(args, packages)...)
	c := g.end()
	if err != nil && c.failed > 0 {
		err = nil // told test by test; all of them may prove flaky
	}
	if err == nil && c.passed+c.failed+c.skipped == 0 {
		err = errors.New("no test ran")
	}
	return w.again(ctx, c, g.failures, func(ctx context.Context, f failure) bool {
		second := newGoReader(w.out)
		err := w.lines(ctx, "", second.line, "go", slices.Concat(args, f.rerun)...)
		c := second.end()
		return err == nil && c.passed > 0 && c.failed+c.skipped == 0
	}), err
}

// goEvent is one line of `go test -json` (see `go doc test2json`), or, with
// ImportPath, of the build before it.
type goEvent struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// goReader counts tests and keeps their output until it is known whether
// somebody has to read it.
//
// A test that has subtests is counted by them; it counts itself only if it
// fails while none of them did. A package that fails without a failing test (it
// did not build, it timed out, it exited) counts as one failure.
type goReader struct {
	out      io.Writer
	counts   counts
	failures []failure
	packages map[string]*goPackage
	builds   map[string]*strings.Builder
}

type goPackage struct {
	counts  counts
	tests   map[string]*goTest
	output  strings.Builder
	skipped []string
}

type goTest struct {
	output      strings.Builder
	parent      bool
	failedBelow bool
	done        bool
}

func newGoReader(out io.Writer) *goReader {
	return &goReader{out: out, packages: map[string]*goPackage{}, builds: map[string]*strings.Builder{}}
}

func (g *goReader) line(line []byte) {
	var e goEvent
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		// The go command itself has something to say.
		fmt.Fprintf(g.out, "%s\n", line)
		return
	}
	switch e.Action {
	case "build-output":
		b := g.builds[e.ImportPath]
		if b == nil {
			b = &strings.Builder{}
			g.builds[e.ImportPath] = b
		}
		b.WriteString(e.Output)
		return
	case "build-fail":
		return
	}
	p := g.packages[e.Package]
	if p == nil {
		p = &goPackage{tests: map[string]*goTest{}}
		g.packages[e.Package] = p
	}
	if e.Test == "" {
		g.packageEvent(e, p)
		return
	}
	t := p.tests[e.Test]
	if t == nil {
		t = &goTest{}
		p.tests[e.Test] = t
		for name := e.Test; ; {
			i := strings.LastIndexByte(name, '/')
			if i < 0 {
				break
			}
			name = name[:i]
			if above := p.tests[name]; above != nil {
				above.parent = true
			}
		}
	}
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
	case "pass":
		t.done = true
		if !t.parent {
			p.counts.passed++
		}
		t.output.Reset()
	case "skip":
		t.done = true
		p.counts.skipped++
		p.skipped = append(p.skipped, e.Test)
		fmt.Fprintf(g.out, "SKIP %s.%s\n%s", e.Package, e.Test, indent(t.output.String()))
	case "fail":
		t.done = true
		for name := e.Test; ; {
			i := strings.LastIndexByte(name, '/')
			if i < 0 {
				break
			}
			name = name[:i]
			if above := p.tests[name]; above != nil {
				above.failedBelow = true
			}
		}
		if !t.failedBelow {
			p.counts.failed++
			g.failures = append(g.failures, failure{test: e.Package + "." + e.Test, text: t.output.String(), rerun: []string{"-run", exactly(e.Test), e.Package}})
		}
		fmt.Fprintf(g.out, "FAIL %s.%s\n%s", e.Package, e.Test, indent(t.output.String()))
	}
}

func (g *goReader) packageEvent(e goEvent, p *goPackage) {
	switch e.Action {
	case "output":
		p.output.WriteString(e.Output)
	case "pass", "skip", "fail":
		if e.Action == "fail" {
			g.failedPackage(e, p)
		}
		g.counts.add(p.counts)
		if p.counts != (counts{}) {
			fmt.Fprintf(g.out, "%-4s %s: %s in %.1fs\n", e.Action, strings.TrimPrefix(e.Package, "github.com/onceward/"), p.counts, e.Elapsed)
		}
		delete(g.packages, e.Package)
	}
}

// exactly is the pattern of one test, or subtest, for go test -run.
func exactly(test string) string {
	names := strings.Split(test, "/")
	for i, n := range names {
		names[i] = "^" + regexp.QuoteMeta(n) + "$"
	}
	return strings.Join(names, "/")
}

// failedPackage prints what no single test owns: a build that failed, a panic,
// a race report, and the tests that never ended.
func (g *goReader) failedPackage(e goEvent, p *goPackage) {
	if b := g.builds[e.FailedBuild]; e.FailedBuild != "" && b != nil {
		p.output.WriteString(b.String())
	}
	for name, t := range p.tests {
		if !t.done && !t.parent {
			p.counts.failed++
			g.failures = append(g.failures, failure{test: e.Package + "." + name + " (it never ended)", text: t.output.String()})
			fmt.Fprintf(g.out, "FAIL %s.%s (it never ended)\n%s", e.Package, name, indent(t.output.String()))
		}
	}
	if p.counts.failed == 0 {
		p.counts.failed++
		g.failures = append(g.failures, failure{test: e.Package, text: p.output.String()})
	}
	fmt.Fprintf(g.out, "FAIL %s\n%s", e.Package, indent(p.output.String()))
}

// end counts what never came to an end, and returns the sum.
func (g *goReader) end() counts {
	for name, p := range g.packages {
		g.failedPackage(goEvent{Package: name}, p)
		g.counts.add(p.counts)
	}
	clear(g.packages)
	return g.counts
}
