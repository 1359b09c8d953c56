package repeat_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // B169 and B170 need real zones, also where the system has none

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
)

func date(t testing.TB, s string) civil.Date {
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

func rule(t testing.TB, s string) repeat.Rule {
	t.Helper()
	r, err := repeat.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNextIsTheFirstOccurrenceStrictlyAfter(t *testing.T) {
	for _, c := range []struct{ rule, dtstart, after, want string }{
		{"FREQ=DAILY", "2026-11-29", "2026-11-29", "2026-11-30"},
		{"FREQ=DAILY", "2026-11-29", "2026-12-31", "2027-01-01"},
		{"FREQ=DAILY", "2026-11-29", "2026-11-01", "2026-11-29"},
		{"FREQ=DAILY;INTERVAL=2", "2026-11-29", "2026-11-29", "2026-12-01"},
		{"FREQ=DAILY;INTERVAL=2", "2026-11-29", "2026-11-30", "2026-12-01"},
		{"FREQ=DAILY;INTERVAL=2", "2026-11-29", "2026-12-01", "2026-12-03"},
		{"FREQ=DAILY;INTERVAL=3", "2028-02-27", "2028-02-27", "2028-03-01"},
		{"FREQ=DAILY", "2028-02-28", "2028-02-28", "2028-02-29"},

		// Monday to Friday: over the weekend, and from any day of it.
		{"FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "2026-11-23", "2026-11-26", "2026-11-27"},
		{"FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "2026-11-23", "2026-11-27", "2026-11-30"},
		{"FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "2026-11-23", "2026-11-28", "2026-11-30"},
		{"FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "2026-11-23", "2026-11-29", "2026-11-30"},
		{"FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "2026-11-28", "2026-11-27", "2026-11-30"},

		{"FREQ=WEEKLY;BYDAY=MO", "2026-11-30", "2026-11-30", "2026-12-07"},
		{"FREQ=WEEKLY;BYDAY=MO", "2026-11-30", "2026-12-01", "2026-12-07"},
		{"FREQ=WEEKLY;BYDAY=MO", "2026-11-30", "2026-12-06", "2026-12-07"},
		{"FREQ=WEEKLY;BYDAY=MO", "2026-11-30", "2026-12-28", "2027-01-04"},
		{"FREQ=WEEKLY;BYDAY=SU", "2026-11-29", "2026-11-29", "2026-12-06"},
		{"FREQ=WEEKLY;BYDAY=MO,WE", "2026-11-30", "2026-11-30", "2026-12-02"},
		{"FREQ=WEEKLY;BYDAY=MO,WE", "2026-11-30", "2026-12-02", "2026-12-07"},
		// The series may begin on a day that the rule does not give.
		{"FREQ=WEEKLY;BYDAY=WE", "2026-11-30", "2026-11-29", "2026-12-02"},
		{"FREQ=WEEKLY", "2026-12-03", "2026-12-03", "2026-12-10"},

		// Every second week: the weeks count from Monday, whichever day it began.
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", "2026-11-30", "2026-11-30", "2026-12-14"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", "2026-11-30", "2026-12-08", "2026-12-14"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", "2026-11-30", "2026-12-14", "2026-12-28"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU", "2026-11-30", "2026-11-30", "2026-12-06"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU", "2026-11-30", "2026-12-06", "2026-12-14"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU", "2026-12-06", "2026-12-06", "2026-12-14"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", "2026-12-04", "2026-12-03", "2026-12-15"},

		{"FREQ=MONTHLY;BYMONTHDAY=15", "2026-11-15", "2026-11-15", "2026-12-15"},
		{"FREQ=MONTHLY;BYMONTHDAY=15", "2026-11-15", "2026-12-14", "2026-12-15"},
		{"FREQ=MONTHLY;BYMONTHDAY=15", "2026-11-15", "2026-12-16", "2027-01-15"},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "2027-01-31", "2027-01-31", "2027-02-28"},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "2027-01-31", "2027-02-28", "2027-03-31"},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "2027-01-31", "2027-03-31", "2027-04-30"},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "2028-01-31", "2028-01-31", "2028-02-29"},
		{"FREQ=MONTHLY;BYMONTHDAY=29", "2027-01-29", "2027-01-29", "2027-02-28"},
		{"FREQ=MONTHLY;BYMONTHDAY=30", "2027-01-30", "2027-02-27", "2027-02-28"},
		{"FREQ=MONTHLY;BYMONTHDAY=30", "2027-01-30", "2027-02-28", "2027-03-30"},
		{"FREQ=MONTHLY", "2027-01-31", "2027-02-28", "2027-03-31"},
		{"FREQ=MONTHLY;INTERVAL=2;BYMONTHDAY=31", "2026-12-31", "2026-12-31", "2027-02-28"},
		{"FREQ=MONTHLY;INTERVAL=2;BYMONTHDAY=31", "2026-12-31", "2027-03-15", "2027-04-30"},
		{"FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=29", "2028-02-29", "2028-02-29", "2029-02-28"},
		{"FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=29", "2028-02-29", "2031-12-31", "2032-02-29"},
		// The rule's day has passed in the month in which the series begins.
		{"FREQ=MONTHLY;BYMONTHDAY=10", "2026-11-29", "2026-11-28", "2026-12-10"},

		// The ends.
		{"", "2026-11-29", "2026-11-29", ""},
		{"FREQ=DAILY", "", "2026-11-29", ""},
		{"FREQ=DAILY", "2026-11-29", "", ""},
		{"FREQ=DAILY", "2026-11-29", "9999-12-31", ""},
		{"FREQ=WEEKLY;BYDAY=MO", "2026-11-30", "9999-12-27", ""},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "2026-11-30", "9999-12-31", ""},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "2026-11-30", "9999-12-30", "9999-12-31"},
		{"FREQ=DAILY;INTERVAL=999", "0001-01-01", "0001-01-01", "0003-09-27"},
		{"FREQ=WEEKLY;INTERVAL=999;BYDAY=MO", "0001-01-01", "0001-01-01", "0020-02-24"},
	} {
		if got := repeat.Next(rule(t, c.rule), date(t, c.dtstart), date(t, c.after)).String(); got != c.want {
			t.Errorf("%s from %s: after %s comes %q, want %q", c.rule, c.dtstart, c.after, got, c.want)
		}
	}
}

// R17: an overdue weekly task does not come back in the past.
func TestAnOverdueTaskComesBackInTheFuture(t *testing.T) {
	for _, c := range []struct{ rule, dtstart, occurrence, today, want string }{
		{"FREQ=WEEKLY;BYDAY=MO", "2026-09-07", "2026-09-07", "2026-11-29", "2026-11-30"},
		{"FREQ=WEEKLY;BYDAY=MO", "2026-09-07", "2026-09-07", "2026-11-30", "2026-12-07"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", "2026-09-07", "2026-09-07", "2026-11-29", "2026-11-30"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", "2026-09-14", "2026-09-14", "2026-11-29", "2026-12-07"},
		{"FREQ=DAILY", "2026-09-07", "2026-09-07", "2026-11-29", "2026-11-30"},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "2026-08-31", "2026-08-31", "2026-11-29", "2026-11-30"},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "2026-08-31", "2026-08-31", "2026-11-30", "2026-12-31"},
		// Done ahead of its day: the next one is after it, not after today.
		{"FREQ=WEEKLY;BYDAY=MO", "2026-11-30", "2026-11-30", "2026-11-28", "2026-12-07"},
	} {
		after := civil.Max(date(t, c.occurrence), date(t, c.today))
		if got := repeat.Next(rule(t, c.rule), date(t, c.dtstart), after).String(); got != c.want {
			t.Errorf("%s due %s done on %s comes again on %s, want %s", c.rule, c.occurrence, c.today, got, c.want)
		}
	}
}

