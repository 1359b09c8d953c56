package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
)

// began is a world in which files are prepared.
func began(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	if err := w.exports.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

var form = []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "same-origin", "Accept", "text/html"}

type status struct{ ID, State, Type, Title, Detail, Location string }

func (a answer) status66(t *testing.T) status {
	t.Helper()
	var s status
	if err := json.Unmarshal([]byte(a.body), &s); err != nil {
		t.Fatalf("%v: %v", err, a)
	}
	return s
}

// until asks for the status until it is no longer pending.
func (p *person) until(to string) answer {
	p.w.t.Helper()
	for end := time.Now().Add(60 * time.Second); ; {
		a := p.get(to + "?wait=5")
		if a.status != http.StatusOK || a.status66(p.w.t).State != "pending" || time.Now().After(end) {
			return a
		}
	}
}

// Requirement 66: 202 with the status's address and when to ask; the repeat has the
// same id and the current state, and is no second run; then the file, for its owner.
func TestAnExportIsAcceptedOnceAndItsStatusLeadsToTheFile(t *testing.T) {
	w := newWorld(t)
	w.task("a", "Физика: задачи 12–15, стр. 7; завтра 18:00")
	const order = "format=ics&part=all"
	first := w.anna.post("/exports", order, named("k")...)
	to := first.header.Get("Location")
	if first.status != http.StatusAccepted || !strings.HasPrefix(to, "/operations/") || first.status66(t).State != "pending" || first.header.Get("Retry-After") != "2" ||
		!strings.HasPrefix(first.header.Get("Idempotency-Status"), "executed") {
		t.Fatal(first)
	}
	if a := w.anna.get(to); a.status66(t).State != "pending" || a.header.Get("Retry-After") == "" {
		t.Error(a)
	}
	if err := w.exports.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := w.anna.until(to)
	s := done.status66(t)
	if s.State != "complete" || s.Location != "/exports/"+s.ID || s.ID != first.status66(t).ID {
		t.Fatal(done)
	}
	for range 2 {
		again := w.anna.post("/exports", order, named("k")...)
		if again.status != http.StatusAccepted || again.header.Get("Location") != to || again.status66(t) != s || again.header.Get("Idempotency-Replayed") != "1" {
			t.Error(again)
		}
	}
	if other := w.anna.post("/exports", "format=json&part=all", named("k")...); other.status != http.StatusUnprocessableEntity {
		t.Error(other)
	}
	if jobs, files := w.count(`SELECT count(*) FROM river_job`), w.count(`SELECT count(*) FROM exports`); jobs != 1 || files != 1 {
		t.Errorf("%d jobs, %d files", jobs, files)
	}
	file := w.anna.get(s.Location)
	if file.status != http.StatusOK || file.header.Get("Content-Type") != "text/calendar; charset=utf-8" || file.header.Get("Content-Disposition") != "attachment; filename=planner-2026-11-29.ics" ||
		!strings.Contains(file.body, "SUMMARY:Физика: задачи 12–15\\, стр. 7") || !strings.HasPrefix(file.body, "BEGIN:VCALENDAR\r\n") {
		t.Error(file)
	}
	// Only the owner.
	for _, path := range []string{to, s.Location} {
		if a := w.boris.get(path); a.status != http.StatusNotFound || strings.Contains(a.body, "Физика") {
			t.Error(a)
		}
		if a := w.do(w.browser(), "GET", path, ""); a.status != http.StatusSeeOther {
			t.Error(a)
		}
	}
}

// Requirement 70: the log tells what became of an order, from the request to its file;
// where the order is known by an id of its own, one line leads from one name to the other.
func TestRequirement70TheLogTellsWhatBecameOfAnExport(t *testing.T) {
	w := began(t)
	w.task("a", "a tomorrow")
	for key, order := range map[string]string{"k": "format=ics&part=all", "k2": "format=ics&part=all&id=mine"} {
		done := w.anna.until(w.anna.post("/exports", order, named(key)...).header.Get("Location")).status66(t)
		record := onceward.NewKey(w.anna.id, key).RecordID()
		for _, part := range []string{"a try begins", "outcome=complete", "record=" + record} {
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				found := false
				for line := range strings.Lines(w.log.String()) {
					found = found || strings.Contains(line, "operation="+done.ID) && strings.Contains(line, part)
				}
				if found {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("no line of %s says %q:\n%s", done.ID, part, w.log)
				}
			}
		}
	}
}

