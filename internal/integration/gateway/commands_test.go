package gateway_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/integration/programs"
)

// pages are those that show an app behind the gateway.
var pages = []string{"python.md", "frameworks.md"}

// commandsOf are the lines of a page's shell blocks.
func commandsOf(t *testing.T, page string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```\n").FindAllStringSubmatch(string(text), -1) {
		lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	if len(lines) < 5 {
		t.Fatalf("docs/%s has the commands %q", page, lines)
	}
	return lines
}

// reader is somebody who types a page's commands into a shell, in a folder of their
// own with the page's app in it, on other ports.
type reader struct {
	t        *testing.T
	dir      string
	app, web string // addresses in place of 127.0.0.1:8000 and :8080
	env      []string
	typed    map[string]bool
}

func newReader(t *testing.T, kind string) *reader {
	t.Helper()
	if missing {
		t.Skip("apt-get install python3-flask python3-django gunicorn")
	}
	r := &reader{t: t, dir: t.TempDir(), app: freeAddress(t), web: freeAddress(t), typed: map[string]bool{}}
	code, err := os.ReadFile(filepath.Join("testdata", kind, "app.py"))
	if err == nil {
		err = os.WriteFile(filepath.Join(r.dir, "app.py"), code, 0o600)
	}
	bin := filepath.Join(r.dir, "bin")
	for name, target := range map[string]string{"onceward": binary, "python3": python} {
		if err == nil {
			err = os.MkdirAll(bin, 0o700)
		}
		if err == nil {
			err = os.Symlink(target, filepath.Join(bin, name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1")
	return r
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

func (r *reader) shell(script string) *exec.Cmd {
	cmd := exec.Command("bash", "-ec", strings.NewReplacer("127.0.0.1:8000", r.app, "127.0.0.1:8080", r.web).Replace(script))
	cmd.Dir, cmd.Env = r.dir, r.env
	return cmd
}

// types runs a command to its end and returns what it says.
func (r *reader) types(line string) string {
	r.t.Helper()
	r.typed[line] = true
	out, err := r.shell(line).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// exports types a line that sets variables, for all that follow.
func (r *reader) exports(line string) {
	r.t.Helper()
	for value := range strings.Lines(r.types(line + "; env")) {
		if name, _, _ := strings.Cut(value, "="); strings.Contains(line, name+"=") {
			r.env = append(r.env, strings.TrimSpace(value))
		}
	}
	r.typed[line] = true
}

// serves runs a command that stays, until its address answers.
func (r *reader) serves(line, address string) {
	r.t.Helper()
	r.typed[line] = true
	script := "exec " + line
	if before, command, ok := strings.Cut(line, " gunicorn "); ok { // variables for one command
		script = "export " + before + "; exec gunicorn " + command
	}
	cmd := r.shell(script)
	p := &programs.Program{Path: cmd.Path, Args: cmd.Args[1:], Dir: cmd.Dir, Env: cmd.Env}
	if err := p.Run(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		p.Kill()
		if r.t.Failed() {
			r.t.Logf("%s said:\n%s", line, p.Tail(20))
		}
	})
	eventually(r.t, line+" answers", func() bool {
		res, err := fresh.Get("http://" + address + "/orders")
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusUnauthorized
	})
}

// one is the one command of a page that begins and goes on so.
func one(t *testing.T, lines []string, begins, has string) string {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.HasPrefix(line, begins) || !strings.Contains(line, has) })
	if len(found) != 1 {
		t.Fatalf("of the page's commands these begin with %q and have %q: %q", begins, has, found)
	}
	return found[0]
}

// R: each command of the pages about Python is typed in as it stands there, but for
// the ports, and does what the page says.
func TestEveryCommandOfThePagesIsRun(t *testing.T) {
	lines := commandsOf(t, "python.md")
	flask, django := newReader(t, "flask"), newReader(t, "django")

	// The command is built as the page says, in the repository; the tests' own is
	// used, which may have the race detector.
	build := one(t, lines, "go build", "")
	flask.typed[build] = true
	cmd := exec.Command("bash", "-ec", strings.Replace(build, "-o onceward", "-o "+filepath.Join(flask.dir, "built"), 1))
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	if out, err := exec.Command(filepath.Join(flask.dir, "built"), "gateway", "-h").CombinedOutput(); !strings.Contains(string(out), "--scope") {
		t.Errorf("the built command says %s, %v", out, err)
	}

	flask.exports(one(t, lines, "export PATH", ""))

	flask.serves(one(t, lines, "SECRET_KEY=", "gunicorn"), flask.app)
	flask.serves(one(t, lines, "onceward gateway", "cookie:who"), flask.web)
	flask.types(one(t, lines, "curl -c", "/login"))
	order := one(t, slices.Compact(slices.Clone(lines)), "curl -i", "/orders") // which is there twice
	first, again := flask.types(order), flask.types(order)
	if !strings.Contains(first, " 201 ") || !strings.Contains(again, " 201 ") || strings.Contains(first, "Idempotency-Replayed") || !strings.Contains(again, "Idempotency-Replayed: 1") {
		t.Errorf("the order is answered\n%s\nand\n%s", first, again)
	}
	if there := flask.types("curl -s -b cookies.txt http://127.0.0.1:8080/orders"); strings.Count(there, `"id"`) != 1 {
		t.Errorf("the shop has %s", there)
	}

	django.exports(one(t, lines, "export SECRET_KEY", ""))
	django.types(one(t, lines, "python3 app.py", ""))
	django.serves(one(t, slices.Compact(slices.Sorted(slices.Values(lines))), "gunicorn", "app:app"), django.app)
	django.serves(one(t, slices.DeleteFunc(slices.Clone(lines), func(s string) bool { return strings.Contains(s, "--trust-proxy") }), "onceward gateway", "cookie:sessionid"), django.web)

	// TestTheDocumentsCommandsWork runs the other ones, with what has to be there first.
	elsewhere := regexp.MustCompile(`^onceward (gateway .*--trust-proxy|keys )`)
	for _, page := range pages {
		for _, line := range commandsOf(t, page) {
			if !flask.typed[line] && !django.typed[line] && !elsewhere.MatchString(line) {
				t.Errorf("docs/%s has a command that is not run: %s", page, line)
			}
		}
	}
}

// typedKeys is what `onceward keys` is told on docs/python.md, with another store and
// an id.
func typedKeys(t *testing.T, verb, id string) []string {
	t.Helper()
	line := one(t, commandsOf(t, "python.md"), "onceward keys "+verb, "")
	out, err := exec.Command("bash", "-ec", fmt.Sprintf(`for word in %s; do echo "$word"; done`, strings.TrimPrefix(line, "onceward keys "))).Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(strings.TrimSpace(string(out)), "\n")
	i := slices.Index(words, "--store")
	words = slices.Delete(words, i, i+2)
	if last := len(words) - 1; words[last] == "ID" {
		words[last] = id
	}
	return words
}
