package web

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
)

// elements parses a page and lists its elements, in order; what stands in a
// <template> is among them.
func elements(t *testing.T, page string) []*html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var all []*html.Node
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	return all
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

// fields are what a browser would send of a form, the buttons left out.
func fields(form *html.Node) url.Values {
	v := url.Values{}
	for n := range form.Descendants() {
		if n.Type == html.ElementNode && n.Data == "input" && attr(n, "name") != "" {
			v.Add(attr(n, "name"), attr(n, "value"))
		}
	}
	return v
}

// form finds the first form of a page with that action, as a browser would send it.
func (p *person) form(path, action string) url.Values {
	p.w.t.Helper()
	page := p.get(path)
	if page.status != http.StatusOK {
		p.w.t.Fatalf("%s: %v", path, page)
	}
	for _, n := range elements(p.w.t, page.body) {
		if n.Data == "form" && attr(n, "action") == action {
			return fields(n)
		}
	}
	p.w.t.Fatalf("%s has no form for %s", path, action)
	return nil
}

// allPages are all pages of the table and the errors, with something on each.
func (w *world) allPages() map[string]string {
	w.t.Helper()
	w.task("open", "Физика: задачи 12–15 завтра")
	w.task("lesson", "training every Monday 18:00")
	w.task("late", "late")
	w.task("ready", "ready <b>&\"' today")
	w.task("binned", "binned")
	w.anna.post("/tasks/late/due", "date=2026-11-20")
	w.anna.post("/tasks/ready/state", "completed=true")
	w.anna.post("/tasks/binned/trash", "deleted=true")
	pages := map[string]string{}
	// The ids of orders are hashes. The one that waits is "lesson"'s, and so is a file.
	order := operation.Operation{Key: onceward.NewKey(w.anna.id, "export lesson")}.ID()
	if a := w.anna.post("/exports", "format=json&part=all&id=lesson"); a.header.Get("Location") != "/operations/"+order {
		w.t.Fatal(a)
	}
	if _, err := w.db.Write.Exec(`INSERT INTO exports VALUES (?, ?, 'ics', 'all', 'planner.ics', x'00', ?, ?)`, w.anna.id, order,
		w.clock.Now().UnixMilli(), w.clock.Now().Add(time.Hour).UnixMilli()); err != nil {
		w.t.Fatal(err)
	}
	for _, rt := range table {
		if rt.kind != public && rt.kind != page {
			continue
		}
		path := strings.TrimSuffix(rt.path("lesson"), "{$}")
		if strings.HasPrefix(path, "/exports/") || strings.HasPrefix(path, "/operations/") {
			path = strings.Replace(path, "lesson", order, 1)
		}
		client := &w.anna.Client
		if rt.kind == public {
			client = w.browser()
		}
		for _, language := range []string{"ru", "en"} {
			a := w.do(client, "GET", path, "", "Accept-Language", language, "Accept", "text/html")
			if a.status != http.StatusOK {
				w.t.Errorf("GET %s: %d", path, a.status)
			}
			if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
				pages[path+" "+language] = a.body
			}
		}
	}
	pages["/tasks/binned"] = w.anna.get("/tasks/binned").body
	pages["/tasks/ready"] = w.anna.get("/tasks/ready").body
	pages["flash"] = w.anna.get("/today?did=deleted&id=binned").body
	pages["404"] = w.anna.get("/nothing").body
	pages["error"] = w.anna.post("/tasks", "text=a").body
	pages["wrong"] = w.do(w.browser(), "POST", "/auth/login", "login=anna&password=wrong").body
	if len(pages) < 20 {
		w.t.Fatalf("only %d pages", len(pages))
	}
	return pages
}