// Twenty at once, under one key and under a key each with the page's own id: one file.
func TestAnExportOrderedByManyAtOnceIsPreparedOnce(t *testing.T) {
	w := began(t)
	w.task("a", "a tomorrow")
	for i, order := range []string{"format=json&part=all", "format=json&part=all&id=mine"} {
		sendAll(t, 20, func(n int) {
			key := "same"
			if i == 1 {
				key = "key-" + strconv.Itoa(n)
			}
			// Who comes while the first is under way is told to come again.
			a := w.anna.post("/exports", order, named(key)...)
			for a.status == http.StatusConflict {
				time.Sleep(20 * time.Millisecond)
				a = w.anna.post("/exports", order, named(key)...)
			}
			if a.status != http.StatusAccepted {
				t.Error(a)
			}
		})
	}
	sendAll(t, 2, func(i int) {
		a := w.anna.post("/exports", []string{"format=json&part=all", "format=json&part=all&id=mine"}[i], named([]string{"same", "another"}[i])...)
		if a := w.anna.until(a.header.Get("Location")); a.status66(t).State != "complete" {
			t.Error(a)
		}
	})
	if jobs, files := w.count(`SELECT count(*) FROM river_job`), w.count(`SELECT count(*) FROM exports`); jobs != 2 || files != 2 {
		t.Errorf("%d jobs, %d files, want 2", jobs, files)
	}
}

// Another order under an id that names one is refused, as often as it comes, and says
// where that one is; it does not end as a file of another kind.
func TestAnotherOrderUnderTheSameIDIsRefused(t *testing.T) {
	w := newWorld(t)
	w.task("a", "a tomorrow")
	first := w.anna.post("/exports", "format=ics&part=all&id=mine", named("k")...)
	to := first.header.Get("Location")
	if first.status != http.StatusAccepted {
		t.Fatal(first)
	}
	for i, order := range []string{"format=json&part=week", "format=json&part=all", "format=ics&part=week", "format=json&part=week"} {
		for _, more := range [][]string{nil, hx(), form} {
			key := "other-" + strconv.Itoa(i) + strconv.Itoa(len(more))
			a := w.anna.post("/exports", order+"&id=mine", named(key, more...)...)
			if a.status != http.StatusConflict || a.header.Get("Location") != to || !strings.Contains(a.body, "Форма уже была отправлена") {
				t.Errorf("%s: %v", order, a)
			}
		}
	}
	// The order itself is still answered, under any key, also in another week; and the
	// id is its owner's alone.
	w.clock.Add(2 * time.Hour)
	if a := w.anna.post("/exports", "format=ics&part=all&id=mine", named("k2")...); a.status != http.StatusAccepted || a.header.Get("Location") != to {
		t.Error(a)
	}
	if a := w.boris.post("/exports", "format=json&part=week&id=mine", named("k")...); a.status != http.StatusAccepted {
		t.Error(a)
	}
	if jobs := w.count(`SELECT count(*) FROM river_job`); jobs != 2 {
		t.Errorf("%d jobs", jobs)
	}
}

// The clock goes back by a day: the new file is the one that the person came for, and
// stays though all others look newer.
func TestAFileMadeAfterTheClockWentBackStays(t *testing.T) {
	w := began(t)
	w.task("a", "a tomorrow")
	order := func(id string) string {
		a := w.anna.post("/exports", "format=json&part=all&id="+id)
		return w.anna.until(a.header.Get("Location")).status66(t).Location
	}
	for i := range 10 {
		order("n" + strconv.Itoa(i))
	}
	w.clock.Add(-time.Hour)
	for _, id := range []string{"late", "later"} {
		if a := w.anna.get(order(id)); a.status != http.StatusOK {
			t.Error(a)
		}
		if n := w.count(`SELECT count(*) FROM exports`); n != 10 {
			t.Errorf("%d files", n)
		}
	}
}

