package quickadd_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/quickadd"
	"github.com/onceward/onceward/planner/internal/repeat"
)

var sunday = time.Date(2026, 11, 29, 20, 30, 0, 0, time.FixedZone("MSK", 3*60*60))

// check tells what is wrong with a result whatever the text was.
func check(t testing.TB, text string, now time.Time, r quickadd.Result) {
	t.Helper()
	fail := func(what string) {
		t.Helper()
		t.Fatalf("%.300q at %v: %s\n%.600s", text, now, what, fmt.Sprintf("%+v", r))
	}
	switch {
	case !utf8.ValidString(r.Title):
		fail("the title is not valid UTF-8")
	case strings.ContainsFunc(r.Title, unicode.IsControl):
		fail("the title has a control character")
	case strings.TrimSpace(r.Title) != r.Title:
		fail("the title has blanks around it")
	case r.Title == "" && strings.ContainsFunc(text, func(c rune) bool { return unicode.IsLetter(c) && c < 0x1000 || unicode.IsDigit(c) }):
		fail("a text with letters has no title")
	case !r.Due.IsZero() && !r.Due.Valid():
		fail("the due is no day")
	case !r.Time.IsZero() && r.Due.IsZero():
		fail("a time without a date")
	case !r.Repeat.IsZero() && (r.Repeat.Validate() != nil || repeat.First(r.Repeat, r.Due) != r.Due || r.Due.IsZero()):
		fail("the due is not an occurrence of the repetition")
	case (len(r.Spans) == 0) != r.Due.IsZero():
		fail("a due comes from what was recognised, and from nothing else")
	case !r.Due.IsZero() && r.Due.Before(civil.Today(now).AddDays(-366)):
		fail("the due is long past")
	}
	end := 0
	kinds := map[quickadd.Kind]int{}
	for _, s := range r.Spans {
		if s.Start < end || s.End <= s.Start || s.End > len(text) {
			fail("a span lies outside the text or overlaps")
		}
		if !utf8.RuneStart(text[s.Start]) || s.End < len(text) && utf8.ValidString(text) && !utf8.RuneStart(text[s.End]) {
			fail("a span cuts a character")
		}
		end = s.End
		kinds[s.Kind]++
	}
	for k, n := range kinds {
		if n > 1 || !slices.Contains([]quickadd.Kind{quickadd.Date, quickadd.Time, quickadd.Repeat}, k) {
			fail("two spans of a kind, or an unknown one")
		}
	}
	if (kinds[quickadd.Time] > 0) != !r.Time.IsZero() || (kinds[quickadd.Repeat] > 0) != !r.Repeat.IsZero() {
		fail("the spans and the fields disagree")
	}
	nothingLost(t, text, r)
}

// nothingLost: each letter and digit of the text is in the title or in a span,
// in the text's order.
func nothingLost(t testing.TB, text string, r quickadd.Result) {
	t.Helper()
	spoken := func(s string) string {
		return strings.Map(func(c rune) rune {
			if unicode.IsLetter(c) || unicode.IsDigit(c) {
				return c
			}
			return -1
		}, s)
	}
	rest, at := "", 0
	for _, s := range r.Spans {
		rest += text[at:s.Start]
		at = s.End
	}
	rest = spoken(rest + text[at:])
	// Where nothing that names a task is left, the whole line is the title.
	if got := spoken(r.Title); got != rest && got != spoken(text) {
		if !strings.ContainsFunc(rest, func(c rune) bool { return c < 0x1000 }) {
			return // letters that show nothing, such as Hangul fillers
		}
		t.Fatalf("%.300q: the title %.300q should have the words %.300q", text, r.Title, rest)
	}
}

func TestEveryLineOfTheTableKeepsTheRules(t *testing.T) {
	_, goldens := readGoldens(t)
	for _, g := range goldens {
		check(t, g.text, g.now, quickadd.Parse(g.text, g.now))
		if strings.ContainsAny(g.text, "\"«»“”„\x00") || strings.TrimSpace(g.title) == "" {
			continue
		}
		if r := quickadd.Parse(`"`+g.text+`"`, g.now); len(r.Spans) != 0 || !r.Due.IsZero() {
			t.Errorf("in quotation marks %q is read as %+v", g.text, r)
		}
	}
}

