package frameworks

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/internal/integration/orders"
	"github.com/onceward/onceward/internal/integration/programs"
)

var folder string // where the built programs are, and below it in plain those without the race detector

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "frameworks-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// build builds the programs and the tests of examples/orders, for whoever is first to
// need them.
var build = sync.OnceValue(func() error {
	run := func(args ...string) error {
		cmd := exec.Command("go", args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	const examples = "github.com/onceward/onceward/examples/frameworks"
	return errors.Join(
		run("build", "-race="+strconv.FormatBool(programs.Race), "-o", folder+"/", examples+"/..."),
		run("build", "-o", filepath.Join(folder, "plain")+"/", examples+"/chi", examples+"/echo", examples+"/gin", examples+"/fiber"),
		run("test", "-c", "-o", filepath.Join(folder, "orders.test"), "github.com/onceward/onceward/internal/integration/orders"),
	)
})

// Requirement 76: each framework's example passes the tests of examples/orders, with
// handlers that return errors. ONCEWARD_FRAMEWORKS=all runs each of them on each
// program and each store.
func TestRequirement76TheOrdersTestsPassOnEachFramework(t *testing.T) {
	if err := build(); err != nil {
		t.Fatal(err)
	}
	turns := make(chan struct{}, 3) // each runs a dozen programs at a time
	chosen := plan(cases(t), os.Getenv("ONCEWARD_FRAMEWORKS") == "all")
	for _, p := range columns {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			said, err := runOrders(p, chosen[p.name])
			for _, complaint := range judge(said, chosen[p.name]) {
				t.Error(complaint)
			}
			if err != nil || t.Failed() {
				t.Errorf("%v:\n%s", err, failures(said))
			}
		})
	}
}

