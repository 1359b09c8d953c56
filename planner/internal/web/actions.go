package web

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/onceward/onceward/planner/internal/account"
	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/task"
)

// addTask is POST /tasks. A creation is no state that could be set, so a repeat of
// it has to be known by a name: a key, which the guard has dealt with before this
// runs, or an id that the client chose, under which a row is made once and for
// ever. A request with neither could only double, and is refused.
func (a *App) addTask(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	id := r.PostForm.Get("id")
	if id == "" {
		if r.Header.Get("Idempotency-Key") == "" && r.PostForm.Get(keyField) == "" {
			return refuse(http.StatusBadRequest, "err.name")
		}
		id = rand.Text()
	}
	v := a.visit(r)
	draft, err := task.Read(r.PostForm.Get("text"), typedAt(r.PostForm.Get("at"), v.now))
	if err != nil {
		return err
	}
	t, created, err := a.tasks.Create(r.Context(), v.user.ID, id, draft)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/today#task-"+t.ID)
	if !isHX(r) {
		return seeOther(w, "/today#task-"+t.ID)
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return a.fragment(w, r, status, v, t)
}

// typedAt is when a person typed a new task, by the clock of their device, which
// the page sends along: «завтра» typed on Monday evening and delivered on Tuesday
// means Tuesday. A time that no waiting change could have is not believed.
func typedAt(at string, now time.Time) time.Time {
	t, err := time.ParseInLocation("2006-01-02T15:04", at, now.Location())
	if err != nil || t.Before(now.Add(-retention)) || t.After(now.Add(24*time.Hour)) {
		return now
	}
	return t
}

// setState is POST /tasks/{id}/state: completed says what the person wants, so
// that a second tap, a second device or a repeat of the request changes nothing.
func (a *App) setState(w http.ResponseWriter, r *http.Request) error {
	want, err := formBool(r, "completed", "bad.completed")
	if err != nil {
		return err
	}
	v := a.visit(r)
	t, err := a.tasks.SetDone(r.Context(), v.user.ID, r.PathValue("id"), want, v.today)
	if err != nil {
		return err
	}
	did := ""
	if want {
		did = "done"
	}
	return a.changed(w, r, v, t, did)
}

// setTrash is POST /tasks/{id}/trash: deleted=true puts the task into the trash,
// false takes it out, which is what "undo" sends.
func (a *App) setTrash(w http.ResponseWriter, r *http.Request) error {
	want, err := formBool(r, "deleted", "bad.deleted")
	if err != nil {
		return err
	}
	v := a.visit(r)
	t, err := a.tasks.SetDeleted(r.Context(), v.user.ID, r.PathValue("id"), want)
	if err != nil {
		return err
	}
	did := ""
	if want {
		did = "deleted"
	}
	return a.changed(w, r, v, t, did)
}

// setDue is POST /tasks/{id}/due. The date is absolute, also behind the button
// that says "tomorrow": the button's tomorrow is the day after the one on which
// it was shown, whenever the request arrives.
func (a *App) setDue(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	var due civil.Date
	var at civil.Time
	var err error
	if s := r.PostForm.Get("date"); s != "" {
		if due, err = civil.ParseDate(s); err != nil {
			return task.ErrDueInvalid
		}
	}
	// A form whose date was cleared may still send its time: no day, no time.
	if s := r.PostForm.Get("time"); s != "" && !due.IsZero() {
		if at, err = civil.ParseTime(s); err != nil {
			return task.ErrDueInvalid
		}
	}
	v := a.visit(r)
	t, err := a.tasks.SetDue(r.Context(), v.user.ID, r.PathValue("id"), due, at)
	if err != nil {
		return err
	}
	return a.changed(w, r, v, t, "")
}

// setFields is POST /tasks/{id}/fields.
func (a *App) setFields(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	v := a.visit(r)
	t, err := a.tasks.SetTitle(r.Context(), v.user.ID, r.PathValue("id"), r.PostForm.Get("title"))
	if err != nil {
		return err
	}
	return a.changed(w, r, v, t, "")
}

// changed answers a change of one task: htmx gets the row, a plain form a page
// (303, so that reloading it sends nothing).
func (a *App) changed(w http.ResponseWriter, r *http.Request, v visit, t task.Task, did string) error {
	if isHX(r) {
		return a.fragment(w, r, http.StatusOK, v, t)
	}
	to := cameFrom(r)
	switch {
	case did != "":
		to += "?did=" + did + "&id=" + url.QueryEscape(t.ID)
	case !t.Deleted() && to == "/today":
		to += "#task-" + t.ID
	}
	return seeOther(w, to)
}

// setSettings is POST /settings: each field that is given, all or none. The zone
// "auto" means the device's.
func (a *App) setSettings(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	given := func(name string) *string {
		if s := r.PostForm.Get(name); s != "" {
			return &s
		}
		return nil
	}
	s := account.Settings{TZ: given("tz"), Locale: given("locale"), Theme: given("theme")}
	if s.TZ != nil && *s.TZ == "auto" {
		auto := true
		s.TZ, s.TZAuto = nil, &auto
	}
	if err := a.accounts.Set(r.Context(), userOf(r).ID, s); err != nil {
		return err
	}
	if isHX(r) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return seeOther(w, "/settings?did=saved")
}

// setZone is POST /settings/zone: a page tells which zone its device is in. It is
// for now only: a zone that arrives a day later may be one that the person has
// left. It counts only while the person has not chosen a zone.
func (a *App) setZone(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	if err := a.accounts.DeviceZone(r.Context(), userOf(r).ID, r.PostForm.Get("tz")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// parseForm reads the body. Only the body: a query could make a GET of a POST.
func parseForm(r *http.Request) error {
	err := r.ParseForm()
	if err == nil || errors.As(err, new(*http.MaxBytesError)) {
		return err
	}
	return refuse(http.StatusBadRequest, "err.400")
}

// formBool reads what a control says. Anything but a clear word is refused: to
// take an unknown word for "no" would reopen a task because of a typing error.
func formBool(r *http.Request, name, words string) (bool, error) {
	if err := parseForm(r); err != nil {
		return false, err
	}
	switch strings.ToLower(r.PostForm.Get(name)) {
	case "1", "true", "on", "yes":
		return true, nil
	case "0", "false", "off", "no":
		return false, nil
	}
	return false, refuse(http.StatusUnprocessableEntity, words)
}

// seeOther sends a plain form's sender to a page. Written by hand, since
// http.Redirect makes a body that nobody reads.
func seeOther(w http.ResponseWriter, to string) error {
	w.Header().Set("Location", to)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// cameFrom is the list that a plain form was on.
func cameFrom(r *http.Request) string {
	if u, err := url.Parse(r.Referer()); err == nil {
		switch u.Path {
		case "/done", "/trash":
			return u.Path
		}
	}
	return "/today"
}