// Words of the grammar in any order and number: what two rules make of each
// other is where parsers break.
func TestAnyMixtureOfWordsKeepsTheRules(t *testing.T) {
	vocabulary := strings.Fields(`завтра сегодня послезавтра после в во к до на с по каждый каждую каждое понедельник
		среда среду среде пятницы пн вт ср сб вс будням через 2 дня неделю месяц 15.12 10.10 31.02 15.12.2026 2026-12-15
		15 декабря числа 18:00 18.00 18-00 9:00, утра вечера час раз и , — - ( ) (пн) "завтра «среда» след. следующей
		неделе № §5 упр стр. с. 5.12, 5.13 monday mon next every other day weeks on by at 6pm 6 pm the 15th of Dec
		Tomorrow's физика задачи 🎉 x@y.z не позднее this эту Вт SAT sun daily in a two вечером утром tonight к/р 03.12
		20-го до 9.10 пн,ср пн/вт morning`)
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, seed))
	for range 8_000 {
		n := 1 + rnd.IntN(7)
		line := make([]string, n)
		for i := range line {
			line[i] = vocabulary[rnd.IntN(len(vocabulary))]
		}
		text := strings.Join(line, " ")
		now := sunday.Add(time.Duration(rnd.IntN(2*365*24)) * time.Hour)
		check(t, text, now, quickadd.Parse(text, now))
	}
}

// As long as a request to the planner can be.
func TestAVeryLongTextIsOnlyATitle(t *testing.T) {
	for name, unit := range map[string]string{
		"one word": "ы", "words": "слово ", "dates": "завтра ", "strays": "среда x ", "lists": "пн и ср ", "every": "каждый пн, ",
		"opening marks": "«", "pairs": `"a" `, "half pairs": `" `, "brackets": "( завтра ", "numbers": "5.12, ", "times": "18:00 - ",
		"markers": "упр 5.12 и ", "ambiguous": "завтра 10.10 ", "dashes": "— ", "invalid": "\xff", "weekday lists": "пн,",
	} {
		text := strings.Repeat(unit, 64<<10/len(unit))
		r := quickadd.Parse(text, sunday)
		check(t, text, sunday, r)
		if len(r.Title) < len(text)/3 {
			t.Errorf("%s: of %d bytes only %d are left in the title", name, len(text), len(r.Title))
		}
	}
}

func TestATextThatShowsNothingHasNoTitle(t *testing.T) {
	for _, text := range []string{"", " ", "\n\t\r", "\u00a0\u3000", "\u200b", "\ufeff\u2060", "\x00\x07", "\u202e\u202c", "\u3164", "\u200d\ufe0f"} {
		if r := quickadd.Parse(text, sunday); !reflect.DeepEqual(r, quickadd.Result{}) {
			t.Errorf("%q is read as %+v", text, r)
		}
	}
}

func TestOnlyTheClockOnTheWallMatters(t *testing.T) {
	moment := time.Date(2026, 11, 29, 20, 30, 0, 0, time.UTC)
	for _, text := range []string{"физика завтра 9:00", "каждый месяц взнос", "в 20:00 звонок"} {
		want := quickadd.Parse(text, moment)
		for h := -12; h <= 14; h++ {
			zone := time.FixedZone("", h*60*60)
			now := time.Date(2026, 11, 29, 20, 30, 0, 0, zone)
			if got := quickadd.Parse(text, now); !reflect.DeepEqual(got, want) {
				t.Errorf("%q at 20:30 in UTC%+d is %+v, in UTC %+v", text, h, got, want)
			}
		}
	}
}

func TestLinesCanBeReadAtTheSameTime(t *testing.T) {
	_, goldens := readGoldens(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, g := range goldens {
				if r := quickadd.Parse(g.text, g.now); r.Title != g.title {
					t.Errorf("%q is read as %q", g.text, r.Title)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzParse(f *testing.F) {
	_, goldens := readGoldens(f)
	for _, g := range goldens {
		f.Add(g.text, g.now.Unix(), int8(0))
	}
	f.Fuzz(func(t *testing.T, text string, moment int64, zone int8) {
		// A planner's years; the sign goes with the shift.
		moment = int64(uint64(moment) % (200 * 366 * 24 * 60 * 60))
		now := time.Unix(moment, 0).In(time.FixedZone("", int(zone)%15*60*60))
		r := quickadd.Parse(text, now)
		check(t, text, now, r)
		if again := quickadd.Parse(text, now); !reflect.DeepEqual(r, again) {
			t.Fatalf("%q is read as %+v, and then as %+v", text, r, again)
		}
	})
}
