package frameworks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/integration/orders"
)

var (
	folder     string   // where the built programs are
	buildFlags []string // -race, if the tests have it
)

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "frameworks-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	build := func(args ...string) error {
		cmd := exec.Command("go", args...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		return cmd.Run()
	}
	const examples = "github.com/onceward/onceward/examples/frameworks"
	code := 1
	err = errors.Join(
		build(slices.Concat([]string{"build", "-o", folder}, buildFlags, []string{examples + "/..."})...),
		build("test", "-c", "-o", filepath.Join(folder, "orders.test"), "github.com/onceward/onceward/internal/integration/orders"),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "building examples/frameworks:", err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// Requirement 76: each framework's example passes the tests of examples/orders, with
// handlers that return errors.
func TestRequirement76TheOrdersTestsPassOnEachFramework(t *testing.T) {
	// Each runs a dozen programs at a time.
	turns := make(chan struct{}, 2)
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			var skip []string
			for _, e := range except[p.name] {
				skip = append(skip, e.skip)
			}
			cmd := exec.Command(filepath.Join(folder, "orders.test"), "-test.v", "-test.timeout=5m", "-test.parallel=8",
				"-test.run=^("+strings.Join(cases, "|")+")$", "-test.skip="+strings.Join(skip, "|"))
			cmd.Dir = "../orders"
			cmd.Env = append(os.Environ(),
				"ORDERS_PROGRAM="+filepath.Join(folder, p.command), "ORDERS_FLAGS="+strings.TrimSuffix("-mount "+p.mount, "-mount "),
				"ORDERS_STORES=,"+strings.Join(p.stores, ",")+",", "ORDERS_RECOVERS=1")
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			err := cmd.Run()
			for _, complaint := range judge(said.String(), p) {
				t.Error(complaint)
			}
			if err != nil || t.Failed() {
				t.Errorf("%v:\n%s", err, failures(said.String()))
			}
		})
	}
}

var result = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`)

// judge says which of the tests did not pass on every store where it runs and is
// not excepted, and which exceptions are none.
func judge(said string, p program) (complaints []string) {
	passed := map[string]bool{} // test and store
	for _, m := range result.FindAllStringSubmatch(said, -1) {
		parts := strings.Split(m[2], "/")
		for _, store := range parts[1:] {
			where := parts[0] + " on " + store
			if was, ok := passed[where]; m[1] == "PASS" && (was || !ok) {
				passed[where] = true
			} else {
				passed[where] = false
			}
		}
	}
	for _, name := range cases {
		for _, store := range p.runs(name) {
			where := name + " on " + store
			all, _ := exceptedOn(except[p.name], name, store)
			if passed[where] == all {
				complaints = append(complaints, fmt.Sprintf("%s: passed %v, excepted %v", where, passed[where], all))
			}
		}
	}
	return complaints
}

// runs are the stores on which a test of orders runs against p.
func (p program) runs(name string) (some []string) {
	for _, store := range orders.RunsOn(name) {
		if slices.Contains(p.stores, store) {
			some = append(some, store)
		}
	}
	return some
}

// exceptedOn reports whether a test is excepted on a store, and the reason for that
// or for a part of it that is.
func exceptedOn(list []exception, name, store string) (all bool, reason string) {
	for _, e := range list {
		parts := strings.SplitN(e.skip, "/", 3)
		if parts[0] != name {
			continue
		}
		where := ".*"
		if len(parts) > 1 {
			where = parts[1]
		}
		if regexp.MustCompile(where).MatchString(store) {
			return len(parts) < 3, e.reason
		}
	}
	return false, ""
}

func TestATestThatDidNotRunIsNoPass(t *testing.T) {
	whole := func(p program) string {
		var said strings.Builder
		for _, name := range cases {
			fmt.Fprintf(&said, "--- PASS: %s (1.0s)\n", name)
			for _, store := range p.runs(name) {
				if all, _ := exceptedOn(except[p.name], name, store); !all {
					fmt.Fprintf(&said, "    --- PASS: %s/a_case/%s (1.0s)\n", name, store)
				}
			}
		}
		return said.String()
	}
	for _, p := range programs {
		if got := judge(whole(p), p); len(got) != 0 {
			t.Errorf("%s passes all, and %q", p.name, got)
		}
	}
	p := program{name: "chi", stores: stores}
	const name = "TestB007TwoPressesAtOncePayOnce"
	for from, to := range map[string]string{
		"PASS: " + name + "/a_case/memory":        "SKIP: " + name + "/a_case/memory",
		"PASS: " + name + "/a_case/sqlite (":      "FAIL: " + name + "/a_case/sqlite (",
		"PASS: " + name + "/a_case/sqlite-atomic": "PASS: " + name + "/a_case/redis",
		"--- PASS: " + name + " (":                "--- FAIL: " + name + "/other/memory (",
	} {
		if got := judge(strings.Replace(whole(p), from, to, 1), p); len(got) != 1 {
			t.Errorf("%q: %q, want one complaint", to, got)
		}
	}
	if got := judge("", p); len(got) < len(cases) {
		t.Errorf("nothing ran, and only %d complaints", len(got))
	}
	// What is excepted and passes all the same is no exception.
	fiber := programs[len(programs)-1]
	if got := judge(whole(program{name: "chi", stores: stores}), fiber); len(got) < 4 {
		t.Errorf("exceptions that passed: %q", got)
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

// The lists say what is so: tests that exist, programs that are there, reasons that
// are used.
func TestTheListsAreOfWhatThereIs(t *testing.T) {
	var text strings.Builder
	files, err := filepath.Glob("../orders/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(source)
	}
	used := map[string]bool{}
	for i, name := range cases {
		if !strings.Contains(text.String(), "\nfunc "+name+"(t *testing.T) {") || slices.Contains(cases[:i], name) {
			t.Errorf("%s is no test of internal/integration/orders, or listed twice", name)
		}
	}
	for column, list := range except {
		if !slices.ContainsFunc(programs, func(p program) bool { return p.name == column }) {
			t.Errorf("there is no program %s", column)
		}
		for _, e := range list {
			used[e.reason] = true
			name, _, _ := strings.Cut(e.skip, "/")
			if !slices.Contains(cases, name) || reasons[e.reason] == "" {
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
