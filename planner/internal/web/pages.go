package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/planner/internal/task"
)

// shown is how many done or deleted tasks a page lists.
const shown = 200

// list is a page of rows.
type list struct {
	L        lang
	Path     string
	Head     string // the day, or what the page is about
	Sections []section
	Empty    string
	Template row // an empty row for the script to fill, while a new task waits
	NewID    string
	Hints    []string // words that a tap puts into the line
}

func (l list) IsEmpty() bool {
	return !slices.ContainsFunc(l.Sections, func(s section) bool { return len(s.Rows) > 0 })
}

// today is GET /today. A script that has the page already gets only the lists.
func (a *App) today(w http.ResponseWriter, r *http.Request) error {
	v := a.visit(r)
	ts, err := a.tasks.Open(r.Context(), v.user.ID)
	if err != nil {
		return err
	}
	ss := sections(v, ts)
	head := v.l.DayLong(v.today)
	if n := len(ss[0].Rows) + len(ss[1].Rows); n > 0 { // overdue and today
		head += "\u00a0· " + strings.ReplaceAll(v.l.N("tasks.open", n), " ", "\u00a0") // or a narrow phone leaves its last word alone
	}
	return a.list(w, r, "today", list{
		Head: head, Sections: ss, Empty: v.l.T("empty.today"), NewID: newID(),
		Hints:    []string{v.l.T("hint.today"), v.l.T("hint.tomorrow"), v.l.T("hint.time"), v.l.T("hint.weekly")},
		Template: newRow(v, task.Task{ID: "__ID__", Title: "__TITLE__"}),
	})
}

// done is GET /done.
func (a *App) done(w http.ResponseWriter, r *http.Request) error {
	v := a.visit(r)
	ts, err := a.tasks.Completed(r.Context(), v.user.ID, shown)
	if err != nil {
		return err
	}
	when := func(t task.Task) time.Time { return t.DoneAt }
	return a.list(w, r, "done", list{Sections: days(v, ts, when), Empty: v.l.T("empty.done")})
}

// trash is GET /trash.
func (a *App) trash(w http.ResponseWriter, r *http.Request) error {
	v := a.visit(r)
	ts, err := a.tasks.Trash(r.Context(), v.user.ID, shown)
	if err != nil {
		return err
	}
	when := func(t task.Task) time.Time { return t.DeletedAt }
	return a.list(w, r, "trash", list{Head: v.l.T("trash.about"), Sections: days(v, ts, when), Empty: v.l.T("empty.trash")})
}

func (a *App) list(w http.ResponseWriter, r *http.Request, name string, l list) error {
	v := a.visit(r)
	l.L, l.Path = v.l, "/"+name
	w.Header().Add("Vary", "HX-Request")
	if isHX(r) {
		return a.piece(w, r, http.StatusOK, "lists", l)
	}
	a.render(w, r, http.StatusOK, name, v.l.T(name), l)
	return nil
}

// taskForm is the page of one task.
type taskForm struct {
	row
	Open bool // can be changed
}

// Lines is how high the title's field is where the browser cannot fit it to the
// words: so many lines they take on a narrow phone.
func (f taskForm) Lines() int { return min(max(utf8.RuneCountInString(f.Title)/26+1, 2), 12) }

