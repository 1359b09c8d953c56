package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/outbox"
)

// Requirements 18, 19, 51, 23, the first seed's own check: two equal requests with
// one key make one task, and the second answer is the first's.
func TestTwoEqualCreationsWithOneKeyAreOneTask(t *testing.T) {
	w := newWorld(t)
	form := url.Values{"text": {"Купить тетрадь"}}.Encode()
	first := w.anna.post("/tasks", form, named("key-abc-123", hx()...)...)
	second := w.anna.post("/tasks", form, named("key-abc-123", hx()...)...)
	if first.status != http.StatusCreated || second.status != first.status || second.body != first.body {
		t.Errorf("first %v\nsecond %v", first, second)
	}
	if first.header.Get("Idempotency-Replayed") != "" || second.header.Get("Idempotency-Replayed") != "1" {
		t.Errorf("replayed: %q, %q", first.header.Get("Idempotency-Replayed"), second.header.Get("Idempotency-Replayed"))
	}
	if n := w.count(`SELECT count(*) FROM tasks WHERE title = 'Купить тетрадь'`); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

// Requirement 71: the key alone is not to be trusted; what became of it can be
// asked, by the one whose key it is.
func TestAPersonCanAskWhatBecameOfTheirRequest(t *testing.T) {
	w := newWorld(t)
	w.anna.post("/tasks", "text=notebook&id=a", named(`"k 1"`, hx()...)...)
	for _, c := range []struct {
		who  *person
		key  string
		want string
	}{
		{w.anna, "k%201", `"state":"complete","status":201`},
		{w.anna, "other", `"state":"absent"`},
		{w.boris, "k%201", `"state":"absent"`},
	} {
		if a := c.who.get("/idempotency/" + c.key); a.status != http.StatusOK || !strings.Contains(a.body, c.want) {
			t.Errorf("%s: %v", c.key, a)
		}
	}
	if a := w.do(w.browser(), "GET", "/idempotency/other", ""); a.status != http.StatusSeeOther {
		t.Error(a)
	}
}

// Requirement 17: two equal tasks may be meant, and then have two names.
func TestTwoEqualCreationsWithTwoNamesAreTwoTasks(t *testing.T) {
	w := newWorld(t)
	w.anna.post("/tasks", "text=notebook", named("a")...)
	w.anna.post("/tasks", "text=notebook", named("b")...)
	w.anna.post("/tasks", "text=notebook&id=c")
	w.anna.post("/tasks", "text=notebook&id=d&_key=e")
	if n := w.count(`SELECT count(*) FROM tasks`); n != 4 {
		t.Errorf("%d tasks, want 4", n)
	}
}

// A creation that nothing names could only double.
func TestACreationWithoutAnyNameIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, form := range []string{"text=notebook", "text=notebook&id=", "text=notebook&id=&_key="} {
		if a := w.anna.post("/tasks", form, hx()...); a.status != http.StatusBadRequest {
			t.Errorf("%q: %v", form, a)
		}
	}
	for _, id := range []string{"a b", "../x", strings.Repeat("x", 65), "ключ"} {
		if a := w.anna.post("/tasks", url.Values{"text": {"a"}, "id": {id}}.Encode(), hx()...); a.status != http.StatusUnprocessableEntity {
			t.Errorf("id %q: %v", id, a)
		}
	}
	for _, text := range []string{"", "   ", strings.Repeat("я", 501)} {
		if a := w.anna.post("/tasks", url.Values{"text": {text}, "id": {"x"}}.Encode(), hx()...); a.status != http.StatusUnprocessableEntity {
			t.Errorf("text %.20q: %v", text, a)
		}
	}
	if n := w.count(`SELECT count(*) FROM tasks`); n != 0 {
		t.Errorf("%d tasks", n)
	}
}

// Requirement 64, R39: under the client's id the second creation is the first row,
// 201 and then 200, also when no key remembers it and the text is another one.
func TestACreationUnderAClientsIDIsMadeOnceForEver(t *testing.T) {
	w := newWorld(t)
	first := w.anna.post("/tasks", "text=notebook&id=mine", named("k1", hx()...)...)
	w.clock.Add(100 * 24 * time.Hour)
	second := w.anna.post("/tasks", "text=notebook&id=mine", hx()...)
	third := w.anna.post("/tasks", "text=something+else&id=mine", named("k2", hx()...)...)
	if first.status != http.StatusCreated || second.status != http.StatusOK || third.status != http.StatusOK {
		t.Errorf("statuses %d, %d, %d, want 201, 200, 200", first.status, second.status, third.status)
	}
	if !strings.Contains(third.body, ">notebook<") || w.count(`SELECT count(*) FROM tasks`) != 1 {
		t.Errorf("%v", third)
	}
}

