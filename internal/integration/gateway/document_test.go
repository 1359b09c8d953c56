package gateway_test

import (
	"encoding/json"
	"fmt"
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

const document = "../../../docs/python.md"

// TestTheDocumentShowsTheCodeThatRuns holds docs/python.md to testdata. UPDATE=1
// writes the code into the document.
func TestTheDocumentShowsTheCodeThatRuns(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash(document))
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for _, name := range []string{"client.js", "flask/app.py", "django/app.py"} {
		code, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		language := map[string]string{".js": "js", ".py": "python"}[filepath.Ext(name)]
		want := "<!-- code: " + name + " -->\n\n```" + language + "\n" + string(code) + "```\n"
		shown := regexp.MustCompile("(?s)<!-- code: " + regexp.QuoteMeta(name) + " -->\n(\n```" + language + "\n.*?\n```\n)?")
		if os.Getenv("UPDATE") == "1" {
			doc = shown.ReplaceAllLiteralString(doc, want)
		}
		if n := strings.Count(doc, want); n != 1 {
			t.Errorf("docs/python.md shows %s as it stands in testdata %d times, not once", name, n)
		}
	}
	doc = showsParts(t, "python.md", doc)
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(filepath.FromSlash(document), []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// parts are what the pages show of an app without the rest of it.
var parts = map[string]*regexp.Regexp{
	"part: flask/app.py":  regexp.MustCompile(`(?s)@app\.after_request.*?    return answer\n`),
	"part: django/app.py": regexp.MustCompile(`(?s)def whose_keys.*?    return answer_to\n`),
	"form: flask/app.py":  regexp.MustCompile(`(?s)PAGE = .*?key=secrets\.token_urlsafe\(\)\)\n`),
	"form: django/app.py": regexp.MustCompile(`(?s)PAGE = .*?</form>"""\)\n\n\n@require_GET\ndef page.*?urlsafe\(\)}, request\)\)\n`),
}

// showsParts holds a page to the apps where it has the mark of a part of one, and
// returns it with what they have.
func showsParts(t *testing.T, page, doc string) string {
	t.Helper()
	marks := 0
	for mark, part := range parts {
		_, name, _ := strings.Cut(mark, ": ")
		code, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		piece := part.FindString(string(code))
		want := "<!-- " + mark + " -->\n\n```python\n" + piece + "```\n"
		shown := regexp.MustCompile("(?s)<!-- " + regexp.QuoteMeta(mark) + " -->\n(\n```python\n.*?\n```\n)?")
		n := len(shown.FindAllString(doc, -1))
		marks += n
		if os.Getenv("UPDATE") == "1" {
			doc = shown.ReplaceAllLiteralString(doc, want)
		}
		if n > 1 || piece == "" || strings.Count(doc, want) != n {
			t.Errorf("docs/%s does not show %s as it stands in testdata", page, mark)
		}
	}
	if whole := strings.Count(doc, "<!-- code: "); page == "python.md" && strings.Count(doc, "```python\n") != marks+whole-1 || marks == 0 {
		t.Errorf("docs/%s has %d parts of apps, and code in Python that has no mark", page, marks)
	}
	return doc
}

// What docs/frameworks.md shows of the apps is the apps'.
func TestTheOtherPageShowsTheCodeThatRuns(t *testing.T) {
	name := filepath.FromSlash("../../../docs/frameworks.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	doc := showsParts(t, "frameworks.md", string(text))
	if n := strings.Count(doc, "```python\n"); n != 3 {
		t.Errorf("docs/frameworks.md has %d pieces of Python, want the cookie and two forms", n)
	}
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(name, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// B103, R: whoever follows docs/python.md gets what it says: each of its commands
// is run, with another port and another file.
func TestTheDocumentsCommandsWork(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash(document))
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"`proxy_next_upstream` without `timeout`", "never add `non_idempotent`"} {
		if !strings.Contains(string(text), said) {
			t.Errorf("docs/python.md does not say %q", said)
		}
	}
	commands := regexp.MustCompile("(?m)^onceward (gateway .*)$").FindAllStringSubmatch(string(text), -1)
	if len(commands) != 3 {
		t.Fatalf("docs/python.md starts the gateway %d times", len(commands))
	}
	flask, django := openShop(t, "flask"), openShop(t, "django")
	for i, c := range commands {
		args := strings.Fields(c[1])
		s := django
		if slices.Contains(args, "cookie:who") {
			s = flask
		}
		store := sqlite(t)
		for name, value := range map[string]string{"--listen": "127.0.0.1:0", "--to": s.url, "--store": store} {
			args[slices.Index(args, name)+1] = value
		}
		g := &program{t: t, Program: programs.Program{Path: binary, Args: args}}
		g.start()
		t.Cleanup(g.Kill)
		p := s.signIn(g.url, "ann")
		before := p.effects("tea")
		p.must(g.url, ordering("tea", "k1")).want(t, http.StatusCreated, "executed")
		again := p.must(g.url, ordering("tea", "k1"))
		again.want(t, http.StatusCreated, "replayed")
		if again.header.Get("Idempotency-Replayed") != "1" {
			t.Errorf("the repeat has %v", again.header)
		}
		p.wantEffects("tea", before+1)

		// Nobody knows: the commands that end it.
		for what, verb := range map[string]string{"none": "release", "there": "complete"} {
			item := fmt.Sprintf("%s-%d", what, i)
			r := ordering(item, item)
			r.chaos = map[string]string{"none": "fail-before=502", "there": "fail-after=504"}[what]
			if a := p.must(g.url, r); a.outcome() != "outcome-unknown" {
				t.Errorf("answered %v", a)
			}
			p.wantEffects(item, map[string]int{"none": 0, "there": 1}[what])
			id, _, _ := strings.Cut(strings.Split(keys(t, store, typedKeys(t, "list", "")...), "\n")[1], " ")
			keys(t, store, typedKeys(t, verb, id)...)
			r.chaos = ""
			p.must(g.url, r).want(t, http.StatusCreated, map[string]string{"none": "executed", "there": "replayed"}[what])
			p.wantEffects(item, 1)
		}
	}
}

// R: the document's script, in a bad network, before each app: as many effects as
// presses.
func TestTheDocumentsScriptCountsOnce(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("apt-get install nodejs")
	}
	onEach(t, func(t *testing.T, s *shop) {
		seed := seedOf(t)
		g := openGateway(t, s.url, sqlite(t), s.scope())
		front := listen(t, network(t, g.url, "cut-after-forward=0.2,cut-mid-body=0.05,502=0.05,captive-200=0.05,half-request=0.05,duplicate=0.1", seed))
		p := s.signIn(s.url, "ann")
		var cookies []string
		for name, value := range p.cookie {
			cookies = append(cookies, name+"="+value)
		}
		script, err := filepath.Abs("testdata/client.js")
		if err != nil {
			t.Fatal(err)
		}
		arguments, _ := json.Marshal(map[string]any{"Cookie": strings.Join(cookies, "; "), "Content-Type": "application/json", "X-CSRFToken": p.cookie["csrftoken"]})
		cmd := exec.Command(node, "--input-type=module", "-e", `
			const { once } = await import(process.argv[1]);
			const headers = JSON.parse(process.argv[3]);
			const answers = await Promise.all(Array.from({ length: 12 }, (_, i) =>
				once(process.argv[2] + "/orders", { tries: 30, headers, body: JSON.stringify({ item: "press " + i }) })));
			const refused = await once(process.argv[2] + "/orders", { headers, body: JSON.stringify({ item: "" }) });
			// A portal that answers all with 200 has done nothing.
			const believed = await once(process.argv[4] + "/orders", { tries: 2, headers, body: "{}" }).then((a) => "answered " + a.status, () => "not done");
			console.log(JSON.stringify([...answers.map((a) => a.status), refused.status, believed]));`,
			"file://"+script, front, string(arguments), listen(t, network(t, g.url, "captive-200", seed)))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if want := "[" + strings.Repeat("201,", 12) + "422,\"not done\"]\n"; string(out) != want {
			t.Errorf("the script had the answers %s", out)
		}
		items := map[string]int{}
		for _, o := range p.orders() {
			items[o.Item]++
		}
		for item, n := range items {
			if n != 1 {
				t.Errorf("%s: effects=%d", item, n)
			}
		}
		if len(items) != 12 {
			t.Errorf("%d of 12 presses count", len(items))
		}
	})
}

// Each flag that the pages name is one of the command's, and python.md names them all,
// with the values that they really have by default.
func TestThePagesNameTheFlagsThatThereAre(t *testing.T) {
	help, err := exec.Command(binary, "gateway", "-h").Output()
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for _, part := range strings.Split(string(help), "\n  -")[1:] {
		name, text, _ := strings.Cut(part, " ")
		defaults[name] = ""
		if m := regexp.MustCompile(`\(default "?([^")]*)"?\)`).FindStringSubmatch(text); m != nil {
			defaults[name] = m[1]
		}
	}
	if len(defaults) < 20 {
		t.Fatalf("the help names %d flags:\n%s", len(defaults), help)
	}
	page := ""
	for _, name := range []string{"operations.md", "frameworks.md", "python.md"} { // the last is the whole one
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		page = string(text)
		for _, line := range strings.Split(page, "\n") {
			if regexp.MustCompile(`onceward keys|gunicorn|curl|openssl|outbox`).MatchString(line) || name == "operations.md" && !strings.Contains(line, "gateway") {
				continue
			}
			for _, m := range regexp.MustCompile("(?:^|[ `])--?([a-z][a-z0-9-]+)").FindAllStringSubmatch(line, -1) {
				if _, ok := defaults[m[1]]; !ok {
					t.Errorf("docs/%s names the flag %s, which the gateway does not have: %s", name, m[1], line)
				}
			}
		}
	}
	for name, value := range defaults {
		if !strings.Contains(page, "--"+name) {
			t.Errorf("docs/python.md does not name --%s", name)
		}
		said := map[string]string{"max-request": "32 MiB", "body-timeout": "30 s", "max-runtime": "5 min", "retention": "24 h", "lease": "30 s"}[name]
		real := map[string]string{"33554432": "32 MiB", "30s": "30 s", "5m0s": "5 min", "24h0m0s": "24 h"}[value]
		if said != "" && (said != real || !strings.Contains(page, said)) {
			t.Errorf("--%s is %s by default, docs/python.md says %s", name, value, said)
		}
	}
}
