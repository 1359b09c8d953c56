package ci_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const root = "../../.."

// binaries is the folder with onceward, orders and unsafe.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ci-")
	if err != nil {
		panic(err)
	}
	binaries = dir
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "github.com/onceward/onceward/cmd/onceward",
		"github.com/onceward/onceward/examples/orders", "github.com/onceward/onceward/internal/integration/ci/unsafe")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	code := 1
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building:", err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// workflow is what GitHub reads of a workflow, as far as this one uses it.
type workflow struct {
	Name string
	On   any
	Jobs map[string]struct {
		RunsOn         string `yaml:"runs-on"`
		TimeoutMinutes int    `yaml:"timeout-minutes"`
		Defaults       struct{ Run struct{ Shell string } }
		Env            map[string]string
		Steps          []step
	}
}

type step struct {
	Name, Uses, Run, If string
	With                map[string]string
}

// read reads the workflow out of the page.
func read(t *testing.T) (text string, env map[string]string, steps []step) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "ci.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "```yaml\n")
	text, _, end := strings.Cut(text, "```\n")
	if !ok || !end {
		t.Fatal("docs/ci.md has no workflow")
	}
	var w workflow
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true) // a misspelt word is none that GitHub knows
	if err := decoder.Decode(&w); err != nil {
		t.Fatalf("the workflow is no YAML that GitHub would take: %v", err)
	}
	job, ok := w.Jobs["once"]
	if len(w.Jobs) != 1 || !ok || job.Defaults.Run.Shell != "bash" || job.RunsOn == "" || w.On == nil {
		t.Fatalf("the workflow is %+v", w)
	}
	return text, job.Env, job.Steps
}

