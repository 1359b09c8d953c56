package web

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/repeat"
)

// R35, W26: 21 is "one" in Russian, and 11 to 14 are "many".
func TestRussianAndEnglishPlurals(t *testing.T) {
	for n, want := range map[int]string{
		0: "0 дел", 1: "1 дело", 2: "2 дела", 4: "4 дела", 5: "5 дел", 11: "11 дел", 12: "12 дел", 14: "14 дел", 20: "20 дел",
		21: "21 дело", 22: "22 дела", 25: "25 дел", 101: "101 дело", 111: "111 дел", 112: "112 дел", 1022: "1022 дела",
	} {
		if got := ru.N("tasks.open", n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 things to do", 1: "1 thing to do", 2: "2 things to do", 21: "21 things to do"} {
		if got := en.N("tasks.open", n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for name, forms := range counts {
		if len(forms[ru]) != 3 || len(forms[en]) != 2 {
			t.Errorf("%s has %d Russian and %d English forms", name, len(forms[ru]), len(forms[en]))
		}
		for _, l := range []lang{ru, en} {
			for _, f := range forms[l] {
				if strings.Count(f, "%d") != 1 {
					t.Errorf("%s: %q", name, f)
				}
			}
		}
	}
}

// Every line is there in both languages, takes the same blanks in both, and is
// used; every line that is asked for is there.
func TestTheWordsOfBothLanguagesAreWhole(t *testing.T) {
	blanks := regexp.MustCompile(`%[a-z]`)
	cyrillic := regexp.MustCompile(`[а-яё]`)
	for name, line := range words {
		if line[ru] == "" || line[en] == "" {
			t.Errorf("%s: %q", name, line)
		}
		if a, b := len(blanks.FindAllString(line[ru], -1)), len(blanks.FindAllString(line[en], -1)); a != b {
			t.Errorf("%s has %d blanks in Russian, %d in English", name, a, b)
		}
		if cyrillic.MatchString(line[en]) || !cyrillic.MatchString(line[ru]) {
			t.Errorf("%s: %q", name, line)
		}
	}
	files, err := filepath.Glob("templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	asked := regexp.MustCompile(`L?\.T "([a-z.0-9]+)"|l\.T "([a-z.0-9]+)"`)
	for _, file := range append(files, sources...) {
		if file == "words.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
		for _, m := range asked.FindAllStringSubmatch(string(b), -1) {
			name := m[1] + m[2]
			if _, ok := words[name]; !ok {
				t.Errorf("%s asks for the words %q, which are not there", file, name)
			}
		}
	}
	for name := range words {
		prefix := name[:strings.LastIndex("."+name, ".")]
		if !strings.Contains(all.String(), `"`+name+`"`) && (prefix == "" || !strings.Contains(all.String(), `"`+prefix)) {
			t.Errorf("nobody asks for %q", name)
		}
	}
}

func TestDaysAndRepeatsAreSaidInWords(t *testing.T) {
	today := civil.Date{Year: 2026, Month: time.November, Day: 29}
	for _, c := range []struct {
		days   int
		ru, en string
	}{
		{-1, "вчера", "yesterday"}, {0, "сегодня", "today"}, {1, "завтра", "tomorrow"},
		{4, "чт 3 дек", "Thu 3 Dec"}, {-9, "пт 20 ноя", "Fri 20 Nov"}, {60, "чт 28 янв 2027", "Thu 28 Jan 2027"},
	} {
		d := today.AddDays(c.days)
		if a, b := ru.Day(d, today), en.Day(d, today); a != c.ru || b != c.en {
			t.Errorf("%v: %q, %q; want %q, %q", d, a, b, c.ru, c.en)
		}
	}
	if a, b := ru.DayLong(today), en.DayLong(today); a != "Воскресенье, 29 ноября" || b != "Sunday, 29 November" {
		t.Errorf("%q, %q", a, b)
	}
	for _, c := range []struct{ rule, ru, en string }{
		{"", "", ""},
		{"FREQ=DAILY", "каждый день", "every day"},
		{"FREQ=DAILY;INTERVAL=2", "каждые 2 дня", "every 2 days"},
		{"FREQ=DAILY;INTERVAL=21", "каждый 21 день", "every 21 days"},
		{"FREQ=WEEKLY;BYDAY=MO", "каждый понедельник", "every Monday"},
		{"FREQ=WEEKLY;BYDAY=WE", "каждую среду", "every Wednesday"},
		{"FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "по будням", "on weekdays"},
		{"FREQ=WEEKLY;BYDAY=SA,SU", "по выходным", "on weekends"},
		{"FREQ=WEEKLY;BYDAY=MO,WE", "каждую неделю: пн, ср", "every week: Mon, Wed"},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", "каждые 2 недели: пн", "every 2 weeks: Mon"},
		{"FREQ=MONTHLY;BYMONTHDAY=31", "каждый месяц", "every month"},
		{"FREQ=MONTHLY;INTERVAL=3", "каждые 3 месяца", "every 3 months"},
	} {
		r, err := repeat.Parse(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := ru.Repeat(r), en.Repeat(r); a != c.ru || b != c.en {
			t.Errorf("%q: %q, %q; want %q, %q", c.rule, a, b, c.ru, c.en)
		}
	}
}

func TestTheLanguageIsTheAccountsElseTheBrowsers(t *testing.T) {
	for _, c := range []struct {
		locale, accept string
		want           lang
	}{
		{"", "", ru}, {"", "en-GB,en;q=0.9,ru;q=0.5", en}, {"", "de, ru-RU;q=0.9", ru}, {"", "fr", ru}, {"", ", ;q=1", ru},
		{"ru", "en", ru}, {"en", "ru", en},
	} {
		r := &http.Request{Header: http.Header{"Accept-Language": {c.accept}}}
		if got := langOf(c.locale, r); got != c.want {
			t.Errorf("locale %q, Accept-Language %q: %s", c.locale, c.accept, got.Code())
		}
	}
}
