package onceward

import (
	"cmp"
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The one vocabulary: status tokens of Idempotency-Status, the last word of
// problem types (urn:onceward:problem:…) and the outcomes in the log. An outcome
// is left out where the guard decided nothing: the scope refused, or failed.
const (
	statusExecuted    = "executed"
	statusReplayed    = "replayed"
	statusReleased    = "released"
	statusInProgress  = "in-progress"
	statusKeyMissing  = "key-missing"
	statusKeyInvalid  = "key-invalid"
	statusKeyReused   = "key-reused"
	statusUnknown     = "outcome-unknown"
	statusKeyExpired  = "key-expired"
	statusTooLarge    = "too-large"
	statusUnavailable = "unavailable"
)

// StatusHeader is on every answer that a guard decided or saw through:
// `executed;key="…"`. Only executed and replayed acknowledge a request; an
// answer without this header came from something else on the way.
const StatusHeader = "Idempotency-Status"

// Problem is a refusal, as RFC 9457 writes it. Its texts never echo what the
// client sent.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// ProblemError is how a [ScopeFunc] refuses a request with an answer of its
// own. Such an answer carries no Idempotency-Status: the guard decided nothing.
type ProblemError struct {
	Status int         // the HTTP status
	Type   string      // a URI; empty means about:blank
	Detail string      // for people; may be empty
	Header http.Header // set on the answer
}

func (e *ProblemError) Error() string {
	return "onceward: refused with " + strconv.Itoa(e.Status) + " " + http.StatusText(e.Status)
}

// outcomeClaimLost is the one outcome in the log that is no status: the answer
// of a handler that lost its claim.
const outcomeClaimLost = "claim-lost"

// errUnreachable is a store that could not be asked, and nothing else that
// keeps a request from being decided: only it may fail open.
var errUnreachable = errors.New("onceward: the store does not answer")

// errKeyFrom is a failure of Config.KeyFrom. Its cause is a stranger's text and
// goes to the log only.
var errKeyFrom = errors.New("onceward: the key could not be read from the request")

// errScopeMissing is a guard that stands outside authentication.
var errScopeMissing = errors.New("onceward: the scope is empty: the guard stands outside authentication")

// errBody is a request body that did not end cleanly.
var errBody = errors.New("onceward: the request body ended early")

// refusal is what an error becomes over HTTP.
type refusal struct {
	token      string // "" for answers without Idempotency-Status
	status     int
	retryAfter time.Duration
	title      string
	detail     string
	ru         string
}

// refusalOf is the one place where an error becomes an HTTP answer.
func refusalOf(err error) refusal {
	detail := ""
	switch {
	case errors.Is(err, ErrKeyMissing):
		return refusal{statusKeyMissing, 400, 0, "An idempotency key is required", "Send a unique Idempotency-Key header with this request.",
			"Не хватает имени запроса. Обновите страницу и попробуйте ещё раз."}
	case errors.Is(err, errKeyFrom):
		return refusal{statusKeyInvalid, 400, 0, "The idempotency key is not valid", "The key could not be read from the request.",
			"Имя запроса испорчено. Обновите страницу и попробуйте ещё раз."}
	case errors.Is(err, ErrKeyInvalid):
		return refusal{statusKeyInvalid, 400, 0, "The idempotency key is not valid", strings.TrimPrefix(err.Error(), "onceward: "),
			"Имя запроса испорчено. Обновите страницу и попробуйте ещё раз."}
	case errors.Is(err, ErrInProgress):
		busy := &busyError{409, 2 * time.Second}
		_ = errors.As(err, &busy)
		return refusal{statusInProgress, busy.status, busy.retryAfter, "The first request with this key is still running", "Send the same request with the same key again after Retry-After.",
			"Это действие ещё выполняется. Подождите немного и обновите страницу."}
	case errors.Is(err, ErrKeyReused):
		return refusal{statusKeyReused, 422, 0, "This key named a different request", "Use a new key for a new request; repeat a request without changing it.",
			"Форма уже была отправлена с другим содержимым. Обновите страницу и отправьте заново."}
	case errors.Is(err, ErrOutcomeUnknown):
		return refusal{statusUnknown, 409, 0, "Nobody knows what became of the first request with this key", "It is not run again under this key. Look whether its effect is there; if it is not, send it under a new key.",
			"Неизвестно, выполнилось ли это действие. Проверьте, и если его нет, сделайте заново."}
	case errors.Is(err, ErrKeyExpired):
		return refusal{statusKeyExpired, 422, 0, "The answer to this key is no longer kept", "It was carried out long ago. For a new request use a new key.",
			"Это действие было выполнено давно. Обновите страницу."}
	case errors.Is(err, ErrTooLarge):
		return refusal{statusTooLarge, 413, 0, "The request body is too large", "", "Слишком большой запрос."}
	case errors.Is(err, ErrUnavailable):
		return refusal{statusUnavailable, 503, 2 * time.Second, "Nothing was done: the request could not be recorded", "Send the same request with the same key again after Retry-After.",
			"Сейчас не получилось, ничего не изменено. Попробуйте ещё раз через несколько секунд."}
	case errors.Is(err, errBody) && errors.Is(err, os.ErrDeadlineExceeded):
		return refusal{"", 408, 0, "The request body did not come in time", detail, "Запрос шёл слишком долго и пришёл не целиком. Попробуйте ещё раз."}
	case errors.Is(err, errBody):
		return refusal{"", 400, 0, "The request body ended early", detail, "Запрос пришёл не целиком. Попробуйте ещё раз."}
	}
	return refusal{"", 500, 0, "Internal server error", detail, "Ошибка на сервере. Мы о ней уже знаем."}
}

// refuse answers with err. key is "" where none was read.
func (q *request) refuse(err error) {
	var own *ProblemError
	if errors.As(err, &own) {
		for name, values := range own.Header {
			q.w.Header()[name] = values
		}
		p := Problem{Type: own.Type, Status: own.Status, Title: http.StatusText(own.Status), Detail: own.Detail}
		if p.Status < 400 || p.Status > 599 { // no refusal; WriteHeader panics on some
			p.Status, p.Title = http.StatusInternalServerError, http.StatusText(http.StatusInternalServerError)
		}
		if p.Type == "" {
			p.Type = "about:blank"
		}
		q.writeProblem(p, cmp.Or(own.Detail, p.Title), own.Detail)
		q.log("", p.Status, err)
		return
	}
	f := refusalOf(err)
	h := q.w.Header()
	if f.token != "" {
		h.Set(StatusHeader, statusValue(f.token, q.key))
	}
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int((f.retryAfter+time.Second-1)/time.Second))))
	}
	exposeHeaders(h)
	p := Problem{Type: "urn:onceward:problem:" + f.token, Title: f.title, Status: f.status, Detail: f.detail}
	if f.token == "" {
		p.Type = "about:blank"
	}
	q.writeProblem(p, f.title, f.ru)
	q.log(f.token, f.status, err)
}

