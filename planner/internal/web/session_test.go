package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/outbox"
	"github.com/onceward/onceward/planner/internal/account"
)

// announced are the headers of a request that the outbox sends.
func (w *world) announced(p *person, key string, more ...string) []string {
	return append([]string{"Idempotency-Key", key, outbox.HeaderOwner, outbox.Tag([]byte("a secret of this test"), p.id), outbox.HeaderAttempt, "1"}, more...)
}

func TestRegisteringAndLoggingInGiveASession(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/auth/register", "/auth/login"} {
		b := w.browser()
		a := w.do(b, "POST", path, "login=petya&password=secret123", "Accept-Language", "en")
		if a.status != http.StatusSeeOther || a.header.Get("Location") != "/today" {
			t.Fatalf("%s: %v", path, a)
		}
		cookie := a.header.Get("Set-Cookie")
		for _, want := range []string{cookieName + "=", "HttpOnly", "SameSite=Lax", "Path=/"} {
			if !strings.Contains(cookie, want) {
				t.Errorf("%s: the cookie %q lacks %s", path, cookie, want)
			}
		}
		if page := w.do(b, "GET", "/today", ""); page.status != http.StatusOK || !strings.Contains(page.body, `<html lang="en"`) {
			t.Errorf("%s: %v", path, page)
		}
	}
	script := w.do(w.browser(), "POST", "/auth/login", "login=petya&password=secret123&next=/done", hx()...)
	if script.status != http.StatusNoContent || script.header.Get("HX-Redirect") != "/done" || script.header.Get("Set-Cookie") == "" {
		t.Errorf("a script's login: %v", script)
	}
}

func TestAFailedLoginSaysSoAndKeepsTheLogin(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/auth/login", "/auth/register"} {
		a := w.do(w.browser(), "POST", path, "login=anna&password=wrong+one&next=/done")
		if a.status < 400 || a.status >= 500 || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %v", path, a)
		}
		for _, want := range []string{`value="anna"`, `role="alert"`} {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s: the page lacks %s", path, want)
			}
		}
		if strings.Contains(a.body, "wrong one") {
			t.Errorf("%s: the page has the password", path)
		}
		line := w.do(w.browser(), "POST", path, "login=anna&password=wrong+one", hx()...)
		if line.status != a.status || strings.Contains(line.body, "<") || strings.TrimSpace(line.body) == "" {
			t.Errorf("%s: a script's answer: %v", path, line)
		}
	}
}

// Requirement 55: sign-in stands outside the guard; a key that comes along is not
// looked at, and no stored answer holds a session.
func TestSigningInStandsOutsideTheGuard(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		a := w.do(w.browser(), "POST", "/auth/login", "login=anna&password=correct+horse", w.announced(w.anna, "k")...)
		if a.status != http.StatusSeeOther || a.header.Get("Set-Cookie") == "" || a.header.Get("Idempotency-Status") != "" || a.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%v", a)
		}
	}
	if n := w.count(`SELECT count(*) FROM idempotency_keys`); n != 0 {
		t.Errorf("%d keys", n)
	}
}

// R25, W3, W4: what each kind of client is told when the session is over.
func TestWithoutASessionEachIsSentToTheLoginInItsOwnWay(t *testing.T) {
	w := newWorld(t)
	w.task("a", "a")
	before := w.dump()
	if err := w.app.Accounts().EndSessions(t.Context(), w.anna.id); err != nil {
		t.Fatal(err)
	}
	if a := w.anna.get("/today"); a.status != http.StatusSeeOther || a.header.Get("Location") != "/auth/login" {
		t.Errorf("a page: %v", a)
	}
	if a := w.anna.get("/done"); a.header.Get("Location") != "/auth/login?next=%2Fdone" {
		t.Errorf("another page: %v", a)
	}
	if a := w.anna.post("/tasks/a/state", "completed=true"); a.status != http.StatusSeeOther || a.header.Get("Location") != "/auth/login" {
		t.Errorf("a form: %v", a)
	}
	if a := w.anna.post("/tasks/a/state", "completed=true", hx()...); a.status != http.StatusUnauthorized || a.header.Get("HX-Redirect") != "/auth/login" {
		t.Errorf("htmx: %v", a)
	}
	for _, more := range [][]string{nil, hx()} {
		a := w.anna.post("/tasks/a/state", "completed=true", w.announced(w.anna, "k", more...)...)
		if a.status != http.StatusUnauthorized || a.header.Get("Outbox-Status") != "auth" || a.header.Get("Location")+a.header.Get("HX-Redirect") != "" {
			t.Errorf("the outbox: %v", a)
		}
	}
	got := strings.ReplaceAll(w.dump(), "session_epoch=1", "session_epoch=0")
	if got != before {
		t.Error("a request without a session changed something")
	}
	// The key was not used up: after the next login the same request is done.
	token, err := w.app.Accounts().StartSession(t.Context(), w.anna.id, "")
	if err != nil {
		t.Fatal(err)
	}
	w.anna.cookie(token)
	if a := w.anna.post("/tasks/a/state", "completed=true", w.announced(w.anna, "k", hx()...)...); a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Idempotency-Status"), "executed") {
		t.Errorf("after the login: %v", a)
	}
}

