package civil

import (
	"fmt"
	"time"
)

// Time is a wall-clock time of a day, to the minute. It is comparable with ==;
// the zero Time means "no time", which is another thing than midnight.
type Time struct {
	n uint16 // minutes since midnight plus one, so that zero is "none"
}

// At is the time hour:minute, or the zero Time when the day has no such time.
func At(hour, minute int) Time {
	if hour < 0 || hour > 23 || minute < 0 || minute > 59 {
		return Time{}
	}
	return Time{uint16(hour*60 + minute + 1)}
}

// TimeOf is what the clock on the wall shows in the zone that now carries.
func TimeOf(now time.Time) Time { return At(now.Hour(), now.Minute()) }

// ParseTime reads HH:MM with two digits each, 00:00 to 23:59, and nothing else.
// Errors wrap [ErrFormat].
func ParseTime(s string) (Time, error) {
	if len(s) == len("15:04") && s[2] == ':' {
		h, ok1 := digits(s[:2])
		m, ok2 := digits(s[3:])
		if t := At(h, m); ok1 && ok2 && !t.IsZero() {
			return t, nil
		}
	}
	return Time{}, fmt.Errorf("%w: time %.40q is not HH:MM", ErrFormat, s)
}

// IsZero reports whether there is no time.
func (t Time) IsZero() bool { return t.n == 0 }

// Hour is 0 to 23; 0 for the zero Time.
func (t Time) Hour() int { return max(int(t.n)-1, 0) / 60 }

// Minute is 0 to 59; 0 for the zero Time.
func (t Time) Minute() int { return max(int(t.n)-1, 0) % 60 }

// Before reports whether t is earlier in the day than o; "no time" is before
// every time.
func (t Time) Before(o Time) bool { return t.n < o.n }

// String is HH:MM, or "" for the zero Time.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%02d:%02d", t.Hour(), t.Minute())
}
