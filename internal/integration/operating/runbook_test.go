package operating

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh ([^\n]+)\n(.*?)^```$")

// runbook is what docs/operations.md tells to type, by what it is for.
func runbook(t *testing.T) map[string]string {
	t.Helper()
	blocks := map[string]string{}
	for _, m := range shellBlock.FindAllStringSubmatch(read(t, "docs/operations.md"), -1) {
		blocks[m[1]] = m[2]
	}
	return blocks
}

// grepOf is what the page of an alarm says to look for in the log.
func grepOf(t *testing.T, alarm string) string {
	t.Helper()
	_, page, _ := strings.Cut(read(t, "docs/operations.md"), "\n### "+alarm+"\n")
	page, _, _ = strings.Cut(page, "\n### ")
	m := regexp.MustCompile("`(grep [^`]+)`").FindStringSubmatch(strings.ReplaceAll(page, "\n", " "))
	if m == nil {
		t.Fatalf("the page of %s does not say what to look for", alarm)
	}
	return m[1] + ` "$LOG" || true`
}

// Nothing in docs/operations.md is to be typed that no test types.
func TestEveryCommandOfTheRunbookIsRun(t *testing.T) {
	text, blocks := read(t, "docs/operations.md"), runbook(t)
	if n := strings.Count(text, "```sh"); n != len(blocks) {
		t.Errorf("%d blocks of shell, %d of them have a name of their own", n, len(blocks))
	}
	sources := ""
	for _, name := range []string{"alerts_test.go", "runbook_test.go", "story_test.go"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources += string(source)
	}
	inline := regexp.MustCompile("(?s)### (\\w+)\n[^#]*?`grep ")
	for _, m := range inline.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(sources, fmt.Sprintf("grepOf(t, %q)", m[1])) {
			t.Errorf("no test runs what the page of %s says to grep", m[1])
		}
	}
	if n := strings.Count(text, "`grep -") + strings.Count(text, "`grep \"") + strings.Count(text, "`grep c"); n != len(inline.FindAllString(text, -1)) {
		t.Errorf("%d pieces of text to look for, of which %d are an alarm's", n, len(inline.FindAllString(text, -1)))
	}
	for name := range blocks {
		if !strings.Contains(sources, fmt.Sprintf("%q", name)) {
			t.Errorf("no test runs %q", name)
		}
	}

	file := filepath.Join(t.TempDir(), "shop.db")
	p := start(t, "-store", "sqlite:"+file, "-retention", "1s", "-sweep", "1h")
	p.post("k", tea, "").want(t, 201, "executed")
	env := []string{"ONCEWARD_STORE=sqlite:" + file, "KEY=k", "ID=" + idOf(t, "k"), "LOG=" + p.logName}
	eventually(t, "one record is swept", func() bool { return strings.TrimSpace(sh(t, blocks["sweep"], env...)) == "deleted 1" })
	p.post("k", tea, "").want(t, 201, "executed")
	said := sh(t, "onceward keys list --state in-progress", env...)
	if strings.Contains(said, idOf(t, "k")) {
		t.Errorf("an answered request is in progress:\n%s", said)
	}
	if !strings.Contains(text, "onceward keys list --state in-progress") {
		t.Error("the runbook does not say how to list what is in progress")
	}
}

// Each alarm has its page, each page its alarm, and each link leads somewhere.
func TestEveryAlarmHasItsPage(t *testing.T) {
	text, rules := read(t, "docs/operations.md"), read(t, "docs/alerts.yaml")
	var pages []string
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(text, -1) {
		pages = append(pages, m[1])
	}
	names := alarms(t)
	slices.Sort(names)
	sorted := slices.Clone(pages)
	slices.Sort(sorted)
	if !slices.Equal(sorted, names) {
		t.Errorf("the pages are of %q, the alarms are %q", sorted, names)
	}
	for _, name := range names {
		if !strings.Contains(rules, "runbook: docs/operations.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("%s does not lead to its page", name)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(#(\w+)\)`).FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(pages, func(p string) bool { return strings.ToLower(p) == m[1] }) {
			t.Errorf("a link leads to #%s, which is nowhere", m[1])
		}
	}
	if n := strings.Count(rules, "severity: "); n != len(names) {
		t.Errorf("%d severities of %d alarms", n, len(names))
	}
}

// Whatever stands in the log as outcome has a row that says what to do.
func TestEveryOutcomeHasItsRow(t *testing.T) {
	text := read(t, "docs/operations.md")
	_, table, _ := strings.Cut(text, "\n## Outcomes\n")
	table, _, _ = strings.Cut(table, "\n## ")
	tokens := map[string]bool{"executed;unrecorded": true, "claim-lost": true, "quota": true}
	for _, m := range regexp.MustCompile(`(?m)^\tstatus\w+ += "([a-z-]+)"$`).FindAllStringSubmatch(read(t, "problem.go"), -1) {
		tokens[m[1]] = true
	}
	if len(tokens) < 14 {
		t.Fatalf("found %d outcomes in problem.go", len(tokens))
	}
	described := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z;-]+)`").FindAllStringSubmatch(cells[1], -1) {
			described[m[1]] = true
		}
	}
	for token := range tokens {
		if !described[token] {
			t.Errorf("docs/operations.md has no row for %s", token)
		}
	}
	for token := range described {
		if !tokens[token] {
			t.Errorf("docs/operations.md describes %s, which no log has", token)
		}
	}
}

// UPDATE=1 writes the code into the document.
func TestTheRunbookShowsTheWiringThatRuns(t *testing.T) {
	source, err := os.ReadFile("wiring.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "// docs: switch it on\n")
	code, _, found := strings.Cut(code, "\n// docs: end\n")
	if !found {
		t.Fatal("wiring.go has no part for the document")
	}
	text := read(t, "docs/operations.md")
	block := "```go\n" + strings.TrimSpace(code) + "\n```"
	if os.Getenv("UPDATE") == "1" {
		text = regexp.MustCompile("(?s)```go\n.*?\n```").ReplaceAllLiteralString(text, block)
		if err := os.WriteFile(filepath.Join(root, "docs", "operations.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(text, "```go") != 1 || !strings.Contains(text, block) {
		t.Error("docs/operations.md does not show the code of wiring.go: run this test with UPDATE=1")
	}
}
