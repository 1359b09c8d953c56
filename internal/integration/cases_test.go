package integration

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/cases.md promises a test for every case. These tests hold it to that.

type caseRow struct {
	id    string
	line  int
	tests []string // the entries of the last column
}

var (
	casePattern  = regexp.MustCompile(`^\| ([BRWS][0-9]+) \| (.+) \| (.+) \|$`)
	laterPattern = regexp.MustCompile(`^later \(([^)]+)\): .{5,}`)
	topicPattern = regexp.MustCompile(`(?m)^- ([^:\n]+)`)
)

func readCases(t *testing.T) (rows []caseRow, topics []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	intro, _, _ := strings.Cut(string(text), "\n## ")
	for _, m := range topicPattern.FindAllStringSubmatch(intro, -1) {
		topics = append(topics, m[1])
	}
	n, chapter := 0, ""
	for line := range strings.Lines(string(text)) {
		n++
		if strings.HasPrefix(line, "## ") {
			chapter = line
		}
		if chapter == "## Stores and modes\n" {
			continue // matrix_test.go reads it
		}
		m := casePattern.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		rows = append(rows, caseRow{id: m[1], line: n, tests: strings.Split(m[3], "<br>")})
	}
	return rows, topics
}

func TestEveryCaseIsListedOnce(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			for _, id := range strings.Fields(line) {
				wanted[id] = 0
			}
		}
	}
	if len(wanted) < 200 {
		t.Fatalf("only %d ids are wanted", len(wanted))
	}
	rows, _ := readCases(t)
	for _, r := range rows {
		if _, ok := wanted[r.id]; !ok {
			t.Errorf("docs/cases.md:%d lists %s, which nobody knows", r.line, r.id)
		}
		wanted[r.id]++
	}
	for id, n := range wanted {
		if n != 1 {
			t.Errorf("docs/cases.md lists %s %d times, not once", id, n)
		}
	}
}

func TestEveryTestThatACaseNamesExists(t *testing.T) {
	rows, topics := readCases(t)
	goTests, scriptTests := findGoTests(t), findScriptTests(t)
	if len(rows) < 200 || len(goTests) < 300 || len(scriptTests) < 10 {
		t.Fatalf("found %d cases, %d Go tests, %d files of script tests", len(rows), len(goTests), len(scriptTests))
	}
	for _, r := range rows {
		for _, complaint := range r.judge(topics, goTests, scriptTests) {
			t.Errorf("docs/cases.md:%d: %s %s", r.line, r.id, complaint)
		}
	}
	for _, topic := range topics {
		waits := func(r caseRow) bool { return strings.Contains(strings.Join(r.tests, " "), "later ("+topic+")") }
		if !slices.ContainsFunc(rows, waits) {
			t.Errorf("docs/cases.md says that %q is to come, and no case waits for it", topic)
		}
	}
}

// judge says what is wrong with a row's last column.
func (r caseRow) judge(topics []string, goTests map[string]bool, scriptTests map[string]map[string]bool) (complaints []string) {
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	for i, name := range r.tests {
		if slices.Contains(r.tests[:i], name) {
			complain("names %s twice", name)
		}
		if laterPattern.MatchString(name) {
			for part := range strings.SplitSeq(name, "; later (") {
				topic, why, _ := strings.Cut(strings.TrimPrefix(part, "later ("), "): ")
				if !slices.Contains(topics, topic) || why == "" {
					complain("waits for %q, which is not among the things to come", topic)
				}
			}
			continue
		}
		quoted := strings.TrimSuffix(strings.TrimPrefix(name, "`"), "`")
		if "`"+quoted+"`" != name {
			complain("names %q, which is neither a test in backticks nor \"later (…): why\"", name)
			continue
		}
		if file, title, ok := strings.Cut(quoted, ": "); ok && strings.HasSuffix(file, ".js") {
			if !scriptTests[file][title] {
				complain("names a test that %s does not have: %s", file, title)
			}
		} else if !goTests[quoted] {
			complain("names a test that does not exist: %s", quoted)
		}
	}
	return complaints
}

