package web

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// changing are the routes of the table that change something.
func changing() []route {
	var rs []route
	for _, rt := range table {
		if rt.kind == entry || rt.kind == now || rt.kind == queued {
			rs = append(rs, rt)
		}
	}
	return rs
}

// path is a route's path for one task.
func (rt route) path(id string) string {
	_, path, _ := strings.Cut(rt.pattern, " ")
	return strings.ReplaceAll(path, "{id}", id)
}

// Requirements 8 to 10, 16, B173, R16: whatever changes something, changes nothing
// the second time: sent twice, by many at once, late (after every key is
// forgotten), with one key, with a key each, and with none.
func TestEveryRouteRepeatedGivesTheSameState(t *testing.T) {
	one := func(int) []string { return named("one-key") }
	each := func(i int) []string { return named(fmt.Sprint("key-", i)) }
	none := func(int) []string { return nil }
	modes := []struct {
		name  string
		key   func(i int) []string
		times int
		many  bool
		after time.Duration
	}{
		{"twice", none, 2, false, time.Minute},
		{"twice under one key", one, 2, false, time.Minute},
		{"three times under a key each", each, 3, false, time.Minute},
		{"by many at once", none, 12, true, 0},
		{"by many at once under a key each", each, 12, true, 0},
		{"by many at once under one key", one, 12, true, 0},
		{"late", one, 2, false, retention + 24*time.Hour},
	}
	for _, rt := range changing() {
		for _, m := range modes {
			t.Run(rt.pattern+" "+m.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.task("lesson", "training every Monday 18:00")
				send := func(i int) answer {
					headers := append([]string{"HX-Request", "true"}, m.key(i)...)
					return w.anna.post(rt.path("lesson"), rt.sample, headers...)
				}
				before := w.dump()
				// The first alone says what the state has to be in the end.
				first := send(0)
				if first.status >= 300 && first.status != http.StatusSeeOther {
					t.Fatalf("the sample is refused: %v", first)
				}
				want := w.dump()
				if rt.kind != entry && want == before {
					t.Fatalf("the sample %q changes nothing, so its repeat shows nothing", rt.sample)
				}
				if rt.kind == entry {
					w.anna.cookie(w.anna.token) // logging out took it
				}
				w.clock.Add(m.after)
				if !m.many {
					for i := 1; i < m.times; i++ {
						if a := send(i); a.status >= 300 && a.status != http.StatusSeeOther {
							t.Errorf("repeat %d: %v", i, a)
						}
					}
				} else {
					sendAll(t, crowd(rt, m.times), func(i int) { send(i + 1) })
				}
				if got := w.dump(); got != want {
					t.Errorf("after the repeats:\n%s\nafter the first:\n%s", got, want)
				}
			})
		}
	}
}

// The same without a first one that has settled: all race from the start.
func TestEveryRouteRacedFromTheStartGivesTheStateOfOne(t *testing.T) {
	stamps := regexp.MustCompile(`\b(id|rank)=[A-Z2-7]{26} `) // ids that the server makes
	for _, rt := range changing() {
		t.Run(rt.pattern, func(t *testing.T) {
			t.Parallel()
			var dumps []string
			for _, times := range []int{1, 16} {
				w := newWorld(t)
				w.task("lesson", "training every Monday 18:00")
				sendAll(t, crowd(rt, times), func(int) { w.anna.post(rt.path("lesson"), rt.sample, hx()...) })
				hash := regexp.MustCompile(`pass_hash=\S+`) // salted
				dumps = append(dumps, hash.ReplaceAllString(stamps.ReplaceAllString(w.dump(), ""), ""))
			}
			if dumps[0] != dumps[1] {
				t.Errorf("one:\n%s\nsixteen:\n%s", dumps[0], dumps[1])
			}
		})
	}
}

// crowd is smaller where each request hashes a password.
func crowd(rt route, n int) int {
	if rt.kind == entry {
		return min(n, 4)
	}
	return n
}

func sendAll(t *testing.T, n int, send func(i int)) {
	t.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() { <-start; send(i) })
	}
	close(start)
	wg.Wait()
}

// R16, requirement 9: no route's name says "flip", and none of the names that the
// first implementation had for it is there.
func TestNoRouteFlipsAddsOneOrMovesByADay(t *testing.T) {
	bad := regexp.MustCompile(`(?i)toggle|switch|flip|invert|increment|snooze|duplicate|undo|next|plus`)
	for _, rt := range table {
		if bad.MatchString(rt.pattern) {
			t.Errorf("%s", rt.pattern)
		}
		unsafe := !strings.HasPrefix(rt.pattern, "GET ")
		if unsafe != (rt.sample != "") {
			t.Errorf("%s: changes something %v, has a sample %v", rt.pattern, unsafe, rt.sample != "")
		}
		if unsafe == (rt.kind == public || rt.kind == page) {
			t.Errorf("%s is of kind %d", rt.pattern, rt.kind)
		}
	}
	w := newWorld(t)
	w.task("a", "a")
	before := w.dump()
	for _, path := range []string{"/tasks/a/toggle", "/tasks/a/snooze", "/tasks/a/duplicate", "/toggle", "/api/tasks", "/tasks/a"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			if a := w.anna.do(method, path, "completed=true", hx()...); a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, a.status)
			}
		}
	}
	if w.dump() != before {
		t.Error("one of them changed something")
	}
}

