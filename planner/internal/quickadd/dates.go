package quickadd

import (
	"strings"
	"time"

	"github.com/onceward/onceward/planner/internal/civil"
)

// preps are the prepositions of a date, with the form of a weekday that each
// asks for and the rank that it gives. English ones ask for nothing.
var preps = map[string]struct {
	form form
	rank int
}{
	"к": {dative, rankDeadline}, "ко": {dative, rankDeadline}, "до": {genitive, rankDeadline},
	"на": {accusative, rankDeadline}, "в": {accusative, rankPlain}, "во": {accusative, rankPlain},
	"с": {genitive, rankPlain}, "со": {genitive, rankPlain}, "не позднее": {genitive, rankDeadline}, "не позже": {genitive, rankDeadline},
	"by": {nominative, rankDeadline}, "due": {nominative, rankDeadline}, "for": {nominative, rankDeadline},
	"until": {nominative, rankDeadline}, "till": {nominative, rankDeadline}, "before": {nominative, rankDeadline},
	"on": {nominative, rankPlain}, "from": {nominative, rankPlain}, "starting": {nominative, rankPlain},
	"due on": {nominative, rankDeadline}, "due by": {nominative, rankDeadline},
}

// starts are the prepositions that name where something begins.
var starts = words("с со from")

// limits are those that name where a repetition would end, which no rule of
// ours can say.
var limits = words("к ко до by until till before")

// prepAt is the longest preposition at i, and the token after it. Without one
// it is "" and i itself.
func (p *parser) prepAt(i int) (prep string, at int) {
	w := p.word(i)
	if next := p.next(i); next != "" && p.next(i+1) != "" {
		if _, ok := preps[w+" "+next]; ok {
			return w + " " + next, i + 2
		}
	}
	if _, ok := preps[w]; ok && p.phrase(i) {
		return w, i + 1
	}
	return "", i
}

// dateAt tries every form of a date at token i.
func (p *parser) dateAt(i int) (candidate, bool) {
	prep, at := p.prepAt(i)
	for _, form := range []func(*parser, string, int) (candidate, bool){
		(*parser).relative, (*parser).weekOf, (*parser).weekdayPhrase, (*parser).inAWhile,
		(*parser).numericDate, (*parser).monthDate, (*parser).dayOfMonth,
	} {
		c, ok := form(p, prep, at)
		if !ok {
			continue
		}
		c.from, c.kind, c.prep = i, Date, prep
		if c.rank == 0 {
			c.rank = rankPlain
		}
		if prep != "" {
			c.rank = preps[prep].rank
		}
		if p.spansARange(c) || prep == "" && asides[p.previous(i)] {
			return candidate{}, false
		}
		return c, true
	}
	return candidate{}, false
}

// spansARange reports whether c is one end of "с 15.12 по 20.12".
func (p *parser) spansARange(c candidate) bool {
	after := p.word(c.to)
	return starts[c.prep] && (after == "по" || after == "до" || after == "to" || after == "till" || after == "until") ||
		c.prep == "" && (p.previous(c.from) == "по" || p.previous(c.from) == "to")
}

// relative reads сегодня, завтра, послезавтра, the day after tomorrow. The
// misspelling "после завтра" means nothing else.
func (p *parser) relative(prep string, at int) (candidate, bool) {
	w, next := p.word(at), p.next(at)
	switch {
	case prep == "в" || prep == "во":
		return candidate{}, false
	case w == "после" && next == "завтра":
		return candidate{to: at + 2, date: p.today.AddDays(2)}, true
	case w == "the" && next == "day", w == "day" && next == "after":
		from := at
		if w == "the" {
			from++
		}
		if p.next(from) == "after" && p.next(from+1) == "tomorrow" {
			return candidate{to: from + 3, date: p.today.AddDays(2)}, true
		}
	}
	n, ok := relatives[w]
	return candidate{to: at + 1, date: p.today.AddDays(n)}, ok
}

// weekOf reads "на след. неделе", "next week", "через неделю", alone for the
// day and with a weekday after it for that day of the week.
func (p *parser) weekOf(prep string, at int) (candidate, bool) {
	from, to := p.week(prep, at)
	if to == 0 {
		return candidate{}, false
	}
	c := candidate{to: to, date: from}
	if prep2, wd := p.prepAt(to); p.phrase(to-1) && preps[prep2].rank <= rankPlain {
		if d, ok := days[p.word(wd)]; ok && fits(prep2, d.form) {
			c.to, c.date = wd+1, from.AddDays(daysUntil(from, d.day))
		}
	}
	return c, true
}

// week reads the name of a week at token at: its first day, which is what the
// name means alone, and the token after it, 0 if it is no such name. "Через
// неделю" begins a week of its own: "через неделю в пятницу" is the first Friday
// that is a week or more away.
func (p *parser) week(prep string, at int) (from civil.Date, to int) {
	w := p.word(at)
	if (prep == "" || prep == "due") && (w == "через" || w == "in") && p.phrase(at) {
		if n, u, to := p.count(at + 1); u == week {
			return p.today.AddDays(7 * n), to
		}
	}
	if nextWords[w] && weekWords[p.next(at)] {
		return p.today.Monday().AddDays(7), at + 2
	}
	return civil.Date{}, 0
}

var weekWords = words("неделе неделю недели неделя week")

// fits reports whether a preposition takes a weekday's word in that form.
func fits(prep string, f form) bool {
	if f&short != 0 {
		return true
	}
	if prep == "" {
		return f&(nominative|accusative) != 0
	}
	return f&preps[prep].form != 0
}

