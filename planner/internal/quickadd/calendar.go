package quickadd

import (
	"strings"
	"time"

	"github.com/onceward/onceward/planner/internal/civil"
)

// numericDate reads 15.12, 15.12.2026, 15.12.26 and 2026-12-15.
func (p *parser) numericDate(prep string, at int) (candidate, bool) {
	w := p.word(at)
	if !startsWithDigit(w) || p.content[at] {
		return candidate{}, false
	}
	if strings.Contains(w, "-") {
		d, err := civil.ParseDate(w)
		return candidate{to: at + 1, date: d}, err == nil && p.near(d)
	}
	parts := strings.Split(w, ".")
	dayOf, ok1 := digits(parts[0], 2)
	switch len(parts) {
	case 3:
		monthOf, ok2 := digits(parts[1], 2)
		year, ok3 := year(strings.TrimSuffix(parts[2], "г"))
		d := civil.Date{Year: year, Month: time.Month(monthOf), Day: dayOf}
		return candidate{to: p.afterYear(at), date: d}, ok1 && ok2 && ok3 && p.near(d)
	case 2:
		monthOf, ok2 := digits(parts[1], 2)
		d := p.coming(dayOf, time.Month(monthOf))
		// 4.5 is a mark, 4.05 a date.
		if !ok1 || !ok2 || len(parts[1]) != 2 || d.IsZero() || !datePrep(prep) || measures[p.next(at)] || partsOfDay[p.next(at)] != nil {
			return candidate{}, false
		}
		// Nobody numbers an exercise 03.12.
		plain := prep == "" && parts[0][0] != '0' && !events[p.previous(at)]
		c := candidate{to: at + 1, date: d, atEnd: plain && !p.heads(at, at+1)}
		in := prep == "в" || prep == "во"
		if (prep == "" || in) && monthOf%5 == 0 {
			c.time = civil.At(dayOf, monthOf) // "завтра 10.10" is a time, "завтра 15.12" hardly
		}
		// "В 9.10" is how a time is said, and no date.
		return c, !in || c.time.IsZero() || dayOf < 7
	}
	return candidate{}, false
}

// datePrep tells which prepositions stand before 15.12 and "15 декабря"; after
// с and from there may be a page as well, "с. 12".
func datePrep(prep string) bool { return !starts[prep] }

// afterYear is the token after at, without "г." or "года" of the year there.
func (p *parser) afterYear(at int) int {
	switch p.next(at) {
	case "г", "года", "год":
		return at + 2
	}
	return at + 1
}

// year reads 2026, or 26 for it.
func year(s string) (int, bool) {
	y, ok := digits(s, 4)
	switch len(s) {
	case 4:
		return y, ok
	case 2:
		return 2000 + y, ok
	}
	return 0, false
}

// near reports whether somebody can mean d as a due: "доклад 12.04.1961" is
// about that day.
func (p *parser) near(d civil.Date) bool {
	return d.Valid() && !d.Before(p.today.AddDays(-366)) && !d.After(p.today.AddDays(3660))
}

// coming is the first such day from today on, zero if no year has it. The 29th
// of February can be eight years off. A day of the month that has just passed
// is zero as well: was it meant for next year, or is it a slip? A task that
// waits a year is a task lost.
func (p *parser) coming(dayOf int, monthOf time.Month) civil.Date {
	for y := p.today.Year - 1; y <= p.today.Year+8; y++ {
		d := civil.Date{Year: y, Month: monthOf, Day: dayOf}
		switch {
		case !d.Valid() || d.Before(p.today.AddDays(-31)):
		case d.Before(p.today):
			return civil.Date{}
		default:
			return d
		}
	}
	return civil.Date{}
}

// monthDate reads "15 декабря", "15-го декабря 2026 г.", "Dec 15th", "15 May".
func (p *parser) monthDate(prep string, at int) (candidate, bool) {
	if prep == "в" || prep == "во" || !datePrep(prep) {
		return candidate{}, false
	}
	begins := at == 0
	if p.word(at) == "the" && p.phrase(at) {
		at++
	}
	var dayOf int
	var monthOf time.Month
	to := at + 2
	first, second := p.word(at), p.next(at)
	if n, ok := ordinal(first); ok && !p.content[at] {
		if second == "of" {
			second, to = p.next(at+1), at+3
		}
		dayOf, monthOf = n, months[second]
	} else if n, ok := ordinal(second); ok && months[first] != 0 && first[0] < 0x80 {
		dayOf, monthOf = n, months[first]
	}
	if monthOf == 0 || dayOf == 0 {
		return candidate{}, false
	}
	c := candidate{to: to, date: p.coming(dayOf, monthOf), atEnd: prep == "" && !begins}
	if y, ok := digits(p.yearAfter(to), 4); ok && y >= 1000 {
		c.to = p.afterYear(to)
		c.date = civil.Date{Year: y, Month: monthOf, Day: dayOf}
		c.atEnd = false
		return c, p.near(c.date)
	}
	return c, !c.date.IsZero()
}

// yearAfter is the word at i, also after the comma of "Dec 15, 2026".
func (p *parser) yearAfter(i int) string {
	if i < len(p.toks) && p.toks[i].lead == "" && (p.phrase(i-1) || p.toks[i-1].trail == ",") {
		return p.word(i)
	}
	return ""
}

// ordinal reads a day of a month: 15, 15th, 15-го, 15-е.
func ordinal(w string) (int, bool) {
	for _, suffix := range []string{"st", "nd", "rd", "th", "-го", "-ое", "-е", "-му", "го", "му", "е"} {
		if n, ok := strings.CutSuffix(w, suffix); ok {
			w = n
			break
		}
	}
	n, ok := digits(w, 2)
	return n, ok && n >= 1 && n <= 31
}

// dayOfMonth reads "15 числа", "к 15-му числу", "до 20-го", "on the 15th": the
// first such day from today on, in a month that has it.
func (p *parser) dayOfMonth(prep string, at int) (candidate, bool) {
	w, to, atEnd := p.word(at), at+1, false
	if p.content[min(at, len(p.toks)-1)] {
		return candidate{}, false
	}
	switch _, bare := digits(w, 2); {
	case startsWithDigit(w) && numberWord[p.next(at)]:
		to++
	case startsWithDigit(w) && !bare && endsIn("00"+w, "го", "му"):
		atEnd = true // "до 5-го класса"
	case w == "the" && (prep == "on" || prep == "by" || prep == "due on" || prep == "due by"):
		w = p.next(at)
		to++
		if _, bare := digits(w, 2); bare {
			return candidate{}, false // "on the 15 pages"
		}
	default:
		return candidate{}, false
	}
	n, ok := ordinal(w)
	if !ok {
		return candidate{}, false
	}
	first := p.today.AddDays(1 - p.today.Day)
	for i := range 3 {
		d := first.AddMonths(i)
		d.Day = n
		if d.Valid() && !d.Before(p.today) {
			return candidate{to: to, date: d, monthDay: n, atEnd: atEnd}, true
		}
	}
	return candidate{}, false
}

var numberWord = words("числа число числу")
