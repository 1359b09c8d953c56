package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// failure is one test that failed, as it is told at the end of the run.
type failure struct {
	test string // package.Test, or file: test
	text string
	// rerun is what the stage runs to have this test alone; "" if that cannot be.
	rerun []string
	whole bool // it is a whole file of tests
	flaky bool // it passed then
}

// mostAgain is how many failures of one stage may be the machine's: with more
// of them none is run again.
const mostAgain = 5

// effects finds the failures that are never run again: what was lost, doubled,
// done in the wrong order or for the wrong person, a data race, a panic. Each
// may come once in a hundred runs, and is what this project is against.
var effects = regexp.MustCompile(`DATA RACE|panic:|fatal error:` +
	`|(?:lost|doubled|reordered|foreign)=[1-9]` +
	`|\btwice\b|\beffects?\b|under two names|not linearizable|\bruns? (?:the handler )?again\b` +
	`|'(?:create|done|undone|delete) `) // what the planner did, as the scenarios compare it

// again has a second look at what failed. Thousands of these tests wait for
// real processes, databases and browsers, for a bounded time and on a machine
// that may have two processors: one of them may lose to the machine. Each is
// run once more with nothing beside it. One that passes then is no failure of
// this run; it is counted by itself and its first failure printed at the end,
// because a test that fails now and then is one to mend.
func (w *workplace) again(ctx context.Context, c counts, failures []failure, alone func(context.Context, failure) (passed bool)) counts {
	for _, f := range failures {
		if len(failures) <= mostAgain && f.rerun != nil && !effects.MatchString(f.text) {
			fmt.Fprintf(w.out, "suite: once more, alone: %s\n", f.test)
			if f.flaky = alone(ctx, f); f.flaky {
				c.failed--
				c.flaky++
			}
		}
		w.failures = append(w.failures, f)
	}
	return c
}

// tellFailures prints once more, where the end of a long output shows it, what
// failed and why.
func tellFailures(out io.Writer, failures []failure) {
	for _, f := range failures {
		what := "FAILED"
		if f.flaky {
			what = "FLAKY (it failed, and passed when it ran alone)"
		}
		fmt.Fprintf(out, "\n%s: %s\n%s", what, f.test, indent(shortened(f.text)))
	}
}

// shortened leaves the beginning and the end of a long text.
func shortened(text string) string {
	const head, tail = 15, 15
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) <= head+tail {
		return text
	}
	return fmt.Sprintf("%s\n[… %d lines …]\n%s", strings.Join(lines[:head], "\n"), len(lines)-head-tail, strings.Join(lines[len(lines)-tail:], "\n"))
}