// R17: counting from the last occurrence gives 31, 28, 28, 28.
func TestTheThirtyFirstComesBackAfterFebruary(t *testing.T) {
	r, start := repeat.EveryMonth(31), date(t, "2026-12-31")
	var got []string
	for d, i := start, 0; i < 15; i++ {
		d = repeat.Next(r, start, d)
		got = append(got, d.String()[5:])
	}
	want := "01-31 02-28 03-31 04-30 05-31 06-30 07-31 08-31 09-30 10-31 11-30 12-31 01-31 02-29 03-31"
	if strings.Join(got, " ") != want {
		t.Errorf("the 31st of the months:\n got %v\nwant %v", got, want)
	}
}

// B172: five times done in a row gives five dates in step.
func TestFiveTimesDoneStaysInStep(t *testing.T) {
	r, start := repeat.EveryWeek(repeat.DaysOf(time.Tuesday)), date(t, "2026-12-15")
	d := start
	for i := 1; i <= 5; i++ {
		d = repeat.Next(r, start, d)
		if want := start.AddDays(7 * i); d != want {
			t.Fatalf("time %d is %v, want %v", i, d, want)
		}
	}
}

// B169: around the nights on which the clocks change, for each minute at which
// a task can be ticked, the daily one comes back on the next calendar day.
func TestADailyTaskComesBackTomorrowOnTheNightTheClocksChange(t *testing.T) {
	for _, c := range []struct{ zone, from string }{
		{"Pacific/Auckland", "2026-09-26"}, // forward in the night to the 27th
		{"Pacific/Auckland", "2027-04-03"}, // back in the night to the 4th
		{"Australia/Sydney", "2026-10-03"},
		{"Australia/Sydney", "2027-04-03"},
		{"Australia/Lord_Howe", "2026-10-03"}, // by half an hour
		{"America/Santiago", "2026-09-05"},    // midnight itself does not exist
		{"Europe/Berlin", "2026-10-24"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		due := date(t, c.from)
		noon := time.Date(due.Year, due.Month, due.Day, 12, 0, 0, 0, zone)
		for now := noon.Add(-14 * time.Hour); now.Before(noon.Add(50 * time.Hour)); now = now.Add(10 * time.Minute) {
			today := civil.Today(now)
			got := repeat.Next(repeat.EveryDay(), due, civil.Max(due, today))
			want := due.AddDays(1)
			if today.After(due) {
				want = today.AddDays(1)
			}
			if got != want {
				t.Fatalf("due %v, done at %v: comes back on %v, want %v", due, now, got, want)
			}
		}
	}
}

// B170: a weekly task of Tuesday 00:00 in Berlin stays there when the clocks go
// back on 25 October 2026. The time is civil and is copied, so only the date
// could move.
func TestAWeeklyTaskStaysOnTuesdayWhenTheClocksGoBack(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	r, due := repeat.EveryWeek(repeat.DaysOf(time.Tuesday)), date(t, "2026-10-13")
	start, at := due, civil.At(0, 0)
	for range 6 {
		// Done at midnight exactly, the moment that falls on Monday in UTC.
		now := time.Date(due.Year, due.Month, due.Day, at.Hour(), at.Minute(), 0, 0, berlin).UTC()
		next := repeat.Next(r, start, civil.Max(due, civil.Today(now.In(berlin))))
		if next != due.AddDays(7) || next.Weekday() != time.Tuesday {
			t.Fatalf("after Tuesday %v comes %v, a %v", due, next, next.Weekday())
		}
		due = next
	}
}

// occurs is the rule's meaning in the plainest words, for a date on or after
// the start; it shares no arithmetic with Next.
func occurs(r repeat.Rule, start, d civil.Date) bool {
	switch r.Freq {
	case repeat.Daily:
		return d.DaysSince(start)%r.Interval == 0
	case repeat.Weekly:
		weeks := d.Monday().DaysSince(start.Monday()) / 7
		days := r.Days
		if days == 0 {
			return weeks%r.Interval == 0 && d.Weekday() == start.Weekday()
		}
		return weeks%r.Interval == 0 && days.Has(d.Weekday())
	}
	want := r.MonthDay
	if want == 0 {
		want = start.Day
	}
	months := (d.Year-start.Year)*12 + int(d.Month) - int(start.Month)
	last := d.AddDays(1).Month != d.Month
	return months%r.Interval == 0 && (d.Day == want || last && d.Day < want)
}

func randomRule(rnd *rand.Rand) repeat.Rule {
	r := repeat.Rule{Freq: repeat.Freq(1 + rnd.IntN(3)), Interval: 1 + rnd.IntN(4)}
	switch r.Freq {
	case repeat.Weekly:
		r.Days = repeat.Weekdays(rnd.IntN(128))
	case repeat.Monthly:
		r.MonthDay = rnd.IntN(32)
	}
	return r
}

// A walk day by day by the rule's plain meaning finds the same date as Next.
func TestNextAgreesWithAWalkThroughTheCalendar(t *testing.T) {
	const seed = 20261129
	rnd := rand.New(rand.NewPCG(seed, 1))
	for n := range 5000 {
		r := randomRule(rnd)
		start := civil.Date{Year: 2020, Month: 1, Day: 1}.AddDays(rnd.IntN(4000))
		after := start.AddDays(rnd.IntN(900) - 100)
		want := civil.Max(start, after.AddDays(1))
		for !occurs(r, start, want) {
			want = want.AddDays(1)
		}
		if got := repeat.Next(r, start, after); got != want {
			t.Fatalf("seed %d, try %d: %v from %v, after %v comes %v, want %v", seed, n, r, start, after, got, want)
		}
	}
}

func TestNextNeverRunsBackwardsAndNeverSkips(t *testing.T) {
	const seed = 42
	rnd := rand.New(rand.NewPCG(seed, 2))
	for range 2000 {
		r := randomRule(rnd)
		start := civil.Date{Year: 2026, Month: 1, Day: 1}.AddDays(rnd.IntN(800))
		a := start.AddDays(rnd.IntN(400) - 30)
		next := repeat.Next(r, start, a)
		switch {
		case !next.After(a) || next.Before(start):
			t.Fatalf("%v from %v: %v is not after %v", r, start, next, a)
		case repeat.Next(r, start, next.AddDays(-1)) != next:
			t.Fatalf("%v from %v: %v is not found from the day before it", r, start, next)
		}
		// Asked on any day in between, it is the same one.
		between := a.AddDays(rnd.IntN(next.DaysSince(a)))
		if got := repeat.Next(r, start, between); got != next {
			t.Fatalf("%v from %v: after %v comes %v, but after %v comes %v", r, start, a, next, between, got)
		}
	}
}

func TestFirstMayBeTheVeryDay(t *testing.T) {
	for _, c := range []struct{ rule, from, want string }{
		{"FREQ=DAILY", "2026-11-29", "2026-11-29"},
		{"FREQ=WEEKLY;BYDAY=SU", "2026-11-29", "2026-11-29"},
		{"FREQ=WEEKLY;BYDAY=MO", "2026-11-29", "2026-11-30"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=SA", "2026-11-29", "2026-12-12"},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "2027-02-10", "2027-02-28"},
		{"FREQ=DAILY", "", ""},
		{"", "2026-11-29", ""},
	} {
		if got := repeat.First(rule(t, c.rule), date(t, c.from)).String(); got != c.want {
			t.Errorf("%s from %s begins on %q, want %q", c.rule, c.from, got, c.want)
		}
	}
}

func TestARuleHasOneText(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"", ""},
		{"FREQ=DAILY", "FREQ=DAILY"},
		{"FREQ=DAILY;INTERVAL=1", "FREQ=DAILY"},
		{"interval=2;freq=daily", "FREQ=DAILY;INTERVAL=2"},
		{"FREQ=WEEKLY;BYDAY=MO", "FREQ=WEEKLY;BYDAY=MO"},
		{"FREQ=WEEKLY;BYDAY=SU,FR,MO,MO", "FREQ=WEEKLY;BYDAY=MO,FR,SU"},
		{"BYDAY=TU;INTERVAL=2;FREQ=WEEKLY", "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU"},
		{"FREQ=WEEKLY", "FREQ=WEEKLY"},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "FREQ=MONTHLY;BYMONTHDAY=31"},
		{"FREQ=MONTHLY;INTERVAL=999", "FREQ=MONTHLY;INTERVAL=999"},
	} {
		r, err := repeat.Parse(c.in)
		if err != nil || r.String() != c.out {
			t.Errorf("Parse(%q) = %v, %v; want %s", c.in, r, err, c.out)
		}
	}
	for r, want := range map[repeat.Rule]string{
		repeat.EveryDay():                   "FREQ=DAILY",
		repeat.EveryWeek(repeat.Workdays):   "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
		repeat.EveryWeek(repeat.Weekend):    "FREQ=WEEKLY;BYDAY=SA,SU",
		repeat.EveryMonth(31):               "FREQ=MONTHLY;BYMONTHDAY=31",
		{}:                                  "",
		{Freq: repeat.Daily}:                "FREQ=?",
		{Freq: 9, Interval: 1, MonthDay: 3}: "FREQ=?",
	} {
		if r.String() != want {
			t.Errorf("%#v prints %q, want %q", r, r, want)
		}
	}
}