// busyError is "in progress" with the two things that vary: how long to wait,
// and 503 for a handler that ran into MaxRuntime.
type busyError struct {
	status     int
	retryAfter time.Duration
}

func (*busyError) Error() string        { return ErrInProgress.Error() }
func (*busyError) Is(target error) bool { return target == ErrInProgress }

// writeProblem writes a refusal in the form that its reader can use.
func (q *request) writeProblem(p Problem, en, ru string) {
	w, r := q.w, q.r
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Cache-Control", "no-store")
	if q.g.cfg.Error != nil {
		q.g.cfg.Error(w, r, p)
		return
	}
	fragment := r.Header.Get("HX-Request") != ""
	if !fragment && !isNavigation(r) {
		h.Set("Content-Type", "application/problem+json")
		body, _ := json.Marshal(p) // strings and an int: cannot fail
		w.WriteHeader(p.Status)
		_, _ = w.Write(append(body, '\n'))
		return
	}
	lang, text := "en", en
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(r.Header.Get("Accept-Language"))), "ru") && ru != "" {
		lang, text = "ru", ru
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", lang)
	w.WriteHeader(p.Status)
	alert := `<p role="alert" data-problem="` + html.EscapeString(p.Type) + `">` + html.EscapeString(text) + `</p>`
	if fragment {
		_, _ = w.Write([]byte(alert + "\n"))
		return
	}
	_, _ = w.Write([]byte(`<!doctype html><html lang="` + lang + `"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">` +
		`<title>` + html.EscapeString(text) + `</title><main>` + alert + "</main></html>\n"))
}

// isNavigation tells a person's form submission from a script's request: it
// needs a page, and it waits by itself, because a person cannot act on a 409.
func isNavigation(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		return true
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html") &&
		r.Header.Get("HX-Request") == "" && r.Header.Get("Outbox-Owner") == ""
}

// statusValue writes Idempotency-Status: a structured field item (RFC 9651).
func statusValue(token, key string) string {
	if key == "" {
		return token
	}
	if strings.ContainsAny(key, `"\\`) {
		key = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key)
	}
	return token + `;key="` + key + `"`
}

// exposeHeaders lets a cross-origin script read what the guard says, where the
// application allows that origin at all.
func exposeHeaders(h http.Header) {
	if h.Get("Access-Control-Allow-Origin") == "" {
		return
	}
	const name, ours = "Access-Control-Expose-Headers", "Idempotency-Replayed, Idempotency-Status, Retry-After, Location, Link"
	if !slices.Contains(h[name], ours) { // a flushed answer is stored with it
		h.Add(name, ours)
	}
}
