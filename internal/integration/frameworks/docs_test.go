package frameworks

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/integration/orders"
	"github.com/onceward/onceward/internal/integration/pages"
)

// TestThePageShowsTheCodeThatRuns holds docs/frameworks.md to the programs and to the
// lists of what is run. UPDATE=1 writes both into the page.
func TestThePageShowsTheCodeThatRuns(t *testing.T) {
	name := filepath.FromSlash("../../../docs/frameworks.md")
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	blocks := codeOfThePage(t)
	for title := range blocks {
		blocks[title] = "```go\n" + blocks[title] + "\n```"
	}
	marked := map[string]string{}
	for title, block := range blocks {
		marked["<!-- code: "+title+" -->"] = block
	}
	marked["<!-- table -->"], marked["<!-- calls -->"] = table(t), calls(t)
	for _, mark := range slices.Sorted(maps.Keys(marked)) {
		before, after, ok := strings.Cut(text, mark+"\n")
		if !ok || strings.Contains(after, mark) {
			t.Errorf("docs/frameworks.md has no mark %s, or two", mark)
			continue
		}
		end := after
		if was := block.FindString(after); was != "" {
			end = after[len(was):]
		}
		want := before + mark + "\n" + marked[mark] + "\n" + end
		if os.Getenv("UPDATE") == "1" {
			text = want
		} else if text != want {
			t.Errorf("docs/frameworks.md does not show %s as it is; UPDATE=1 writes it", mark)
		}
	}
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(text, "```go\n"); n != len(blocks) {
		t.Errorf("docs/frameworks.md has %d pieces of Go, of which %d are run", n, len(blocks))
	}
}

// block is what stands under a mark: code, a table with its reasons, or a list.
var block = regexp.MustCompile("^(?:```go\n(?s:.*?)\n```\n|(?:[|-][^\n]*\n|\n[|-][^\n]*\n)+)")

// codeOfThePage is, by title, what stands in examples/frameworks between "docs: title"
// and "docs: end".
func codeOfThePage(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../../examples/frameworks/*/*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %v, %v", files, err)
	}
	found := map[string]string{}
	for _, p := range pages.Pieces(t, files...) {
		if found[p.Title] != "" {
			t.Errorf("two pieces of code are %q", p.Title)
		}
		found[p.Title] = p.Code
	}
	return found
}

// table says which case is passed by which program, where that is not all of it by
// all, and which are asked of none.
func table(t *testing.T) string {
	var out strings.Builder
	out.WriteString("| |")
	for _, p := range columns {
		fmt.Fprintf(&out, " %s |", p.name)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	var odd []string
	for _, name := range cases(t) {
		row := fmt.Sprintf("| `%s` |", strings.TrimPrefix(name, "Test"))
		for _, p := range columns {
			row += fmt.Sprintf(" %s |", cell(p, name))
		}
		if strings.Count(row, " passed |") < len(columns) {
			odd = append(odd, row)
		}
	}
	fmt.Fprintf(&out, "| each of %d |%s\n", len(cases(t))-len(odd), strings.Repeat(" passed |", len(columns)))
	for _, row := range odd {
		out.WriteString(row + "\n")
	}
	for _, letter := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&out, "\n- %s: %s", letter, reasons[letter])
	}
	unasked := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(inTheTest)) {
		unasked[inTheTest[name]] = append(unasked[inTheTest[name]], "`"+strings.TrimPrefix(name, "Test")+"`")
	}
	for _, reason := range slices.Sorted(maps.Keys(unasked)) {
		fmt.Fprintf(&out, "\n- of no program, for it %s: %s", reason, strings.Join(unasked[reason], ", "))
	}
	return out.String()
}

// cell is "passed"; the reason, where a case is not for a program; or "passed" and
// the reason for the part that is not.
func cell(p program, name string) string {
	where := orders.RunsOn(name)
	missing, why := 0, ""
	for _, store := range where {
		whole, reason := exceptedOn(except[p.name], name, store)
		if whole {
			missing++
		}
		if reason != "" {
			why = reason
		}
	}
	switch {
	case why == "":
		return "passed"
	case missing == len(where):
		return why
	}
	return "passed, but " + why
}

// calls are the tests of remote procedure calls.
func calls(t *testing.T) string {
	t.Helper()
	var list []string
	for _, file := range []string{"rpc_test.go", "rpc_unique_test.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func Test(\w+)\(t \*testing\.T\) \{\n\tonEach\(`).FindAllStringSubmatch(string(source), -1) {
			list = append(list, "- `"+m[1]+"`")
		}
	}
	if len(list) < 8 {
		t.Fatalf("found %d tests of calls", len(list))
	}
	return strings.Join(list, "\n")
}