// Requirement 74: the page, the file that is copied, and what the tests run are one.
func TestThePageShowsTheWorkflowThatRuns(t *testing.T) {
	name := filepath.Join(root, "docs", "ci.md")
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(root, "docs", "ci", "once.yml"))
	if err != nil {
		t.Fatal(err)
	}
	test, err := os.ReadFile(filepath.Join(root, "examples", "orders", "once_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(test), "// docs: once_test.go\n")
	code, _, end := strings.Cut(code, "\n// docs: end")
	if !ok || !end {
		t.Fatal("examples/orders/once_test.go has no part for the page")
	}
	text := string(page)
	if os.Getenv("UPDATE") == "1" {
		text = strings.ReplaceAll(text, "{{once.yml}}\n", string(file))
		text = strings.ReplaceAll(text, "{{once_test.go}}", strings.TrimSpace(code))
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(text, "```yaml\n"+string(file)+"```\n") {
		t.Error("docs/ci.md does not show docs/ci/once.yml")
	}
	if !strings.Contains(text, "```go\n"+strings.TrimSpace(code)+"\n```\n") {
		t.Error("docs/ci.md does not show the test of examples/orders")
	}
	_, _, steps := read(t)
	for _, s := range steps {
		if tested := slices.Contains(asks, s.Name); tested != strings.Contains(text, "\n| "+s.Name+" |") {
			t.Errorf("the page's table and the tests disagree about %q", s.Name)
		}
	}
}

// asks are the steps that ask the app something.
var asks = []string{"Sent again", "Sent at once", "Lost on the way", "Another request under the same key"}

// run runs the workflow against an app, with env in place of what the page says a
// person changes, and returns the step that failed, "" if none did, and what the
// steps said.
func run(t *testing.T, app string, env map[string]string) (failed, said string) {
	t.Helper()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is not installed", tool)
			}
			t.Skipf("%s is not installed: apt-get install %[1]s", tool)
		}
	}
	_, given, steps := read(t)
	temp := t.TempDir()
	address := freeAddress(t)
	values := map[string]string{
		"START":   fmt.Sprintf(app, address),
		"APP":     "http://" + address,
		"EFFECTS": strings.ReplaceAll(given["EFFECTS"], "127.0.0.1:8000", address),
		"NETWORK": freeAddress(t),
	}
	for name, value := range env {
		values[name] = value
	}
	environment := append(os.Environ(), "RUNNER_TEMP="+temp, "PATH="+shims(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	for name, value := range given {
		if changed, ok := values[name]; ok {
			value = changed
		}
		environment = append(environment, name+"="+value)
	}
	for name := range values {
		if _, ok := given[name]; !ok {
			t.Fatalf("the workflow has no %s", name)
		}
	}

	var out strings.Builder
	for _, s := range steps {
		if s.Run == "" || failed != "" && s.If != "failure()" || failed == "" && s.If != "" {
			continue
		}
		fmt.Fprintf(&out, "--- %s\n", s.Name)
		text, err := runStep(t, s, temp, environment)
		out.WriteString(text)
		if err != nil && failed == "" {
			fmt.Fprintf(&out, "%v\n", err)
			failed = s.Name
		}
	}
	return failed, out.String()
}

// runStep runs one step as GitHub does where the shell is bash. What it leaves behind
// is ended with the test.
func runStep(t *testing.T, s step, temp string, environment []string) (string, error) {
	t.Helper()
	script := filepath.Join(temp, "step.sh")
	if err := os.WriteFile(script, []byte(s.Run), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // one of them compiles
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-eo", "pipefail", script)
	cmd.Dir, cmd.Env = temp, environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := cmd.Process.Pid
	t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	err := cmd.Wait()
	return out.String(), err
}

// shims is a folder with a git and a go that get, in place of a copy of the
// repository and what is built of it, the program under test. They do nothing that the
// workflow does not ask for.
func shims(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"git": `case "$*" in
"init -q $RUNNER_TEMP/onceward") mkdir "$RUNNER_TEMP/onceward" ;;
"fetch -q --depth 1 https://github.com/onceward/onceward main" | "checkout -q FETCH_HEAD") [ "$PWD" = "$RUNNER_TEMP/onceward" ] ;;
*) echo "git $*: not in this test"; exit 1 ;;
esac`,
		"go": fmt.Sprintf(`[ "$*" = "build -o $RUNNER_TEMP/bin/onceward ./cmd/onceward" ] || { echo "go $*: not in this test"; exit 1; }
mkdir "$RUNNER_TEMP/bin"
cp %q "$RUNNER_TEMP/bin"`, filepath.Join(binaries, "onceward")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The workflow's own git and go, on this repository: its step gets a program that is
// a bad network.
func TestTheWorkflowBuildsTheBadNetworkFromACopyOfTheRepository(t *testing.T) {
	t.Parallel()
	_, given, steps := read(t)
	if given["ONCEWARD"] != "https://github.com/onceward/onceward" || given["VERSION"] == "" {
		t.Errorf("the workflow gets %s at %s", given["ONCEWARD"], given["VERSION"])
	}
	i := slices.IndexFunc(steps, func(s step) bool { return s.Name == "Get the bad network" })
	if i < 0 {
		t.Fatal("the workflow has no such step")
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	said, err := runStep(t, steps[i], temp, append(os.Environ(), "RUNNER_TEMP="+temp, "ONCEWARD="+here, "VERSION=HEAD"))
	if err != nil {
		t.Fatalf("%v:\n%s", err, said)
	}
	out, err := exec.Command(filepath.Join(temp, "bin", "onceward"), "fault", "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "-listen") {
		t.Errorf("the built program says %s, %v", out, err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestTheWorkflowPassesAnAppThatIsRight(t *testing.T) {
	for name, app := range map[string]string{
		"orders on SQLite":     filepath.Join(binaries, "orders") + " -addr %s -store sqlite:orders.db",
		"orders in one commit": filepath.Join(binaries, "orders") + " -addr %s -store sqlite:orders.db -atomic",
		"nobody's guard":       filepath.Join(binaries, "unsafe") + " -addr %s -wrong nothing",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if failed, said := run(t, app, nil); failed != "" {
				t.Errorf("it failed at %q:\n%s", failed, said)
			} else if n := strings.Count(said, "\nok: "); n != 20 {
				t.Errorf("it said %d times that something was done once, want 20:\n%s", n, said)
			}
		})
	}
}

func TestTheWorkflowFailsAnAppThatIsWrongAtItsStep(t *testing.T) {
	for way, want := range map[string][2]string{
		"no-key":  {"Sent again", "first it was answered 201, sent again 201|sent again it has another answer"},
		"mute":    {"Sent again", "first it was answered 201, sent again 400"},
		"race":    {"Sent at once", "times, not once"},
		"poison":  {"Lost on the way", "after half-request, sent again, it is answered 409"},
		"half":    {"Lost on the way", "half-request"},
		"no-body": {"Another request under the same key", "was answered 201, not refused"},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			failed, said := run(t, filepath.Join(binaries, "unsafe")+" -addr %s -wrong "+way, nil)
			told := slices.ContainsFunc(strings.Split(want[1], "|"), func(s string) bool { return strings.Contains(said, s) })
			if failed != want[0] || !told || !strings.Contains(said, "::error::") {
				t.Errorf("it failed at %q, want %q and %q:\n%s", failed, want[0], want[1], said)
			}
		})
	}
}

// A workflow that tests nothing fails: a request that the app refuses, or effects
// that do not count it.
func TestTheWorkflowFailsWhereItWouldTestNothing(t *testing.T) {
	app := filepath.Join(binaries, "unsafe") + " -addr %s -wrong nothing"
	for name, c := range map[string]struct {
		env      map[string]string
		at, says string
	}{
		"refused":       {map[string]string{"REQUEST": "POST /no-such-route"}, "Sent again", "the first try was answered 404"},
		"never counted": {map[string]string{"EFFECTS": "echo 7"}, "Sent again", "it was done 0 times, not once"},
		"no app":        {map[string]string{"START": "echo no such app; exit 1"}, "Start the app", "the app has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if failed, said := run(t, app, c.env); failed != c.at || !strings.Contains(said, c.says) {
				t.Errorf("it failed at %q, want %q and %q:\n%s", failed, c.at, c.says, said)
			}
		})
	}
}
