package integration

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/integration/orders"
)

// The table of stores and modes in docs/cases.md says where each case is passed.
// It is not believed: it has to be what follows from where the tests run.

var (
	matrixHead   = "| id | memory | SQLite | Postgres | Redis | SQLite Atomic | Postgres Atomic |"
	matrixRow    = regexp.MustCompile(`^\| (B[0-9]+) \|((?: [a-z]+ \|){6})$`)
	matrixReason = regexp.MustCompile(`^- ([a-z]): .{20,}$`)
	ordersTest   = regexp.MustCompile("^`internal/integration/orders\\.(\\w+)`$")
)

// matrix is the table: its fields by id, and the letters that are explained.
type matrix struct {
	ids     []string
	fields  map[string][]string
	reasons []string
}

func readMatrix(text string) (m matrix, err error) {
	_, text, ok := strings.Cut(text, "\n## Stores and modes\n")
	if !ok {
		return m, fmt.Errorf("no chapter \"Stores and modes\"")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	if !strings.Contains(text, "\n"+matrixHead+"\n") {
		return m, fmt.Errorf("the columns are not %s", matrixHead)
	}
	m.fields = map[string][]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if row := matrixRow.FindStringSubmatch(line); row != nil {
			m.ids = append(m.ids, row[1])
			m.fields[row[1]] = strings.Split(strings.Trim(row[2], " |"), " | ")
		} else if strings.HasPrefix(line, "| B") {
			return m, fmt.Errorf("no row of six words: %s", line)
		} else if reason := matrixReason.FindStringSubmatch(line); reason != nil {
			m.reasons = append(m.reasons, reason[1])
		}
	}
	return m, nil
}

// complaints says what in the table does not follow from the list of cases and
// from where its tests run.
func (m matrix) complaints(rows []caseRow, runsOn func(test string) []string) (list []string) {
	complain := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	var wanted, used []string
	for _, r := range rows {
		n, err := strconv.Atoi(strings.TrimPrefix(r.id, "B"))
		if err != nil || n < 15 || n > 97 {
			continue
		}
		wanted = append(wanted, r.id)
		passed := map[string]bool{}
		for _, name := range r.tests {
			if test := ordersTest.FindStringSubmatch(name); test != nil {
				for _, b := range runsOn(test[1]) {
					passed[b] = true
				}
			}
		}
		for i, field := range m.fields[r.id] {
			switch b := orders.Backends[i]; {
			case passed[b] && field != "passed":
				complain("%s on %s is passed, the table says %q", r.id, b, field)
			case !passed[b] && !slices.Contains(m.reasons, field):
				complain("%s on %s: no test of the case runs there, the table says %q", r.id, b, field)
			case !passed[b]:
				used = append(used, field)
			}
		}
	}
	if !slices.Equal(m.ids, wanted) {
		complain("the table has the rows %v, want %v", m.ids, wanted)
	}
	for i, letter := range m.reasons {
		if !slices.Contains(used, letter) || slices.Contains(m.reasons[:i], letter) {
			complain("the reason %s is given and not used, or given twice", letter)
		}
	}
	return list
}

func TestTheTableOfStoresAndModesFollowsFromWhereTestsRun(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := readMatrix(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.ids) < 50 {
		t.Errorf("the table has %d rows only", len(m.ids))
	}
	rows, _ := readCases(t)
	for _, complaint := range m.complaints(rows, orders.RunsOn) {
		t.Error("docs/cases.md: " + complaint)
	}
}

// harness are the functions by which a test gets its backends.
var harness = []string{"onServer", "onEachStore", "onHooked"}

// What RunsOn says of a test is true if the test asks it, by the harness.
func TestTheTestsOfOrdersRunWhereTheTableSays(t *testing.T) {
	found := map[string]bool{}
	files, err := filepath.Glob("orders/*_test.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !isTest(fn) || fn.Name.Name == "TestMain" {
				continue
			}
			name := fn.Name.Name
			found[name] = true
			if asks, some := callsAny(fn, harness), len(orders.RunsOn(name)) > 0; asks != some {
				t.Errorf("%s: %s is listed with %v, and asks the harness: %v", file, name, orders.RunsOn(name), asks)
			}
		}
	}
	for _, name := range orders.Listed() {
		if !found[name] {
			t.Errorf("orders/backends.go lists %s, which does not exist", name)
		}
		some := orders.RunsOn(name)
		for i, b := range some {
			if !slices.Contains(orders.Backends, b) || slices.Contains(some[:i], b) {
				t.Errorf("orders/backends.go: %s runs on %q, which is no backend, or twice", name, b)
			}
		}
	}
}

func callsAny(fn *ast.FuncDecl, names []string) (found bool) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.Ident); ok && slices.Contains(names, f.Name) {
				found = true
			}
		}
		return !found
	})
	return found
}

func TestAFieldThatIsNotTrueIsFound(t *testing.T) {
	rows := []caseRow{
		{id: "B001", tests: []string{"`internal/integration/orders.TestOutside`"}}, // not one of these
		{id: "B016", tests: []string{"`internal/integration/orders.TestAll`"}},
		{id: "B020", tests: []string{"`internal/integration/orders.TestFile`", "`onceward.TestAll`"}},
	}
	runsOn := func(test string) []string {
		return map[string][]string{"TestAll": orders.Backends, "TestFile": {"sqlite", "sqlite-atomic"}}[test]
	}
	good := "# Cases\n\n## Stores and modes\n\n" + matrixHead + "\n|---|---|---|---|---|---|---|\n" +
		"| B016 | passed | passed | passed | passed | passed | passed |\n" +
		"| B020 | a | passed | a | a | passed | b |\n" +
		"\n- a: it has no file of its own\n- b: it has something better\n\n## What follows\n"
	for from, c := range map[string]struct {
		to    string
		wrong int
	}{
		"":                          {"", 0},
		"| B020 | a | passed":       {"| B020 | passed | passed", 1}, // claimed, not run
		"| B020 | a | passed | a":   {"| B020 | a | a | a", 1},       // run, not told
		"passed | b |":              {"passed | c |", 2},             // c is no reason, and b is none any more
		"- b: it has":               {"- a: it has", 2},
		"| B016 |":                  {"| B017 |", 1},
		"| B016 | passed | passed":  {"| B016 | a | passed", 1},
		"- b: it has something bet": {"- b: it has\n- c: unused but very well explained, bet", 2},
	} {
		m, err := readMatrix(strings.Replace(good, from, c.to, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.complaints(rows, runsOn); len(got) != c.wrong {
			t.Errorf("%q for %q: %q, want %d complaints", c.to, from, got, c.wrong)
		}
	}
	for from, to := range map[string]string{
		"## Stores":     "## Shops",
		"Redis | SQLit": "SQLit",
		"passed | b |":  "passed |",
	} {
		if _, err := readMatrix(strings.Replace(good, from, to, 1)); err == nil {
			t.Errorf("%q for %q is taken", to, from)
		}
	}
}