// Requirements 10, 12: three times "done" is done; every word for yes and no, in
// any case; and anything else is refused.
func TestCompletedIsAClearWordOrRefused(t *testing.T) {
	w := newWorld(t)
	w.task("a", "a")
	for word, want := range map[string]int{
		"1": 1, "true": 1, "on": 1, "yes": 1, "TRUE": 1, "Yes": 1, "oN": 1,
		"0": 0, "false": 0, "off": 0, "no": 0, "FALSE": 0, "No": 0,
	} {
		if _, err := w.db.Write.Exec(`UPDATE tasks SET done_at = ?`, map[int]any{0: 1, 1: nil}[want]); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if a := w.anna.post("/tasks/a/state", "completed="+word, hx()...); a.status != http.StatusOK || !strings.Contains(a.body, `id="task-a"`) {
				t.Errorf("completed=%s: %v", word, a)
			}
			if got := w.count(`SELECT is_completed FROM tasks`); got != want {
				t.Errorf("completed=%s: is_completed %d", word, got)
			}
		}
	}
	before := w.dump()
	for _, body := range []string{"", "completed=", "completed=2", "completed=ja", "completed=toggle", "done=true"} {
		if a := w.anna.post("/tasks/a/state", body, hx()...); a.status != http.StatusUnprocessableEntity || strings.Contains(a.body, "<") {
			t.Errorf("%q: %v", body, a)
		}
		if a := w.anna.post("/tasks/a/state?completed=true", body, hx()...); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%q with a query: %v", body, a)
		}
	}
	if w.dump() != before {
		t.Error("a refused request changed something")
	}
}

// Requirement 11, R15 over HTTP: three in a row and twenty at once, each under a
// key of its own, bring one next lesson; so does done, undone, done.
func TestDoneOverHTTPBringsOneNextTask(t *testing.T) {
	for _, n := range []int{3, 20} {
		w := newWorld(t)
		w.task("lesson", "тренировка каждый понедельник 18:00")
		sendAll(t, n, func(i int) {
			if a := w.anna.post("/tasks/lesson/state", "completed=true", named(fmt.Sprint("k", i), hx()...)...); a.status != http.StatusOK {
				t.Errorf("%v", a)
			}
		})
		for i, done := range []string{"true", "false", "true", "true"} {
			w.anna.post("/tasks/lesson/state", "completed="+done, named(fmt.Sprint("again", i), hx()...)...)
		}
		if open, all := w.count(`SELECT count(*) FROM tasks WHERE done_at IS NULL AND retracted = 0`), w.count(`SELECT count(*) FROM tasks`); open != 1 || all != 2 {
			t.Errorf("%d requests: %d open tasks of %d", n, open, all)
		}
	}
}

// B166: parallel reads on a day when the next one is due make none.
func TestReadingPagesCreatesNothing(t *testing.T) {
	w := newWorld(t)
	w.task("lesson", "training every day")
	w.clock.Add(5 * 24 * time.Hour)
	before := w.dump()
	var pages []string
	for _, rt := range table {
		if rt.kind == page || rt.kind == public {
			pages = append(pages, rt.path("lesson"))
		}
	}
	sendAll(t, 2*len(pages), func(i int) { w.anna.get(strings.TrimSuffix(pages[i/2], "{$}")) })
	if w.dump() != before {
		t.Error("a GET changed something")
	}
}

// Requirement 56: what arrives last stays, and nothing crashes.
func TestOfTwoDevicesTheLastOneCounts(t *testing.T) {
	w := newWorld(t)
	w.task("a", "a")
	w.anna.post("/tasks/a/fields", "title=from+the+phone", named("phone")...)
	w.anna.post("/tasks/a/fields", "title=from+the+laptop", named("laptop")...)
	if n := w.count(`SELECT count(*) FROM tasks WHERE title = 'from the laptop'`); n != 1 {
		t.Error(w.dump())
	}
}

// A task that was typed on Monday and is delivered on Tuesday is due on the day
// that was meant.
func TestTomorrowIsTheDayAfterTheTyping(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct {
		text, at, due string
	}{
		{"сдать завтра", "", "2026-11-30"},
		{"сдать завтра", "2026-11-27T09:00", "2026-11-28"},
		{"сдать сегодня", "2026-11-29T23:59", "2026-11-29"},
		{"сдать завтра", "2026-11-20T09:00", "2026-11-30"}, // older than anything that waits can be
		{"сдать завтра", "2026-12-24T09:00", "2026-11-30"}, // a clock that is far off
		{"сдать завтра", "yesterday", "2026-11-30"},
		{"math by friday 18:00", "2026-11-25T09:00", "2026-11-27"},
	} {
		id := fmt.Sprint("t", i)
		if a := w.anna.post("/tasks", url.Values{"id": {id}, "text": {c.text}, "at": {c.at}}.Encode(), hx()...); a.status != http.StatusCreated {
			t.Fatalf("%v", a)
		}
		var due string
		if err := w.db.Read.QueryRow(`SELECT due_date FROM tasks WHERE id = ?`, id).Scan(&due); err != nil || due != c.due {
			t.Errorf("%q typed at %q: due %s, %v, want %s", c.text, c.at, due, err, c.due)
		}
	}
}
