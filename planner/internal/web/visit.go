package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/onceward/onceward/planner/internal/account"
	"github.com/onceward/onceward/planner/internal/civil"
)

const (
	// The session's cookie; where the planner is reached by https it is bound to
	// the host by its name as well.
	cookieName       = "planner_session"
	secureCookieName = "__Host-planner_session"

	policy = "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'"
)

type userKey struct{}

// userOf is who is signed in; the zero User if nobody is, or if nobody looked.
func userOf(r *http.Request) account.User {
	u, _ := r.Context().Value(userKey{}).(account.User)
	return u
}

// known tells whether anybody has looked who is signed in. What is printed without
// looking must not say that it is nobody: to the outbox that is a log-out.
func known(r *http.Request) bool {
	_, ok := r.Context().Value(userKey{}).(account.User)
	return ok
}

// unknown is the request as it was before anybody looked; its language is locale,
// if it is one.
func unknown(r *http.Request, locale string) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), userKey{}, nil))
	if locale != "" {
		r.Header = http.Header{"Accept-Language": {locale}, "Accept-Encoding": r.Header["Accept-Encoding"]}
	}
	return r
}

// recognise looks who is signed in, and lets everybody pass.
func (a *App) recognise(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, err := a.accounts.Session(r.Context(), a.token(r))
		if err != nil && !errors.Is(err, account.ErrNoSession) {
			a.internal(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, u)))
	})
}

// session lets those pass who are signed in, and sends others to the login page:
// a person by a redirect, htmx by a header that it obeys.
func (a *App) session(next http.Handler) http.Handler {
	return a.recognise(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if userOf(r).ID != "" {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		to := loginPath
		if r.Method == http.MethodGet && r.URL.Path != "/today" {
			to += "?next=" + urlEscape(r.URL.Path)
		}
		if isHX(r) {
			h.Set("HX-Redirect", loginPath)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}))
}

// token is the session's, from the cookie. By https only the one that is bound to
// the host counts: a neighbour's host on the same domain can plant the other, and
// a person would write down their homework in a stranger's account.
func (a *App) token(r *http.Request) string {
	c, err := r.Cookie(a.cookieName(r))
	if err != nil {
		return ""
	}
	return c.Value
}

func (a *App) cookieName(r *http.Request) string {
	if a.secure(r) {
		return secureCookieName
	}
	return cookieName
}

// setToken gives the browser a session, or with "" takes it away. Lax, so that a
// link from a friend's message opens the planner signed in.
func (a *App) setToken(w http.ResponseWriter, r *http.Request, token string) {
	c := &http.Cookie{Name: a.cookieName(r), Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		MaxAge: int(account.SessionLife / time.Second)}
	c.Secure = a.secure(r)
	if token == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// secure tells whether the person came by https.
func (a *App) secure(r *http.Request) bool {
	return r.TLS != nil || a.fromProxy(r) && r.Header.Get("X-Forwarded-Proto") == "https"
}

// peer is the address of whoever sent the request: the connection's, or what a
// proxy that we believe says.
func (a *App) peer(r *http.Request) netip.Addr {
	addr := peerOf(r)
	if !a.fromProxy(r) {
		return addr
	}
	// The last one that is no proxy of ours: what stands before it, anybody may
	// have written.
	lines := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(lines) - 1; i >= 0; i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(lines[i]))
		if err != nil {
			break
		}
		addr = next.Unmap()
		if !a.isProxy(addr) {
			break
		}
	}
	return addr
}

func (a *App) fromProxy(r *http.Request) bool { return a.isProxy(peerOf(r)) }

func (a *App) isProxy(addr netip.Addr) bool {
	for _, p := range a.cfg.Proxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

func peerOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, _ := netip.ParseAddr(host)
	return addr.Unmap()
}

// isHX tells a request of htmx, or of our own script, from a person's navigation.
func isHX(r *http.Request) bool { return r.Header.Get("HX-Request") != "" }

// visit is what a handler needs to know of who asks, and when.
type visit struct {
	user  account.User
	l     lang
	now   time.Time  // in the person's zone
	today civil.Date // there
}

func (a *App) visit(r *http.Request) visit {
	u := userOf(r)
	now := a.now().In(u.Location())
	return visit{user: u, l: langOf(u.Locale, r), now: now, today: civil.Today(now)}
}

// observe stands around the whole site: the headers that each answer has, a line
// in the log, and a page instead of a cut connection when something panics.
func (a *App) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		seen := &statusWriter{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler || seen.status != 0 {
					a.log.Error("planner: panic", "method", r.Method, "path", r.URL.Path, "panic", p)
					panic(http.ErrAbortHandler) // half an answer must not look whole
				}
				a.log.Error("planner: panic", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", stack())
				a.fail(seen, r, http.StatusInternalServerError, "err.500")
			}
			level := slog.LevelInfo
			if seen.status >= 500 {
				level = slog.LevelError
			}
			a.log.Log(r.Context(), level, "request", "method", r.Method, "path", r.URL.Path,
				"status", seen.status, "ms", time.Since(start).Milliseconds())
		}()
		next.ServeHTTP(seen, r)
	})
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}
