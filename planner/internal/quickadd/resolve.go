package quickadd

import (
	"slices"
	"strings"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
)

// resolve settles which candidates count, and what they say together.
func (p *parser) resolve() Result {
	p.dropLists()
	p.dropStrays()
	p.mergeDates()
	p.dropRivals()

	var rep, date, at *candidate
	for i := range p.found {
		if c := &p.found[i]; c.kind == Repeat {
			rep = c
		}
	}
	for i := range p.found {
		c := &p.found[i]
		if c.kind == Date && !c.beside && !(rep != nil && limits[c.prep]) && (date == nil || c.rank >= date.rank) {
			date = c
		}
	}
	date, at = p.dateOrTime(rep, date)
	for i := range p.found {
		c := &p.found[i]
		if p.several && rep == nil && date == nil {
			break // "тренировка пн, ср 18:00" is not today's
		}
		if c.kind == Time && (!c.beside || p.follow(c, rep) || p.follow(c, date)) {
			at = c
		}
	}

	for _, c := range []*candidate{rep, date, at} {
		if c != nil {
			p.used = append(p.used, *c)
		}
	}
	slices.SortFunc(p.used, func(a, b candidate) int { return a.from - b.from })
	return p.due(rep, date, at)
}

// due says when, from the parts that count; each may be nil.
func (p *parser) due(rep, date, at *candidate) Result {
	var res Result
	if at != nil {
		res.Time = at.time
	}
	switch {
	case rep != nil:
		start := p.today
		if date != nil {
			start = date.date
		}
		res.Repeat = complete(rep.rule, start)
		if date != nil && date.monthDay != 0 && rep.rule.Freq == repeat.Monthly {
			res.Repeat.MonthDay, start = date.monthDay, p.today
		}
		res.Due = repeat.First(res.Repeat, start)
		if date == nil && res.Due == p.today && p.passed(res.Time) {
			res.Due = repeat.First(res.Repeat, p.today.AddDays(1))
		}
	case date != nil:
		res.Due = date.date
	case at != nil && p.passed(res.Time):
		res.Due = p.today.AddDays(1)
	case at != nil:
		res.Due = p.today
	}
	for _, c := range p.used {
		s := Span{p.toks[c.from].coreStart, p.toks[c.to-1].coreEnd, c.kind}
		if shut := p.open(c); shut != "" {
			s.End += strings.Index(p.text[s.End:], shut) + len(shut)
		}
		res.Spans = append(res.Spans, s)
	}
	return res
}

// open is the bracket that begins inside c and ends after it: "21.12 (пн)".
func (p *parser) open(c candidate) string {
	inside := p.text[p.toks[c.from].coreStart:p.toks[c.to-1].coreEnd]
	for _, pair := range brackets {
		if strings.Count(inside, pair[:1]) > strings.Count(inside, pair[1:]) && strings.HasPrefix(p.toks[c.to-1].trail, pair[1:]) {
			return pair[1:]
		}
	}
	return ""
}

var brackets = []string{"()", "[]", "{}"}

func (p *parser) passed(t civil.Time) bool { return !t.IsZero() && t.Before(p.now) }

// complete gives a rule of weeks or months the day of its first date.
func complete(r repeat.Rule, start civil.Date) repeat.Rule {
	switch {
	case r.Freq == repeat.Weekly && r.Days == 0:
		r.Days = repeat.DaysOf(start.Weekday())
	case r.Freq == repeat.Monthly && r.MonthDay == 0:
		r.MonthDay = start.Day
	}
	return r
}

// dropStrays drops the candidates that count only at the end and are not there.
func (p *parser) dropStrays() {
	end, last := len(p.toks), len(p.found)-1
	for {
		for end > 0 && p.toks[end-1].punctuation() {
			end--
		}
		if last < 0 || p.found[last].to != end {
			break
		}
		end = p.found[last].from
		last--
	}
	var kept []candidate
	for i, c := range p.found {
		if c.atEnd && c.from < end {
			switch {
			case i > 0 && p.confirms(p.found[i-1], c), i+1 < len(p.found) && p.confirms(c, p.found[i+1]):
			case i > 0 && !c.time.IsZero() && c.kind == Date && p.names(p.found[i-1], c):
				c.beside = true // in "завтра 9.10 собрание" it can still be a time
			default:
				continue
			}
		}
		kept = append(kept, c)
	}
	p.found = kept
}

// confirms reports whether two neighbours are one day, "чт, 10 декабря", or a
// month and its day, "каждый месяц 10.12", which makes a date of both wherever
// they stand.
func (p *parser) confirms(a, b candidate) bool {
	monthly := a.rule.Freq == repeat.Monthly && a.rule.MonthDay == 0
	return b.kind == Date && (a.kind == Date && agree(a, b) || monthly) && p.adjoin(a.to, b.from)
}

