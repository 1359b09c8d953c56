package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/planner/internal/account"
	"github.com/onceward/onceward/planner/internal/export"
	"github.com/onceward/onceward/planner/internal/task"
)

// refusal is an error that a person can do something about: a status, and the
// name of the words that say what.
type refusal struct {
	status int
	words  string
}

func (e *refusal) Error() string { return fmt.Sprintf("planner: refused: %d %s", e.status, e.words) }

func refuse(status int, words string) error { return &refusal{status, words} }

// refusals is the one place where an error of the packages below becomes an
// answer over HTTP. Whatever is not here is ours to mend, and a 500.
var refusals = []struct {
	err    error
	status int
	words  string
}{
	{task.ErrNotFound, http.StatusNotFound, "gone.task"},
	{task.ErrGone, http.StatusGone, "gone.trash"},
	{task.ErrTitleMissing, http.StatusUnprocessableEntity, "bad.title"},
	{task.ErrTitleLong, http.StatusUnprocessableEntity, "bad.long"},
	{task.ErrTooMany, http.StatusUnprocessableEntity, "bad.many"},
	{task.ErrIDInvalid, http.StatusUnprocessableEntity, "bad.id"},
	{task.ErrDueInvalid, http.StatusUnprocessableEntity, "bad.due"},
	{export.ErrOrderInvalid, http.StatusUnprocessableEntity, "bad.export"},
	{account.ErrSettingsInvalid, http.StatusUnprocessableEntity, "bad.settings"},
	{account.ErrLoginInvalid, http.StatusUnprocessableEntity, "register.login"},
	{account.ErrPasswordShort, http.StatusUnprocessableEntity, "register.short"},
	{account.ErrPasswordLong, http.StatusUnprocessableEntity, "register.long"},
	{account.ErrLoginTaken, http.StatusConflict, "register.taken"},
	{account.ErrWrongPassword, http.StatusUnprocessableEntity, "login.wrong"},
}

// answerTo maps an error to a status and words; false for one of ours.
func answerTo(err error) (status int, words string, known bool) {
	var own *refusal
	if errors.As(err, &own) {
		return own.status, own.words, true
	}
	for _, f := range refusals {
		if errors.Is(err, f.err) {
			return f.status, f.words, true
		}
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return http.StatusRequestEntityTooLarge, "err.413", true
	}
	return http.StatusInternalServerError, "err.500", false
}

// handle makes an http.Handler of a function that may fail.
func (a *App) handle(serve func(*App, http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := serve(a, w, r)
		if err == nil {
			return
		}
		status, words, known := answerTo(err)
		if !known {
			a.internal(w, r, err)
			return
		}
		a.fail(w, r, status, words)
	})
}

// internal answers an error that is ours to mend. What it says stays in the log.
func (a *App) internal(w http.ResponseWriter, r *http.Request, err error) {
	a.log.Error("planner: failed", "method", r.Method, "path", r.URL.Path, "error", err)
	a.fail(w, r, http.StatusInternalServerError, "err.500")
}

// fail tells a person what went wrong: a page, or for a script one plain line,
// which the page shows where the person looks.
func (a *App) fail(w http.ResponseWriter, r *http.Request, status int, words string) {
	v := a.visit(r)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "HX-Request")
	if isHX(r) {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Content-Language", v.l.Code())
		w.WriteHeader(status)
		fmt.Fprintln(w, v.l.T(words))
		return
	}
	title := "err.title"
	if words == "err.404" {
		title = "err.title.404"
	}
	a.render(w, r, status, "error", v.l.T(title), v.l.T(words))
}

// refuse is how the guard says no. A person gets a page or a line like any other;
// programs get problem+json.
func (a *App) refuse(w http.ResponseWriter, r *http.Request, p onceward.Problem) {
	if !isHX(r) && !wantsPage(r) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p)
		return
	}
	words := "err.500"
	switch {
	case p.Status == http.StatusPreconditionFailed:
		words = "err.owner"
	case strings.HasSuffix(p.Type, ":key-reused"):
		words = "err.key"
	case strings.HasSuffix(p.Type, ":key-missing"), strings.HasSuffix(p.Type, ":key-invalid"):
		words = "err.name"
	case p.Status == http.StatusBadRequest:
		words = "err.400"
	case p.Status == http.StatusConflict:
		words = "err.409"
	case p.Status == http.StatusRequestEntityTooLarge:
		words = "err.413"
	case p.Status == http.StatusServiceUnavailable:
		words = "err.503"
	}
	a.fail(w, r, p.Status, words)
}

// wantsPage tells a browser that shows what it gets from a program that reads it.
func wantsPage(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" || strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (a *App) notFound(http.ResponseWriter, *http.Request) error {
	return refuse(http.StatusNotFound, "err.404")
}

func stack() string { return string(debug.Stack()) }

func urlEscape(s string) string { return url.QueryEscape(s) }