func TestARuleThatIsNotOursIsRefused(t *testing.T) {
	for _, s := range []string{
		" ", ";", "FREQ", "FREQ=", "FREQ=YEARLY", "FREQ=HOURLY", "DAILY", "FREQ=?", "RRULE:FREQ=DAILY",
		"FREQ=DAILY;", "FREQ=DAILY;FREQ=DAILY", "FREQ=DAILY;COUNT=3", "FREQ=DAILY;UNTIL=20270101",
		"FREQ=DAILY;INTERVAL=0", "FREQ=DAILY;INTERVAL=-1", "FREQ=DAILY;INTERVAL=1000", "FREQ=DAILY;INTERVAL=02",
		"FREQ=DAILY;INTERVAL=+2", "FREQ=DAILY;INTERVAL=99999999999999999999", "FREQ=DAILY;BYDAY=MO",
		"FREQ=DAILY;BYMONTHDAY=3", "FREQ=WEEKLY;BYDAY=", "FREQ=WEEKLY;BYDAY=2MO", "FREQ=WEEKLY;BYDAY=MO,",
		"FREQ=WEEKLY;BYDAY=MO, TU", "FREQ=WEEKLY;BYMONTHDAY=3", "FREQ=MONTHLY;BYDAY=MO", "FREQ=MONTHLY;BYMONTHDAY=32",
		"FREQ=MONTHLY;BYMONTHDAY=0", "FREQ=MONTHLY;BYMONTHDAY=-1", "FREQ=MONTHLY;BYMONTHDAY=1,15", "INTERVAL=2",
		"BYDAY=MO", "FREQ=DAILY\n", "FREQ=DAıLY", "FREQ=DAILY;X=" + strings.Repeat("9", 300), "\xff",
	} {
		if r, err := repeat.Parse(s); !errors.Is(err, repeat.ErrRule) || !r.IsZero() {
			t.Errorf("Parse(%q) = %v, %v; want no rule and ErrRule", s, r, err)
		}
	}
	for _, r := range []repeat.Rule{
		{Freq: repeat.Daily}, {Freq: repeat.Daily, Interval: 1000}, {Interval: 1}, {Freq: 4, Interval: 1},
		{Freq: repeat.Daily, Interval: 1, Days: repeat.Workdays}, {Freq: repeat.Weekly, Interval: 1, Days: 1 << 7},
		{Freq: repeat.Weekly, Interval: 1, MonthDay: 1}, {Freq: repeat.Monthly, Interval: 1, MonthDay: 32},
		{Freq: repeat.Monthly, Interval: 1, MonthDay: -1},
	} {
		if err := r.Validate(); !errors.Is(err, repeat.ErrRule) {
			t.Errorf("%#v is taken for a rule: %v", r, err)
		}
		if d := repeat.Next(r, date(t, "2026-11-29"), date(t, "2026-11-29")); !d.IsZero() {
			t.Errorf("%#v is no rule and still comes on %v", r, d)
		}
	}
}