// names reports whether the candidate before c says the day, so that c can be
// the time.
func (p *parser) names(before, c candidate) bool {
	return (before.kind == Repeat || before.kind == Date && before.rank >= rankPlain) && p.follow(&c, &before)
}

// mergeDates makes one of two neighbours that mean one day: "пн 21.12",
// "завтра, в понедельник".
func (p *parser) mergeDates() {
	kept := p.found[:0]
	for _, b := range p.found {
		n := len(kept) - 1
		if n < 0 || kept[n].kind != Date || b.kind != Date || !p.adjoin(kept[n].to, b.from) || !agree(kept[n], b) {
			kept = append(kept, b)
			continue
		}
		a, merged := kept[n], b
		if b.byName && !a.byName { // the weekday only repeats it
			merged = a
		}
		merged.from, merged.to, merged.prep, merged.rank = a.from, b.to, a.prep, max(a.rank, b.rank)
		kept[n] = merged
	}
	p.found = kept
}

// agree reports whether two dates are one day; a weekday agrees with every date
// that falls on it.
func agree(a, b candidate) bool {
	switch {
	case a.byName && !b.byName:
		return b.date.Weekday() == a.weekday
	case b.byName && !a.byName:
		return a.date.Weekday() == b.weekday
	}
	return a.date == b.date
}

// adjoin reports whether only punctuation stands between two tokens.
func (p *parser) adjoin(from, to int) bool {
	for i := from; i < to; i++ {
		if !p.toks[i].punctuation() {
			return false
		}
	}
	return from <= to
}

// dropLists drops the dates of "в субботу и воскресенье", "15.12, 16.12": the
// task is of both.
func (p *parser) dropLists() {
	drop := make([]bool, len(p.found))
	for i := 0; i+1 < len(p.found); i++ {
		a, b := p.found[i], p.found[i+1]
		joined := joints[p.word(a.to)] && a.to+1 == b.from || a.to+1 == b.from && p.dash(a.to) ||
			a.to == b.from && b.prep == "" && strings.HasPrefix(p.toks[a.to-1].trail, ",") && !agree(a, b)
		if a.kind == Date && b.kind == Date && joined {
			drop[i], drop[i+1] = true, true
			p.several = true
		}
	}
	kept := p.found[:0]
	for i, c := range p.found {
		if !drop[i] {
			kept = append(kept, c)
		}
	}
	p.found = kept
}

// dropRivals drops the weekdays of "пн физика, вт химия" and repetitions of two
// kinds, where none says more than the other. Relative days do not compete so:
// "в пятницу тест, готовиться завтра" ends with what is to be done.
func (p *parser) dropRivals() {
	var days [rankDeadline + 1]repeat.Weekdays
	rules := map[repeat.Rule]bool{}
	for _, c := range p.found {
		if c.kind == Date && c.byName {
			days[c.rank] |= repeat.DaysOf(c.weekday)
		}
		if c.kind == Repeat {
			rules[c.rule] = true
		}
	}
	days[rankDoubtful] |= days[rankPlain]
	p.found = slices.DeleteFunc(p.found, func(c candidate) bool {
		drop := c.kind == Date && c.byName && days[c.rank].Len() > 1 && (c.rank > rankDoubtful || days[rankPlain].Len() != 1) ||
			c.kind == Repeat && len(rules) > 1
		p.several = p.several || drop
		return drop
	})
}

// dateOrTime reads "10.10" as a time where the date is named already: "завтра в
// 10.10", "каждый вторник 9.10". Given is the date that would count.
func (p *parser) dateOrTime(rep, date *candidate) (newDate, at *candidate) {
	var other *candidate // the last date that can be nothing else
	for i := range p.found {
		c := &p.found[i]
		if c.kind == Date && c.time.IsZero() && !(rep != nil && limits[c.prep]) && c.rank >= rankPlain {
			other = c
		}
	}
	if other == nil && rep == nil {
		return date, nil
	}
	for i := range p.found {
		c := &p.found[i]
		if c.kind == Date && !c.time.IsZero() && (c.prep != "" || p.follow(c, rep) || p.follow(c, other)) {
			c.kind, at = Time, c
		}
	}
	if date != nil && date.kind == Time {
		date = other
	}
	return date, at
}

// follow reports whether c stands directly after what.
func (p *parser) follow(c, what *candidate) bool {
	return what != nil && what.kind != Time && what.to <= c.from && p.adjoin(what.to, c.from)
}
