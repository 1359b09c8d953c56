package quickadd

import (
	"strings"

	"github.com/onceward/onceward/planner/internal/civil"
)

var (
	timePreps = words("в во к ко до на at by until till before due @")
	// timeAsides before a time make it another thing than a due: "после 18:00".
	timeAsides = words("с со from около после after since between между перед around about от of по")
	hourWords  = words("ч час часа часов")
	rangeEnds  = words("до to till until по")
)

// timeAt reads a time of day, with its preposition.
func (p *parser) timeAt(i int) (candidate, bool) {
	prep, at := "", i
	whole := dayparts[p.word(i)] != "" && p.phrase(i) // "вечером в 8"
	if whole {
		at++
	}
	if timePreps[p.word(at)] && p.phrase(at) {
		prep, at = p.word(at), at+1
	}
	c, ok := p.clock(prep, at)
	if ok && dayparts[p.next(c.to-1)] != "" { // "в 8 вечером"
		whole = true
		c.to++
	}
	if !ok || p.content[at] || timeAsides[p.previous(i)] || p.rangeOfTimes(i, c.to, prep) {
		return candidate{}, false
	}
	c.from, c.kind, c.prep, c.atEnd = i, Time, prep, c.atEnd && !whole
	return c, !c.time.IsZero()
}

// clock reads the time itself.
func (p *parser) clock(prep string, at int) (candidate, bool) {
	w := p.word(at)
	if !startsWithDigit(w) && w != "час" {
		return candidate{}, false
	}
	h, m, suffix, colon, ok := split(w)
	if w == "час" { // "в час дня"
		h, ok = 1, p.next(at) == "дня" || p.next(at) == "ночи"
	}
	if !ok {
		return candidate{}, false
	}
	to := at + 1
	hours := false
	if suffix == "" && hourWords[p.next(at)] {
		hours, to = true, to+1
	} else if suffix == "" && !colon && measures[p.next(at)] {
		return candidate{}, false
	}
	if hourWords[suffix] || w == "час" {
		hours, suffix = true, ""
	}
	if part := p.next(to - 1); suffix == "" && partsOfDay[part] != nil {
		// "2 дня" is an amount, "3 часа дня" a time.
		if part != "дня" || hours || m >= 0 {
			suffix, to = part, to+1
		}
	}
	c := candidate{to: to}
	if suffix != "" {
		of := partsOfDay[suffix]
		if of == nil {
			return candidate{}, false
		}
		if strings.Contains(w, "-") {
			return candidate{}, false
		}
		c.time = of(h, max(m, 0))
		return c, true
	}
	in := prep == "в" || prep == "во" || prep == "at" || prep == "@"
	t, sure := civil.At(h, max(m, 0)), false
	if p.daypart != nil && p.daypart(h, max(m, 0)) != (civil.Time{}) {
		t, sure = p.daypart(h, max(m, 0)), true
	}
	switch {
	case colon:
		c.time = t
	case m >= 0 && strings.Contains(w, "-"): // "в 18-00"
		if in && (m == 0 || m == 30) {
			c.time = t
		}
	case m >= 0: // "в 18.00", or beside a date
		c.time, c.beside = t, !in
	case in && (h >= 8 || sure): // up to 7 it may be the evening
		c.time, c.atEnd = t, !hours
	}
	return c, true
}

// split reads 18, 9:05, 9.05, 18-00 and what is attached to it: 6pm, 18ч. The
// minutes are -1 where there are none.
func split(w string) (h, m int, suffix string, colon, ok bool) {
	number := strings.TrimRight(w, "abcdefghijklmnopqrstuvwxyzчасов")
	suffix = strings.ReplaceAll(w[len(number):], ".", "")
	if n := strings.IndexAny(number, ":.-"); n >= 0 {
		colon = number[n] == ':'
		minutes := number[n+1:]
		m, ok = digits(minutes, 2)
		if !ok || len(minutes) != 2 {
			return 0, 0, "", false, false
		}
		number = number[:n]
	} else {
		m = -1
	}
	h, ok = digits(number, 2)
	return h, m, suffix, colon, ok
}

// partsOfDay turn an hour of twelve into one of 24; a wrong one gives no time.
var partsOfDay = map[string]func(h, m int) civil.Time{
	"am": morning, "a.m": morning, "pm": afternoon, "p.m": afternoon,
	"утра": func(h, m int) civil.Time { return between(4, h, 11, m, 0) },
	"дня": func(h, m int) civil.Time {
		if h == 12 {
			return civil.At(12, m)
		}
		return between(1, h, 5, m, 12)
	},
	"вечера": func(h, m int) civil.Time {
		if h >= 16 { // "18:00 вечера"
			return civil.At(h, m)
		}
		return between(4, h, 11, m, 12)
	},
	// "12 ночи" is left alone: it is the end of one day and the start of another.
	"ночи": func(h, m int) civil.Time { return between(1, h, 4, m, 0) },
}

func morning(h, m int) civil.Time   { return between(1, h, 12, m, -h/12*12) }
func afternoon(h, m int) civil.Time { return between(1, h, 12, m, 12-h/12*12) }

// between is hour h plus so many, if h is in the range.
func between(from, h, to, m, plus int) civil.Time {
	if h < from || h > to {
		return civil.Time{}
	}
	return civil.At(h+plus, m)
}

// rangeOfTimes reports whether the time in tokens from..to is an end of "18:00
// - 19:30" or "с 18:00 до 19:30".
func (p *parser) rangeOfTimes(from, to int, prep string) bool {
	before := from - 1
	if !rangeEnds[prep] && !p.dash(before) && !rangeEnds[p.word(before)] {
		before = -1 // nothing joins the time to what precedes it
	} else if !rangeEnds[prep] {
		before--
	}
	return p.timeLike(before) || (p.dash(to) || rangeEnds[p.word(to)]) && p.timeLike(to+1)
}

func (p *parser) timeLike(i int) bool {
	w := p.word(i)
	return startsWithDigit(w) && (strings.Contains(w, ":") || timeAsides[p.previous(i)])
}

// dash reports whether token i is a dash and nothing else.
func (p *parser) dash(i int) bool {
	return i >= 0 && i < len(p.toks) && p.toks[i].punctuation() &&
		strings.Trim(p.text[p.toks[i].start:p.toks[i].end], "-–—") == ""
}
