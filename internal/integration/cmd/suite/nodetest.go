package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// runNode runs files, given relative to the root, under node's own test runner,
// one file at a time. A file that takes longer than limit is ended and has
// failed, and the next one has its turn.
func runNode(ctx context.Context, w *workplace, limit time.Duration, files []string) (*nodeReader, error) {
	reporter := filepath.Join(w.root, integration, "cmd", "suite", "reporter.mjs")
	args := append([]string{"--test", "--test-concurrency=1", fmt.Sprintf("--test-timeout=%d", limit.Milliseconds()), "--test-reporter=" + reporter, "--test-reporter-destination=stdout"}, files...)
	n := &nodeReader{out: w.out}
	err := w.lines(ctx, "", n.line, "node", args...)
	if err != nil && n.counts.failed > 0 {
		err = nil // told already, test by test
	}
	if err == nil && n.counts.passed+n.counts.failed+n.counts.skipped == 0 {
		err = errors.New("no test ran")
	}
	return n, err
}

// fileAgain runs the file of a failed test alone, once however many failed in
// it, and says whether this test passes. (node's own choice by name does not
// reach a test below a suite that it leaves out.)
func fileAgain(w *workplace, limit time.Duration) func(context.Context, failure) bool {
	seconds := map[string]*nodeReader{}
	return func(ctx context.Context, f failure) bool {
		file := f.rerun[0]
		second := seconds[file]
		if second == nil {
			n, err := runNode(ctx, w, limit, []string{file})
			if err != nil {
				fmt.Fprintf(w.out, "%s: %v\n", file, err)
			}
			second, seconds[file] = n, n
		}
		failed := func(g failure) bool { return f.whole || g.whole || g.test == f.test }
		return second.counts.passed > 0 && second.counts.skipped == 0 && !slices.ContainsFunc(second.failures, failed)
	}
}

// nodeEvent is one line of reporter.mjs.
type nodeEvent struct {
	// Kind is pass, fail, skip, text (a test's own output) or file (all of a
	// file's tests have ended).
	Kind string
	File string
	Name string
	MS   float64
	Text string
}

// nodeReader counts tests and prints what somebody has to read.
type nodeReader struct {
	out      io.Writer
	counts   counts
	failures []failure
}

func (n *nodeReader) line(line []byte) {
	var e nodeEvent
	if err := json.Unmarshal(line, &e); err != nil || e.Kind == "" {
		fmt.Fprintf(n.out, "%s\n", line)
		return
	}
	switch e.Kind {
	case "pass":
		n.counts.passed++
		// A browser scenario takes its time; the reader sees that it goes on.
		if e.MS >= 2000 {
			fmt.Fprintf(n.out, "ok   %s: %s (%.1fs)\n", e.File, e.Name, e.MS/1000)
		}
	case "fail":
		n.counts.failed++
		n.failures = append(n.failures, failure{test: e.File + ": " + e.Name, text: e.Text, rerun: []string{e.File}, whole: strings.HasPrefix(e.Name, "the file")})
		fmt.Fprintf(n.out, "FAIL %s: %s (%.1fs)\n%s", e.File, e.Name, e.MS/1000, indent(e.Text))
	case "skip":
		n.counts.skipped++
		fmt.Fprintf(n.out, "SKIP %s: %s (%s)\n", e.File, e.Name, e.Text)
	case "text":
		fmt.Fprint(n.out, indent(e.Text))
	}
}
