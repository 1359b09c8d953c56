package web

import (
	"net/http"
	"strings"
	"testing"
)

// R24: a page that is printed without looking who is signed in says nothing of it.
// To the outbox "nobody" is a log-out: what waits would stop, and the pages that the
// worker keeps would go. The page in place of others is kept by a worker and shown to
// whoever is there by then, so it has no account either.
func TestAPageThatDoesNotKnowWhoIsSignedInLogsNobodyOut(t *testing.T) {
	w := newWorld(t)
	w.anna.post("/settings", "tz=Asia/Omsk&locale=en&theme=dark")
	foreign := func() answer {
		return w.anna.post("/tasks", "text=a&id=b", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Origin", "https://evil.test")
	}
	broken := func() answer {
		if _, err := w.db.Write.Exec("ALTER TABLE sessions RENAME TO elsewhere"); err != nil {
			t.Fatal(err)
		}
		a := w.anna.get("/today")
		if _, err := w.db.Write.Exec("ALTER TABLE elsewhere RENAME TO sessions"); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []struct {
		name   string
		get    func() answer
		status int
	}{
		{"offline", func() answer { return w.anna.get("/offline") }, http.StatusOK},
		{"another site", foreign, http.StatusForbidden},
		{"who is signed in cannot be looked up", broken, http.StatusInternalServerError},
	} {
		a := c.get()
		if a.status != c.status {
			t.Errorf("%s: %v", c.name, a)
		}
		for _, bad := range []string{"outbox-owner", "auth.js", "planner.js", "anna", "data-theme", "data-zone"} {
			if strings.Contains(a.body, bad) {
				t.Errorf("%s: the page has %q", c.name, bad)
			}
		}
		if !strings.Contains(a.body, "/outbox/kit.js") || a.header.Get("Planner-Owner") != "" {
			t.Errorf("%s: %v", c.name, a)
		}
	}
	// The same bytes for everybody, in the language that the worker wants.
	for lang, head := range map[string]string{"ru": "Нет сети", "en": "You are offline"} {
		path := "/offline?lang=" + lang
		hers, nobodys := w.anna.get(path).body, w.do(w.browser(), "GET", path, "", "Accept-Language", "ru").body
		if hers != nobodys || !strings.Contains(hers, head) {
			t.Errorf("%s: %s\n%s", path, hers, nobodys)
		}
	}
	// Who looked and found nobody says so.
	if a := w.do(w.browser(), "GET", "/", ""); !strings.Contains(a.body, `name="outbox-owner" content=""`) || !strings.Contains(a.body, "auth.js") {
		t.Error(a)
	}
}
