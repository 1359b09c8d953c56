package web

import (
	"net/http"

	"github.com/onceward/onceward/outbox"
)

// kind says who may ask for a route, and what becomes of a change that cannot be
// sent.
type kind int

const (
	public kind = iota // shows something to anybody
	page               // shows something to somebody who is signed in
	entry              // signing in and out: changes, outside the guard, never queued
	now                // changes, inside the guard, but means something only now: never queued
	queued             // changes, inside the guard, announced: kept by the outbox until it is delivered
)

// route is one way into the planner.
type route struct {
	kind    kind
	pattern string // as http.ServeMux reads it
	serve   func(*App, http.ResponseWriter, *http.Request) error
	// sample is a form that this route takes. The test of repeats sends it twice,
	// at once and late, and compares what the database holds; a route that changes
	// something and has no sample fails that test.
	sample string
}

// table is all that there is. Each change sets a value: none flips, adds one or
// moves by a day, so a repeat of any of them changes nothing. Creation cannot be
// such a value, and takes a name instead: a key, or an id that the client made.
//
// A page sends a change of kind queued through the outbox and marks the forms of
// kind now with data-outbox="off"; the outbox leaves /auth alone by itself. A
// test holds pages and table together.
var table = []route{
	{public, "GET /{$}", (*App).home, ""},
	{public, "GET /auth/login", (*App).loginPage, ""},
	{public, "GET /auth/register", (*App).registerPage, ""},
	{public, "GET /offline", (*App).offlinePage, ""},
	{public, "GET /manifest.webmanifest", (*App).manifest, ""},
	{public, "GET /sw.js", (*App).worker, ""},
	{public, "GET /healthz", (*App).healthz, ""},
	{public, "GET /readyz", (*App).readyz, ""},

	{entry, "POST /auth/register", (*App).register, "login=petya&password=correct+horse"},
	{entry, "POST /auth/login", (*App).login, "login=anna&password=correct+horse"},
	{entry, "POST /auth/logout", (*App).logout, "everywhere=false"},
	{entry, "POST /auth/delete", (*App).deleteAccount, "password=correct+horse"},

	{page, "GET /today", (*App).today, ""},
	{page, "GET /done", (*App).done, ""},
	{page, "GET /trash", (*App).trash, ""},
	{page, "GET /tasks/{id}", (*App).taskPage, ""},
	{page, "GET /settings", (*App).settingsPage, ""},
	{page, "GET /waiting", (*App).waitingPage, ""},
	{page, "GET /idempotency/{key}", (*App).outcome, ""},
	{page, "GET /exports", (*App).exportsPage, ""},
	{page, "GET /exports/{id}", (*App).download, ""},
	{page, "GET /operations/{id}", (*App).operation, ""},

	{queued, "POST /tasks", (*App).addTask, "text=Maths+tomorrow&id=added"},
	{queued, "POST /tasks/{id}/state", (*App).setState, "completed=true"},
	{queued, "POST /tasks/{id}/due", (*App).setDue, "date=2026-12-03&time=09:30"},
	{queued, "POST /tasks/{id}/fields", (*App).setFields, "title=Physics"},
	{queued, "POST /tasks/{id}/trash", (*App).setTrash, "deleted=true"},
	{queued, "POST /exports", (*App).orderExport, "format=ics&part=all&id=ordered"},
	{queued, "POST /settings", (*App).setSettings, "tz=Asia/Omsk&locale=en&theme=dark"},

	{now, "POST /settings/zone", (*App).setZone, "tz=Asia/Omsk"},
}

// routes builds the site from the table.
func (a *App) routes() http.Handler {
	outer, inner := http.NewServeMux(), http.NewServeMux()
	theirs := a.guarded(inner)
	for _, rt := range table {
		h := a.handle(rt.serve)
		switch rt.kind {
		case public:
			outer.Handle(rt.pattern, a.recognise(h))
		case entry:
			// Outside the guard: there is nobody yet whose key it could be, and a
			// stored answer would have to keep a session. A key that comes along
			// is not looked at.
			outer.Handle(rt.pattern, a.bounded(a.recognise(h)))
		case page, now, queued:
			inner.Handle(rt.pattern, h)
			outer.Handle(rt.pattern, theirs)
		}
	}
	outer.Handle("GET /static/", http.StripPrefix("/static/", a.static))
	outer.Handle("/outbox/", outbox.Handler(outbox.Config{}))
	outer.Handle("/", a.recognise(a.handle((*App).notFound)))
	return outer
}
