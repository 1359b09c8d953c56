package outbox

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward"
)

// The headers of the wire between the browser's half and this package. What an
// answer means to an entry stands in vectors/answers.json, one table for Go and
// JavaScript.
const (
	HeaderOwner          = "Outbox-Owner"           // request: whose entry it is; in a 412: whose session it met
	HeaderAttempt        = "Outbox-Attempt"         // request: 1 for the first send
	HeaderAge            = "Outbox-Age"             // request: seconds since the first send, on the client's own clock
	HeaderStatus         = "Outbox-Status"          // answer: one of the Status… words
	HeaderLocation       = "Outbox-Location"        // answer: where a redirect pointed
	HeaderRedirectStatus = "Outbox-Redirect-Status" // answer: 307 or 308, where it was one
)

// The words of the Outbox-Status header.
const (
	StatusAuth      = "auth"      // with 401: not executed, the session is over
	StatusOwner     = "owner"     // with 412: not executed, the session is another account's
	StatusExpired   = "expired"   // with 410: not executed, the guard may have forgotten the key
	StatusUnguarded = "unguarded" // with 2xx, 3xx: a route without the guard; never sent again
	StatusPong      = "pong"      // with 204: the answer to Prefix + "ping"
)

const defaultRetention = 24 * time.Hour

// EdgeConfig is [Edge]'s configuration. The zero value is usable.
type EdgeConfig struct {
	// Login is where the app sends people who are not signed in: a path such as
	// "/login", which is then looked for on any host, or a whole URL. The query
	// does not count. Empty means that there is no such place and only a 401 says
	// that the session is over.
	Login string

	// Retention is how long the guard remembers a completed key: its own Config's
	// Retention. An entry that was first sent longer ago is answered 410 and not
	// executed, because the guard could no longer tell that it did the work. To
	// allow for the way of the request itself, the last twentieth of the time, at
	// most two minutes of it, is not used. Zero means 24 hours, which is the
	// guard's default too; negative means that no age is too great.
	Retention time.Duration

	// KeyHeader is the name of the key's header. Empty means Idempotency-Key.
	KeyHeader string

	// Logger is told of answers that nothing guards. Nil means slog.Default: such
	// a route doubles work, so silence is no option.
	Logger *slog.Logger
}

type edge struct {
	next      http.Handler
	login     *url.URL // nil: none
	oldest    time.Duration
	keyHeader string
	log       *slog.Logger
}

// Edge stands outermost, around authentication and guard, and turns the answers
// to announced requests (those that carry the key and Outbox-Owner) into ones
// that a browser's fetch can read. A fetch either follows a redirect, and a
// login page then looks like success, or is shown neither its status nor its
// Location. So:
//
//   - a redirect becomes 200 with Outbox-Location and no body; of 307 and 308
//     Outbox-Redirect-Status tells;
//   - a 401, or a redirect (HX-Redirect and HX-Location too) to Login, that the
//     guard has not acknowledged becomes 401 with Outbox-Status: auth. A 403 is
//     left alone: it may come from anything in between;
//   - an entry older than Retention is answered 410 with Outbox-Status: expired
//     and goes no further;
//   - a 2xx or 3xx that carries no Idempotency-Status gets Outbox-Status:
//     unguarded and is logged as an error: the route is wired without the guard.
//
// Everything else passes unchanged, as do all requests that are not announced:
// to a plain form, a script of the app's own or a client of an API nothing is
// different. Streaming, informational answers and http.ResponseController work
// through it.
//
// Edge panics if Login is not a URL. The handler is safe for concurrent use.
func Edge(h http.Handler, cfg EdgeConfig) http.Handler {
	e := &edge{next: h, keyHeader: cfg.KeyHeader, log: cfg.Logger, oldest: cfg.Retention}
	if e.keyHeader == "" {
		e.keyHeader = "Idempotency-Key"
	}
	if e.log == nil {
		e.log = slog.Default()
	}
	if e.oldest == 0 {
		e.oldest = defaultRetention
	}
	if e.oldest > 0 {
		e.oldest -= min(e.oldest/20, 2*time.Minute)
	}
	if cfg.Login != "" {
		u, err := url.Parse(cfg.Login)
		if err != nil {
			panic(fmt.Sprintf("onceward: outbox: EdgeConfig.Login: %v", err))
		}
		e.login = u
	}
	return e
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.announced(r) {
		e.next.ServeHTTP(w, r)
		return
	}
	if e.tooOld(r) {
		w.Header().Set(HeaderStatus, StatusExpired)
		writeProblem(w, http.StatusGone, "urn:onceward:outbox:expired",
			"This request was first sent so long ago that it is not known any more whether it was done. It was not done now.")
		return
	}
	ew := &edgeWriter{ResponseWriter: w, edge: e, r: r}
	e.next.ServeHTTP(ew, r)
	if !ew.wrote && !ew.hijacked {
		ew.WriteHeader(http.StatusOK)
	}
}