// R24, W11, B161: what Anna made is not done in Boris's account.
func TestAnEntryOfAnotherAccountIsNotDone(t *testing.T) {
	w := newWorld(t)
	before := w.dump()
	a := w.boris.post("/tasks", "text=homework&id=x", w.announced(w.anna, "k", hx()...)...)
	if a.status != http.StatusPreconditionFailed || a.header.Get("Outbox-Status") != "owner" || a.header.Get("Idempotency-Status") != "" {
		t.Errorf("%v", a)
	}
	if w.dump() != before {
		t.Error("it was done")
	}
}

// Outbox.md 4.2: to the outbox a redirect is an address that it can read.
func TestTheOutboxIsToldWhereAFormGoes(t *testing.T) {
	w := newWorld(t)
	a := w.anna.post("/tasks", "text=homework&id=x", w.announced(w.anna, "k", "Accept", "text/html")...)
	if a.status != http.StatusOK || a.header.Get("Outbox-Location") != "/today#task-x" || a.header.Get("Location") != "" || !strings.HasPrefix(a.header.Get("Idempotency-Status"), "executed") {
		t.Errorf("%v", a)
	}
	old := w.anna.post("/tasks", "text=old&id=old", w.announced(w.anna, "k2", outbox.HeaderAge, "604800")...)
	if old.status != http.StatusGone || old.header.Get("Outbox-Status") != "expired" {
		t.Errorf("as old as the guard's memory: %v", old)
	}
	if maxAge >= retention {
		t.Error("an entry may be older than what the guard remembers")
	}
	for i, rt := range changing() {
		if rt.kind != queued {
			continue
		}
		id := "lesson" + string('a'+rune(i))
		w.task(id, "training")
		if a := w.anna.post(rt.path(id), rt.sample, w.announced(w.anna, "for-"+id, hx()...)...); a.header.Get("Outbox-Status") == "unguarded" || a.status >= 400 {
			t.Errorf("%s stands outside the guard: %v", rt.pattern, a)
		}
	}
}

func TestARequestOfAnotherSiteIsRefused(t *testing.T) {
	w := newWorld(t)
	w.task("a", "a")
	before := w.dump()
	for _, path := range []string{"/tasks/a/state", "/auth/login", "/auth/logout", "/settings"} {
		a := w.anna.post(path, "completed=true&login=boris&password=correct+horse&theme=dark", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		if a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %v", path, a)
		}
	}
	if w.dump() != before {
		t.Error("it changed something")
	}
	if a := w.anna.get("/today"); a.status != http.StatusOK {
		t.Errorf("the session is gone: %v", a)
	}
}

func TestLoggingOutEndsTheSessionHereOrEverywhere(t *testing.T) {
	w := newWorld(t)
	other := *w.anna
	other.Client = *w.browser()
	token, err := w.app.Accounts().StartSession(t.Context(), w.anna.id, "")
	if err != nil {
		t.Fatal(err)
	}
	other.cookie(token)
	for range 2 {
		if a := w.anna.post("/auth/logout", ""); a.status != http.StatusSeeOther || a.header.Get("Location") != "/auth/login" {
			t.Errorf("%v", a)
		}
	}
	w.anna.cookie(w.anna.token) // somebody kept the cookie
	if a := w.anna.get("/today"); a.status != http.StatusSeeOther {
		t.Errorf("the session lives on: %v", a)
	}
	if a := other.get("/today"); a.status != http.StatusOK {
		t.Errorf("the other device: %v", a)
	}
	other.post("/auth/logout", "everywhere=true")
	other.cookie(token)
	if a := other.get("/today"); a.status != http.StatusSeeOther {
		t.Errorf("after logging out everywhere: %v", a)
	}
}

