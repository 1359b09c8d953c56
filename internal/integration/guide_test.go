package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/guide.md is where some of what the two texts ask for is kept: when to do
// which step, and when not to. These tests hold it to that.

// guide reads docs/guide.md as its sections by heading, each on one line, and the
// headings in order.
func guide(t *testing.T) (sections map[string]string, order []string) {
	t.Helper()
	sections = map[string]string{}
	for _, part := range strings.Split(readRepository(t, "docs/guide.md"), "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		sections[heading] = strings.Join(strings.Fields(text), " ")
		order = append(order, heading)
	}
	return sections, order
}

func readRepository(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func wantSaid(t *testing.T, sections map[string]string, heading string, said ...string) {
	t.Helper()
	text, ok := sections[heading]
	if !ok {
		t.Fatalf("docs/guide.md has no section %q", heading)
	}
	for _, s := range said {
		if !strings.Contains(text, s) {
			t.Errorf("docs/guide.md, %q, does not say %q", heading, s)
		}
	}
}

const (
	firstStep  = "1. Say what is wanted"
	secondStep = "2. Give the request a name"
	thirdStep  = "3. Let the browser repeat it"
	notThere   = "When not to"
	recipes    = "Recipes for keys"
)

// Requirement 8: three steps in this order, each useful alone, the first above
// all; the examples are these steps.
func TestTheGuideHasTheThreeStepsInOrder(t *testing.T) {
	sections, order := guide(t)
	if len(order) < 4 || order[0] != firstStep || order[1] != secondStep || order[2] != thirdStep {
		t.Errorf("the guide's sections are %q", order)
	}
	before, _, _ := strings.Cut(readRepository(t, "docs/guide.md"), "\n## ")
	if !strings.Contains(before, "Each step is useful alone") || !strings.Contains(before, "do only one, do the first") {
		t.Errorf("the guide begins with\n%s", before)
	}
	wantSaid(t, sections, firstStep, "needs no library and no table")
	if strings.Contains(sections[firstStep], "onceward.") || strings.Contains(sections[firstStep], "Idempotency-Key") {
		t.Error("the first step needs something of the second")
	}
	if strings.Contains(sections[secondStep], "outbox.") {
		t.Error("the second step needs something of the third")
	}
}

// Requirements 15 and 57: if only one thing, then this, and it is two lines; the
// two lines are those of the examples.
func TestTheGuidesFirstStepIsTwoLines(t *testing.T) {
	sections, _ := guide(t)
	wantSaid(t, sections, firstStep, "Do this even if you do nothing else.", "two lines", "saves you from the double click")
	before, after := readRepository(t, "examples/tiny/0-toggle/main.go"), readRepository(t, "examples/tiny/1-state/main.go")
	for _, line := range []struct{ there, here string }{
		{`t.Done = !t.Done`, `t.Done = completed`},
		{`<button>{{if .Done}}`, `value="{{not .Done}}"`},
	} {
		if !strings.Contains(before, line.there) || !strings.Contains(after, line.here) || strings.Contains(after, line.there) {
			t.Errorf("between the first two examples %q does not become %q", line.there, line.here)
		}
		wantSaid(t, sections, firstStep, line.here)
	}
}

// Requirement 16: which words survive a repeat. The routes of the planner have
// none of the others; its own test sees to that.
func TestTheGuideSaysWhatSurvivesARepeat(t *testing.T) {
	sections, _ := guide(t)
	wantSaid(t, sections, firstStep,
		`"set", "put", "move to 4 December", "deleted = true" survive a repeat`,
		`"toggle", "next", "+1", "snooze by a day", "duplicate" do not`,
		`UPDATE … WHERE done_at IS NULL`, `UNIQUE (series_id, occurrence)`)
	wantSaid(t, sections, secondStep, "two equal tasks may both be meant")
}

// Requirements 4, 54, 55, 56: what this is not for.
func TestTheGuideSaysWhenNotTo(t *testing.T) {
	sections, _ := guide(t)
	wantSaid(t, sections, notThere,
		"This is for outages", "no database that synchronises",
		"GETs are never queued",
		"logging in, paying, a code from an SMS", `data-outbox="off"`,
		"the later arrival wins", "you want a CRDT")
}

// Requirement 32: the order of wiring, with a comment for whoever tidies up
// later, beside the line that it is about.
func TestTheGuideSaysWhereTheGuardStands(t *testing.T) {
	text := readRepository(t, "docs/guide.md")
	comment := regexp.MustCompile(`(?m)^// .*\n// .*\n// Whoever tidies up here later: .*\nmux\.Handle\("/", auth\(guard\.Handler\(app\)\)\)$`)
	if !comment.MatchString(text) {
		t.Error("docs/guide.md has no comment of three lines above auth(guard.Handler(app))")
	}
	sections, _ := guide(t)
	wantSaid(t, sections, secondStep, "answers 500 at the first named request and says so in the log", "Sign-in and registration stand outside the guard")
}

// Requirements 78 and 79: the ways to make keys, as they are tested in the root's
// examples.
func TestTheRecipesForKeysAreTheTestedOnes(t *testing.T) {
	sections, _ := guide(t)
	wantSaid(t, sections, recipes, "per intent", "the client's id", "from the business", "UUIDv4 and a hash of the payload", "is one statement on the primary key")
	text, source := readRepository(t, "docs/guide.md"), readRepository(t, "example_keys_test.go")
	parts := strings.Split(source, "// guide begins: ")[1:]
	if len(parts) != 2 {
		t.Fatalf("example_keys_test.go has %d parts for the guide", len(parts))
	}
	for _, part := range parts {
		name, code, _ := strings.Cut(part, "\n")
		code, _, ok := strings.Cut(code, "\n// guide ends.")
		if !ok || !strings.Contains(text, "```go\n"+strings.TrimRight(code, "\n")+"\n```\n") {
			t.Errorf("docs/guide.md does not have %q as it is tested:\n%s", name, code)
		}
	}
}

// B080: the scope of those who have not logged in, as it is tested in the root.
func TestTheScopeOfAVisitorIsTheTestedOne(t *testing.T) {
	text, source := readRepository(t, "docs/guide.md"), readRepository(t, "anonymous_scope_test.go")
	_, code, ok := strings.Cut(source, "// guide begins: visitor\n")
	code, _, ended := strings.Cut(code, "\n// guide ends.")
	if !ok || !ended || !strings.Contains(text, "```go\n"+strings.TrimRight(code, "\n")+"\n```\n") {
		t.Errorf("docs/guide.md does not have the visitors as they are tested:\n%s", code)
	}
}

// The end of a process, as it is tested in the root.
func TestTheEndOfAProcessIsTheTestedOne(t *testing.T) {
	text, source := readRepository(t, "docs/guide.md"), readRepository(t, "serve_unix_test.go")
	_, code, ok := strings.Cut(source, "// guide begins: serve\n")
	code, _, ended := strings.Cut(code, "\n// guide ends.")
	if !ok || !ended || !strings.Contains(text, "```go\n"+strings.TrimRight(code, "\n")+"\n```\n") {
		t.Errorf("docs/guide.md does not have serve as it is tested:\n%s", code)
	}
}
