// Package quickadd reads one line, as a pupil types it in a lesson, in Russian
// or English: "алгебра №345 на среду", "тренировка каждый понедельник 18:00",
// "essay by friday 6pm". What it recognises becomes a due, a time and a
// repetition; all the rest is the title.
//
// The rule above all others is that nothing may be lost. A date that was not
// recognised stays in the title, where the person reads it; a number that was
// taken for a date is gone from the homework. So in doubt it is text:
//
//   - Dates, times and repetitions are whole words only, and never inside
//     quotation marks. "…" around the whole line switches everything off, and
//     these marks are then left out of the title.
//   - A number after №, §, упр, стр, с., задачи, зад., п., p., ex and their like
//     belongs to the homework, and so do the numbers listed after it.
//   - dd.mm has a month of two digits, and stands at the end of the line; or
//     after к, до, на, by, on and such, or a weekday that it falls on, or a word
//     for an event (к/р, экзамен, quiz); or before a colon at the start; or it
//     has a year, or a day like 03. "At the end" means that only other
//     recognised words follow. "15 декабря" stands so too, or begins the line.
//   - A weekday in full stands at the end or after a preposition in the right
//     case ("в среду", not "в среде"); an abbreviation stands anywhere, but ср,
//     сб, вс, sat, sun and wed are doubted where they may be another word: "ср по
//     химии" is a test (самостоятельная работа).
//   - A time has a colon, or в, at, am, pm, утра, дня, вечера; 18.00 also counts
//     directly after a date. A bare hour after в or at is one only from 8 to 23
//     and at the end: "в 5" does not say whether it is morning, unless the line
//     has "вечером".
//   - Ranges and lists ("12-15", "с 15.12 по 20.12", "в субботу и воскресенье",
//     "пн физика, вт химия", "18:00-19:30") name no single date or time.
//
// What a word means, where people differ:
//
//   - A weekday is the next such day after today, one to seven days ahead.
//   - "next monday", "в следующий понедельник" is the one of the next calendar
//     week, Monday to Sunday. On a Sunday that is tomorrow.
//   - "next week", "на след. неделе" is the Monday of that week: the task shows
//     up when the week begins, and can be moved from there. "На этой неделе", "на
//     выходных", "до конца месяца" stay text.
//   - A date without a year is the next such day, today included. One that
//     passed within the last month is text: it may be a slip of the pen.
//   - "В 9.10" is a time, "в 15.12" a date.
//   - A time without a date is today if it is still to come, else tomorrow.
//   - A repetition begins on the first day that it gives, today included, unless
//     the time of today has passed.
//   - Of two dates the one with к, до, на, by, due or for wins, then any other,
//     then a doubted abbreviation; among equals the last, but of two weekdays
//     neither. What does not win stays text.
//
// Not for dates in long prose, and not for other languages.
package quickadd

import (
	"strings"
	"time"
	"unicode"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
)

// Kind tells what a span was taken for.
type Kind string

// The kinds.
const (
	Date   Kind = "date"
	Time   Kind = "time"
	Repeat Kind = "repeat"
)

// Span is a part of the text that was recognised, with its preposition:
// text[Start:End] in bytes, without the punctuation around it.
type Span struct {
	Start, End int
	Kind       Kind
}

// Result is what a line says.
type Result struct {
	// Title is the line without what was recognised; the whole line where
	// nothing else is left ("завтра"). It is valid UTF-8 on one line, without
	// control characters, and it is empty only if the text shows nothing at
	// all. Its length is not limited here.
	Title string
	// Due is zero when the line names no date. With Repeat it is the first
	// occurrence, and the start of the series.
	Due civil.Date
	// Time is zero when the line names none; never set without Due.
	Time civil.Time
	// Repeat is zero when the task comes once.
	Repeat repeat.Rule
	// Spans are in order and do not overlap. They include nothing that stayed
	// in the title, except where the whole line is both.
	Spans []Span
}

// Parse reads a line. The date and time of now in now's own location are the
// person's today: convert it with In first. It accepts any bytes, takes time
// in proportion to their number, and is safe for concurrent use.
func Parse(text string, now time.Time) Result {
	p := &parser{
		text: text, toks: tokenize(text), lower: strings.ContainsFunc(text, unicode.IsLower),
		now: civil.TimeOf(now), today: civil.Today(now),
	}
	p.markContent()
	p.survey()
	for i := 0; i < len(p.toks); {
		c, ok := p.match(i)
		if !ok {
			i++
			continue
		}
		p.found = append(p.found, c)
		i = c.to
	}
	res := p.resolve()
	res.Title = p.title()
	return res
}

// parser holds one line while it is read.
type parser struct {
	text    string
	toks    []token
	lower   bool                      // the text is not in capitals throughout
	several bool                      // it names more days than one, so a time says no day
	daypart func(h, m int) civil.Time // what "вечером" makes of an hour, nil without such a word
	now     civil.Time
	today   civil.Date
	content []bool // by token: a number that belongs to the homework
	found   []candidate
	used    []candidate // what resolve settled on, in the order of the text
}

// candidate is a run of tokens that may be a date, a time or a repetition. The
// fields below kind are set as the kind and the wording ask.
type candidate struct {
	from, to int // token indices, half open
	kind     Kind
	rank     int
	prep     string // the preposition that it begins with, "" for none
	atEnd    bool   // counts only where nothing but recognised words follows
	beside   bool   // counts only beside a date or a repetition

	date     civil.Date
	weekday  time.Weekday // meaningful if byName
	byName   bool         // a plain weekday, so that "пн 21.12" is one date
	monthDay int          // "15 числа"
	time     civil.Time   // for a date: what it is if it must be a time, "в 10.10"
	rule     repeat.Rule  // Days and MonthDay may be open, "каждую неделю"
}

// The ranks of dates, best last.
const (
	rankDoubtful = 1 + iota
	rankPlain
	rankDeadline
)

// survey looks at the words that bear on all others.
func (p *parser) survey() {
	for i := range p.toks {
		w := p.word(i)
		if part := dayparts[w]; part != "" {
			p.daypart = partsOfDay[part]
		}
		if _, one := days[w]; !one && dayToken(w, nominative|short) != 0 { // "пн/ср"
			p.several = true
		}
	}
}

func (p *parser) match(i int) (candidate, bool) {
	if p.word(i) == "" {
		return candidate{}, false
	}
	if c, ok := p.repeatAt(i); ok {
		return c, true
	}
	if c, ok := p.dateAt(i); ok {
		return c, true
	}
	return p.timeAt(i)
}