// Without scripts: the page's form, a redirect, a page that shows the file; F5 and a
// second submission are the same order.
func TestAnExportWithoutScriptsIsAFormAndAPage(t *testing.T) {
	w := began(t)
	w.task("a", "a tomorrow")
	f := w.anna.form("/exports", "/exports")
	if len(f.Get("_key")) < 22 || len(f.Get("id")) < 22 {
		t.Fatal(f)
	}
	f.Set("format", "json")
	f.Set("part", "week")
	var to string
	for range 2 {
		a := w.anna.post("/exports", f.Encode(), form...)
		if a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/operations/") {
			t.Fatal(a)
		}
		to = a.header.Get("Location")
	}
	page := w.anna.get(to, form...)
	for end := time.Now().Add(60 * time.Second); strings.Contains(page.body, "Готовим файл") && time.Now().Before(end); page = w.anna.get(to, form...) {
		if !strings.Contains(page.body, `http-equiv="refresh"`) {
			t.Fatal("a page that waits does not ask again")
		}
	}
	link := regexp.MustCompile(`href="(/exports/[0-9a-f]{64})" download`).FindStringSubmatch(page.body)
	if page.status != http.StatusOK || link == nil || !strings.Contains(page.body, "Файл готов") || strings.Contains(page.body, `http-equiv="refresh"`) {
		t.Fatal(page)
	}
	var file struct {
		Format, From, To string
		Tasks            []struct{ ID, Date string }
	}
	got := w.anna.get(link[1])
	if err := json.Unmarshal([]byte(got.body), &file); err != nil || file.Format != "onceward-planner/1" || file.From != "2026-11-23" || file.To != "2026-11-29" || len(file.Tasks) != 0 {
		t.Errorf("%v, %v: tomorrow is in another week", got, err)
	}
	if !strings.Contains(got.header.Get("Content-Disposition"), "planner-week-2026-11-23.json") {
		t.Error(got.header)
	}
	if list := w.anna.get("/exports"); !strings.Contains(list.body, link[1]) || !strings.Contains(list.body, "сегодня в 23:30") {
		t.Error(list)
	}
}

// With scripts: the piece of the page that waits is replaced when the file is there.
func TestThePieceOfThePageWaitsForTheFile(t *testing.T) {
	w := newWorld(t)
	w.task("a", "a tomorrow")
	to := w.anna.post("/exports", "format=ics&part=all&id=x", hx()...).header.Get("Location")
	piece := w.anna.get(to+"?wait=0", hx()...)
	if strings.Contains(piece.body, "<html") || !strings.Contains(piece.body, `hx-get="`+to+`?wait=20"`) || !strings.Contains(piece.body, "Готовим файл") {
		t.Error(piece)
	}
	waits := make(chan answer)
	go func() { waits <- w.anna.get(to+"?wait=20", hx()...) }()
	if err := w.exports.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if piece := <-waits; strings.Contains(piece.body, "hx-get") || !strings.Contains(piece.body, "Файл готов") || !strings.Contains(piece.body, "Хранится до 6 декабря.") {
		t.Error(piece)
	}
	again := w.anna.post("/exports", "format=ics&part=all&id=x", hx(named("another")...)...)
	if again.status != http.StatusAccepted || !strings.Contains(again.body, "Файл готов") {
		t.Error(again)
	}
}