func TestTriesAreLimitedButNotForThisMachineUnlessAsked(t *testing.T) {
	wrong := func(w *world, from string) int {
		return w.do(w.browser(), "POST", "/auth/login", "login=anna&password=wrong+one", "X-Forwarded-For", from, "HX-Request", "true").status
	}
	w := newWorld(t)
	for range loginTries + 2 {
		if got := wrong(w, "203.0.113.9"); got != http.StatusUnprocessableEntity {
			t.Fatalf("status %d from this machine", got)
		}
	}

	w = newWorld(t, func(c *Config) { c.Limits = true })
	last := 0
	for range loginTries + 1 {
		// Nobody is trusted to say for whom they speak: a new name is no new caller.
		last = wrong(w, "203.0.113."+string('0'+rune(last%7)))
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("try %d: status %d", loginTries+1, last)
	}
	if a := w.do(w.browser(), "POST", "/auth/login", "login=anna&password=correct+horse"); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Errorf("the right password in between: %v", a)
	}
	if a := w.do(w.browser(), "POST", "/auth/login", "login=boris&password=correct+horse"); a.status != http.StatusSeeOther {
		t.Errorf("another login: %v", a)
	}
	w.clock.Add(loginWindow)
	if a := w.do(w.browser(), "POST", "/auth/login", "login=anna&password=correct+horse"); a.status != http.StatusSeeOther {
		t.Errorf("a minute later: %v", a)
	}

	w = newWorld(t, func(c *Config) { c.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	for range loginTries {
		wrong(w, "203.0.113.9")
	}
	if a, b := wrong(w, "203.0.113.9"), wrong(w, "203.0.113.10"); a != http.StatusTooManyRequests || b != http.StatusUnprocessableEntity {
		t.Errorf("behind a proxy: %d for the one who tried, %d for another", a, b)
	}
	if got := wrong(w, "203.0.113.77, 203.0.113.9"); got != http.StatusTooManyRequests {
		t.Errorf("what stands before the proxy's word was believed: %d", got)
	}
	// Whoever has an address of IPv6 has 2^64 of them.
	for i := range loginTries {
		wrong(w, fmt.Sprintf("2001:db8:1:2::%x", i+1))
	}
	if a, b := wrong(w, "2001:db8:1:2:ffff::1"), wrong(w, "2001:db8:1:3::1"); a != http.StatusTooManyRequests || b != http.StatusUnprocessableEntity {
		t.Errorf("in one network of IPv6: %d, in the next: %d", a, b)
	}
	secure := w.do(w.browser(), "POST", "/auth/login", "login=boris&password=correct+horse", "X-Forwarded-For", "203.0.113.50", "X-Forwarded-Proto", "https")
	if c := secure.header.Get("Set-Cookie"); !strings.HasPrefix(c, secureCookieName+"=") || !strings.Contains(c, "Secure") {
		t.Errorf("by https the cookie is %q", c)
	}
}

func TestTheWayBackAfterLoggingInStaysOnThisSite(t *testing.T) {
	w := newWorld(t)
	for next, want := range map[string]string{
		"/done": "/done", "": "/today", "https://evil.example": "/today", "//evil.example": "/today", `/\evil.example`: "/today", "today": "/today",
		// Browsers take tabs and line ends out of an address before they read it.
		"/%09/evil.example": "/today", "/%0a/evil.example": "/today", "/%0d/evil.example": "/today", "%09//evil.example": "/today",
	} {
		if a := w.do(w.browser(), "POST", "/auth/login", "login=anna&password=correct+horse&next="+next); a.header.Get("Location") != want {
			t.Errorf("next=%q goes to %q", next, a.header.Get("Location"))
		}
	}
}

// R28, W14: a device's zone is set once, by a value, answered by nothing that a
// page could take for a reason to load itself again; the person's own choice wins.
func TestADevicesZoneCountsUntilThePersonChooses(t *testing.T) {
	w := newWorld(t)
	tz := func() string {
		var s string
		if err := w.db.Read.QueryRow(`SELECT tz FROM users WHERE id = ?`, w.anna.id).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if a := w.anna.post("/settings/zone", "tz=Asia/Kamchatka"); a.status != http.StatusNoContent || tz() != "Asia/Kamchatka" {
		t.Errorf("%v, zone %s", a, tz())
	}
	if a := w.anna.get("/today"); !strings.Contains(a.body, "Понедельник, 30 ноября") {
		t.Error("in Kamchatka it is Monday already")
	}
	if a := w.anna.post("/settings", "tz=Europe/Moscow&theme=dark"); a.status != http.StatusSeeOther {
		t.Errorf("%v", a)
	}
	if a := w.anna.post("/settings/zone", "tz=Asia/Omsk"); a.status != http.StatusNoContent || tz() != "Europe/Moscow" {
		t.Errorf("%v, zone %s", a, tz())
	}
	if a := w.anna.get("/today"); !strings.Contains(a.body, "Воскресенье, 29 ноября") || !strings.Contains(a.body, `data-theme="dark"`) || strings.Contains(a.body, "data-zone-auto") {
		t.Error("the settings are not on the page")
	}
	w.anna.post("/settings", "tz=auto")
	if a := w.anna.post("/settings/zone", "tz=Asia/Omsk"); a.status != http.StatusNoContent || tz() != "Asia/Omsk" {
		t.Errorf("%v, zone %s", a, tz())
	}
	for _, bad := range []string{"tz=Mars", "theme=pink", "locale=xx&theme=light"} {
		if a := w.anna.post("/settings", bad, hx()...); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %v", bad, a)
		}
	}
}

func TestASessionIsRenewedByUseAndEndsWithoutIt(t *testing.T) {
	w := newWorld(t)
	w.clock.Add(account.SessionLife - time.Hour)
	if a := w.anna.get("/today"); a.status != http.StatusOK {
		t.Fatalf("%v", a)
	}
	w.clock.Add(account.SessionLife - time.Hour)
	if a := w.anna.get("/today"); a.status != http.StatusOK {
		t.Errorf("used, and over: %v", a)
	}
	w.clock.Add(account.SessionLife + time.Hour)
	if a := w.anna.get("/today"); a.status != http.StatusSeeOther {
		t.Errorf("unused, and alive: %v", a)
	}
}

func TestALoginHasOneCountHoweverItIsWritten(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits = true })
	last := 0
	for i := range loginTries + 1 {
		form := url.Values{"login": {strings.Repeat(" ", i) + "Anna"}, "password": {"wrong one"}}
		last = w.do(w.browser(), "POST", "/auth/login", form.Encode(), hx()...).status
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("with a blank more at each try: status %d", last)
	}
	w.do(w.browser(), "POST", "/auth/login", "password=wrong+one&login="+strings.Repeat("a", 50_000), hx()...)
	if n := w.count(`SELECT max(length(bucket)) FROM tries`); n > 500 {
		t.Errorf("a login that nobody can have is kept: %d bytes", n)
	}
}

