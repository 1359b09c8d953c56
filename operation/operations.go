package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward"
)

// Config changes what [Operations] do by default. The zero value is usable.
type Config struct {
	// Path is where the status is mounted, without the id: an operation's address is
	// Path and its id. Empty means "/operations/". It may be a whole URL.
	Path string
	// RetryAfter is what pending answers advise, in whole seconds. Zero means 2 s.
	RetryAfter time.Duration
	// MaxWait bounds ?wait=N. The server's WriteTimeout has to be longer. Zero means
	// 25 s; negative: nobody waits.
	MaxWait time.Duration
	// Records is the guard's store. It is asked about an operation that the runner
	// does not know: where the guard remembers to have accepted it, the answer is
	// unknown and not "no such operation". Nil: that is not asked.
	Records onceward.Looker
	// Write writes an operation: the status, the header of the answer that is not
	// set yet, and the body. Location, Retry-After, Cache-Control and Vary are set by
	// then. Nil means JSON.
	Write func(w http.ResponseWriter, r *http.Request, status int, op Operation)
	// Logger is told of errors of the runner. Nil means none.
	Logger *slog.Logger
}

// Operations accept long work over HTTP and tell what became of it. As an
// http.Handler they are the status resource. They are safe for concurrent use.
type Operations struct {
	runner Runner
	scope  onceward.ScopeFunc
	cfg    Config
	closed context.Context
	close  context.CancelFunc

	watches watches
}

// New returns the operations of a runner. scope is the guard's: it says who asks.
func New(runner Runner, scope onceward.ScopeFunc, cfg Config) (*Operations, error) {
	if runner == nil || scope == nil {
		return nil, errors.New("onceward: operation.New needs a runner and the guard's scope function")
	}
	if cfg.Path == "" {
		cfg.Path = "/operations/"
	}
	if !strings.HasSuffix(cfg.Path, "/") {
		return nil, fmt.Errorf("onceward: operation: Config.Path %q does not end with a slash", cfg.Path)
	}
	if cfg.RetryAfter == 0 {
		cfg.RetryAfter = 2 * time.Second
	}
	if cfg.RetryAfter < 0 {
		return nil, fmt.Errorf("onceward: operation: Config.RetryAfter is negative: %v", cfg.RetryAfter)
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = 25 * time.Second
	}
	o := &Operations{runner: runner, scope: scope, cfg: cfg}
	if cfg.Write == nil {
		o.cfg.Write = WriteJSON
	}
	o.closed, o.close = context.WithCancel(context.Background())
	return o, nil
}

// Close answers those who wait with what is known now, and nobody waits any more.
// Give it to http.Server.RegisterOnShutdown: a server waits for its requests.
func (o *Operations) Close() { o.close() }

// Location is the address of an operation's status.
func (o *Operations) Location(op Operation) string { return o.cfg.Path + op.ID() }

// Asked tells whether a request prefers not to wait for the work (RFC 7240:
// "Prefer: respond-async"), for a route that can do either. [Operations.Accept]
// serves also those who did not ask.
func Asked(r *http.Request) bool {
	_, asked := preference(r, "respond-async")
	return asked
}

// preference finds a preference by its name, and its value.
func preference(r *http.Request, name string) (value string, found bool) {
	for _, line := range r.Header.Values("Prefer") {
		for part := range strings.SplitSeq(line, ",") {
			part, _, _ = strings.Cut(part, ";") // parameters
			token, v, _ := strings.Cut(part, "=")
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return strings.Trim(strings.TrimSpace(v), `"`), true
			}
		}
	}
	return "", false
}

// Accept hands the work to the runner and answers 202, with the operation's
// address in Location and the operation in the body; or it answers with the
// problem that kept it from doing so, whose status lets the guard decide what is
// kept. r is the request as the guard gave it to its handler; the operation has its
// name. kind and input are the [Job]'s.
func (o *Operations) Accept(w http.ResponseWriter, r *http.Request, kind string, input []byte) {
	op, err := o.Submit(r, kind, input)
	if err != nil {
		o.Refuse(w, r, err)
		return
	}
	o.Accepted(w, r, op)
}

// Submit hands the work to the runner, for a handler that writes its own answers:
// [Operations.Accepted], [Operations.Refuse], or a redirect to
// [Operations.Location]. The error wraps onceward.ErrKeyMissing if the guard has
// given r no name, or onceward.ErrKeyReused if the name stands for another request.
func (o *Operations) Submit(r *http.Request, kind string, input []byte) (Operation, error) {
	key, fp, ok := onceward.Named(r.Context())
	if !ok {
		return Operation{}, fmt.Errorf("%w: long work is known by the request's key", onceward.ErrKeyMissing)
	}
	return o.runner.Submit(r.Context(), Job{Key: key, Fingerprint: fp, Kind: kind, Input: input})
}