// A calendar with nothing in it is none: failed, in words, in both languages, and
// nothing of how it is made.
func TestAnExportThatFailsSaysSoInWords(t *testing.T) {
	w := began(t)
	to := w.anna.post("/exports", "format=ics&part=all", named("k")...).header.Get("Location")
	a := w.anna.until(to)
	if s := a.status66(t); a.header.Get("Content-Type") != "application/problem+json" || s.State != "failed" || s.Type != "urn:planner:export-empty" {
		t.Error(a)
	}
	if a := w.anna.get(to, form...); a.status != http.StatusOK || !strings.Contains(a.body, "В календарь нечего положить") {
		t.Error(a)
	}
	w.anna.post("/settings", "locale=en")
	if a := w.anna.get(to, form...); !strings.Contains(a.body, "There is nothing to put into the calendar") {
		t.Error(a)
	}
	// One that goes wrong: tried again, given up, and nobody reads why.
	if _, err := w.db.Write.Exec(`CREATE TRIGGER full BEFORE INSERT ON exports BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`); err != nil {
		t.Fatal(err)
	}
	w.task("a", "a")
	to = w.anna.post("/exports", "format=ics&part=all", named("k2")...).header.Get("Location")
	for end := time.Now().Add(30 * time.Second); w.count(`SELECT count(*) FROM river_job WHERE errors IS NOT NULL`) == 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if s := w.anna.get(to).status66(t); s.State != "pending" {
		t.Errorf("after the first try: %v", s)
	}
	// The next tries are brought forward, as if the time had passed.
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		if _, err := w.db.Write.Exec(`UPDATE river_job SET scheduled_at = datetime('now', '-1 hour'), state = 'available' WHERE state = 'retryable'`); err != nil {
			t.Fatal(err)
		}
		if a = w.anna.get(to + "?wait=1"); a.status66(t).State != "pending" {
			break
		}
	}
	if n := w.count(`SELECT attempt FROM river_job ORDER BY id DESC LIMIT 1`); n != 4 {
		t.Errorf("it was tried %d times", n)
	}
	if s := a.status66(t); s.State != "failed" || strings.Contains(a.body, "disk") {
		t.Error(a)
	}
	if a := w.anna.get(to, form...); !strings.Contains(a.body, "The file could not be prepared") || strings.Contains(a.body, "disk") {
		t.Error(a)
	}
}

func TestAnOrderOfNothingKnownOrWithoutANameIsRefused(t *testing.T) {
	w := newWorld(t)
	before := w.dump()
	for body, want := range map[string]int{
		"format=pdf&part=all&id=a": 422, "format=ics&part=year&id=a": 422, "id=a": 422, "format=ics&part=all&id=a+b": 422, "format=ics&part=all": 400,
	} {
		if a := w.anna.post("/exports", body, hx()...); a.status != want || strings.Contains(a.body, "<") {
			t.Errorf("%s: %v", body, a)
		}
	}
	if w.dump() != before {
		t.Error("a refused order changed something")
	}
	for _, path := range []string{"/operations/x", "/operations/" + strings.Repeat("0", 64), "/exports/x"} {
		if a := w.anna.get(path, form...); a.status != http.StatusNotFound || !strings.Contains(a.body, "<h1>") {
			t.Error(a)
		}
	}
}

// A file is kept for seven days, and no more than ten of them; what became of the
// order is still said.
func TestAFileIsDeletedWhenItsTimeIsOver(t *testing.T) {
	w := began(t)
	w.task("a", "a tomorrow")
	var to []string
	for i := range 12 {
		a := w.anna.post("/exports", url.Values{"format": {"json"}, "part": {"all"}, "id": {"n" + strconv.Itoa(i)}}.Encode())
		to = append(to, a.header.Get("Location"))
		w.anna.until(a.header.Get("Location"))
		w.clock.Add(time.Minute)
	}
	if n := w.count(`SELECT count(*) FROM exports`); n != 10 {
		t.Errorf("%d files", n)
	}
	if a := w.anna.get(to[0], form...); !strings.Contains(a.body, "Файл уже удалён") || strings.Contains(a.body, " download>") {
		t.Error(a)
	}
	last := w.anna.get(to[11]).status66(t).Location
	w.clock.Add(7*24*time.Hour - 5*time.Minute)
	if err := w.exports.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := w.anna.get(last); a.status != http.StatusOK {
		t.Error(a)
	}
	w.clock.Add(10 * time.Minute)
	if a := w.anna.get(last); a.status != http.StatusNotFound { // before any sweep
		t.Error(a)
	}
	if err := w.exports.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.count(`SELECT count(*) FROM exports`); n != 0 {
		t.Errorf("%d files are left", n)
	}
}
