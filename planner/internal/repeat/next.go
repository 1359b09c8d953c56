package repeat

import (
	"time"

	"github.com/onceward/onceward/planner/internal/civil"
)

// Next is the first occurrence strictly after the date after. The series
// begins at dtstart: no occurrence is earlier, and dtstart itself is one only if
// the rule gives it.
//
// Someone who has done an occurrence late does not want the ones in between:
// ask with civil.Max(occurrence, today), and the next one is in the future
// however long the task lay.
//
// The result is the zero Date when the rule does not repeat or is invalid, when
// a date is zero, and past the year 9999.
func Next(rule Rule, dtstart, after civil.Date) civil.Date {
	if rule.Freq == Never || rule.Validate() != nil || !dtstart.Valid() || !after.Valid() {
		return civil.Date{}
	}
	from := after.AddDays(1)
	if from.IsZero() {
		return civil.Date{}
	}
	from = civil.Max(dtstart, from)
	switch rule.Freq {
	case Daily:
		return from.AddDays(toMultiple(from.DaysSince(dtstart), rule.Interval))
	case Weekly:
		return nextWeekly(rule, dtstart, from)
	}
	return nextMonthly(rule, dtstart, from)
}

// First is the first occurrence on or after from of a series that begins then.
func First(rule Rule, from civil.Date) civil.Date {
	if day := from.AddDays(-1); !day.IsZero() {
		return Next(rule, from, day)
	}
	return civil.Date{}
}

func nextWeekly(rule Rule, dtstart, from civil.Date) civil.Date {
	days := rule.Days
	if days == 0 {
		days = DaysOf(dtstart.Weekday())
	}
	week := from.Monday()
	wait := toMultiple(week.DaysSince(dtstart.Monday())/7, rule.Interval)
	if wait == 0 {
		if d := dayInWeek(days, week, from); !d.IsZero() {
			return d
		}
		wait = rule.Interval
	}
	monday := week.AddDays(7 * wait)
	if monday.IsZero() {
		return civil.Date{}
	}
	return dayInWeek(days, monday, monday)
}

// dayInWeek is the first of days in the week of that Monday, from a date on.
func dayInWeek(days Weekdays, monday, from civil.Date) civil.Date {
	for i := range 7 {
		d := monday.AddDays(i)
		if !d.IsZero() && !d.Before(from) && days.Has((time.Monday+time.Weekday(i))%7) {
			return d
		}
	}
	return civil.Date{}
}

func nextMonthly(rule Rule, dtstart, from civil.Date) civil.Date {
	day := rule.MonthDay
	if day == 0 {
		day = dtstart.Day
	}
	months := func(d civil.Date) int { return d.Year*12 + int(d.Month) - 1 }
	at := months(from)
	at += toMultiple(at-months(dtstart), rule.Interval)
	if d := dayInMonth(at, day); !d.Valid() || !d.Before(from) {
		return valid(d)
	}
	return valid(dayInMonth(at+rule.Interval, day))
}

// dayInMonth counts from the rule's day each time; from the last answer, 31
// would become 28 and stay so.
func dayInMonth(months, day int) civil.Date {
	year, month := months/12, time.Month(months%12+1)
	return civil.Date{Year: year, Month: month, Day: min(day, civil.DaysIn(year, month))}
}

func valid(d civil.Date) civil.Date {
	if !d.Valid() {
		return civil.Date{}
	}
	return d
}

// toMultiple is what is missing from n to the next multiple of step; n ≥ 0.
func toMultiple(n, step int) int { return (step - n%step) % step }