// The policy allows nothing inline, so nothing may be: a script or style that the
// browser refuses is a page that silently does less.
func TestNoPageHasAnythingInlineOrForeign(t *testing.T) {
	w := newWorld(t)
	for name, body := range w.allPages() {
		for _, n := range elements(t, body) {
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || strings.HasPrefix(a.Key, "hx-on") || a.Key == "style" || strings.HasPrefix(a.Val, "javascript:") || strings.HasPrefix(a.Val, "data:") {
					t.Errorf("%s: <%s %s=%q>", name, n.Data, a.Key, a.Val)
				}
				if (a.Key == "src" || a.Key == "href" || a.Key == "action" || strings.HasPrefix(a.Key, "hx-post")) && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") {
					t.Errorf("%s: <%s %s=%q> leaves the site", name, n.Data, a.Key, a.Val)
				}
			}
			if n.Data == "style" || n.Data == "script" && (attr(n, "src") == "" || textOf(n) != "") {
				t.Errorf("%s: inline <%s>", name, n.Data)
			}
		}
	}
	for _, path := range []string{"/", "/today", "/auth/login", "/nothing", "/static/planner.css", "/healthz"} {
		h := w.anna.get(path).header
		if !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'self'; ") || strings.Contains(h.Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s: policy %q", path, h.Get("Content-Security-Policy"))
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" || h.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// B013, requirement 8: each form works without a script, under a name of its own.
func TestEveryFormHasItsOwnNameAndARouteOfTheTable(t *testing.T) {
	w := newWorld(t)
	forms := 0
	for name, body := range w.allPages() {
		keys := map[string]bool{}
		for _, n := range elements(t, body) {
			if n.Data != "form" {
				continue
			}
			forms++
			action := attr(n, "action")
			rt := routeOf("POST", action)
			if attr(n, "method") != "post" || rt == nil {
				t.Errorf("%s: a form goes to %s %q, which is not in the table", name, attr(n, "method"), action)
				continue
			}
			if post := attr(n, "hx-post"); post != "" && post != action {
				t.Errorf("%s: with a script the form goes to %q, without to %q", name, post, action)
			}
			// A second wish while the first is under way: htmx alone would keep it in
			// the page, and drop it when the first one's answer replaces the row.
			if strings.HasPrefix(attr(n, "hx-post"), "/tasks/") && attr(n, "hx-sync") != "this:replace" {
				t.Errorf("%s: a second wish for %s may be dropped: hx-sync is %q", name, action, attr(n, "hx-sync"))
			}
			f := fields(n)
			// R27, R33: announced, or marked and left alone.
			off := attr(n, "data-outbox") == "off" || strings.HasPrefix(action, "/auth/")
			if off != (rt.kind == now || rt.kind == entry) {
				t.Errorf("%s: the form for %s is announced: %v, and its kind is %d", name, action, !off, rt.kind)
			}
			if rt.kind == queued {
				if len(f["_key"]) != 1 || len(f.Get("_key")) < 22 || keys[f.Get("_key")] {
					t.Errorf("%s: the form for %s has the keys %q", name, action, f["_key"])
				}
				keys[f.Get("_key")] = true
			}
			if rt.pattern == "POST /tasks" && (len(f.Get("id")) < 22 || f.Get("id") == f.Get("_key")) {
				t.Errorf("%s: a new task's id is %q", name, f.Get("id"))
			}
			for d := range n.Descendants() {
				// A browser that restores a page would restore a used key with it.
				if d.Type == html.ElementNode && attr(d, "type") == "hidden" && rt.kind == queued && attr(d, "autocomplete") != "off" {
					t.Errorf("%s: the hidden field %q of %s may be restored by the browser", name, attr(d, "name"), action)
				}
			}
		}
	}
	if forms < 60 {
		t.Errorf("only %d forms were looked at", forms)
	}
}

