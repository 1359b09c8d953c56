// Package civil has a calendar date and a wall-clock time without a zone.
//
// A task is due "on Thursday" or "at 18:00": what the calendar and the clock on
// the wall show where the person is. Such a due is no moment, so nothing here
// converts one to a moment, and no daylight-saving change can move it. The only
// bridge is [Today], which asks which day it is for a person now.
//
// Not for log lines, expiry or sessions: those are moments, and want time.Time.
package civil

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// ErrFormat is wrapped by the errors of [ParseDate] and [ParseTime].
var ErrFormat = errors.New("civil: not in the expected form")

// Date is a day of the Gregorian calendar. It is comparable with ==; the zero
// Date means "no date", is not valid and prints as "".
type Date struct {
	Year  int        // 1 to 9999 in a valid date
	Month time.Month // 1 to 12
	Day   int        // 1 to the month's length
}

// Today is the date in the zone that now carries: convert with now.In(zone)
// first. Two people can have different todays at one moment.
func Today(now time.Time) Date {
	y, m, d := now.Date()
	return Date{y, m, d}
}

// ParseDate reads YYYY-MM-DD, and nothing else; a day that the calendar does
// not have, such as 2026-02-30, is an error too. Errors wrap [ErrFormat].
func ParseDate(s string) (Date, error) {
	if len(s) != len("2006-01-02") || s[4] != '-' || s[7] != '-' {
		return Date{}, fmt.Errorf("%w: date %.40q is not YYYY-MM-DD", ErrFormat, s)
	}
	y, ok1 := digits(s[0:4])
	m, ok2 := digits(s[5:7])
	day, ok3 := digits(s[8:10])
	d := Date{y, time.Month(m), day}
	if !ok1 || !ok2 || !ok3 || !d.Valid() {
		return Date{}, fmt.Errorf("%w: date %.40q is not a day of the calendar", ErrFormat, s)
	}
	return d, nil
}

// digits reads ASCII digits only: strconv would let a sign through.
func digits(s string) (int, bool) {
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// String is YYYY-MM-DD, or "" for the zero Date. For years 1 to 9999 the order
// of the strings is the order of the dates, which SQL relies on.
func (d Date) String() string {
	if d.IsZero() {
		return ""
	}
	return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day)
}

// IsZero reports whether d is the zero Date, "no date".
func (d Date) IsZero() bool { return d == Date{} }

// Valid reports whether the calendar has this day, in the years 1 to 9999.
func (d Date) Valid() bool {
	return d.Year >= 1 && d.Year <= 9999 && d.Month >= time.January && d.Month <= time.December &&
		d.Day >= 1 && d.Day <= DaysIn(d.Year, d.Month)
}

// DaysIn is the number of days in a month.
func DaysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// AddDays is the date n days later, or earlier for a negative n. The zero Date
// stays zero; a result outside the years 1 to 9999 is the zero Date.
func (d Date) AddDays(n int) Date {
	// Beyond ten thousand years either way nothing valid is reachable, and the
	// sum could overflow.
	const most = 366 * 10000
	if d.IsZero() || n < -most || n > most {
		return Date{}
	}
	return inRange(Today(d.utc().AddDate(0, 0, n)))
}

// AddMonths is the same day n months later, or that month's last day where it
// has no such day: 31 January and one month is 28 February. Do not apply it
// repeatedly to its own result, which drifts (31, 28, 28); package repeat
// counts from the series' start instead. Zero and range are as in AddDays.
func (d Date) AddMonths(n int) Date {
	if d.IsZero() || n < -12*10000 || n > 12*10000 {
		return Date{}
	}
	first := Today(time.Date(d.Year, d.Month+time.Month(n), 1, 0, 0, 0, 0, time.UTC))
	first.Day = min(d.Day, DaysIn(first.Year, first.Month))
	return inRange(first)
}

func inRange(d Date) Date {
	if !d.Valid() {
		return Date{}
	}
	return d
}

// Weekday is the day of the week.
func (d Date) Weekday() time.Weekday { return d.utc().Weekday() }

// Monday is the Monday of d's week; weeks begin on Monday (ISO 8601).
func (d Date) Monday() Date { return d.AddDays(-(int(d.Weekday()) + 6) % 7) }

// DaysSince is the number of days from o to d, negative when d is earlier.
func (d Date) DaysSince(o Date) int {
	return int(d.utc().Sub(o.utc()) / (24 * time.Hour))
}

// Compare is -1 when d is before o, 0 when they are one day, +1 when it is after.
func (d Date) Compare(o Date) int {
	return cmp.Or(cmp.Compare(d.Year, o.Year), cmp.Compare(d.Month, o.Month), cmp.Compare(d.Day, o.Day))
}

// Before reports whether d is earlier than o.
func (d Date) Before(o Date) bool { return d.Compare(o) < 0 }

// After reports whether d is later than o.
func (d Date) After(o Date) bool { return d.Compare(o) > 0 }

// Max is the later of two dates.
func Max(a, b Date) Date {
	if a.After(b) {
		return a
	}
	return b
}

// utc is d's midnight in UTC, where every day has 24 hours: only for counting.
func (d Date) utc() time.Time {
	return time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC)
}
