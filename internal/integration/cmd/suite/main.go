// Command suite runs every check of this repository, one stage after another,
// and ends with one summary. It is what `make test` and CI run.
//
//	go run ./internal/integration/cmd/suite              all stages
//	go run ./internal/integration/cmd/suite go js        only these
//	go run ./internal/integration/cmd/suite -list        what there is
//
// A failure does not stop the run: later stages still tell what they know. The
// last line is "N passed, N failed, N skipped", and before it stands again what
// failed; the exit status is 1 if anything failed, and with CI=true also if
// anything was skipped, because a test that did not run proves nothing. A test
// that lost to a busy machine is called flaky (see again).
//
// Missing tools are installed on Debian as root; elsewhere the commands that
// would do it are printed. Two runs may go side by side: each has a temporary
// folder of its own and everything listens on a port that the system chose.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/onceward/onceward/internal/integration/repository"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with everything it touches passed in. The status is 0 when all
// passed, 1 when something failed, 2 when the run could not begin.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("suite", flag.ContinueOnError)
	flags.SetOutput(stderr)
	list := flags.Bool("list", false, "print the stages and stop")
	install := flags.Bool("install", false, "install what the stages need and stop")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *list {
		for _, s := range stages {
			fmt.Fprintf(stdout, "%-12s %s\n", s.name, s.what)
		}
		return 0
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		fmt.Fprintln(stderr, "suite:", err)
		return 2
	}
	root, err := repository.Root()
	if err != nil {
		fmt.Fprintln(stderr, "suite:", err)
		return 2
	}
	ctx, cancel := withParent(ctx)
	defer cancel()
	w, err := newWorkplace(root, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "suite:", err)
		return 2
	}
	defer w.close()

	if err := provide(ctx, w, chosen); err != nil {
		fmt.Fprintln(stderr, "suite:", err)
		return 2
	}
	if *install {
		return 0
	}

	var results []result
	for _, s := range chosen {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(stdout, "\n== %s: %s\n", s.name, s.what)
		begun := time.Now()
		c, err := s.run(ctx, w)
		if err != nil {
			c.failed++
			fmt.Fprintf(stdout, "%s: %v\n", s.name, err)
		}
		r := result{name: s.name, counts: c, took: time.Since(begun)}
		fmt.Fprintf(stdout, "-- %s: %s in %s\n", s.name, r.counts, short(r.took))
		results = append(results, r)
	}
	tellFailures(stdout, w.failures)
	return summarize(stdout, results, ctx.Err() != nil, os.Getenv("CI") == "true")
}

// counts is what one stage found.
type counts struct{ passed, failed, skipped, flaky int }

func (c counts) String() string {
	s := fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
	if c.flaky > 0 {
		s += fmt.Sprintf(", %d flaky", c.flaky)
	}
	return s
}

func (c *counts) add(o counts) {
	c.passed += o.passed
	c.failed += o.failed
	c.skipped += o.skipped
	c.flaky += o.flaky
}

type result struct {
	name   string
	counts counts
	took   time.Duration
}

// summarize prints the table and the closing line, and says how to exit.
func summarize(w io.Writer, results []result, interrupted, ci bool) int {
	var sum counts
	var took time.Duration
	fmt.Fprintf(w, "\n%-12s %8s %8s %8s %8s %9s\n", "stage", "passed", "failed", "skipped", "flaky", "time")
	for _, r := range results {
		sum.add(r.counts)
		took += r.took
		fmt.Fprintf(w, "%-12s %8d %8d %8d %8d %9s\n", r.name, r.counts.passed, r.counts.failed, r.counts.skipped, r.counts.flaky, short(r.took))
	}
	fmt.Fprintf(w, "%-12s %8d %8d %8d %8d %9s\n", "total", sum.passed, sum.failed, sum.skipped, sum.flaky, short(took))
	status := 0
	if interrupted {
		fmt.Fprintln(w, "interrupted: the stages that are not listed did not run")
		sum.failed++
	}
	if ci && sum.skipped > 0 {
		fmt.Fprintln(w, "CI=true: a skipped test counts as a failure")
		status = 1
	}
	if sum.passed+sum.failed+sum.skipped == 0 {
		fmt.Fprintln(w, "nothing ran")
		status = 1
	}
	if sum.failed > 0 {
		status = 1
	}
	fmt.Fprintln(w, sum)
	return status
}

func short(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// choose picks stages by name, in the order in which they stand in the list;
// no name means all.
func choose(names []string) ([]stage, error) {
	if len(names) == 0 {
		return stages, nil
	}
	var chosen []stage
	for _, s := range stages {
		if slices.Contains(names, s.name) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(stages, func(s stage) bool { return s.name == name }) {
			return nil, fmt.Errorf("there is no stage %q (see -list)", name)
		}
	}
	return chosen, nil
}

// indent sets text off from the summary lines around it.
func indent(text string) string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
}
