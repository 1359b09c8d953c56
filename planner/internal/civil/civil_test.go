package civil_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"math"
	"testing"
	"time"
	_ "time/tzdata" // the tests need real zones, also where the system has none

	"github.com/onceward/onceward/planner/internal/civil"
)

var (
	_ driver.Valuer = civil.Date{}
	_ driver.Valuer = civil.Time{}
	_ sql.Scanner   = (*civil.Date)(nil)
	_ sql.Scanner   = (*civil.Time)(nil)
)

func date(t *testing.T, s string) civil.Date {
	t.Helper()
	if s == "" {
		return civil.Date{}
	}
	d, err := civil.ParseDate(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestADateParsesAndPrintsAsISO(t *testing.T) {
	for _, s := range []string{"2026-11-29", "2028-02-29", "0001-01-01", "9999-12-31", "2000-02-29"} {
		if got := date(t, s).String(); got != s {
			t.Errorf("ParseDate(%q) prints %q", s, got)
		}
	}
	for _, s := range []string{"", "2026-11-9", "2026-1-29", "26-11-29", "2026/11/29", "2026-02-29", "2026-02-30",
		"2026-13-01", "2026-00-10", "2026-10-00", "2026-11-31", "1900-02-29", "0000-01-01", "+026-01-01", "2026-+1-01",
		"2026-11-29 ", " 2026-11-29", "2026-11-29T00:00", "２０２６-11-29", "2026-11-2\x00", "-001-01-01"} {
		if d, err := civil.ParseDate(s); !errors.Is(err, civil.ErrFormat) || !d.IsZero() {
			t.Errorf("ParseDate(%q) = %v, %v; want no date and ErrFormat", s, d, err)
		}
	}
}

func TestAddingDaysFollowsTheCalendar(t *testing.T) {
	for _, c := range []struct {
		from string
		n    int
		want string
	}{
		{"2026-11-29", 0, "2026-11-29"},
		{"2026-11-29", 1, "2026-11-30"},
		{"2026-11-30", 1, "2026-12-01"},
		{"2026-12-31", 1, "2027-01-01"},
		{"2027-01-01", -1, "2026-12-31"},
		{"2028-02-28", 1, "2028-02-29"},
		{"2027-02-28", 1, "2027-03-01"},
		{"2026-11-29", 366, "2027-11-30"},
		{"9999-12-31", 1, ""},
		{"0001-01-01", -1, ""},
		{"2026-11-29", math.MaxInt, ""},
		{"2026-11-29", math.MinInt, ""},
		{"", 5, ""},
	} {
		if got := date(t, c.from).AddDays(c.n).String(); got != c.want {
			t.Errorf("%q and %d days = %q, want %q", c.from, c.n, got, c.want)
		}
	}
}

func TestAddingMonthsEndsAtTheMonthsEnd(t *testing.T) {
	for _, c := range []struct {
		from string
		n    int
		want string
	}{
		{"2027-01-31", 1, "2027-02-28"},
		{"2028-01-31", 1, "2028-02-29"},
		{"2027-01-31", 2, "2027-03-31"},
		{"2027-01-31", 3, "2027-04-30"},
		{"2026-12-15", 1, "2027-01-15"},
		{"2026-01-15", -1, "2025-12-15"},
		{"2026-03-31", -1, "2026-02-28"},
		{"2026-03-31", -25, "2024-02-29"},
		{"9999-12-01", 1, ""},
		{"2026-03-31", math.MaxInt, ""},
		{"2026-03-31", math.MinInt, ""},
		{"", 1, ""},
	} {
		if got := date(t, c.from).AddMonths(c.n).String(); got != c.want {
			t.Errorf("%q and %d months = %q, want %q", c.from, c.n, got, c.want)
		}
	}
}

func TestEveryDayOfACenturyAgreesWithTheDayBefore(t *testing.T) {
	d := civil.Date{Year: 1999, Month: time.December, Day: 31}
	for at := time.Friday; d.Year < 2101; at = (at + 1) % 7 {
		if d.Weekday() != at {
			t.Fatalf("%v is a %v, the day before says %v", d, d.Weekday(), at)
		}
		m := d.Monday()
		if n := d.DaysSince(m); m.Weekday() != time.Monday || n < 0 || n > 6 {
			t.Fatalf("the Monday of %v is %v", d, m)
		}
		next := d.AddDays(1)
		if next.DaysSince(d) != 1 || !next.After(d) || !d.Before(next) || d.Compare(d) != 0 || next.String() <= d.String() {
			t.Fatalf("%v and %v are out of order", d, next)
		}
		if back := next.AddDays(-1); back != d {
			t.Fatalf("%v a day back is %v", next, back)
		}
		d = next
	}
}

func TestComparingLooksAtYearThenMonthThenDay(t *testing.T) {
	ordered := []string{"2025-12-31", "2026-01-01", "2026-01-02", "2026-02-01", "2026-12-01", "2027-01-01"}
	for i, a := range ordered {
		for j, b := range ordered {
			da, db := date(t, a), date(t, b)
			want := map[bool]int{i < j: -1, i > j: 1}[true]
			if i == j {
				want = 0
			}
			if got := da.Compare(db); got != want {
				t.Errorf("%v.Compare(%v) = %d, want %d", a, b, got, want)
			}
			if got := civil.Max(da, db); got != date(t, ordered[max(i, j)]) {
				t.Errorf("Max(%v, %v) = %v", a, b, got)
			}
		}
	}
}

// One moment is two dates; the person's zone decides.
func TestTodayIsTheDateInThePersonsZone(t *testing.T) {
	for _, c := range []struct{ utc, zone, today, clock string }{
		{"2026-11-29T21:50:00Z", "Europe/Kaliningrad", "2026-11-29", "23:50"},
		{"2026-11-29T22:10:00Z", "Europe/Kaliningrad", "2026-11-30", "00:10"},
		{"2026-11-29T20:50:00Z", "Europe/Moscow", "2026-11-29", "23:50"},
		{"2026-11-29T21:10:00Z", "Europe/Moscow", "2026-11-30", "00:10"},
		{"2026-11-29T11:50:00Z", "Asia/Kamchatka", "2026-11-29", "23:50"},
		{"2026-11-29T12:10:00Z", "Asia/Kamchatka", "2026-11-30", "00:10"},
		{"2026-12-31T21:10:00Z", "Europe/Moscow", "2027-01-01", "00:10"},
		{"2026-11-29T23:59:59Z", "UTC", "2026-11-29", "23:59"},
		// Auckland's clocks go forward on 27 September 2026 and back on 4 April 2027.
		{"2026-09-26T11:59:59Z", "Pacific/Auckland", "2026-09-26", "23:59"},
		{"2026-09-26T12:00:00Z", "Pacific/Auckland", "2026-09-27", "00:00"},
		{"2026-09-27T10:59:59Z", "Pacific/Auckland", "2026-09-27", "23:59"},
		{"2026-09-27T11:00:00Z", "Pacific/Auckland", "2026-09-28", "00:00"},
		{"2027-04-04T11:59:59Z", "Pacific/Auckland", "2027-04-04", "23:59"},
		{"2027-04-04T12:00:00Z", "Pacific/Auckland", "2027-04-05", "00:00"},
		// Berlin's go back on 25 October 2026.
		{"2026-10-24T21:59:59Z", "Europe/Berlin", "2026-10-24", "23:59"},
		{"2026-10-25T22:59:59Z", "Europe/Berlin", "2026-10-25", "23:59"},
		{"2026-10-25T23:00:00Z", "Europe/Berlin", "2026-10-26", "00:00"},
		// Santiago skips midnight on 6 September 2026: 00:00 does not exist, the day does.
		{"2026-09-06T03:59:59Z", "America/Santiago", "2026-09-05", "23:59"},
		{"2026-09-06T04:00:00Z", "America/Santiago", "2026-09-06", "01:00"},
		// Samoa had no 30 December 2011.
		{"2011-12-30T09:59:59Z", "Pacific/Apia", "2011-12-29", "23:59"},
		{"2011-12-30T10:00:00Z", "Pacific/Apia", "2011-12-31", "00:00"},
	} {
		utc, err := time.Parse(time.RFC3339, c.utc)
		if err != nil {
			t.Fatal(err)
		}
		now := utc.In(zone(t, c.zone))
		if got := civil.Today(now).String(); got != c.today {
			t.Errorf("%s in %s: today is %s, want %s", c.utc, c.zone, got, c.today)
		}
		if got := civil.TimeOf(now).String(); got != c.clock {
			t.Errorf("%s in %s: the clock shows %s, want %s", c.utc, c.zone, got, c.clock)
		}
	}
}

func TestATimeKnowsMidnightFromNone(t *testing.T) {
	midnight, none := civil.At(0, 0), civil.Time{}
	if midnight.IsZero() || !none.IsZero() || midnight == none || !none.Before(midnight) {
		t.Error("midnight is taken for no time")
	}
	if midnight.String() != "00:00" || none.String() != "" {
		t.Errorf("midnight prints %q, none %q", midnight, none)
	}
	for h := range 24 {
		for m := range 60 {
			at := civil.At(h, m)
			back, err := civil.ParseTime(at.String())
			if err != nil || back != at || at.Hour() != h || at.Minute() != m {
				t.Fatalf("%d:%d becomes %v, %v, %v", h, m, at, back, err)
			}
		}
	}
	for _, c := range [][2]int{{24, 0}, {-1, 0}, {0, 60}, {0, -1}, {99, 99}} {
		if got := civil.At(c[0], c[1]); !got.IsZero() {
			t.Errorf("At(%d, %d) = %v", c[0], c[1], got)
		}
	}
	for _, s := range []string{"", "9:00", "24:00", "12:60", "12-30", "12:3", "+1:00", "12:30:00", " 12:30"} {
		if got, err := civil.ParseTime(s); !errors.Is(err, civil.ErrFormat) || !got.IsZero() {
			t.Errorf("ParseTime(%q) = %v, %v; want none and ErrFormat", s, got, err)
		}
	}
}

func TestColumnsHoldTextOrNull(t *testing.T) {
	v, err := date(t, "2026-11-29").Value()
	if err != nil || v != "2026-11-29" {
		t.Errorf("a date is stored as %v, %v", v, err)
	}
	if v, err := (civil.Date{}).Value(); err != nil || v != nil {
		t.Errorf("no date is stored as %v, %v", v, err)
	}
	if v, err := (civil.Date{Year: 2026, Month: 2, Day: 30}).Value(); err == nil {
		t.Errorf("30 February is stored as %v", v)
	}
	if v, err := civil.At(9, 5).Value(); err != nil || v != "09:05" {
		t.Errorf("a time is stored as %v, %v", v, err)
	}
	if v, err := (civil.Time{}).Value(); err != nil || v != nil {
		t.Errorf("no time is stored as %v, %v", v, err)
	}

	d, at := date(t, "2020-01-01"), civil.At(1, 1)
	for _, src := range []any{"2026-11-29", []byte("2026-11-29")} {
		if err := d.Scan(src); err != nil || d.String() != "2026-11-29" {
			t.Errorf("scanning %v gives %v, %v", src, d, err)
		}
	}
	if err := at.Scan("18:00"); err != nil || at != civil.At(18, 0) {
		t.Errorf("scanning 18:00 gives %v, %v", at, err)
	}
	if err := d.Scan(nil); err != nil || !d.IsZero() {
		t.Errorf("scanning NULL gives %v, %v", d, err)
	}
	if err := at.Scan(nil); err != nil || !at.IsZero() {
		t.Errorf("scanning NULL gives %v, %v", at, err)
	}
	for _, src := range []any{time.Now(), int64(5), "soon"} {
		if err := d.Scan(src); !errors.Is(err, civil.ErrFormat) {
			t.Errorf("scanning %v as a date gives %v, %v", src, d, err)
		}
		if err := at.Scan(src); !errors.Is(err, civil.ErrFormat) {
			t.Errorf("scanning %v as a time gives %v, %v", src, at, err)
		}
	}
}

func FuzzParseDate(f *testing.F) {
	for _, s := range []string{"2026-11-29", "2028-02-29", "2026-02-30", "", "0000-00-00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := civil.ParseDate(s)
		if err == nil && (d.String() != s || !d.Valid()) {
			t.Errorf("ParseDate(%q) = %v, which prints otherwise or is not valid", s, d)
		}
		if std, stdErr := time.Parse("2006-01-02", s); (stdErr == nil && std.Year() > 0) != (err == nil) {
			t.Errorf("ParseDate(%q): %v, the standard library: %v", s, err, stdErr)
		}
	})
}