// weekdayPhrase reads a weekday, with or without "next" and "this", and with a
// week after it: "в среду на следующей неделе", "monday next week".
func (p *parser) weekdayPhrase(prep string, at int) (candidate, bool) {
	wd := at
	modifier := p.word(at)
	modified := nextWords[modifier] || thisWords[modifier]
	if modified {
		if !p.phrase(at) {
			return candidate{}, false
		}
		wd++
	}
	d, ok := days[p.word(wd)]
	if !ok || d.form == plural {
		return candidate{}, false
	}
	c := candidate{to: wd + 1, weekday: d.day, rank: rankPlain}
	switch {
	case nextWords[modifier]:
		monday := p.today.Monday().AddDays(7)
		c.date = monday.AddDays(daysUntil(monday, d.day))
		return c, true
	case thisWords[modifier]:
		c.date = p.today.AddDays(daysUntil(p.today, d.day))
		return c, prep != "" || modifier != "эта" && modifier != "это" // "это среда" is a sentence
	case !fits(prep, d.form):
		return candidate{}, false
	}
	c.date, c.byName = p.today.AddDays(1+daysUntil(p.today.AddDays(1), d.day)), true
	if prep2, w := p.prepAt(c.to); p.phrase(wd) {
		if from, to := p.week(prep2, w); to != 0 {
			c.to, c.date, c.byName = to, from.AddDays(daysUntil(from, d.day)), false
			return c, true
		}
	}
	if prep == "" {
		return p.bareWeekday(c, wd, d)
	}
	return c, !p.acronym(wd) // "study for SAT"
}

// daysUntil is 0 to 6.
func daysUntil(from civil.Date, d time.Weekday) int { return (int(d-from.Weekday()) + 7) % 7 }

// bareWeekday decides on a weekday that nothing announces.
func (p *parser) bareWeekday(c candidate, at int, d dayWord) (candidate, bool) {
	prev := p.previous(at)
	if adjectiveBefore(prev, d) {
		return candidate{}, false
	}
	if d.form&short == 0 {
		c.atEnd = !p.heads(at, c.to)
		return c, true
	}
	return c, p.abbreviates(&c, at, prev)
}

// homographs are abbreviations that are other words as well: "ср по физике"
// (самостоятельная работа), "сб. задач" (сборник), SAT, the sun.
var homographs = words("ср сб вс sat sun wed")

var (
	// averages follow "ср." that is средний: "ср. арифметическое".
	averages = []string{"знач", "арифм", "квадр", "геом", "скор", "темп", "взвеш", "балл", "оценк", "линия", "род"}
	// articles and the like precede a noun.
	articles = words("the a an my your his her our their this that of about and")
)

// abbreviates reports whether the abbreviation at a token stands for a weekday.
func (p *parser) abbreviates(c *candidate, at int, prev string) bool {
	t, next := p.toks[at], p.word(at+1)
	core := p.text[t.coreStart:t.coreEnd]
	if core == "Вт" && startsWithDigit(prev) && !p.content[at-1] {
		return false // watts
	}
	if !homographs[t.fold] {
		return true
	}
	for _, a := range averages {
		if strings.HasPrefix(next, a) {
			return false
		}
	}
	c.rank = rankDoubtful
	latin := t.fold[0] < 0x80
	c.atEnd = (latin || strings.HasPrefix(t.trail, ".")) && !p.heads(at, at+1)
	return !p.capitals(core) && next != "по" && next != "на" && !articles[prev]
}

// capitals reports whether a word is in capitals in a line that is not.
func (p *parser) capitals(core string) bool {
	return p.lower && strings.ToUpper(core) == core
}

// acronym reports whether token at is one of another meaning than the weekday.
func (p *parser) acronym(at int) bool {
	t := p.toks[at]
	return homographs[t.fold] && t.fold[0] < 0x80 && p.capitals(p.text[t.coreStart:t.coreEnd])
}

// heads reports whether tokens from..to are a heading: "15.12: контрольная",
// "Понедельник — физика".
func (p *parser) heads(from, to int) bool {
	for i := range from {
		if !p.toks[i].punctuation() {
			return false
		}
	}
	trail := p.toks[to-1].trail
	if trail == "" && to < len(p.toks) && p.toks[to].punctuation() {
		trail = p.text[p.toks[to].start:p.toks[to].end]
	}
	return strings.ContainsAny(trail, ":–—-")
}

// inAWhile reads "через 2 дня", "через месяц", "in 3 days". "Через день" is
// left alone: for some it is tomorrow's tomorrow, for others every second day.
func (p *parser) inAWhile(prep string, at int) (candidate, bool) {
	w := p.word(at)
	if prep != "" && prep != "due" || w != "через" && w != "in" || !p.phrase(at) {
		return candidate{}, false
	}
	n, u, to := p.count(at + 1)
	c := candidate{to: to, rank: rankPlain}
	switch u {
	case day:
		if to == at+2 {
			return candidate{}, false
		}
		c.date = p.today.AddDays(n)
	case month:
		c.date = p.today.AddMonths(n)
	}
	return c, !c.date.IsZero()
}

// count reads "2 дня", "две недели", "a week", "неделю" (one).
func (p *parser) count(at int) (n int, u unit, to int) {
	if u := units[p.word(at)]; u != noUnit {
		return 1, u, at + 1
	}
	n, ok := small(p.word(at))
	if u = units[p.next(at)]; !ok || n < 1 || u == noUnit {
		return 0, noUnit, 0
	}
	return n, u, at + 2
}
