package export

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
	"github.com/onceward/onceward/planner/internal/task"
)

// calendar writes tasks as iCalendar (RFC 5545).
//
// What has a day is an event, and not a VTODO: that is what the calendars of phones
// show. It is on that day, or at that time by the wall clock where the person is
// ("floating"), takes no time and blocks none. What has no day is a VTODO. A
// repeating task is its own event, and the lessons to come are a second one, which
// repeats: a task may have been moved, and a rule has to begin on a day of its own.
//
// The names (UID) are always the same ones, and SEQUENCE grows with each change, so
// that a calendar into which the file is put again changes its events instead of
// doubling them.
func calendar(user string, tasks []task.Whole, lessons bool) []byte {
	c := &ics{user: hash(user)}
	c.line("BEGIN:VCALENDAR")
	c.line("VERSION:2.0")
	c.line("PRODID:-//Onceward//Planner//EN")
	c.line("CALSCALE:GREGORIAN")
	for _, t := range tasks {
		if t.Due.IsZero() {
			c.todo(t)
		} else {
			c.event(t)
		}
		if lessons && !t.Next.IsZero() {
			c.series(t)
		}
	}
	c.line("END:VCALENDAR")
	return c.buf.Bytes()
}

// hash makes a name that is one person's and tells nothing of them.
func hash(user string) string {
	sum := sha256.Sum256([]byte("planner calendar of " + user))
	return hex.EncodeToString(sum[:6])
}

type ics struct {
	buf  bytes.Buffer
	user string
}

// line writes one content line, folded so that no line of the file has more than 75
// bytes, and never inside a character.
func (c *ics) line(s string) {
	room := 75
	for len(s) > room {
		cut := room
		for cut > 1 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		c.buf.WriteString(s[:cut] + "\r\n ")
		s, room = s[cut:], 74 // the blank counts
	}
	c.buf.WriteString(s + "\r\n")
}

// text writes a property whose value is text.
func (c *ics) text(name, value string) { c.line(name + ":" + escape(value)) }

// escape writes text as section 3.3.11 wants it. What no text may hold is left out.
func escape(s string) string {
	var b strings.Builder
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	for _, r := range s {
		switch {
		case r == '\\' || r == ';' || r == ',':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n' || r == '\r':
			b.WriteString(`\n`)
		case r < ' ' && r != '\t' || r == 0x7f:
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func stamp(t time.Time) string { return t.UTC().Format("20060102T150405Z") }

// head begins a component. DTSTAMP of a calendar that nobody was invited to is when
// the thing was last changed.
func (c *ics) head(kind, id string, t task.Whole) {
	c.line("BEGIN:" + kind)
	c.line("UID:" + id + "-" + c.user + "@planner.onceward")
	c.line("DTSTAMP:" + stamp(t.UpdatedAt))
	c.line("CREATED:" + stamp(t.CreatedAt))
	c.line("LAST-MODIFIED:" + stamp(t.UpdatedAt))
	c.line("SEQUENCE:" + strconv.Itoa(max(t.Rev-1, 0)))
	title := t.Title
	if kind == "VEVENT" && t.Done() { // an event cannot be "completed"
		title = "✓ " + title
	}
	c.text("SUMMARY", title)
	if t.Note != "" {
		c.text("DESCRIPTION", t.Note)
	}
}

func (c *ics) start(day civil.Date, at civil.Time) {
	date := strings.ReplaceAll(day.String(), "-", "")
	if at.IsZero() {
		c.line("DTSTART;VALUE=DATE:" + date)
	} else {
		c.line(fmt.Sprintf("DTSTART:%sT%02d%02d00", date, at.Hour(), at.Minute()))
	}
	c.line("TRANSP:TRANSPARENT")
}

func (c *ics) event(t task.Whole) {
	c.head("VEVENT", t.ID, t)
	c.start(t.Due, t.At)
	c.line("END:VEVENT")
}

func (c *ics) todo(t task.Whole) {
	c.head("VTODO", t.ID, t)
	if t.Done() {
		c.line("STATUS:COMPLETED")
		c.line("COMPLETED:" + stamp(t.DoneAt))
		c.line("PERCENT-COMPLETE:100")
	} else {
		c.line("STATUS:NEEDS-ACTION")
	}
	c.line("END:VTODO")
}

// series writes the lessons that come after t. It has another name than the task that
// gave the series its id.
func (c *ics) series(t task.Whole) {
	c.head("VEVENT", "series."+t.Series, t)
	c.start(t.Next, t.At)
	c.line("RRULE:" + rrule(t.Repeat, t.Start, t.Until, t.At))
	c.line("END:VEVENT")
}

// rrule is a rule for others. Ours that says "the 31st" means the last day of shorter
// months; RFC 5545 would leave those out, so the last of the 28th to 31st is asked for.
func rrule(r repeat.Rule, start, until civil.Date, at civil.Time) string {
	s := map[repeat.Freq]string{repeat.Daily: "FREQ=DAILY", repeat.Weekly: "FREQ=WEEKLY", repeat.Monthly: "FREQ=MONTHLY"}[r.Freq]
	if r.Interval > 1 {
		s += ";INTERVAL=" + strconv.Itoa(r.Interval)
	}
	if !until.IsZero() { // of the same kind as DTSTART
		s += ";UNTIL=" + strings.ReplaceAll(until.String(), "-", "")
		if !at.IsZero() {
			s += "T235959"
		}
	}
	switch r.Freq {
	case repeat.Weekly:
		days := r.Days
		if days == 0 {
			days = repeat.DaysOf(start.Weekday())
		}
		names := [...]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}
		var list []string
		for _, d := range days.List() {
			list = append(list, names[d])
		}
		s += ";BYDAY=" + strings.Join(list, ",") + ";WKST=MO"
	case repeat.Monthly:
		day := r.MonthDay
		if day == 0 {
			day = start.Day
		}
		s += ";BYMONTHDAY=" + strconv.Itoa(min(day, 28))
		for d := 29; d <= day; d++ {
			s += "," + strconv.Itoa(d)
		}
		if day > 28 {
			s += ";BYSETPOS=-1"
		}
	}
	return s
}
