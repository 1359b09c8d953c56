package quickadd_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the table names real zones, also where the system has none

	"github.com/onceward/onceward/planner/internal/quickadd"
)

var update = flag.Bool("update", false, "write the spans of the golden table anew")

const goldenFile = "testdata/goldens.txt"

// golden is one line of the table.
type golden struct {
	line                             int
	now                              time.Time
	raw, text, title, due, rule, was string
}

func readGoldens(t testing.TB) (lines []string, goldens []golden) {
	t.Helper()
	file, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	lines = strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
	var now time.Time
	for i, line := range lines {
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
			continue
		case line == "#":
			continue
		case strings.HasPrefix(line, "@ "):
			now = readNow(t, i+1, line)
			continue
		}
		cols := strings.Split(line, " | ")
		if len(cols) < 4 || len(cols) > 5 {
			t.Fatalf("%s:%d: %d columns", goldenFile, i+1, len(cols))
		}
		g := golden{line: i + 1, now: now, raw: cols[0], text: unescape(t, i+1, cols[0]), due: cols[2], rule: cols[3]}
		switch cols[1] {
		case "=":
			g.title = g.text
		case "-":
		default:
			g.title = unescape(t, i+1, cols[1])
		}
		if len(cols) == 5 {
			g.was = cols[4]
		}
		goldens = append(goldens, g)
	}
	return lines, goldens
}

func unescape(t testing.TB, line int, s string) string {
	t.Helper()
	u, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
	if err != nil {
		t.Fatalf("%s:%d: %q: %v", goldenFile, line, s, err)
	}
	return u
}

// readNow reads "@ moment zone (what the clock shows there)".
func readNow(t testing.TB, line int, s string) time.Time {
	t.Helper()
	fields := strings.Fields(s)
	utc, err := time.Parse("2006-01-02T15:04Z", fields[1])
	if err != nil {
		t.Fatalf("%s:%d: %v", goldenFile, line, err)
	}
	zone, err := time.LoadLocation(fields[2])
	if err != nil {
		t.Fatalf("%s:%d: %v", goldenFile, line, err)
	}
	now := utc.In(zone)
	if got, want := now.Format("(Mon 2006-01-02 15:04)"), strings.Join(fields[3:], " "); got != want {
		t.Fatalf("%s:%d: the clock in %s shows %s, the table says %s", goldenFile, line, zone, got, want)
	}
	return now
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func spans(text string, r quickadd.Result) string {
	var out []string
	for _, s := range r.Spans {
		quoted := strconv.Quote(text[s.Start:s.End])
		if strings.ToValidUTF8(text[s.Start:s.End], "") == text[s.Start:s.End] {
			quoted = strings.ReplaceAll(quoted, `\"`, `"`)
		}
		out = append(out, fmt.Sprintf("%s=%s", s.Kind, quoted[1:len(quoted)-1]))
	}
	return orDash(strings.Join(out, " + "))
}

func TestEveryLineOfTheTableIsReadAsWritten(t *testing.T) {
	lines, goldens := readGoldens(t)
	if len(goldens) < 300 {
		t.Errorf("the table has %d lines, fewer than 300", len(goldens))
	}
	seen := map[string]int{}
	for _, g := range goldens {
		key := g.now.String() + g.text
		if seen[key] != 0 {
			t.Errorf("%s:%d: the same as line %d", goldenFile, g.line, seen[key])
		}
		seen[key] = g.line

		r := quickadd.Parse(g.text, g.now)
		due := orDash(strings.TrimSpace(r.Due.String() + " " + r.Time.String()))
		rule, sp := orDash(r.Repeat.String()), spans(g.text, r)
		if r.Title != g.title || due != g.due || rule != g.rule {
			t.Errorf("%s:%d: %q\n got %q | %s | %s | %s\nwant %q | %s | %s", goldenFile, g.line, g.text, r.Title, due, rule, sp, g.title, g.due, g.rule)
		}
		if *update {
			cols := strings.Split(lines[g.line-1], " | ")
			lines[g.line-1] = strings.Join(append(cols[:4], sp), " | ")
		} else if sp != g.was {
			t.Errorf("%s:%d: %q\n got the spans %s\nwant           %s", goldenFile, g.line, g.text, sp, g.was)
		}
	}
	if *update {
		if err := os.WriteFile(goldenFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