// routeOf finds a path's route in the table.
func routeOf(method, path string) *route {
	mux := http.NewServeMux()
	for _, rt := range table {
		mux.Handle(rt.pattern, http.NotFoundHandler())
	}
	req, err := http.NewRequest(method, "http://planner"+path, nil)
	if err != nil {
		return nil
	}
	_, pattern := mux.Handler(req)
	for i, rt := range table {
		if rt.pattern == pattern {
			return &table[i]
		}
	}
	return nil
}

// Requirement 14: an open row's button sends "true", a done one's "false", also as
// a plain form.
func TestARowsButtonSendsTheWishedState(t *testing.T) {
	w := newWorld(t)
	w.task("a", "Физика: задачи 12–15")
	for _, c := range []struct{ page, pressed, completed string }{{"/today", "false", "true"}, {"/done", "true", "false"}} {
		found := false
		for _, n := range elements(t, w.anna.get(c.page).body) {
			if n.Data != "form" || attr(n, "action") != "/tasks/a/state" {
				continue
			}
			found = true
			if got := fields(n).Get("completed"); got != c.completed {
				t.Errorf("%s: completed=%s", c.page, got)
			}
			for d := range n.Descendants() {
				if d.Data == "button" && (attr(d, "aria-pressed") != c.pressed || attr(d, "aria-label") != "Выполнено: Физика: задачи 12–15") {
					t.Errorf("%s: %v", c.page, d.Attr)
				}
			}
		}
		if !found {
			t.Errorf("%s has no such row", c.page)
		}
		w.anna.post("/tasks/a/state", "completed=true")
	}
}

func TestPagesCanBeReadByEverybody(t *testing.T) {
	w := newWorld(t)
	for name, body := range w.allPages() {
		ids := map[string]bool{}
		labels := map[string]bool{}
		var all []*html.Node
		inTemplate := func(n *html.Node) bool {
			for p := n.Parent; p != nil; p = p.Parent {
				if p.Data == "template" {
					return true
				}
			}
			return false
		}
		for _, n := range elements(t, body) {
			if !inTemplate(n) {
				all = append(all, n)
			}
		}
		heads, mains := 0, 0
		for _, n := range all {
			if id := attr(n, "id"); id != "" {
				if ids[id] {
					t.Errorf("%s: two elements have the id %q", name, id)
				}
				ids[id] = true
			}
			switch n.Data {
			case "html":
				if l := attr(n, "lang"); l != "ru" && l != "en" {
					t.Errorf("%s: lang=%q", name, l)
				}
			case "main":
				mains++
			case "h1":
				heads++
			case "label":
				labels[attr(n, "for")] = true
			case "button", "summary", "a":
				if textOf(n) == "" && attr(n, "aria-label") == "" {
					t.Errorf("%s: a <%s> has no name: %v", name, n.Data, n.Attr)
				}
			case "svg":
				if attr(n, "aria-hidden") != "true" {
					t.Errorf("%s: a drawing is read aloud", name)
				}
			case "ol", "ul":
				for c := range n.ChildNodes() {
					if c.Type == html.ElementNode && c.Data != "li" {
						t.Errorf("%s: <%s> in a list", name, c.Data)
					}
				}
			}
		}
		if heads != 1 || mains != 1 {
			t.Errorf("%s: %d <h1>, %d <main>", name, heads, mains)
		}
		for _, n := range all {
			if (n.Data == "input" && attr(n, "type") != "hidden" || n.Data == "select" || n.Data == "textarea") && !labels[attr(n, "id")] {
				t.Errorf("%s: <%s name=%q> has no label", name, n.Data, attr(n, "name"))
			}
			if n.Data == "a" && strings.HasPrefix(attr(n, "href"), "#") && !ids[attr(n, "href")[1:]] {
				t.Errorf("%s: a link leads to %s, which is not there", name, attr(n, "href"))
			}
		}
		for _, bad := range []string{"<no value>", "ZgotmplZ", "%!", "{{"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s: %s", name, bad)
			}
		}
	}
}