func TestARowThatPromisesNothingIsFound(t *testing.T) {
	topics := []string{"gateway", "hold and resolve"}
	goTests := map[string]bool{"onceward.TestThere": true}
	scriptTests := map[string]map[string]bool{"outbox/a.test.js": {"x: it is there": true}}
	for column, wrong := range map[string]int{
		"`onceward.TestThere`":                                0,
		"`outbox/a.test.js: x: it is there`":                  0,
		"later (gateway): it is one":                          0,
		"`onceward.TestThere`<br>later (gateway): the rest":   0,
		"later (gateway): one; later (hold and resolve): two": 0,
		"pending":                         1,
		"`onceward.TestThere`<br>pending": 1,
		"onceward.TestThere":              1,
		"`onceward.TestNotThere`":         1,
		"`TestThere`":                     1,
		"`onceward.TestThere`<br>`onceward.TestThere`":           1,
		"`outbox/a.test.js: it is there`":                        1,
		"`outbox/b.test.js: x: it is there`":                     1,
		"later":                                                  1,
		"later (gateway)":                                        1,
		"later (gateway): ":                                      1,
		"later (some day): perhaps":                              1,
		"later (gateway): one; later (some day): another":        1,
		"`onceward.TestThere` and others":                        1,
		"`onceward.TestThere`, `onceward.TestThere`":             1,
		"pending<br>`onceward.TestNotThere`<br>later (no): what": 3,
	} {
		m := casePattern.FindStringSubmatch("| B001 | what must hold | " + column + " |")
		if m == nil {
			t.Errorf("%q is no row", column)
			continue
		}
		r := caseRow{id: m[1], tests: strings.Split(m[3], "<br>")}
		if got := r.judge(topics, goTests, scriptTests); len(got) != wrong {
			t.Errorf("%q: %q, want %d complaints", column, got, wrong)
		}
	}
}

// findGoTests returns "folder.TestName" for every Go test, fuzz target, benchmark
// and example that "go test" would run; the root package goes by its name.
func findGoTests(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, name := range repositoryFiles(t) {
		if !strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		folder := path.Dir(filepath.ToSlash(name))
		if folder == "." {
			folder = "onceward"
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && isTest(fn) {
				found[folder+"."+fn.Name.Name] = true
			}
		}
		for _, e := range doc.Examples(f) {
			if e.Output != "" || e.EmptyOutput { // another is only compiled
				found[folder+".Example"+e.Name] = true
			}
		}
	}
	return found
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark)([^a-z]|$)`)

// isTest tells a test from a function that is only called like one.
func isTest(fn *ast.FuncDecl) bool {
	m := testName.FindStringSubmatch(fn.Name.Name)
	if m == nil || fn.Recv != nil || fn.Type.Results != nil || fn.Type.TypeParams != nil || fn.Type.Params.NumFields() != 1 {
		return false
	}
	star, ok := fn.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := star.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == map[string]string{"Test": "T", "Fuzz": "F", "Benchmark": "B"}[m[1]]
}

var (
	scriptTitle    = regexp.MustCompile("(?m)^\\s*(?:await )?(?:\\w+\\.)?(?:test|it)\\(\\s*(?:'((?:[^'\\\\\n]|\\\\.)*)'|\"((?:[^\"\\\\\n]|\\\\.)*)\"|`((?:[^`\\\\]|\\\\.)*)`)")
	scriptNumbered = regexp.MustCompile("(?m)^\\s*n: ([0-9]+),\n\\s*name: '((?:[^'\\\\\n]|\\\\.)*)',$")
	unescape       = strings.NewReplacer(`\'`, `'`, `\"`, `"`, "\\`", "`", `\\`, `\`)
)

// findScriptTests returns the titles of the tests in every *.test.js, as they
// stand in the text: a title that is put together keeps its ${…}. Where it is
// put together of the number and the name in the lists beside the test, each of the
// list's is there.
func findScriptTests(t *testing.T) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	for _, name := range repositoryFiles(t) {
		if !strings.HasSuffix(name, ".test.js") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		titles := map[string]bool{}
		for _, m := range scriptTitle.FindAllStringSubmatch(string(text), -1) {
			titles[unescape.Replace(m[1]+m[2]+m[3])] = true
		}
		if titles["${n}. ${name}"] {
			lists, err := filepath.Glob(filepath.Join(root, strings.TrimSuffix(name, ".test.js")+"*.js"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range lists {
				list, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range scriptNumbered.FindAllStringSubmatch(string(list), -1) {
					titles[fmt.Sprintf("%s. %s", m[1], unescape.Replace(m[2]))] = true
				}
			}
		}
		found[filepath.ToSlash(name)] = titles
	}
	return found
}
