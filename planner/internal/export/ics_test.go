package export

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
	"github.com/onceward/onceward/planner/internal/task"
)

// What follows reads iCalendar by RFC 5545, apart from what writes it.

type property struct {
	name, params, value string
}

type component struct {
	kind  string
	props []property
	in    []*component
}

func (c *component) get(name string) string {
	for _, p := range c.props {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

var (
	contentLine = regexp.MustCompile(`^([A-Z0-9-]+)((?:;[A-Z0-9-]+=[^":;,\x00-\x1f]+)*):(.*)$`)
	utcTime     = regexp.MustCompile(`^\d{8}T\d{6}Z$`)
	localTime   = regexp.MustCompile(`^\d{8}T\d{6}$`)
	dateOnly    = regexp.MustCompile(`^\d{8}$`)
)

// read parses a calendar and says everything that is wrong with it.
func read(t *testing.T, text []byte) *component {
	t.Helper()
	if !utf8.Valid(text) || !bytes.HasSuffix(text, []byte("\r\n")) {
		t.Fatalf("not UTF-8, or the last line does not end: %q", text)
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\r\n"), "\r\n") {
		if len(line) > 75 {
			t.Errorf("%d bytes: %q", len(line), line)
		}
		if !utf8.ValidString(line) {
			t.Errorf("a character is cut: %q", line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			t.Errorf("a control character: %q", line)
		}
		if rest, folded := strings.CutPrefix(line, " "); folded && len(lines) > 0 {
			lines[len(lines)-1] += rest
		} else {
			lines = append(lines, line)
		}
	}
	root := &component{}
	stack := []*component{root}
	for _, line := range lines {
		m := contentLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("no content line: %q", line)
			continue
		}
		top := stack[len(stack)-1]
		switch m[1] {
		case "BEGIN":
			c := &component{kind: m[3]}
			top.in = append(top.in, c)
			stack = append(stack, c)
		case "END":
			if top.kind != m[3] || len(stack) == 1 {
				t.Fatalf("END:%s ends %s", m[3], top.kind)
			}
			stack = stack[:len(stack)-1]
		default:
			top.props = append(top.props, property{m[1], m[2], m[3]})
		}
	}
	if len(stack) != 1 || len(root.in) != 1 || root.in[0].kind != "VCALENDAR" || len(root.props) > 0 {
		t.Fatal("it is not one calendar")
	}
	cal := root.in[0]
	if cal.get("VERSION") != "2.0" || cal.get("PRODID") == "" || len(cal.in) == 0 {
		t.Errorf("the calendar lacks something: %v", cal.props)
	}
	uids := map[string]bool{}
	for _, c := range cal.in {
		if uids[c.get("UID")] || c.get("UID") == "" {
			t.Errorf("UID %q", c.get("UID"))
		}
		uids[c.get("UID")] = true
		once := map[string]bool{}
		for _, p := range c.props {
			if once[p.name] {
				t.Errorf("%s has %s twice", c.get("UID"), p.name)
			}
			once[p.name] = true
			ok := true
			switch p.name {
			case "DTSTAMP", "CREATED", "LAST-MODIFIED", "COMPLETED":
				ok = p.params == "" && utcTime.MatchString(p.value)
			case "DTSTART":
				ok = p.params == ";VALUE=DATE" && dateOnly.MatchString(p.value) || p.params == "" && localTime.MatchString(p.value)
			case "SUMMARY", "DESCRIPTION":
				ok = p.params == "" && regexp.MustCompile(`^(?:[^\\;,]|\\[\\;,nN])*$`).MatchString(p.value)
			case "SEQUENCE":
				_, err := strconv.ParseUint(p.value, 10, 31)
				ok = err == nil
			case "UID", "RRULE":
			case "TRANSP":
				ok = c.kind == "VEVENT" && p.value == "TRANSPARENT"
			case "STATUS":
				ok = c.kind == "VTODO" && (p.value == "NEEDS-ACTION" || p.value == "COMPLETED")
			case "PERCENT-COMPLETE":
				ok = c.kind == "VTODO"
			default:
				ok = false
			}
			if !ok {
				t.Errorf("%s: %s%s:%s", c.kind, p.name, p.params, p.value)
			}
		}
		if !once["DTSTAMP"] || !once["SUMMARY"] || c.kind == "VEVENT" && !once["DTSTART"] || c.kind != "VEVENT" && c.kind != "VTODO" {
			t.Errorf("%s lacks something: %v", c.kind, c.props)
		}
	}
	return cal
}

// unescape is the reader's side of section 3.3.11.
func unescape(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\;`, ";", `\,`, ",", `\n`, "\n", `\N`, "\n").Replace(s)
}

func day(s string) civil.Date {
	d, err := civil.ParseDate(s)
	if err != nil {
		panic(err)
	}
	return d
}

var at = time.Date(2026, 11, 29, 20, 30, 0, 0, time.UTC)

func whole(id, title string) task.Whole {
	return task.Whole{Task: task.Task{ID: id, Title: title, Rev: 3, CreatedAt: at}, UpdatedAt: at.Add(time.Hour)}
}

// Requirement 66's file: what a calendar reads is what the planner has.
func TestACalendarIsWhatTheRFCSaysAndHoldsEveryTask(t *testing.T) {
	allDay, timed, some, done, doneSome := whole("a", "Физика §12"), whole("b", `Сочинение: «\;,» и
вторая строка`), whole("c", "Купить тетрадь"), whole("d", "готово"), whole("e", "and this")
	allDay.Due = day("2026-11-30")
	timed.Due, timed.At = day("2026-12-01"), civil.At(9, 5)
	done.Due, done.DoneAt = day("2026-11-28"), at
	doneSome.DoneAt = at
	some.Note = strings.Repeat("очень длинная заметка; ", 20)
	cal := read(t, calendar("anna", []task.Whole{allDay, timed, some, done, doneSome}, true))
	want := []struct{ kind, summary, start string }{
		{"VEVENT", "Физика §12", "20261130"},
		{"VEVENT", "Сочинение: «\\;,» и\nвторая строка", "20261201T090500"},
		{"VTODO", "Купить тетрадь", ""},
		{"VEVENT", "✓ готово", "20261128"},
		{"VTODO", "and this", ""},
	}
	if len(cal.in) != len(want) {
		t.Fatalf("%d components", len(cal.in))
	}
	for i, c := range cal.in {
		if c.kind != want[i].kind || unescape(c.get("SUMMARY")) != want[i].summary || c.get("DTSTART") != want[i].start || c.get("SEQUENCE") != "2" ||
			c.get("DTSTAMP") != "20261129T213000Z" || c.get("CREATED") != "20261129T203000Z" {
			t.Errorf("%s %v, want %v", c.kind, c.props, want[i])
		}
	}
	if got := unescape(cal.in[2].get("DESCRIPTION")); got != some.Note {
		t.Errorf("%q", got)
	}
	if cal.in[4].get("STATUS") != "COMPLETED" || cal.in[4].get("COMPLETED") != "20261129T203000Z" || cal.in[2].get("STATUS") != "NEEDS-ACTION" {
		t.Errorf("%v, %v", cal.in[4].props, cal.in[2].props)
	}
}

// Put in again, the file changes events and doubles none; another person's are others.
func TestTheNamesInACalendarStayTheSame(t *testing.T) {
	uid := func(user string, w task.Whole) string {
		return read(t, calendar(user, []task.Whole{w}, true)).in[0].get("UID")
	}
	before, after := whole("a", "a"), whole("a", "b")
	after.Due = day("2026-11-30")
	if uid("anna", before) != uid("anna", after) || uid("anna", before) == uid("boris", before) || strings.Contains(uid("anna", before), "anna") {
		t.Errorf("%s, %s, %s", uid("anna", before), uid("anna", after), uid("boris", before))
	}
}

// The lessons to come are those that the planner would make: each rule is written out
// by what RFC 5545 says of it, day by day, and compared.
func TestTheLessonsInACalendarAreThePlanners(t *testing.T) {
	starts := []civil.Date{day("2026-11-29"), day("2026-01-31"), day("2024-02-29"), day("2026-12-30")}
	rules := []string{
		"FREQ=DAILY", "FREQ=DAILY;INTERVAL=3", "FREQ=WEEKLY", "FREQ=WEEKLY;BYDAY=MO", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE,SU", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
		"FREQ=MONTHLY", "FREQ=MONTHLY;BYMONTHDAY=31", "FREQ=MONTHLY;BYMONTHDAY=30", "FREQ=MONTHLY;BYMONTHDAY=29", "FREQ=MONTHLY;BYMONTHDAY=1", "FREQ=MONTHLY;INTERVAL=5;BYMONTHDAY=31",
	}
	for _, start := range starts {
		for _, text := range rules {
			rule, err := repeat.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			first := repeat.First(rule, start)
			w := whole("lesson", "training")
			w.Due, w.Repeat, w.Series, w.Start, w.Next = first, rule, "lesson", start, repeat.Next(rule, start, first)
			cal := read(t, calendar("anna", []task.Whole{w}, true))
			if len(cal.in) != 2 || cal.in[0].get("RRULE") != "" {
				t.Fatalf("%v", cal.in)
			}
			series := cal.in[1]
			var want []civil.Date
			for d := w.Next; len(want) < 40; d = repeat.Next(rule, start, d) {
				want = append(want, d)
			}
			if got := expand(t, series.get("DTSTART"), series.get("RRULE"), 40); !slices.Equal(got, want) {
				t.Errorf("%s from %v: %s from %s gives\n%v, want\n%v", text, start, series.get("RRULE"), series.get("DTSTART"), got, want)
			}
			if week := read(t, calendar("anna", []task.Whole{w}, false)); len(week.in) != 1 {
				t.Errorf("%v", week.in)
			}
		}
	}
}

// A series that ends says so in the form that DTSTART has.
func TestASeriesThatEndsHasAnUntil(t *testing.T) {
	w := whole("lesson", "training")
	w.Repeat, w.Series, w.Start, w.Due = repeat.EveryDay(), "lesson", day("2026-11-29"), day("2026-11-29")
	w.Next, w.Until = day("2026-11-30"), day("2026-12-02")
	if got := read(t, calendar("anna", []task.Whole{w}, true)).in[1].get("RRULE"); got != "FREQ=DAILY;UNTIL=20261202" {
		t.Error(got)
	}
	w.At = civil.At(18, 0)
	if got := read(t, calendar("anna", []task.Whole{w}, true)).in[1].get("RRULE"); got != "FREQ=DAILY;UNTIL=20261202T235959" {
		t.Error(got)
	}
}

// expand writes out a rule, day by day: slow, and by the words of section 3.3.10.
func expand(t *testing.T, dtstart, rrule string, n int) (dates []civil.Date) {
	t.Helper()
	start := day(fmt.Sprintf("%s-%s-%s", dtstart[:4], dtstart[4:6], dtstart[6:8]))
	parts := map[string]string{"INTERVAL": "1"}
	for p := range strings.SplitSeq(rrule, ";") {
		name, value, _ := strings.Cut(p, "=")
		parts[name] = value
	}
	interval, err := strconv.Atoi(parts["INTERVAL"])
	if err != nil {
		t.Fatal(err)
	}
	codes := []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}
	for d := start; len(dates) < n; d = d.AddDays(1) {
		in := false
		switch parts["FREQ"] {
		case "DAILY":
			in = d.DaysSince(start)%interval == 0
		case "WEEKLY":
			if parts["WKST"] != "MO" {
				t.Fatal(rrule)
			}
			in = d.Monday().DaysSince(start.Monday())/7%interval == 0 && slices.Contains(strings.Split(parts["BYDAY"], ","), codes[d.Weekday()])
		case "MONTHLY":
			months := (d.Year-start.Year)*12 + int(d.Month) - int(start.Month)
			days := strings.Split(parts["BYMONTHDAY"], ",")
			in = months%interval == 0 && slices.Contains(days, strconv.Itoa(d.Day))
			if parts["BYSETPOS"] == "-1" { // no later day of the set in this month
				for later := d.Day + 1; later <= civil.DaysIn(d.Year, d.Month); later++ {
					in = in && !slices.Contains(days, strconv.Itoa(later))
				}
			} else if parts["BYSETPOS"] != "" {
				t.Fatal(rrule)
			}
		default:
			t.Fatal(rrule)
		}
		if in {
			dates = append(dates, d)
		} else if d == start {
			t.Fatalf("%s does not give its own start %s", rrule, dtstart)
		}
	}
	return dates
}

// Whatever a title is, the file is one that can be read, and the title comes back but
// for what no calendar may hold.
func FuzzAnyTitleComesBack(f *testing.F) {
	for _, s := range []string{"a", "Физика; задачи, 12\\15", "line\nline\r\nline", strings.Repeat("я", 500), "x\x00\x07\x7fy", "\xff", "🙂" + strings.Repeat("🙂", 40), "BEGIN:VEVENT\r\nUID:x"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, title, note string) {
		if title == "" {
			return
		}
		w := whole("a", title)
		w.Note = note
		cal := read(t, calendar("anna", []task.Whole{w}, true))
		want := strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' && r != '\n' || r == 0x7f {
				return -1
			}
			return r
		}, strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(title, "\uFFFD")))
		if len(cal.in) != 1 || unescape(cal.in[0].get("SUMMARY")) != want {
			t.Errorf("%q became %q", title, cal.in[0].props)
		}
	})
}