// Requirement 26, B077: another person's same key is another key, and neither
// sees the other's answer.
func TestTheSameKeyOfTwoPeopleIsTwoKeys(t *testing.T) {
	w := newWorld(t)
	a := w.anna.post("/tasks", "text=secret+of+Anna", named("k", hx()...)...)
	b := w.boris.post("/tasks", "text=secret+of+Anna", named("k", hx()...)...)
	c := w.boris.post("/tasks", "text=other", named("k2", hx()...)...)
	if a.status != http.StatusCreated || b.status != http.StatusCreated || c.status != http.StatusCreated || a.body == b.body {
		t.Errorf("%v\n%v", a, b)
	}
	if b.header.Get("Idempotency-Replayed") != "" {
		t.Error("Boris got Anna's answer")
	}
	for _, p := range []*person{w.anna, w.boris} {
		if n := w.count(`SELECT count(*) FROM tasks WHERE user_id = ? AND title = 'secret of Anna'`, p.id); n != 1 {
			t.Errorf("%s has %d", p.id, n)
		}
	}
}

// B082: the scope is the account, so a phone and a laptop share their keys.
func TestTwoSessionsOfOnePersonShareTheirKeys(t *testing.T) {
	w := newWorld(t)
	laptop := *w.anna
	laptop.Client = *w.browser()
	token, err := w.app.Accounts().StartSession(t.Context(), w.anna.id, "laptop")
	if err != nil {
		t.Fatal(err)
	}
	laptop.cookie(token)
	first := w.anna.post("/tasks", "text=one", named("k", hx()...)...)
	second := laptop.post("/tasks", "text=one", named("k", hx()...)...)
	if second.header.Get("Idempotency-Replayed") != "1" || second.body != first.body || w.count(`SELECT count(*) FROM tasks`) != 1 {
		t.Errorf("%v", second)
	}
}

// Requirement 29, R6: a key names one request; another path, body, query or method
// under it is refused and changes nothing.
func TestAKeyOnAnotherRequestIsRefusedAndChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.task("a", "a")
	w.task("b", "b")
	if a := w.anna.post("/tasks/a/state", "completed=true", named("k", hx()...)...); a.status != http.StatusOK {
		t.Fatalf("%v", a)
	}
	before := w.dump()
	for _, c := range []struct{ path, form string }{
		{"/tasks/b/state", "completed=true"}, {"/tasks/a/state", "completed=false"}, {"/tasks/a/trash", "deleted=true"},
		{"/tasks/a/state?x=1", "completed=true"}, {"/tasks", "text=new&id=new"},
	} {
		a := w.anna.post(c.path, c.form, named("k", hx()...)...)
		if a.status != http.StatusUnprocessableEntity || !strings.HasPrefix(a.header.Get("Idempotency-Status"), "key-reused") {
			t.Errorf("%s %s: %v", c.path, c.form, a)
		}
		if strings.ContainsAny(a.body, "<{") || a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("a person's line: %v", a)
		}
		page := w.anna.post(c.path, c.form, named("k", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "same-origin")...)
		if page.status != http.StatusUnprocessableEntity || !strings.Contains(page.body, "<h1>") || strings.Contains(page.body, "problem") {
			t.Errorf("a person's page: %v", page)
		}
		program := w.anna.post(c.path, c.form, named("k")...)
		if program.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(program.body, `"urn:onceward:problem:key-reused"`) {
			t.Errorf("a program's answer: %v", program)
		}
	}
	if w.dump() != before {
		t.Error("a refused request changed something")
	}
}

// Requirement 32, R13: in the wrong order everything else would seem to work. The
// guard outside the session does not know whose key it is, and says so, loudly.
func TestTheGuardOutsideTheSessionFailsLoudly(t *testing.T) {
	w := newWorld(t)
	guard, err := onceward.New(memstore.New(memstore.Config{}), outbox.Owned(scope, []byte("s")), onceward.Config{Logger: w.app.log})
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close(context.Background())
	ran := false
	wrong := httptest.NewServer(guard.Handler(w.app.session(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))))
	defer wrong.Close()
	req, _ := http.NewRequest("POST", wrong.URL+"/tasks", strings.NewReader("text=a"))
	req.Header.Set("Idempotency-Key", "k")
	req.AddCookie(&http.Cookie{Name: cookieName, Value: w.anna.token})
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusInternalServerError || ran {
		t.Errorf("status %d, the handler ran: %v", res.StatusCode, ran)
	}
	if !strings.Contains(w.log.String(), "outside authentication") {
		t.Errorf("the log says nothing of it:\n%s", w.log)
	}
}