// taskPage is GET /tasks/{id}.
func (a *App) taskPage(w http.ResponseWriter, r *http.Request) error {
	v := a.visit(r)
	t, err := a.tasks.Get(r.Context(), v.user.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	a.render(w, r, http.StatusOK, "task", t.Title, taskForm{newRow(v, t), !t.Deleted()})
	return nil
}

// settingsForm is the page of settings.
type settingsForm struct {
	TZ, Locale, Theme string
	Auto              bool
	Zones             []string
	Clock, Zone       string
}

// zones are offered in the list; any other of the time zone database can be the
// device's. Russia's come first, from west to east.
var zones = []string{
	"Europe/Kaliningrad", "Europe/Moscow", "Europe/Samara", "Asia/Yekaterinburg", "Asia/Omsk", "Asia/Novosibirsk",
	"Asia/Krasnoyarsk", "Asia/Irkutsk", "Asia/Yakutsk", "Asia/Vladivostok", "Asia/Magadan", "Asia/Kamchatka",
	"Europe/Minsk", "Asia/Almaty", "Asia/Tashkent", "Asia/Bishkek", "Asia/Yerevan", "Asia/Tbilisi", "Asia/Baku",
	"Europe/Kyiv", "Europe/Chisinau", "Europe/Riga", "Europe/Berlin", "Europe/London", "UTC",
	"America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "Asia/Dubai", "Asia/Tokyo", "Pacific/Auckland",
}

// cities are the zones' Russian names.
var cities = map[string]string{
	"Europe/Kaliningrad": "Калининград", "Europe/Moscow": "Москва", "Europe/Samara": "Самара", "Asia/Yekaterinburg": "Екатеринбург",
	"Asia/Omsk": "Омск", "Asia/Novosibirsk": "Новосибирск", "Asia/Krasnoyarsk": "Красноярск", "Asia/Irkutsk": "Иркутск",
	"Asia/Yakutsk": "Якутск", "Asia/Vladivostok": "Владивосток", "Asia/Magadan": "Магадан", "Asia/Kamchatka": "Камчатка",
	"Europe/Minsk": "Минск", "Asia/Almaty": "Алматы", "Asia/Tashkent": "Ташкент", "Asia/Bishkek": "Бишкек", "Asia/Yerevan": "Ереван",
	"Asia/Tbilisi": "Тбилиси", "Asia/Baku": "Баку", "Europe/Kyiv": "Киев", "Europe/Chisinau": "Кишинёв", "Europe/Riga": "Рига",
	"Europe/Berlin": "Берлин", "Europe/London": "Лондон", "America/New_York": "Нью-Йорк", "America/Chicago": "Чикаго",
	"America/Denver": "Денвер", "America/Los_Angeles": "Лос-Анджелес", "Asia/Dubai": "Дубай", "Asia/Tokyo": "Токио", "Pacific/Auckland": "Окленд",
}

// settingsPage is GET /settings.
func (a *App) settingsPage(w http.ResponseWriter, r *http.Request) error {
	v := a.visit(r)
	f := settingsForm{
		TZ: v.user.TZ, Auto: v.user.TZAuto, Locale: v.l.Code(), Theme: v.user.Theme,
		Zones: zones, Clock: v.now.Format("15:04"), Zone: v.now.Location().String(),
	}
	if f.TZ != "" && !slices.Contains(zones, f.TZ) {
		f.Zones = append([]string{f.TZ}, zones...)
	}
	a.render(w, r, http.StatusOK, "settings", v.l.T("settings"), f)
	return nil
}

// waitingPage is GET /waiting: an empty frame, which the page fills from what the
// browser keeps. It holds nothing of a person's, so it can be kept too.
func (a *App) waitingPage(w http.ResponseWriter, r *http.Request) error {
	a.render(w, r, http.StatusOK, "waiting", a.visit(r).l.T("waiting"), nil)
	return nil
}

// outcome is GET /idempotency/{key}: what became of the person's own request of
// that name.
func (a *App) outcome(w http.ResponseWriter, r *http.Request) error {
	a.status.ServeHTTP(w, r)
	return nil
}

// offlinePage is GET /offline: what the worker shows in place of a page that it
// does not have, to whoever is there by then. So it is printed as for nobody that
// is known, whoever asks, and the worker says which language it wants.
func (a *App) offlinePage(w http.ResponseWriter, r *http.Request) error {
	r = unknown(r, r.URL.Query().Get("lang"))
	a.render(w, r, http.StatusOK, "offline", a.visit(r).l.T("offline.title"), nil)
	return nil
}

// home is GET /: what the planner is, for somebody who is not signed in.
func (a *App) home(w http.ResponseWriter, r *http.Request) error {
	if userOf(r).ID != "" {
		return seeOther(w, "/today")
	}
	a.render(w, r, http.StatusOK, "home", a.visit(r).l.T("app"), nil)
	return nil
}

// manifest is GET /manifest.webmanifest.
func (a *App) manifest(w http.ResponseWriter, r *http.Request) error {
	l := a.visit(r).l
	icon := func(name, sizes, purpose string) map[string]string {
		return map[string]string{"src": a.static.url(name), "sizes": sizes, "type": "image/png", "purpose": purpose}
	}
	body, err := json.Marshal(map[string]any{
		"id": "/today", "start_url": "/today", "scope": "/", "display": "standalone",
		"name": l.T("app"), "short_name": l.T("app"), "description": l.T("app.about"), "lang": l.Code(),
		"background_color": "#fbfaf7", "theme_color": "#fbfaf7",
		"icons": []map[string]string{
			icon("icon-192.png", "192x192", "any"), icon("icon-512.png", "512x512", "any"),
			icon("icon-maskable-512.png", "512x512", "maskable"),
		},
	})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/manifest+json")
	h.Set("Cache-Control", "no-cache")
	h.Add("Vary", "Accept-Language, Cookie")
	_, _ = w.Write(body)
	return nil
}

// worker is GET /sw.js, outside authentication: a browser refuses a worker's
// script that was redirected to a login page.
func (a *App) worker(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'")
	a.static.serve(w, r, "sw.js")
	return nil
}

// healthz is GET /healthz: the process is alive.
func (a *App) healthz(w http.ResponseWriter, r *http.Request) error {
	return plain(w, http.StatusOK, "ok")
}

// readyz is GET /readyz: new work may come.
func (a *App) readyz(w http.ResponseWriter, r *http.Request) error {
	if a.closing.Load() {
		return plain(w, http.StatusServiceUnavailable, "closing")
	}
	if err := a.cfg.DB.Ready(r.Context()); err != nil {
		a.log.Error("planner: not ready", "error", err)
		return plain(w, http.StatusServiceUnavailable, "no database")
	}
	return plain(w, http.StatusOK, "ready")
}

func plain(w http.ResponseWriter, status int, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
	return nil
}
