package web

import (
	"crypto/sha256"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/export"
	"github.com/onceward/onceward/planner/internal/task"
)

// pageWait is how long the page of an operation is held back while its file is being
// prepared: that takes little more than a second, and a page without scripts is then
// the finished one.
const pageWait = 2 * time.Second

// newOperations makes what tells of long work over HTTP.
func (a *App) newOperations() (*operation.Operations, error) {
	records, _ := a.cfg.Keys.(onceward.Looker)
	return operation.New(a.cfg.Exports.Runner(), scope, operation.Config{Records: records, Write: a.writeOperation, Logger: a.log})
}

// orderExport is POST /exports: format=ics|json, part=all|week. Like a new task an
// order is a creation, and is known by the id that the client chose, or else by its
// key: in whatever way it comes again, it is the same order, and its answer says how
// it stands now. Another order under the same id is refused, with the Location of the
// one that is there: to answer it with that one would lose it without a word.
func (a *App) orderExport(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	v := a.visit(r)
	format, part := r.PostForm.Get("format"), r.PostForm.Get("part")
	key, fp, named := onceward.Named(r.Context())
	id := r.PostForm.Get("id")
	switch {
	case id != "" && !task.ValidID(id):
		return task.ErrIDInvalid
	case id != "":
		key, fp = onceward.NewKey(v.user.ID, "export "+id), asked(format, part)
	case !named:
		return refuse(http.StatusBadRequest, "err.name")
	}
	op, err := a.cfg.Exports.Order(r.Context(), key, fp, v.user.ID, format, part, v.now)
	if errors.Is(err, onceward.ErrKeyReused) {
		if id != "" {
			w.Header().Set("Location", a.ops.Location(operation.Operation{Key: key}))
			return refuse(http.StatusConflict, "err.key")
		}
		return refuse(http.StatusUnprocessableEntity, "err.key")
	}
	if err != nil {
		return err
	}
	if record, _, named := onceward.Named(r.Context()); named && record != key {
		// Whoever follows the request in the log finds here under what name its work goes on.
		a.log.Info("planner: an order is known by its own id", "record", record.RecordID(), "operation", op.ID())
	}
	if wantsPage(r) && !isHX(r) {
		return seeOther(w, a.ops.Location(op))
	}
	a.ops.Accepted(w, r, op)
	return nil
}

// asked is what an id was first used for. Which week it was is not in it: a repeat on
// Monday of what was ordered on Sunday is still the order of Sunday.
func asked(format, part string) onceward.Fingerprint {
	return onceward.Fingerprint{Version: 1, Sum: sha256.Sum256([]byte(format + " " + part))}
}

// operation is GET /operations/{id}: what became of an order. A program gets JSON, and
// waits with ?wait=N; so does the piece of the page that waits for the file.
func (a *App) operation(w http.ResponseWriter, r *http.Request) error {
	most := pageWait
	if isHX(r) {
		n, _ := strconv.ParseUint(r.URL.Query().Get("wait"), 10, 8)
		most = min(time.Duration(n)*time.Second, 25*time.Second)
	} else if !wantsPage(r) {
		a.ops.ServeHTTP(w, r)
		return nil
	}
	op, err := a.ops.Wait(r, r.PathValue("id"), most)
	if errors.Is(err, operation.ErrNotFound) {
		return refuse(http.StatusNotFound, "gone.export")
	}
	if err != nil {
		return err
	}
	a.writeOperation(w, r, http.StatusOK, op)
	return nil
}

// operationView is an order as a page shows it.
type operationView struct {
	L      lang
	ID     string
	State  operation.State
	Line   string // what has become of it
	Note   string // what to do now
	File   string // where the file is; "" if there is none
	Expire string
}

func (a *App) writeOperation(w http.ResponseWriter, r *http.Request, status int, op operation.Operation) {
	if !isHX(r) && !wantsPage(r) {
		operation.WriteJSON(w, r, status, op)
		return
	}
	v := a.visit(r)
	view := operationView{L: v.l, ID: op.ID(), State: op.State, Line: v.l.T("export." + string(op.State))}
	switch {
	case op.State != operation.Complete:
		view.Note = v.l.T("note." + string(op.State))
		if op.Failure != nil && op.Failure.Type == export.Empty {
			view.Line, view.Note = v.l.T("export.empty"), v.l.T("note.empty")
		}
	default:
		f, err := a.cfg.Exports.Get(r.Context(), v.user.ID, op.ID())
		switch {
		case errors.Is(err, export.ErrNoFile):
			view.Line, view.Note = v.l.T("export.gone"), v.l.T("note.gone")
		case err != nil:
			a.internal(w, r, err)
			return
		default:
			view.File = op.Result.Location
			_, date, _ := strings.Cut(v.l.DayLong(civil.Today(f.Expires.In(v.now.Location()))), ", ")
			view.Note = v.l.T("export.until", date)
		}
	}
	w.Header().Add("Vary", "HX-Request")
	if isHX(r) {
		_ = a.piece(w, r, status, "operation", view)
		return
	}
	a.render(w, r, status, "operation", v.l.T("export.one"), view)
}

// exportsForm is the page of exports.
type exportsForm struct {
	ID    string // of the order that is not there yet
	Files []fileRow
}

type fileRow struct {
	Link, Name, About string
}

// exportsPage is GET /exports.
func (a *App) exportsPage(w http.ResponseWriter, r *http.Request) error {
	v := a.visit(r)
	files, err := a.cfg.Exports.List(r.Context(), v.user.ID)
	if err != nil {
		return err
	}
	form := exportsForm{ID: newID()}
	for _, f := range files {
		when := f.Created.In(v.now.Location())
		form.Files = append(form.Files, fileRow{Link: "/exports/" + f.ID, Name: f.Name,
			About: v.l.T("export.file", v.l.Day(civil.Today(when), v.today), when.Format("15:04"), v.l.size(f.Size))})
	}
	a.render(w, r, http.StatusOK, "exports", v.l.T("exports"), form)
	return nil
}

// size is a file's size for people.
func (l lang) size(n int) string {
	if n < 1000 {
		return l.N("size.bytes", n)
	}
	return l.T("size.kb", (n+500)/1000)
}

// download is GET /exports/{id}: the file, for its owner.
func (a *App) download(w http.ResponseWriter, r *http.Request) error {
	f, err := a.cfg.Exports.Get(r.Context(), userOf(r).ID, r.PathValue("id"))
	if errors.Is(err, export.ErrNoFile) {
		return refuse(http.StatusNotFound, "gone.export")
	}
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", map[string]string{export.ICS: "text/calendar; charset=utf-8", export.JSON: "application/json"}[f.Format])
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	h.Set("Content-Length", strconv.Itoa(len(f.Body)))
	h.Set("Cache-Control", "private, no-store")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(f.Body)
	}
	return nil
}
