package repeat

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var freqNames = [...]string{Daily: "DAILY", Weekly: "WEEKLY", Monthly: "MONTHLY"}

// dayNames is indexed by time.Weekday.
var dayNames = [...]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

// String is the rule as it is stored: a value of RFC 5545 section 3.3.10
// without the name RRULE, such as "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE", always
// in this order and with INTERVAL only when it is not 1. The zero Rule is "".
//
// One meaning is ours: RFC 5545 skips a month that has no day 31, and
// BYMONTHDAY=31 here takes that month's last day (what RFC 7529 calls
// SKIP=BACKWARD). An exporter of calendars writes
// BYMONTHDAY=28,29,30,31;BYSETPOS=-1 for that.
func (r Rule) String() string {
	if r.IsZero() {
		return ""
	}
	if err := r.Validate(); err != nil {
		return "FREQ=?" // no valid rule, and Parse says so
	}
	var b strings.Builder
	b.WriteString("FREQ=" + freqNames[r.Freq])
	if r.Interval != 1 {
		b.WriteString(";INTERVAL=" + strconv.Itoa(r.Interval))
	}
	for i, d := range r.Days.List() {
		b.WriteString([]string{";BYDAY=", ","}[min(i, 1)] + dayNames[d])
	}
	if r.MonthDay != 0 {
		b.WriteString(";BYMONTHDAY=" + strconv.Itoa(r.MonthDay))
	}
	return b.String()
}

// Parse reads what String writes, with the parts in any order and in either
// case, as RFC 5545 allows. "" is the zero Rule. A part that we do not know, and
// a part given twice, is an error: to pass over a COUNT or an UNTIL would be
// to promise another series than the one that was asked for. Errors wrap
// [ErrRule].
func Parse(s string) (Rule, error) {
	if s == "" {
		return Rule{}, nil
	}
	if len(s) > 200 {
		return Rule{}, fmt.Errorf("%w: it is %d bytes long", ErrRule, len(s))
	}
	for i := range len(s) {
		// Upper-casing would make an I of a dotless i, and so on.
		if s[i] < ' ' || s[i] > '~' {
			return Rule{}, fmt.Errorf("%w: %q is not plain ASCII", ErrRule, s)
		}
	}
	r := Rule{Interval: 1}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(strings.ToUpper(s), ";") {
		name, value, _ := strings.Cut(part, "=")
		if seen[name] {
			return Rule{}, fmt.Errorf("%w: %.40q comes twice in %q", ErrRule, name, s)
		}
		seen[name] = true
		if err := r.set(name, value); err != nil {
			return Rule{}, fmt.Errorf("%w in %q", err, s)
		}
	}
	if err := r.Validate(); err != nil {
		return Rule{}, err
	}
	return r, nil
}

func (r *Rule) set(name, value string) error {
	var err error
	switch name {
	case "FREQ":
		for f, n := range freqNames {
			if n != "" && n == value {
				r.Freq = Freq(f)
				return nil
			}
		}
		return fmt.Errorf("%w: FREQ=%.20s is not DAILY, WEEKLY or MONTHLY", ErrRule, value)
	case "INTERVAL":
		r.Interval, err = number(value, MaxInterval)
	case "BYMONTHDAY":
		r.MonthDay, err = number(value, 31)
	case "BYDAY":
		r.Days, err = parseDays(value)
	default:
		return fmt.Errorf("%w: unknown part %.40q", ErrRule, name)
	}
	return err
}

func parseDays(value string) (Weekdays, error) {
	var days Weekdays
next:
	for v := range strings.SplitSeq(value, ",") {
		for d, n := range dayNames {
			if v == n {
				days |= DaysOf(time.Weekday(d))
				continue next
			}
		}
		return 0, fmt.Errorf("%w: %.20q is no day of the week", ErrRule, v)
	}
	return days, nil
}

// number reads 1 to most without sign or leading zero, so that one rule has
// one text.
func number(s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most || strconv.Itoa(n) != s {
		return 0, fmt.Errorf("%w: %.20q is not a number from 1 to %d", ErrRule, s, most)
	}
	return n, nil
}