// R27, R33: scripts send changes through the outbox, except where the table says
// that something means something only now.
func TestScriptsSendChangesOnlyWhereTheTableSaysSo(t *testing.T) {
	files, err := filepath.Glob("static/*.js")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	call := regexp.MustCompile(`\bfetch\(([^,)]*),\s*\{[^}]*method: 'POST'`)
	allowed := map[string]bool{"form.action": true} // auth.js and the form of logging out, which is under /auth
	for _, file := range files {
		if strings.Contains(file, "htmx") {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		src := string(b)
		for _, m := range call.FindAllStringSubmatch(src, -1) {
			target := strings.Trim(m[1], "'`\" ")
			if rt := routeOf("POST", target); !allowed[target] && (rt == nil || rt.kind != now) {
				t.Errorf("%s: fetch(%s) changes something and is not announced", file, m[1])
			}
		}
		if n, known := strings.Count(src, "method: 'POST'"), len(call.FindAllString(src, -1)); n != known {
			t.Errorf("%s: %d requests that change something, %d of a form that this test knows", file, n, known)
		}
		for _, bad := range []string{"XMLHttpRequest", "sendBeacon", "localStorage", "location.reload", "innerHTML =", "eval("} {
			if strings.Contains(src, bad) && !(bad == "innerHTML =" && strings.Contains(src, "template.innerHTML =")) {
				t.Errorf("%s: %s", file, bad)
			}
		}
	}
}

// What the person typed is text, wherever it stands.
func TestATitleIsNeverMarkup(t *testing.T) {
	w := newWorld(t)
	title := `<img src=x onerror=alert(1)> "'&`
	w.anna.post("/tasks", url.Values{"id": {"x"}, "text": {title}}.Encode())
	for _, path := range []string{"/today", "/tasks/x", "/done", "/today?did=done&id=x", "/trash"} {
		a := w.anna.get(path)
		if strings.Contains(a.body, "<img") {
			t.Errorf("%s: %v", path, a)
		}
		if path == "/tasks/x" {
			w.anna.post("/tasks/x/state", "completed=true")
		}
	}
}

func TestScriptsGetListsAndPeopleGetPages(t *testing.T) {
	w := newWorld(t)
	w.task("a", "a")
	for _, path := range []string{"/today", "/done", "/trash"} {
		piece, whole := w.anna.get(path, hx()...), w.anna.get(path)
		if strings.Contains(piece.body, "<html") || !strings.HasPrefix(piece.body, `<div id="lists"`) || !strings.Contains(whole.body, "<html") {
			t.Errorf("%s: %v", path, piece)
		}
		for _, a := range []answer{piece, whole} {
			if !strings.Contains(strings.Join(a.header.Values("Vary"), ","), "HX-Request") || !strings.Contains(a.header.Get("Cache-Control"), "no-store") {
				t.Errorf("%s: %v", path, a.header)
			}
		}
	}
}

func TestTheAppCanBeInstalled(t *testing.T) {
	w := newWorld(t)
	m := w.do(w.browser(), "GET", "/manifest.webmanifest", "", "Accept-Language", "en-GB")
	if m.status != http.StatusOK || m.header.Get("Content-Type") != "application/manifest+json" || !strings.Contains(m.body, `"name":"Planner"`) {
		t.Errorf("%v", m)
	}
	for _, icon := range regexp.MustCompile(`"/static/[^"]+"`).FindAllString(m.body, -1) {
		a := w.do(w.browser(), "GET", strings.ReplaceAll(strings.Trim(icon, `"`), `\u0026`, "&"), "")
		if a.status != http.StatusOK || a.header.Get("Content-Type") != "image/png" || !strings.HasPrefix(a.body, "\x89PNG") || !strings.Contains(a.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", icon, a.status, a.header)
		}
	}
	worker := w.do(w.browser(), "GET", "/sw.js", "")
	if worker.status != http.StatusOK || !strings.HasPrefix(worker.header.Get("Content-Type"), "text/javascript") || worker.header.Get("Cache-Control") != "no-cache" {
		t.Errorf("the worker's script: %d %v", worker.status, worker.header)
	}
	if again := w.do(w.browser(), "GET", "/sw.js", "", "If-None-Match", worker.header.Get("ETag")); again.status != http.StatusNotModified {
		t.Errorf("the worker's script again: %d", again.status)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/outbox/ping": 204, "/static/nothing.js": 404, "/static/../app.go": 404} {
		if a := w.do(w.browser(), "GET", path, ""); a.status != want && !(want == 404 && a.status == http.StatusTemporaryRedirect) {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	w.app.Drain()
	if a := w.do(w.browser(), "GET", "/readyz", ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz while it stops: %d", a.status)
	}
}

// An address that leads nowhere says so over its words, and is not our failure.
func TestAPageThatIsNotThereSaysSo(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{"/nowhere": "<h1>Страница не найдена</h1>", "/exports/nothing": "<h1>Не получилось</h1>"} {
		if a := w.anna.get(path); a.status != http.StatusNotFound || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// What says what to do on an empty page is true of every width, and the drawing of
// all that is done is not the trash's.
func TestAnEmptyPageIsDrawnAsWhatItIs(t *testing.T) {
	w := newWorld(t)
	for path, drawn := range map[string]bool{"/today": true, "/done": true, "/trash": false} {
		if got := strings.Contains(w.anna.get(path).body, `class="drawing"`); got != drawn {
			t.Errorf("%s: drawn %v", path, got)
		}
	}
	for l, line := range words["empty.today"] {
		if strings.Contains(line, "внизу") || strings.Contains(line, "below") {
			t.Errorf("%d: on a wide screen the line is above: %s", l, line)
		}
	}
}

// The number of what is to be done does not break from its words, and a long title
// is seen whole.
func TestTheDaysCountIsOneAndALongTitleIsWhole(t *testing.T) {
	w := newWorld(t)
	w.anna.post("/tasks", "id=long&text="+url.QueryEscape(strings.Repeat("очень длинно ", 12)+"сегодня"))
	if page := w.anna.get("/today").body; !strings.Contains(page, "\u00a0· 1\u00a0дело") {
		t.Error(page)
	}
	if page := w.anna.get("/tasks/long").body; !strings.Contains(page, `rows="6"`) {
		t.Error(page)
	}
}

// The first visit weighs little: it may be made in the underground.
func TestTheFirstVisitIsLight(t *testing.T) {
	w := newWorld(t)
	total := 0
	seen := map[string]bool{}
	var load func(path string)
	imports := regexp.MustCompile(`(?:from|import) '(\.{1,2}/[^']+)'`)
	load = func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		a := w.do(w.browser(), "GET", path, "", "Accept-Encoding", "gzip")
		if a.status != http.StatusOK {
			t.Errorf("%s: %d", path, a.status)
		}
		total += len(a.body)
		if strings.HasSuffix(strings.Split(path, "?")[0], ".js") && !strings.Contains(path, "htmx") {
			base, _ := url.Parse(path)
			for _, m := range imports.FindAllStringSubmatch(w.do(w.browser(), "GET", path, "", "Accept-Encoding", "identity").body, -1) {
				to, _ := base.Parse(m[1])
				load(to.Path)
			}
		}
	}
	today := w.anna.get("/today", "Accept-Encoding", "gzip")
	total += len(today.body)
	for _, n := range elements(t, w.anna.get("/today", "Accept-Encoding", "identity").body) {
		if n.Data == "script" {
			load(attr(n, "src"))
		}
		if n.Data == "link" && attr(n, "rel") == "stylesheet" {
			load(attr(n, "href"))
		}
	}
	t.Logf("%d bytes in %d files", total, len(seen)+1)
	if total > 60<<10 {
		t.Errorf("the first visit weighs %d bytes", total)
	}
}
