package gateway

import (
	"encoding/json"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward"
)

// held is the guard's writer without the flushes of httputil.ReverseProxy, which
// flushes whatever has no Content-Length: an answer that was flushed is completed
// without its body, and most of these are small pages sent in chunks. A stream
// flows. It has no Unwrap, like the writer that it wraps.
type held struct {
	http.ResponseWriter
	c *call
}

// FlushError serves http.ResponseController.
func (h *held) FlushError() error {
	if !h.c.streams {
		return nil
	}
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// final is the server's writer, which httputil.ReverseProxy empties with every
// answer of the 100s that it passes on.
type final struct {
	http.ResponseWriter
	timeout  time.Duration // Config.BodyTimeout
	expected bool          // the client expects a 100
	last     bool          // no further request on this connection
	kept     bool          // the guard has this answer, and the room that it takes
	upload   *arriving     // the request's body, which goes on as it comes
	word     string        // what the application's own guard says of a request that it did not carry out
}

// early reports whether the application answers before it has the whole request.
func (w *final) early() bool { return w.upload != nil && !w.upload.over.Load() }

// pass sends what was written on its way, if the client still sends: it may wait for it.
func (w *final) pass() {
	if w.early() {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// WriteHeader keeps an answer that says no type without one: net/http would guess.
// And it keeps the application's 100 from being written: net/http writes one when the
// body begins to be read, which is what that 100 brings about, and the client would
// get two.
func (w *final) WriteHeader(code int) {
	switch {
	case code == http.StatusContinue && w.expected:
		return
	case code >= http.StatusOK:
		h := w.Header()
		if h["Content-Type"] == nil {
			h["Content-Type"] = nil
		}
		// Where the connection goes on, net/http reads the rest of the request's body
		// away before it writes an answer: the application would miss it, or all three
		// would wait for each other.
		if w.last || w.early() {
			h.Set("Connection", "close")
		}
		if w.word != "" && strings.HasPrefix(h.Get(onceward.StatusHeader), "released") {
			h.Set(onceward.StatusHeader, w.word)
		}
		w.kept = w.timeout > 0 && h.Get(onceward.StatusHeader) != ""
	}
	w.ResponseWriter.WriteHeader(code)
	if code >= http.StatusOK {
		w.pass()
	}
}

// Write writes an answer that the guard has in pieces, each of which has to be taken
// in time. A client that reads nothing would hold the answer's room for ever.
func (w *final) Write(p []byte) (n int, err error) {
	if !w.kept {
		defer w.pass()
		return w.ResponseWriter.Write(p)
	}
	for more := true; more && err == nil; more = len(p) > 0 {
		piece := p[:min(len(p), leastBody)]
		p = p[len(piece):]
		var wrote int
		err = w.inTime(func() (err error) { wrote, err = w.ResponseWriter.Write(piece); return err })
		n += wrote
	}
	return n, err
}

// FlushError serves http.ResponseController.
func (w *final) FlushError() error {
	flush := http.NewResponseController(w.ResponseWriter).Flush
	if !w.kept {
		return flush()
	}
	return w.inTime(flush)
}

// inTime does what writes to the connection, under a deadline that is gone afterwards:
// a stream may say nothing for as long as it likes.
func (w *final) inTime(write func() error) error {
	conn := http.NewResponseController(w.ResponseWriter)
	if conn.SetWriteDeadline(time.Now().Add(w.timeout)) != nil {
		return write()
	}
	err := write()
	if err == nil {
		_ = conn.SetWriteDeadline(time.Time{})
	}
	return err
}

// Unwrap serves http.ResponseController.
func (w *final) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// The problem types that the gateway has in common with the guard.
const (
	problemUnavailable = "urn:onceward:problem:unavailable"
	problemUnknown     = "urn:onceward:problem:outcome-unknown"
)

// refusal is an answer of the gateway's own.
type refusal struct {
	status int
	kind   string // the problem's type
	en, ru string
}

// Bodies that never came whole: nobody's fault but the client's, or its network's.
var (
	lateBody = refusal{http.StatusRequestTimeout, "about:blank",
		"The request's body did not come in time.", "Запрос шёл слишком долго и пришёл не целиком. Попробуйте ещё раз."}
	brokenBody = refusal{http.StatusBadRequest, "about:blank",
		"The request's body ended early, or is malformed.", "Запрос пришёл не целиком. Попробуйте ещё раз."}
)

// refuse writes a refusal in the form that its reader can use: a page for a
// person's browser, problem+json (RFC 9457) for a program.
func refuse(w http.ResponseWriter, r *http.Request, f refusal) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if !forPerson(r) {
		h.Set("Content-Type", "application/problem+json")
		w.WriteHeader(f.status)
		body, _ := json.Marshal(onceward.Problem{Type: f.kind, Title: http.StatusText(f.status), Status: f.status, Detail: f.en})
		_, _ = w.Write(append(body, '\n'))
		return
	}
	lang, text := "en", f.en
	if russian(r) {
		lang, text = "ru", f.ru
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", lang)
	w.WriteHeader(f.status)
	_, _ = w.Write([]byte(`<!doctype html><html lang="` + lang + `"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">` +
		`<title>` + html.EscapeString(text) + `</title><main><p role="alert" data-problem="` + f.kind + `">` + html.EscapeString(text) + "</p></main></html>\n"))
}

// forPerson says whether a browser shows the answer as it is.
func forPerson(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" ||
		strings.Contains(r.Header.Get("Accept"), "text/html") && r.Header.Get("HX-Request") == "" && r.Header.Get("Outbox-Owner") == ""
}

func russian(r *http.Request) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(r.Header.Get("Accept-Language"))), "ru")
}
