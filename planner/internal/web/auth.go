package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/planner/internal/account"
)

// How often an address may try. The counts live in the database.
const (
	loginTries     = 10 // with one login, in loginWindow
	loginWindow    = time.Minute
	registerTries  = 5 // in registerWindow
	registerWindow = time.Hour
)

// authForm is what the login and register pages show.
type authForm struct {
	Login, Next, Error string
}

func (a *App) loginPage(w http.ResponseWriter, r *http.Request) error {
	return a.authPage(w, r, "login", http.StatusOK, authForm{Next: localPath(r.URL.Query().Get("next"))})
}

func (a *App) registerPage(w http.ResponseWriter, r *http.Request) error {
	return a.authPage(w, r, "register", http.StatusOK, authForm{})
}

func (a *App) authPage(w http.ResponseWriter, r *http.Request, name string, status int, f authForm) error {
	l := a.visit(r).l
	a.render(w, r, status, name, l.T(name+".title"), f)
	return nil
}

// register is POST /auth/register.
func (a *App) register(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	if !a.allowed(w, r, "register", registerTries, registerWindow) {
		return a.authFailed(w, r, "register", http.StatusTooManyRequests, "login.often")
	}
	f := r.PostForm
	u, err := a.accounts.Register(r.Context(), f.Get("login"), f.Get("password"), a.visit(r).l.Code(), f.Get("tz"))
	return a.enter(w, r, "register", u, err)
}

// login is POST /auth/login.
func (a *App) login(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	f := r.PostForm
	// Counted under the name that is looked for, or a blank more would be a new
	// one with tries of its own. One that nobody can have opens nothing.
	name, err := account.CleanLogin(f.Get("login"))
	if err != nil {
		return a.enter(w, r, "login", account.User{}, account.ErrWrongPassword)
	}
	if !a.allowed(w, r, "login:"+name, loginTries, loginWindow) {
		return a.authFailed(w, r, "login", http.StatusTooManyRequests, "login.often")
	}
	u, err := a.accounts.Login(r.Context(), name, f.Get("password"))
	return a.enter(w, r, "login", u, err)
}

// enter begins a session for u, or tells what was wrong.
func (a *App) enter(w http.ResponseWriter, r *http.Request, name string, u account.User, err error) error {
	if err != nil {
		status, words, known := answerTo(err)
		if !known {
			return err
		}
		return a.authFailed(w, r, name, status, words)
	}
	token, err := a.accounts.StartSession(r.Context(), u.ID, r.UserAgent())
	if err != nil {
		return err
	}
	a.setToken(w, r, token)
	to := localPath(r.PostForm.Get("next"))
	if to == "" {
		to = "/today"
	}
	if isHX(r) {
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return seeOther(w, to)
}

// authFailed shows the form again with what was typed, except the password.
func (a *App) authFailed(w http.ResponseWriter, r *http.Request, name string, status int, words string) error {
	if isHX(r) {
		return refuse(status, words)
	}
	f := r.PostForm
	return a.authPage(w, r, name, status, authForm{
		Login: f.Get("login"), Next: localPath(f.Get("next")), Error: a.visit(r).l.T(words)})
}

// logout is POST /auth/logout: the session is over, or with everywhere=true all
// of the account's. Without a session it changes nothing and says so in the same
// way.
func (a *App) logout(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	if u := userOf(r); u.ID != "" {
		end := a.accounts.EndSession(r.Context(), a.token(r))
		if r.PostForm.Get("everywhere") == "true" {
			end = a.accounts.EndSessions(r.Context(), u.ID)
		}
		if end != nil {
			return end
		}
	}
	a.setToken(w, r, "")
	return seeOther(w, loginPath)
}

// deleteAccount is POST /auth/delete: the account, its tasks and the guard's
// records of it are gone for good. The password is asked once more, since a phone
// lies on a desk at school. Without a session it changes nothing.
func (a *App) deleteAccount(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(r); err != nil {
		return err
	}
	u := userOf(r)
	if u.ID == "" {
		return seeOther(w, loginPath)
	}
	if !a.allowed(w, r, "login:"+u.Login, loginTries, loginWindow) {
		return refuse(http.StatusTooManyRequests, "login.often")
	}
	err := a.accounts.Delete(r.Context(), u, r.PostForm.Get("password"), a.forget)
	if errors.Is(err, account.ErrWrongPassword) {
		return refuse(http.StatusUnprocessableEntity, "delete.wrong")
	}
	if err != nil {
		return err
	}
	a.setToken(w, r, "")
	return seeOther(w, "/")
}

// forget forgets what the guard and the long work know of somebody who is gone.
func (a *App) forget(ctx context.Context, user string) error {
	return errors.Join(a.guard.Forget(ctx, user), a.cfg.Exports.Forget(ctx, user))
}

// allowed counts a try of the caller's address. Callers on this machine are not
// counted unless the planner was told to: a test or a script of the owner's would
// lock itself out.
func (a *App) allowed(w http.ResponseWriter, r *http.Request, what string, most int, window time.Duration) bool {
	peer := a.peer(r)
	if peer.IsLoopback() && !a.cfg.Limits {
		return true
	}
	if peer.Is6() { // one household has 2^64 addresses
		if house, err := peer.WithZone("").Prefix(64); err == nil {
			peer = house.Addr()
		}
	}
	ok, wait, err := a.accounts.Try(r.Context(), what+"@"+peer.String(), most, window)
	if err != nil {
		// The database is away; whatever comes next fails by itself and says so.
		a.log.Error("planner: counting tries", "error", err)
		return true
	}
	if !ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	}
	return ok
}

// localPath is s if it is a path on this site, else "". Browsers take tabs and
// line ends out of an address before they read it, so "/\t/x" names a host.
func localPath(s string) string {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") || strings.Contains(s, `\`) || strings.ContainsFunc(s, control) {
		return ""
	}
	return s
}
