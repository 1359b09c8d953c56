// Package repeat has the rules by which a task comes again, and answers on
// which date it comes next.
//
// A rule is civil: it gives dates, never moments, so a change of the clocks
// cannot move an occurrence. Every answer is counted from the series' start and
// not from the last occurrence, so nothing drifts: a rule on the 31st gives 28
// February and then 31 March again, and every second week stays every second
// week after one was done late.
//
// Not for calendars at large: this is the part of RFC 5545 that a planner of
// homework needs. There is no COUNT, UNTIL, "second Tuesday" or time of day.
package repeat

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// ErrRule is wrapped by every error about a rule that is not one of ours.
var ErrRule = errors.New("repeat: not a rule")

// MaxInterval bounds Rule.Interval.
const MaxInterval = 999

// Freq is the unit that a rule counts in. The zero Freq means "does not repeat".
type Freq uint8

// The units.
const (
	Never Freq = iota
	Daily
	Weekly
	Monthly
)

// Rule says how a task repeats. It is comparable with ==; the zero Rule means
// that it does not. Where a field does not belong to the Freq it is zero.
type Rule struct {
	Freq Freq
	// Interval is 1 for every day, week or month, 2 for every second, and so on
	// up to MaxInterval, counted from the series' start. Weeks begin on Monday.
	Interval int
	// Days are the days of a Weekly rule. None means the weekday of the
	// series' start.
	Days Weekdays
	// MonthDay is the day of a Monthly rule, 1 to 31. Zero means the day of the
	// series' start. A month that has no such day gives its last day.
	MonthDay int
}

// Weekdays is a set of days of the week, comparable with ==.
type Weekdays uint8

// The sets that have a name in speech.
const (
	Workdays Weekdays = 1<<time.Monday | 1<<time.Tuesday | 1<<time.Wednesday | 1<<time.Thursday | 1<<time.Friday
	Weekend  Weekdays = 1<<time.Saturday | 1<<time.Sunday
)

const allDays = Workdays | Weekend

// DaysOf makes a set.
func DaysOf(days ...time.Weekday) Weekdays {
	var w Weekdays
	for _, d := range days {
		w |= 1 << d
	}
	return w
}

// Has reports whether d is in the set.
func (w Weekdays) Has(d time.Weekday) bool { return w&(1<<d) != 0 }

// Len is the number of days in the set.
func (w Weekdays) Len() int { return bits.OnesCount8(uint8(w)) }

// List has the days of the set, Monday first.
func (w Weekdays) List() []time.Weekday {
	var days []time.Weekday
	for i := range time.Weekday(7) {
		if d := (time.Monday + i) % 7; w.Has(d) {
			days = append(days, d)
		}
	}
	return days
}

// EveryDay is a daily rule.
func EveryDay() Rule { return Rule{Freq: Daily, Interval: 1} }

// EveryWeek is a weekly rule on the days of the set.
func EveryWeek(days Weekdays) Rule { return Rule{Freq: Weekly, Interval: 1, Days: days} }

// EveryMonth is a monthly rule on a day of the month.
func EveryMonth(day int) Rule { return Rule{Freq: Monthly, Interval: 1, MonthDay: day} }

// IsZero reports whether r is the zero Rule, "does not repeat".
func (r Rule) IsZero() bool { return r == Rule{} }

// Validate tells what is wrong with a rule that was not made by [Parse] or the
// constructors; the zero Rule is valid. Errors wrap [ErrRule].
func (r Rule) Validate() error {
	if r.IsZero() {
		return nil
	}
	switch {
	case r.Freq < Daily || r.Freq > Monthly:
		return fmt.Errorf("%w: unknown frequency %d", ErrRule, r.Freq)
	case r.Interval < 1 || r.Interval > MaxInterval:
		return fmt.Errorf("%w: interval %d is not 1 to %d", ErrRule, r.Interval, MaxInterval)
	case r.Days&^allDays != 0:
		return fmt.Errorf("%w: the set of days has an eighth", ErrRule)
	case r.Days != 0 && r.Freq != Weekly:
		return fmt.Errorf("%w: days of the week belong to a weekly rule", ErrRule)
	case r.MonthDay < 0 || r.MonthDay > 31:
		return fmt.Errorf("%w: day %d of a month", ErrRule, r.MonthDay)
	case r.MonthDay != 0 && r.Freq != Monthly:
		return fmt.Errorf("%w: a day of the month belongs to a monthly rule", ErrRule)
	}
	return nil
}