// Accepted answers 202 for an operation that was submitted.
func (o *Operations) Accepted(w http.ResponseWriter, r *http.Request, op Operation) {
	h := w.Header()
	h.Set("Location", o.Location(op))
	if Asked(r) {
		h.Set("Preference-Applied", "respond-async")
	} else {
		h.Del("Preference-Applied")
	}
	o.write(w, r, http.StatusAccepted, op)
}

// write writes an operation as it stands.
func (o *Operations) write(w http.ResponseWriter, r *http.Request, status int, op Operation) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if !slices.Contains(h["Vary"], "Prefer") {
		h.Add("Vary", "Prefer")
	}
	if op.State == Pending {
		h.Set("Retry-After", strconv.Itoa(int((o.cfg.RetryAfter+time.Second-1)/time.Second)))
	} else {
		h.Del("Retry-After")
	}
	o.cfg.Write(w, r, status, op)
}

// view is an operation as JSON. For a failed one it is a problem as RFC 9457 has
// it, with the operation's own members beside. It has no "status": that would have
// to be the answer's own, and the question "what became of it" was answered well.
type view struct {
	Type     string          `json:"type,omitempty"`
	Title    string          `json:"title,omitempty"`
	Detail   string          `json:"detail,omitempty"`
	ID       string          `json:"id"`
	State    State           `json:"state"`
	Created  *time.Time      `json:"created,omitempty"`
	Finished *time.Time      `json:"finished,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Location string          `json:"location,omitempty"`
}

// WriteJSON writes an operation as application/json, a failed one as
// application/problem+json. A Config.Write of one's own calls it for programs.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, op Operation) {
	v := view{ID: op.ID(), State: op.State, Created: moment(op.Created), Finished: moment(op.Finished)}
	kind := "application/json"
	switch op.State {
	case Complete:
		v.Result, v.Location = op.Result.Value, op.Result.Location
	case Failed:
		f := FailedSilently
		if op.Failure != nil {
			f = FailureOf(op.Failure)
		}
		v.Type, v.Title, v.Detail = f.Type, f.Title, f.Detail
		kind = "application/problem+json"
	case Unknown:
		v.Detail = "Nobody can tell whether this was done. Look whether its effect is there; if it is not, send the request under a new key."
	}
	body, err := json.Marshal(v)
	if err != nil { // the work's own result is no JSON
		v.Result, v.State = nil, Unknown
		v.Detail = "The work was done, but its result cannot be read."
		body, _ = json.Marshal(v)
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n'))
	}
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}

// Refuse answers with what kept an operation from being submitted or looked at. Of
// an error that is not ours to tell the client learns that it may try again.
func (o *Operations) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := onceward.Problem{Type: problem + "unavailable", Status: http.StatusServiceUnavailable,
		Title: "The work could not be accepted or looked at", Detail: "Send the same request with the same key again after Retry-After."}
	var own *onceward.ProblemError
	h := w.Header()
	switch {
	case errors.As(err, &own):
		for name, values := range own.Header {
			h[name] = values
		}
		p = onceward.Problem{Type: own.Type, Status: own.Status, Title: http.StatusText(own.Status), Detail: own.Detail}
		if p.Status < 400 || p.Status > 599 { // as the guard has it: that is no refusal
			p.Status, p.Title = http.StatusInternalServerError, http.StatusText(http.StatusInternalServerError)
		}
		if p.Type == "" {
			p.Type = "about:blank"
		}
	case errors.Is(err, ErrNotFound):
		p = onceward.Problem{Type: "about:blank", Status: http.StatusNotFound, Title: "There is no such operation"}
	case errors.Is(err, onceward.ErrKeyMissing):
		p = onceward.Problem{Type: problem + "key-missing", Status: http.StatusBadRequest,
			Title: "An idempotency key is required", Detail: "Send a unique Idempotency-Key header with this request."}
	case errors.Is(err, onceward.ErrKeyReused):
		p = onceward.Problem{Type: problem + "key-reused", Status: http.StatusUnprocessableEntity,
			Title: "This key named a different request", Detail: "Use a new key for a new request; repeat a request without changing it."}
	case errors.Is(err, errScope):
		p = onceward.Problem{Type: "about:blank", Status: http.StatusInternalServerError, Title: "Internal server error"}
		o.log("onceward: the status of operations stands outside authentication", r, err)
	default:
		h.Set("Retry-After", "2")
		o.log("onceward: an operation's runner failed", r, err)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	body, _ := json.Marshal(p) // strings and an int: cannot fail
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

func (o *Operations) log(msg string, r *http.Request, err error) {
	if o.cfg.Logger == nil {
		return
	}
	args := []any{"error", err}
	if key, _, ok := onceward.Named(r.Context()); ok {
		args = append(args, "record", key.RecordID())
	}
	o.cfg.Logger.Error(msg, args...)
}