// A neighbour's host on the same domain can set a cookie for the whole of it, but
// none whose name begins with __Host-.
func TestByHTTPSOnlyTheCookieThatIsBoundToTheHostCounts(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	token, err := w.app.accounts.StartSession(t.Context(), w.app.mustUser(t, "boris"), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		proto, cookie string
		status        int
	}{
		"planted":     {"https", cookieName, http.StatusSeeOther},
		"its own":     {"https", secureCookieName, http.StatusOK},
		"by http":     {"http", cookieName, http.StatusOK},
		"not by http": {"http", secureCookieName, http.StatusSeeOther},
	} {
		a := w.do(w.browser(), "GET", "/today", "", "X-Forwarded-Proto", c.proto, "Cookie", c.cookie+"="+token)
		if a.status != c.status {
			t.Errorf("%s: %d, want %d", name, a.status, c.status)
		}
	}
}

func (a *App) mustUser(t *testing.T, login string) string {
	t.Helper()
	u, err := a.accounts.Login(t.Context(), login, password)
	if err != nil {
		t.Fatal(err)
	}
	return u.ID
}

func TestNoTextMakesAnErrorOfOurs(t *testing.T) {
	w := newWorld(t)
	for i, text := range []string{
		"\x00", "\x00abc", "a\x00", "\xff\xfe", "a\xffb tomorrow", "\u202eabc", strings.Repeat("\x00", 501),
		strings.Repeat("я", 501), strings.Repeat("\xff", 501), "every Monday\x00", "\u2028", "e\u0301" + strings.Repeat("\u0301", 600),
		"99.99.9999", "31.12.9999 every month", "каждый понедельник\x00 физика", "9999-12-31 daily x",
		strings.Repeat("завтра ", 8000), strings.Repeat("каждый ", 4000), strings.Repeat("1.1.", 15000), strings.Repeat("(", 60000), strings.Repeat("«", 20000),
	} {
		start := time.Now()
		form := url.Values{"text": {text}, "id": {fmt.Sprint("t", i)}}
		a := w.anna.post("/tasks", form.Encode(), hx()...)
		if a.status >= 500 {
			t.Errorf("%.20q: %d", text, a.status)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%.20q took %v", text, d)
		}
		if a.status < 300 {
			w.anna.post("/tasks/t"+fmt.Sprint(i)+"/fields", url.Values{"title": {text}}.Encode(), hx()...)
			if a := w.anna.post("/tasks/t"+fmt.Sprint(i)+"/state", "completed=1", hx()...); a.status != http.StatusOK {
				t.Errorf("%.20q done: %v", text, a)
			}
		}
	}
	if log := w.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("%.2000s", log[strings.Index(log, "level=ERROR"):])
	}
}
