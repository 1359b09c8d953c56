package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/task"
)

// row is a task as a list shows it.
type row struct {
	L       lang
	ID      string
	Title   string
	Done    bool
	Deleted bool
	Due     string // «завтра», "" without a day
	At      string // "18:00"
	When    string // overdue, today, or ""
	Date    civil.Date
	Repeat  string
	List    string // the list that it belongs to
	Sort    string // its place there: rows are in the order of these strings
	Version string // differs when the row looks different
	Moves   []move
}

// move is a day that a row can be moved to by one tap. Its date is absolute.
type move struct {
	Date string
	Text string
}

func newRow(v visit, t task.Task) row {
	r := row{
		L: v.l, ID: t.ID, Title: t.Title, Done: t.Done(), Deleted: t.Deleted(),
		At: t.At.String(), Date: t.Due, Repeat: v.l.Repeat(t.Repeat),
		Version: fmt.Sprintf("%d.%s.%s", t.Rev, v.today, v.l.Code()),
	}
	r.Sort = "9999"
	if !t.Due.IsZero() {
		r.Due = v.l.Day(t.Due, v.today)
		r.Sort = t.Due.String()
	}
	r.Sort += " " + cmp.Or(t.At.String(), "99") + " " + sortTime(t.CreatedAt.UnixMilli())
	switch {
	case t.Due.IsZero():
		r.List = "someday"
	case t.Due.Before(v.today):
		r.List, r.When = "overdue", "overdue"
	case t.Due == v.today:
		r.List, r.When = "today", "today"
	case t.Due == v.today.AddDays(1):
		r.List = "tomorrow"
	default:
		r.List = "later"
	}
	switch {
	case r.Done || r.Deleted:
		r.When = ""
	case r.List == "today" || r.List == "tomorrow":
		r.Due = "" // the list's name says it
	}
	r.Moves = v.moves(t.Due)
	return r
}

// moves are the days that a task due on d can be moved to by one tap.
func (v visit) moves(d civil.Date) []move {
	var ms []move
	monday := v.today.Monday().AddDays(7)
	for _, m := range []struct {
		date  civil.Date
		words string
	}{
		{v.today, "due.today"},
		{v.today.AddDays(1), "due.tomorrow"},
		{monday, "due.monday"},
		{civil.Date{}, "due.none"},
	} {
		if m.date == d || slices.ContainsFunc(ms, func(o move) bool { return o.Date == m.date.String() }) {
			continue
		}
		ms = append(ms, move{m.date.String(), v.l.T(m.words)})
	}
	return ms
}

// section is a headed list of rows.
type section struct {
	L    lang
	Name string
	Text string
	Rows []row
	Fold bool // shown closed: a long list of what is overdue scolds
}

// fold is how many overdue tasks are shown without asking.
const fold = 3

// sections sorts open tasks into the lists of the page "today". All of them are
// there, the empty ones hidden, so that a script can put a row into any.
func sections(v visit, ts []task.Task) []section {
	ss := make([]section, 0, 5)
	for _, name := range []string{"overdue", "today", "tomorrow", "later", "someday"} {
		ss = append(ss, section{L: v.l, Name: name, Text: v.l.T("list." + name)})
	}
	for _, t := range ts {
		r := newRow(v, t)
		i := slices.IndexFunc(ss, func(s section) bool { return s.Name == r.List })
		ss[i].Rows = append(ss[i].Rows, r)
	}
	ss[0].Fold = len(ss[0].Rows) > fold
	return ss
}

// days groups tasks by the day on which something happened to them, the latest
// first.
func days(v visit, ts []task.Task, when func(task.Task) time.Time) []section {
	var ss []section
	for _, t := range ts {
		at := when(t)
		d := civil.Today(at.In(v.now.Location()))
		name := "day-" + d.String()
		if len(ss) == 0 || ss[len(ss)-1].Name != name {
			ss = append(ss, section{L: v.l, Name: name, Text: v.l.DayLong(d)})
		}
		s := &ss[len(ss)-1]
		r := newRow(v, t)
		r.List, r.Sort = name, sortTime(math.MaxInt64-at.UnixMilli())
		s.Rows = append(s.Rows, r)
	}
	return ss
}

// sortTime writes a number so that the order of the strings is the numbers'.
func sortTime(n int64) string { return fmt.Sprintf("%019d", n) }
