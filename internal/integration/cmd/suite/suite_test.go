package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/integration/repository"
)

// module writes a small Go module and returns its folder.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.test/m\n\ngo 1.25\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func readGo(t *testing.T, files map[string]string, flags ...string) (counts, string) {
	t.Helper()
	dir := module(t, files)
	var out bytes.Buffer
	w, err := newWorkplace(dir, &out)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	t.Setenv("GOWORK", "off")
	g := newGoReader(w.out)
	args := append([]string{"test", "-count=1", "-json"}, flags...)
	_ = w.lines(context.Background(), "", g.line, "go", append(args, "./...")...)
	return g.end(), out.String()
}

func TestGoTestsAreCountedByTheirLeaves(t *testing.T) {
	got, out := readGo(t, map[string]string{"a/a_test.go": `package a
import "testing"
func TestPlain(t *testing.T) {}
func TestParent(t *testing.T) {
	t.Run("one", func(t *testing.T) { t.Log("quiet") })
	t.Run("two", func(t *testing.T) { t.Error("two went wrong") })
}
func TestParentItself(t *testing.T) {
	t.Run("one", func(t *testing.T) {})
	t.Error("the parent went wrong")
}
func TestSkipped(t *testing.T) { t.Skip("no such tool") }
`})
	if want := (counts{passed: 3, failed: 2, skipped: 1}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, want := range []string{"two went wrong", "the parent went wrong", "no such tool"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "quiet") {
		t.Errorf("a passing test's log is printed:\n%s", out)
	}
}

func TestGoFailuresWithoutATestAreOneFailureEachAndTold(t *testing.T) {
	got, out := readGo(t, map[string]string{
		"build/x_test.go": "package build\nvar x int = \"not a number\"\n",
		"exit/x_test.go":  "package exit\nimport (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { println(\"no database\"); os.Exit(3) }\n",
		"fine/x_test.go":  "package fine\nimport \"testing\"\nfunc TestFine(t *testing.T) {}\n",
		"none/x.go":       "package none\n",
	})
	if want := (counts{passed: 1, failed: 2}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, want := range []string{"not a number", "no database"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

func TestAGoTestThatHangsIsNamed(t *testing.T) {
	got, out := readGo(t, map[string]string{
		"a/x_test.go": "package a\nimport \"testing\"\nfunc TestBefore(t *testing.T) {}\nfunc TestForEver(t *testing.T) { t.Log(\"waiting\"); select {} }\n",
	}, "-timeout=2s")
	if got.passed != 1 || got.failed != 1 || got.skipped != 0 {
		t.Errorf("got %v, want 1 passed, 1 failed", got)
	}
	if !strings.Contains(out, "TestForEver") || !strings.Contains(out, "timed out") {
		t.Errorf("the output does not name the test that hung:\n%s", out)
	}
}

func readNode(t *testing.T, limit time.Duration, files map[string]string) (counts, string, error) {
	t.Helper()
	n, out, w := readNodeAt(t, limit, files)
	w.close()
	return n.counts, out.String(), nil
}

// readNodeAt is readNode, and leaves the place of work with what failed.
func readNodeAt(t *testing.T, limit time.Duration, files map[string]string) (*nodeReader, *bytes.Buffer, *workplace) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("node is needed: make install")
	}
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var paths []string
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	out := &bytes.Buffer{}
	w, err := newWorkplace(root, out)
	if err != nil {
		t.Fatal(err)
	}
	n, err := runNode(context.Background(), w, limit, paths)
	if err != nil {
		t.Error(err)
	}
	w.failures = n.failures
	return n, out, w
}

func TestNodeTestsAreCountedByTheirLeaves(t *testing.T) {
	got, out, err := readNode(t, time.Minute, map[string]string{"a.test.mjs": `
import assert from 'node:assert';
import { describe, it, test } from 'node:test';
test('plain', () => {});
test('left out', { skip: 'no such tool' }, () => {});
test('later', { todo: true }, () => {});
describe('group', () => {
  it('holds', () => {});
  it('breaks', () => assert.equal(1, 2, 'one is not two'));
});
test('parent', async t => {
  await t.test('holds', () => {});
  await t.test('breaks', () => { throw new Error('thrown inside'); });
});
`})
	if err != nil {
		t.Error(err)
	}
	if want := (counts{passed: 3, failed: 2, skipped: 2}); got != want {
		t.Errorf("got %v, want %v\n%s", got, want, out)
	}
	for _, want := range []string{"group › breaks", "one is not two", "parent › breaks", "thrown inside", "no such tool"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

func TestANodeFileThatCannotFailFails(t *testing.T) {
	got, out, _ := readNode(t, time.Minute, map[string]string{
		"empty.test.mjs": "export {};",
		"load.test.mjs":  "throw new Error('at load');",
		"hang.test.mjs":  "import { test } from 'node:test'; test('for ever', () => new Promise(() => {}));",
	})
	if want := (counts{failed: 3}); got != want {
		t.Errorf("got %v, want %v\n%s", got, want, out)
	}
	for _, want := range []string{"it has no test", "at load", "for ever"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

// A page that hung kept every later file of the stage from its turn.
func TestANodeFileThatHangsIsNamedAndEndsNoOther(t *testing.T) {
	got, out, err := readNode(t, 5*time.Second, map[string]string{
		"a-hangs.test.mjs": "import { test } from 'node:test'; test('before', () => {}); test('for ever', () => new Promise(() => setInterval(() => {}, 1000)));",
		"b-fine.test.mjs":  "import { test } from 'node:test'; test('fine', () => {});",
	})
	if want := (counts{passed: 2, failed: 1}); got != want || err != nil {
		t.Errorf("got %v, %v; want %v\n%s", got, err, want, out)
	}
	if !strings.Contains(out, "a-hangs.test.mjs: the file, in for ever") {
		t.Errorf("the output does not name the test that hung:\n%s", out)
	}
}

func TestTheClosingLineAndTheStatusAgree(t *testing.T) {
	for _, c := range []struct {
		name        string
		counts      counts
		interrupted bool
		ci          bool
		status      int
		last        string
	}{
		{"all passed", counts{passed: 3}, false, true, 0, "3 passed, 0 failed, 0 skipped"},
		{"one failed", counts{passed: 2, failed: 1}, false, false, 1, "2 passed, 1 failed, 0 skipped"},
		{"one flaky", counts{passed: 2, flaky: 1}, false, true, 0, "2 passed, 0 failed, 0 skipped, 1 flaky"},
		{"skipped at a desk", counts{passed: 2, skipped: 1}, false, false, 0, "2 passed, 0 failed, 1 skipped"},
		{"skipped in CI", counts{passed: 2, skipped: 1}, false, true, 1, "2 passed, 0 failed, 1 skipped"},
		{"interrupted", counts{passed: 2}, true, false, 1, "2 passed, 1 failed, 0 skipped"},
		{"nothing ran", counts{}, false, false, 1, "0 passed, 0 failed, 0 skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			status := summarize(&out, []result{{"stage", c.counts, time.Second}}, c.interrupted, c.ci)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if last := lines[len(lines)-1]; last != c.last {
				t.Errorf("the last line is %q, want %q", last, c.last)
			}
		})
	}
}

func TestStagesAreChosenByNameAndInOrder(t *testing.T) {
	chosen, err := choose([]string{"go", "format"})
	if err != nil || len(chosen) != 2 || chosen[0].name != "format" || chosen[1].name != "go" {
		t.Errorf("got %v, %v", chosen, err)
	}
	if _, err := choose([]string{"go", "gopher"}); err == nil || !strings.Contains(err.Error(), "gopher") {
		t.Errorf("an unknown stage is not refused by name: %v", err)
	}
}

func TestAProcessThatLeavesItsGroupIsEnded(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("processes are found through /proc: %v", err)
		}
		t.Skipf("processes are found through /proc: %v", err)
	}
	var out bytes.Buffer
	w, err := newWorkplace(t.TempDir(), &out)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	begun := time.Now()
	err = w.lines(context.Background(), "", func([]byte) {}, "setsid", "--fork", "sleep", "300")
	if err == nil || !strings.Contains(err.Error(), "outlived") {
		t.Errorf("got %v, want an error that tells of the process", err)
	}
	if time.Since(begun) > time.Minute {
		t.Error("it was waited for")
	}
}

func TestMissingToolsAreNamedWithTheCommandsToRun(t *testing.T) {
	got := advice([]string{"Xvfb"}, [][]string{{"apt-get", "install", "xvfb"}}, false, "darwin")
	for _, want := range []string{"missing: Xvfb", "darwin", "sudo apt-get install xvfb", "npm ci", "make test"} {
		if !strings.Contains(got, want) {
			t.Errorf("the advice lacks %q:\n%s", want, got)
		}
	}
}
