package quickadd

import (
	"strings"
	"time"

	"github.com/onceward/onceward/planner/internal/repeat"
)

// phrase is a repetition by itself. A rule of a week or month without a day
// takes it from the task's date.
type phrase struct {
	words []string
	rule  repeat.Rule
	atEnd bool
}

// phrases are found by their first word, longer ones first.
var phrases = func() map[string][]phrase {
	m := map[string][]phrase{}
	for _, f := range phraseList {
		w := strings.Fields(f.words)
		m[w[0]] = append(m[w[0]], phrase{w, f.rule, f.atEnd})
	}
	return m
}()

var phraseList = []struct {
	words string
	rule  repeat.Rule
	atEnd bool
}{
	{"каждый будний день", repeat.EveryWeek(repeat.Workdays), false},
	{"по будним дням", repeat.EveryWeek(repeat.Workdays), false},
	{"по выходным дням", repeat.EveryWeek(repeat.Weekend), false},
	{"every other day", repeat.Rule{Freq: repeat.Daily, Interval: 2}, false},
	{"every other week", repeat.Rule{Freq: repeat.Weekly, Interval: 2}, false},
	{"every other month", repeat.Rule{Freq: repeat.Monthly, Interval: 2}, false},
	{"по будням", repeat.EveryWeek(repeat.Workdays), false},
	{"в будни", repeat.EveryWeek(repeat.Workdays), false},
	{"каждые будни", repeat.EveryWeek(repeat.Workdays), false},
	{"по выходным", repeat.EveryWeek(repeat.Weekend), false},
	{"каждые выходные", repeat.EveryWeek(repeat.Weekend), false},
	{"каждый выходной", repeat.EveryWeek(repeat.Weekend), false},
	{"every weekday", repeat.EveryWeek(repeat.Workdays), false},
	{"on weekdays", repeat.EveryWeek(repeat.Workdays), false},
	{"every weekend", repeat.EveryWeek(repeat.Weekend), false},
	{"on weekends", repeat.EveryWeek(repeat.Weekend), false},
	{"ежедневно", repeat.EveryDay(), false},
	{"еженедельно", repeat.EveryWeek(0), false},
	{"ежемесячно", repeat.EveryMonth(0), false},
	// "Weekly report" is a report.
	{"weekdays", repeat.EveryWeek(repeat.Workdays), true},
	{"weekends", repeat.EveryWeek(repeat.Weekend), true},
	{"daily", repeat.EveryDay(), true},
	{"weekly", repeat.EveryWeek(0), true},
	{"monthly", repeat.EveryMonth(0), true},
}

// repeatAt reads a repetition at token i.
func (p *parser) repeatAt(i int) (candidate, bool) {
	at := i
	if w := p.word(i); (w == "в" || w == "on") && everyWords[p.next(i)] {
		at++
	}
	c, ok := p.repetition(at)
	if !ok || p.previous(i) == "на" { // "рецепты на каждый день"
		return candidate{}, false
	}
	c.from, c.kind = i, Repeat
	return c, true
}

func (p *parser) repetition(at int) (candidate, bool) {
	w := p.word(at)
	for _, f := range phrases[w] {
		if p.follows(at, f.words) {
			return candidate{to: at + len(f.words), rule: f.rule, atEnd: f.atEnd}, true
		}
	}
	switch {
	case everyWords[w] && p.phrase(at):
		return p.every(at + 1)
	case (w == "по" || w == "on") && p.phrase(at):
		set, to := p.dayList(at+1, map[bool]form{true: plural | short, false: plural}[w == "по"])
		return candidate{to: to, rule: repeat.EveryWeek(set)}, set != 0
	case w == "раз" && p.next(at) == "в":
		return p.times(at)
	case (w == "1" || w == "один") && p.next(at) == "раз" && p.next(at+1) == "в":
		return p.times(at + 1)
	case days[w].form == plural && w[0] < 0x80:
		set, to := p.dayList(at, plural)
		return candidate{to: to, rule: repeat.EveryWeek(set), atEnd: true}, true
	}
	return candidate{}, false
}

// follows reports whether the words stand at token at, as one expression.
func (p *parser) follows(at int, words []string) bool {
	for i, w := range words {
		if p.word(at+i) != w || i > 0 && !p.phrase(at+i-1) {
			return false
		}
	}
	return true
}

// every reads what stands after "каждый" and "every".
func (p *parser) every(at int) (candidate, bool) {
	if set, to := p.dayList(at, nominative|accusative|short); set != 0 {
		return candidate{to: to, rule: repeat.EveryWeek(set)}, true
	}
	if n, u, to := p.count(at); u != noUnit {
		return candidate{to: to, rule: everyUnit(n, u)}, true
	}
	if n, ok := ordinal(p.word(at)); ok && numberWord[p.next(at)] { // "каждое 15 число"
		return candidate{to: at + 2, rule: repeat.EveryMonth(n)}, true
	}
	return candidate{}, false
}

func everyUnit(n int, u unit) repeat.Rule {
	return repeat.Rule{Freq: map[unit]repeat.Freq{day: repeat.Daily, week: repeat.Weekly, month: repeat.Monthly}[u], Interval: n}
}

// times reads "раз в неделю", "1 раз в 2 недели"; "5 раз в неделю" is no rule of ours.
func (p *parser) times(at int) (candidate, bool) {
	n, u, to := p.count(at + 2)
	many := startsWithDigit(p.previous(at)) && p.previous(at) != "1" || numbers[p.previous(at)] > 1
	if u == noUnit || !p.phrase(at+1) || many {
		return candidate{}, false
	}
	return candidate{to: to, rule: everyUnit(n, u)}, true
}

// dayList reads weekdays of those forms: "пн, ср и пт", "вторник и каждый
// четверг", "пн/ср", "пн-пт".
func (p *parser) dayList(at int, forms form) (set repeat.Weekdays, to int) {
	for {
		more := dayToken(p.word(at), forms)
		if more == 0 {
			return set, to
		}
		set, to = set|more, at+1
		switch {
		case joints[p.next(at)] && p.phrase(at+1):
			at += 2
		case shortDay(p.next(at)) && p.next(at+1) != "по": // "по вт чт", but "пн ср по физике"
			at++
		case at+1 < len(p.toks) && p.toks[at].trail == "," && p.toks[at+1].lead == "":
			at++
		default:
			return set, to
		}
		if w := p.word(at); (everyWords[w] || w == "по" || w == "в" || w == "on") && p.phrase(at) {
			at++
		}
	}
}

func shortDay(w string) bool { return days[w].form&short != 0 }

// dayToken reads one token of weekdays, which may name several.
func dayToken(w string, forms form) repeat.Weekdays {
	if d, ok := days[w]; ok && d.form&forms != 0 {
		return repeat.DaysOf(d.day)
	}
	var set repeat.Weekdays
	var last time.Weekday
	open := false // after a dash, up to and including the next day
	for len(w) > 0 {
		n := strings.IndexAny(w, ",/+-–")
		if n < 0 {
			n = len(w)
		}
		d, ok := days[w[:n]]
		if !ok || d.form&forms == 0 {
			return 0
		}
		for day := last; open && day != d.day; day = (day + 1) % 7 {
			set |= repeat.DaysOf(day)
		}
		set |= repeat.DaysOf(d.day)
		last = d.day
		w = w[n:]
		if w == "" {
			return set
		}
		open = w[0] == '-' || strings.HasPrefix(w, "–")
		w = strings.TrimPrefix(strings.TrimPrefix(w, "–"), string(w[0]))
	}
	return 0
}