// Requirement 59, B013: without a script: the form's own hidden key and id make a
// second submission, at once or later, the same one; the answer is a redirect, so
// that reloading its page sends nothing.
func TestAFormWithoutScriptSubmittedTwiceIsOneTask(t *testing.T) {
	w := newWorld(t)
	navigate := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "same-origin", "Accept", "text/html", "Referer", w.server.URL + "/today"}
	form := w.anna.form("/today", "/tasks")
	form.Set("text", "Купить тетрадь")
	sendAll(t, 5, func(int) {
		if a := w.anna.post("/tasks", form.Encode(), navigate...); a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/today#task-"+form.Get("id")) {
			t.Errorf("%v", a)
		}
	})
	if a := w.anna.post("/tasks", form.Encode(), navigate...); a.status != http.StatusSeeOther {
		t.Errorf("back and again: %v", a)
	}
	if n := w.count(`SELECT count(*) FROM tasks`); n != 1 {
		t.Errorf("%d tasks", n)
	}
	if again := w.anna.form("/today", "/tasks"); again.Get("id") == form.Get("id") || again.Get("_key") == form.Get("_key") {
		t.Error("the page was printed again with the same names; the next task would be swallowed")
	}

	done := w.anna.form("/today", "/tasks/"+form.Get("id")+"/state")
	for range 2 {
		a := w.anna.post("/tasks/"+form.Get("id")+"/state", done.Encode(), navigate...)
		to := a.header.Get("Location")
		if a.status != http.StatusSeeOther || !strings.HasPrefix(to, "/today?did=done&id=") {
			t.Fatalf("%v", a)
		}
		// The page offers the way back, and reloading it is a GET.
		undo := w.anna.form(to, "/tasks/"+form.Get("id")+"/state")
		if undo.Get("completed") != "false" {
			t.Errorf("the way back sends %v", undo)
		}
	}
	if n := w.count(`SELECT is_completed FROM tasks`); n != 1 {
		t.Error("not done")
	}
}

// The second submission of a form whose first is still running waits for its
// answer instead of showing a person "409".
func TestASecondSubmissionWaitsForTheFirstOnesAnswer(t *testing.T) {
	w := newWorld(t)
	tx, err := w.db.Write.BeginTx(t.Context(), nil) // the first one's work stands still
	if err != nil {
		t.Fatal(err)
	}
	release := time.AfterFunc(700*time.Millisecond, func() { _ = tx.Rollback() })
	defer release.Stop()
	sendAll(t, 3, func(int) {
		a := w.anna.post("/tasks", "text=slow&id=slow&_key=slow", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "same-origin")
		if a.status != http.StatusSeeOther {
			t.Errorf("%v", a)
		}
	})
	if n := w.count(`SELECT count(*) FROM tasks`); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

func TestALargeBodyIsRefused(t *testing.T) {
	w := newWorld(t)
	body := "text=" + strings.Repeat("x", maxBody)
	for _, headers := range [][]string{hx(), named("k", hx()...), named("k")} {
		if a := w.anna.post("/tasks?", body+"&id=x", headers...); a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%v: %v", headers, a)
		}
	}
	if a := w.do(w.browser(), "POST", "/auth/login", "login=anna&password="+body); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("login: %v", a)
	}
	if n := w.count(`SELECT count(*) FROM tasks`); n != 0 {
		t.Errorf("%d tasks", n)
	}
}

// Requirement 27: a handler that fails gives its key back, and the repeat is a real
// one. (The writer is taken away, as by a full disk.)
func TestAFailureIsNotRememberedAsTheAnswer(t *testing.T) {
	w := newWorld(t)
	if _, err := w.db.Write.Exec(`CREATE TRIGGER broken BEFORE INSERT ON tasks BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`); err != nil {
		t.Fatal(err)
	}
	first := w.anna.post("/tasks", "text=a&id=a", named("k", hx()...)...)
	if first.status != http.StatusInternalServerError || strings.Contains(first.body, "disk") || !strings.HasPrefix(first.header.Get("Idempotency-Status"), "released") {
		t.Errorf("%v", first)
	}
	if !strings.Contains(w.log.String(), "the disk is full") {
		t.Error("the log does not say why")
	}
	if _, err := w.db.Write.Exec(`DROP TRIGGER broken`); err != nil {
		t.Fatal(err)
	}
	if second := w.anna.post("/tasks", "text=a&id=a", named("k", hx()...)...); second.status != http.StatusCreated || second.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%v", second)
	}
}

// Requirement 70: one line for each decision, by the key's hash and never the key.
func TestTheLogTellsEachDecisionAndNoKey(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		w.anna.post("/tasks", "text=a", named("a-key-nobody-may-read", hx()...)...)
	}
	log := w.log.String()
	id := onceward.NewKey(w.anna.id, "a-key-nobody-may-read").RecordID()
	if strings.Count(log, id) != 2 || !strings.Contains(log, "executed") || !strings.Contains(log, "replayed") {
		t.Errorf("the story of %s:\n%s", id, log)
	}
	if strings.Contains(log, "a-key-nobody-may-read") || strings.Contains(log, w.anna.token) {
		t.Errorf("the log has what it may not have:\n%s", log)
	}
}