// runOrders runs cases of internal/integration/orders against a program.
func runOrders(p program, chosen []choice) (said string, err error) {
	var tests, pairs, raced, skip []string
	for _, one := range chosen {
		pairs = append(pairs, one.test+"/"+one.store)
		if one.raced {
			raced = append(raced, one.test+"/"+one.store)
		}
		if !slices.Contains(tests, one.test) {
			tests = append(tests, one.test)
		}
	}
	for _, e := range except[p.name] {
		skip = append(skip, e.skip)
	}
	recovers := "panics"
	if p.name == "fiber" {
		recovers = "all"
	}
	cmd := exec.Command(filepath.Join(folder, "orders.test"), "-test.v", "-test.timeout=15m", "-test.parallel=8",
		"-test.run=^("+strings.Join(tests, "|")+")$", "-test.skip="+strings.Join(skip, "|"))
	cmd.Dir = "../orders"
	cmd.Env = append(os.Environ(),
		"ORDERS_PROGRAM="+filepath.Join(folder, p.command), "ORDERS_PLAIN="+filepath.Join(folder, "plain", p.command),
		"ORDERS_FLAGS="+strings.TrimSuffix("-mount "+p.mount, "-mount "), "ORDERS_ONLY="+strings.Join(pairs, " "), "ORDERS_RACE="+strings.Join(raced, " "), "ORDERS_RECOVERS="+recovers)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var result = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`)

// judge says which of the chosen did not pass, and all of it: a case has its store's
// name in its own.
func judge(said string, chosen []choice) (complaints []string) {
	passed := map[string]bool{}
	for _, m := range result.FindAllStringSubmatch(said, -1) {
		parts := strings.Split(m[2], "/")
		for _, store := range parts[1:] {
			where := pair{parts[0], store}.String()
			if was, ok := passed[where]; m[1] == "PASS" && (was || !ok) {
				passed[where] = true
			} else {
				passed[where] = false
			}
		}
	}
	for _, one := range chosen {
		if !passed[one.String()] {
			complaints = append(complaints, one.String()+" has not passed")
		}
	}
	return complaints
}

func TestATestThatDidNotRunIsNoPass(t *testing.T) {
	chosen := plan(cases(t), false)["chi"]
	whole := func(chosen []choice) string {
		var said strings.Builder
		for _, one := range chosen {
			fmt.Fprintf(&said, "--- PASS: %s (1.0s)\n    --- PASS: %s/a_case/%s (1.0s)\n", one.test, one.test, one.store)
		}
		return said.String()
	}
	if got := judge(whole(chosen), chosen); len(got) != 0 {
		t.Errorf("all passed, and %q", got)
	}
	if got := judge("", chosen); len(got) != len(chosen) || len(got) < 100 {
		t.Errorf("nothing ran, and %d complaints", len(got))
	}
	const name = "TestB007TwoPressesAtOncePayOnce"
	for from, to := range map[string]string{
		"    --- PASS: " + name + "/a_case/memory": "    --- SKIP: " + name + "/a_case/memory",
		"    --- PASS: " + name + "/a_case/":       "    --- FAIL: " + name + "/a_case/",
		name + "/a_case/memory":                    name + "/a_case/redis",
		"--- PASS: " + name + " (":                 "--- FAIL: " + name + "/other/memory (",
	} {
		if got := judge(strings.Replace(whole(chosen), from, to, 1), chosen); len(got) != 1 {
			t.Errorf("%q: %q, want one complaint", to, got)
		}
	}
}

// failures is what a run says of the tests that failed.
func failures(said string) string {
	var out strings.Builder
	keep := false
	for line := range strings.Lines(said) {
		switch {
		case result.MatchString(line):
			keep = strings.Contains(line, "--- FAIL")
		case strings.HasPrefix(line, "=== "):
			keep = false
		}
		if keep || strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic:") {
			out.WriteString(line)
		}
		if out.Len() > 20_000 {
			break
		}
	}
	return out.String()
}

// Every test of internal/integration/orders is run against the programs, or there is
// a reason why not.
func TestEachCaseIsRunOrExcused(t *testing.T) {
	all := everyCase(t)
	for name, reason := range inTheTest {
		if !slices.Contains(all, name) || len(reason) < 20 {
			t.Errorf("%s is no test of internal/integration/orders, or has no reason: %q", name, reason)
		}
	}
	for _, full := range []bool{false, true} {
		ran := map[pair]int{} // by how many programs
		for name, chosen := range plan(cases(t), full) {
			for _, one := range chosen {
				ran[one.pair]++
				if whole, _ := exceptedOn(except[name], one.test, one.store); whole {
					t.Errorf("%s is to run %s, from which it is excepted", name, one)
				}
			}
		}
		for _, test := range cases(t) {
			for _, store := range orders.RunsOn(test) {
				want, one := 0, pair{test, store}
				for _, p := range columns {
					if whole, _ := exceptedOn(except[p.name], test, store); !whole {
						want++
					}
				}
				if want == 0 {
					t.Errorf("%s is for no program", one)
				}
				if onOne(test, store, full) {
					want = 1
				}
				if ran[one] != want {
					t.Errorf("%s is run by %d programs, want %d", one, ran[one], want)
				}
			}
			if len(orders.RunsOn(test)) == 0 {
				t.Errorf("%s runs on no store, and has no reason", test)
			}
		}
	}
}

// Each program has its turn with each store.
func TestEachProgramMeetsEachStore(t *testing.T) {
	for name, chosen := range plan(cases(t), false) {
		met := map[string]int{}
		for _, one := range chosen {
			met[one.store]++
		}
		for _, store := range orders.Backends {
			if met[store] < 8 {
				t.Errorf("%s runs %d cases on %s", name, met[store], store)
			}
		}
	}
}

func TestTheExceptionsAreOfWhatThereIs(t *testing.T) {
	for _, name := range everywhere {
		if !slices.Contains(cases(t), name) {
			t.Errorf("there is no %s", name)
		}
	}
	used := map[string]bool{}
	for column, list := range except {
		if !slices.ContainsFunc(columns, func(p program) bool { return p.name == column }) {
			t.Errorf("there is no program %s", column)
		}
		for _, e := range list {
			used[e.reason] = true
			name, _, _ := strings.Cut(e.skip, "/")
			if !slices.Contains(cases(t), name) || reasons[e.reason] == "" {
				t.Errorf("%s is excepted from %s, for reason %q", e.skip, column, e.reason)
			}
		}
	}
	for letter := range reasons {
		if !used[letter] {
			t.Errorf("the reason %s is not used", letter)
		}
	}
}

// cases are the tests of internal/integration/orders that a program can be asked.
func cases(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(everyCase(t), func(name string) bool { return inTheTest[name] != "" })
}

func everyCase(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../orders/*_test.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\) \{$`).FindAllStringSubmatch(string(source), -1) {
			names = append(names, m[1])
		}
	}
	if len(names) < 110 {
		t.Fatalf("found %d tests", len(names))
	}
	return names
}