func TestASetOfDaysListsMondayFirst(t *testing.T) {
	w := repeat.DaysOf(time.Sunday, time.Wednesday, time.Monday)
	if got := fmt.Sprint(w.List()); got != "[Monday Wednesday Sunday]" {
		t.Errorf("the set is listed as %s", got)
	}
	if w.Len() != 3 || !w.Has(time.Sunday) || w.Has(time.Friday) || repeat.Workdays.Len() != 5 || repeat.Weekend.Len() != 2 {
		t.Errorf("the sets hold other days: %v, %v, %v", w.List(), repeat.Workdays.List(), repeat.Weekend.List())
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "FREQ=DAILY", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE", "FREQ=MONTHLY;BYMONTHDAY=31",
		"freq=weekly;byday=su", "FREQ=DAILY;COUNT=3", "FREQ=WEEKLY;BYDAY=,"} {
		f.Add(s, uint16(0), int16(0))
	}
	f.Fuzz(func(t *testing.T, s string, startDay uint16, gap int16) {
		r, err := repeat.Parse(s)
		if err != nil {
			if !errors.Is(err, repeat.ErrRule) || !r.IsZero() {
				t.Errorf("Parse(%q) = %v, %v", s, r, err)
			}
			return
		}
		again, err := repeat.Parse(r.String())
		if err != nil || again != r || again.String() != r.String() {
			t.Errorf("%q is %v, whose text %q is %v, %v", s, r, r.String(), again, err)
		}
		start := civil.Date{Year: 1970, Month: 1, Day: 1}.AddDays(int(startDay))
		after := start.AddDays(int(gap))
		next := repeat.Next(r, start, after)
		if r.IsZero() != next.IsZero() {
			t.Fatalf("%v from %v: after %v comes %v", r, start, after, next)
		}
		if !r.IsZero() && (!next.After(after) || next.Before(start) || !occurs(r, start, next)) {
			t.Errorf("%v from %v: after %v comes %v, which is no occurrence", r, start, after, next)
		}
	})
}
