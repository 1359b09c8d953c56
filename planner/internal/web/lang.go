package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
)

// lang speaks one of the planner's two languages. The words stand side by side
// in words.go. A catalogue of our own, because the two things that we need (a
// line by name, and the plural of a whole number in Russian and English) are
// thirty lines, while the library's lines would be loaded, merged and looked up
// at run time, where one that is missing in one language is found by a reader;
// here it is found by the compiler and a test.
type lang int

const (
	ru lang = iota
	en
)

// langOf chooses by the account's setting, or "" for nobody's, and then by
// Accept-Language: the first of the two that it names.
func langOf(locale string, r *http.Request) lang {
	switch locale {
	case "ru":
		return ru
	case "en":
		return en
	}
	for member := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		switch tag, _, _ := strings.Cut(strings.TrimSpace(member), ";"); strings.ToLower(tag[:min(2, len(tag))]) {
		case "ru":
			return ru
		case "en":
			return en
		}
	}
	return ru
}

// Code is the language's tag, for the lang attribute.
func (l lang) Code() string { return [...]string{"ru", "en"}[l] }

// T is the line of that name, with its blanks filled in. A name that does not
// exist is a mistake in the program; the test of the templates finds it.
func (l lang) T(name string, args ...any) string {
	line, ok := words[name]
	if !ok {
		panic("planner: no words for " + strconv.Quote(name))
	}
	if len(args) == 0 {
		return line[l]
	}
	return fmt.Sprintf(line[l], args...)
}

// N is the line of that name for n things.
func (l lang) N(name string, n int) string {
	forms, ok := counts[name]
	if !ok {
		panic("planner: no plural for " + strconv.Quote(name))
	}
	return fmt.Sprintf(forms[l][l.plural(n)], n)
}

// plural is the CLDR plural category of a whole number as an index into a line's
// forms: one, few, many in Russian (21 is "one", 12 is "many"), one and other in
// English.
func (l lang) plural(n int) int {
	if n < 0 {
		n = -n
	}
	if l == en {
		if n == 1 {
			return 0
		}
		return 1
	}
	switch tens, units := n%100/10, n%10; {
	case units == 1 && tens != 1:
		return 0
	case units >= 2 && units <= 4 && tens != 1:
		return 1
	}
	return 2
}

// DayLong is the date as a page's head has it: «Воскресенье, 29 ноября».
func (l lang) DayLong(d civil.Date) string {
	day := weekdays[l][d.Weekday()].long
	if l == en {
		return fmt.Sprintf("%s, %d %s", day, d.Day, months[l][d.Month-1].long)
	}
	return fmt.Sprintf("%s, %d %s", day, d.Day, months[l][d.Month-1].long)
}

// Day is the date as a chip has it, seen from today: «завтра», «чт 3 дек», with
// the year where it is not this one.
func (l lang) Day(d, today civil.Date) string {
	switch d.DaysSince(today) {
	case -1:
		return l.T("yesterday")
	case 0:
		return l.T("today.chip")
	case 1:
		return l.T("tomorrow.chip")
	}
	s := fmt.Sprintf("%s %d %s", weekdays[l][d.Weekday()].short, d.Day, months[l][d.Month-1].short)
	if d.Year != today.Year {
		s += " " + strconv.Itoa(d.Year)
	}
	return s
}

// Repeat says how a rule repeats: «каждый понедельник», "every 2 weeks: Mon,
// Wed".
func (l lang) Repeat(r repeat.Rule) string {
	switch {
	case r.IsZero():
		return ""
	case r.Freq == repeat.Daily && r.Interval == 1:
		return l.T("repeat.daily")
	case r.Freq == repeat.Daily:
		return l.N("repeat.days", r.Interval)
	case r.Freq == repeat.Monthly && r.Interval == 1:
		return l.T("repeat.monthly")
	case r.Freq == repeat.Monthly:
		return l.N("repeat.months", r.Interval)
	case r.Interval == 1 && r.Days == repeat.Workdays:
		return l.T("repeat.workdays")
	case r.Interval == 1 && r.Days == repeat.Weekend:
		return l.T("repeat.weekend")
	case r.Interval == 1 && r.Days.Len() == 1:
		return weekdays[l][r.Days.List()[0]].every
	}
	var days []string
	for _, d := range r.Days.List() {
		days = append(days, weekdays[l][d].short)
	}
	s := l.T("repeat.weekly")
	if r.Interval > 1 {
		s = l.N("repeat.weeks", r.Interval)
	}
	if len(days) > 0 {
		s += ": " + strings.Join(days, ", ")
	}
	return s
}

type dayName struct{ long, short, every string }

var weekdays = [...][7]dayName{
	ru: {
		time.Sunday:    {"Воскресенье", "вс", "каждое воскресенье"},
		time.Monday:    {"Понедельник", "пн", "каждый понедельник"},
		time.Tuesday:   {"Вторник", "вт", "каждый вторник"},
		time.Wednesday: {"Среда", "ср", "каждую среду"},
		time.Thursday:  {"Четверг", "чт", "каждый четверг"},
		time.Friday:    {"Пятница", "пт", "каждую пятницу"},
		time.Saturday:  {"Суббота", "сб", "каждую субботу"},
	},
	en: {
		time.Sunday:    {"Sunday", "Sun", "every Sunday"},
		time.Monday:    {"Monday", "Mon", "every Monday"},
		time.Tuesday:   {"Tuesday", "Tue", "every Tuesday"},
		time.Wednesday: {"Wednesday", "Wed", "every Wednesday"},
		time.Thursday:  {"Thursday", "Thu", "every Thursday"},
		time.Friday:    {"Friday", "Fri", "every Friday"},
		time.Saturday:  {"Saturday", "Sat", "every Saturday"},
	},
}

type monthName struct{ long, short string }

var months = [...][12]monthName{
	ru: {
		{"января", "янв"}, {"февраля", "фев"}, {"марта", "мар"}, {"апреля", "апр"}, {"мая", "мая"}, {"июня", "июн"},
		{"июля", "июл"}, {"августа", "авг"}, {"сентября", "сен"}, {"октября", "окт"}, {"ноября", "ноя"}, {"декабря", "дек"},
	},
	en: {
		{"January", "Jan"}, {"February", "Feb"}, {"March", "Mar"}, {"April", "Apr"}, {"May", "May"}, {"June", "Jun"},
		{"July", "Jul"}, {"August", "Aug"}, {"September", "Sep"}, {"October", "Oct"}, {"November", "Nov"}, {"December", "Dec"},
	},
}
