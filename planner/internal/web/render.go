package web

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"github.com/onceward/onceward/operation"
	"github.com/onceward/onceward/outbox"
	"github.com/onceward/onceward/planner/internal/account"
	"github.com/onceward/onceward/planner/internal/task"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are parsed once; what an asset's address is belongs to the App, but is
// the same in every one, since the files are in the binary.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"asset": func(name string) string { return newStatic().url(name) },
	// A key for a form of a page without a script. Each form has its own, and each
	// print of the page new ones; a page script puts its own in its place.
	"key":  rand.Text,
	"city": zoneName,
}).ParseFS(templateFiles, "templates/*.html"))

// newID is an id for a task that does not exist yet.
func newID() string { return rand.Text() }

// frame is what every page's template gets; Body is the page's own.
type frame struct {
	L       lang
	Title   string
	Page    string
	Path    string
	User    account.User
	Outbox  template.HTML
	Flash   *flash
	Device  bool // the page should tell its zone
	Body    any
	Private bool
	Again   bool // without scripts the page asks for itself again
	Known   bool // somebody has looked who is signed in
}

// flash is a line about what has just been done, with a way back: what the
// snackbar is for a page with scripts.
type flash struct {
	L      lang
	Text   string
	Action string // the form that undoes it; "" for none
	Field  string
}

// render writes a whole page.
func (a *App) render(w http.ResponseWriter, r *http.Request, status int, name, title string, body any) {
	v := a.visit(r)
	f := frame{
		L: v.l, Title: title, Page: name, Path: r.URL.Path, User: v.user, Body: body,
		Private: v.user.ID != "", Device: v.user.ID != "" && v.user.TZAuto,
		Flash: a.flash(r, v),
	}
	if op, ok := body.(operationView); ok {
		f.Again = op.State == operation.Pending
	}
	script := a.cfg.Outbox
	script.Unknown = !known(r)
	f.Known = !script.Unknown
	if v.user.ID != "" {
		script.Owner = outbox.Tag(a.cfg.Secret, v.user.ID)
	}
	f.Outbox = outbox.Script(script)

	h := w.Header()
	h.Set("Content-Language", v.l.Code())
	// Not kept by the browser: a page from its history would show yesterday's
	// list, and its forms would carry used keys. The planner's own worker keeps
	// the last one for reading without a network.
	h.Set("Cache-Control", "private, no-store")
	h.Add("Vary", "Accept-Language, Cookie")
	if script.Owner != "" {
		h.Set("Planner-Owner", script.Owner) // whose page it is, for the worker that keeps it
	}
	a.write(w, r, status, "page-"+name, f)
}

// piece writes a fragment of a page.
func (a *App) piece(w http.ResponseWriter, r *http.Request, status int, name string, data any) error {
	w.Header().Set("Cache-Control", "private, no-store")
	w.Header().Set("Content-Language", a.visit(r).l.Code())
	a.write(w, r, status, name, data)
	return nil
}

// fragment writes a task's row.
func (a *App) fragment(w http.ResponseWriter, r *http.Request, status int, v visit, t task.Task) error {
	w.Header().Add("Vary", "HX-Request")
	return a.piece(w, r, status, "row", newRow(v, t))
}

// write runs a template to its end before the first byte goes out, so that a
// template that fails is a 500 and not half a page.
func (a *App) write(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	var buf bytes.Buffer
	if err := templates.ExecuteTemplate(&buf, name, data); err != nil {
		a.log.Error("planner: drawing", "template", name, "error", err)
		http.Error(w, "500", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	body := buf.Bytes()
	// Only answers to GET: those to changes are stored by the guard and may be
	// replayed to somebody who cannot read gzip.
	if r.Method == http.MethodGet && len(body) > 1400 {
		h.Add("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			body = compress(body)
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func compress(body []byte) []byte {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	_, _ = zw.Write(body) // to memory: cannot fail
	_ = zw.Close()
	return buf.Bytes()
}

// flash reads from the address what a redirect said was done, and believes it only
// if it is so.
func (a *App) flash(r *http.Request, v visit) *flash {
	q := r.URL.Query()
	did := q.Get("did")
	if did == "saved" {
		return &flash{L: v.l, Text: v.l.T("did.saved")}
	}
	if did != "done" && did != "deleted" || v.user.ID == "" {
		return nil
	}
	t, err := a.tasks.Get(r.Context(), v.user.ID, q.Get("id"))
	switch {
	case err != nil:
		return nil
	case did == "done" && t.Done() && !t.Deleted():
		return &flash{v.l, v.l.T("did.done") + ": " + t.Title, "/tasks/" + t.ID + "/state", "completed"}
	case did == "deleted" && t.Deleted():
		return &flash{v.l, v.l.T("did.deleted") + ": " + t.Title, "/tasks/" + t.ID + "/trash", "deleted"}
	}
	return nil
}

// zoneName is a zone for people: its city.
func zoneName(l lang, name string) string {
	if city := cities[name]; l == ru && city != "" {
		return city
	}
	if _, city, ok := strings.Cut(name, "/"); ok {
		return strings.ReplaceAll(city, "_", " ")
	}
	return name
}