// announced tells whether the request is one of the outbox's. Safe methods never
// are: the guard does not see them either.
func (e *edge) announced(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	return r.Header.Get(e.keyHeader) != "" && r.Header.Get(HeaderOwner) != ""
}

// tooOld reads Outbox-Age. An age that cannot be read is too old: the person is
// asked, which loses nothing, where trusting it could do the work twice.
func (e *edge) tooOld(r *http.Request) bool {
	ages := r.Header.Values(HeaderAge)
	if len(ages) == 0 || e.oldest < 0 {
		return false
	}
	s, err := strconv.ParseUint(strings.TrimSpace(ages[0]), 10, 63)
	if err != nil || len(ages) > 1 {
		return true
	}
	return s > uint64(e.oldest/time.Second)
}

// isLogin tells whether a redirect's target is the login page.
func (e *edge) isLogin(r *http.Request, target string) bool {
	if e.login == nil || target == "" {
		return false
	}
	u, err := r.URL.Parse(target)
	if err != nil {
		return false
	}
	if e.login.Host != "" {
		host := u.Host
		if host == "" {
			host = r.Host
		}
		if !strings.EqualFold(host, e.login.Host) {
			return false
		}
	}
	return path.Clean("/"+u.Path) == path.Clean("/"+e.login.Path)
}

// edgeWriter rewrites the head of an answer at the moment it is written. It
// implements FlushError itself, since http.ResponseController would otherwise
// reach past it through Unwrap and send the head unread.
type edgeWriter struct {
	http.ResponseWriter
	edge     *edge
	r        *http.Request
	wrote    bool
	hijacked bool
	noBody   bool // the answer was a redirect; its body is of no use to anyone
}

// Unwrap is for http.ResponseController: deadlines and full duplex are the
// connection's business.
func (w *edgeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *edgeWriter) WriteHeader(status int) {
	if status >= 100 && status < 200 {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if w.wrote {
		return
	}
	w.wrote = true
	w.ResponseWriter.WriteHeader(w.rewrite(status))
}

func (w *edgeWriter) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if w.noBody {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController calls.
func (w *edgeWriter) FlushError() error {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is for handlers that still ask for an http.Flusher; where the connection
// cannot flush it does nothing, as FlushError would tell.
func (w *edgeWriter) Flush() { _ = w.FlushError() }

// Hijack hands the connection over; what the handler then writes is its own.
func (w *edgeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.hijacked = true
	}
	return conn, rw, err
}

// rewrite changes the header in place and returns the status to send.
func (w *edgeWriter) rewrite(status int) int {
	h := w.Header()
	token := statusToken(h.Get(onceward.StatusHeader))
	acknowledged := token == "executed" || token == "replayed"
	redirect := isRedirect(status)

	if !acknowledged {
		toLogin := redirect && w.edge.isLogin(w.r, h.Get("Location")) || w.htmxToLogin(h)
		if toLogin || status == http.StatusUnauthorized {
			h.Set(HeaderStatus, StatusAuth)
			if toLogin {
				// The page must stay as it is: somebody may be typing in it. The
				// strip tells the person to log in.
				h.Del("Location")
				h.Del("HX-Redirect")
				h.Del("HX-Location")
				w.dropBody(h)
			}
			return http.StatusUnauthorized
		}
	}
	if token == "" && status >= 200 && status < 400 {
		h.Set(HeaderStatus, StatusUnguarded)
		w.edge.log.Error("onceward: outbox: a request with a key was answered by a route that stands outside the guard; a repeat of it does the work again",
			"method", w.r.Method, "path", w.r.URL.Path, "status", status)
	}
	if redirect {
		if to := h.Get("Location"); to != "" {
			h.Set(HeaderLocation, to)
			h.Del("Location")
		}
		if status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect {
			h.Set(HeaderRedirectStatus, strconv.Itoa(status))
		}
		w.dropBody(h)
		return http.StatusOK
	}
	return status
}

// dropBody keeps the body from the client. It sets no length: the guard holds
// back the end of a streamed answer until it is recorded, and a length would be
// such an end.
func (w *edgeWriter) dropBody(h http.Header) {
	w.noBody = true
	for _, name := range []string{"Content-Length", "Content-Type", "Content-Encoding", "Etag", "Trailer"} {
		h.Del(name)
	}
}

func (w *edgeWriter) htmxToLogin(h http.Header) bool {
	if w.edge.isLogin(w.r, h.Get("HX-Redirect")) {
		return true
	}
	return w.edge.isLogin(w.r, htmxLocation(h.Get("HX-Location")))
}

// statusToken is the word before the parameters: executed;key="…" gives executed.
func statusToken(value string) string {
	token, _, _ := strings.Cut(value, ";")
	return strings.TrimSpace(token)
}

// isRedirect names the statuses that fetch calls redirects (Fetch, "redirect
// status"); with redirect: "manual" it hides them even without a Location.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}
