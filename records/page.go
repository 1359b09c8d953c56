package records

import (
	"context"
	"crypto/sha256"
	_ "embed" // the page's template and style
	"encoding/base64"
	"encoding/hex"
	"errors"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/onceward/onceward"
)

// Config changes what a page does by default. The zero value is safe.
type Config struct {
	// Hosts are the names by which the page may be asked for, besides localhost and
	// addresses of the Internet Protocol. A page on this machine could otherwise be read
	// by any website that gives its own name this machine's address.
	Hosts []string
	// Timeout bounds the questions to the store that one view takes. Postgres and Redis
	// may read all their records for one. Zero means 5 s.
	Timeout time.Duration
	// Logger gets what goes wrong. Nil means none.
	Logger *slog.Logger
}

// pageSize is how many records a view has.
const pageSize = 50

// ErrNotListed means that the store cannot go through its records.
var ErrNotListed = errors.New("records: the store is no onceward.Lister")

// Page returns the read-only page of a store, which has to be an [onceward.Lister]. It
// shows more of one that is an [onceward.Looker] and an [onceward.Auditor] too. It is
// mounted at the root of its listener, and answers GET and HEAD alone. It is safe for
// concurrent use; two views at a time are made, others are 503.
func Page(store onceward.Store, cfg Config) (http.Handler, error) {
	lister, ok := store.(onceward.Lister)
	if !ok {
		return nil, ErrNotListed
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Hosts = slices.Clone(cfg.Hosts)
	p := &page{lister: lister, cfg: cfg, room: make(chan struct{}, 2)}
	p.looker, _ = store.(onceward.Looker)
	p.auditor, _ = store.(onceward.Auditor)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.serve(p.list))
	mux.HandleFunc("GET /record/{scope}/{id}", p.serve(p.one))
	return mux, nil
}

type page struct {
	lister  onceward.Lister
	looker  onceward.Looker
	auditor onceward.Auditor
	cfg     Config
	room    chan struct{}
}

//go:embed page.html
var pageText string

//go:embed page.css
var style string

var (
	views = template.Must(template.New("page").Parse(pageText))

	// policy allows the page's own style and nothing else: no script, no image, no frame.
	policy = "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(func() []byte { sum := sha256.Sum256([]byte(style)); return sum[:] }()) + "'"
)

// view is what the template is given.
type view struct {
	Style   template.CSS
	Title   string
	Message string // in place of records: what went wrong, or that there are none
	Filters []filter
	ID      string
	Rows    []row
	Next    string // the rest of the list
	One     *row   // a view of one record
	Changes []change
}

type filter struct {
	Name, URL string
	Current   bool
}

// row is a record as it is shown.
type row struct {
	ID, Scope, URL, State, Age, Lease, Request, Status, Size string
	Attempt                                                  int
	FullID, FullScope                                        string
}

type change struct{ At, ID, Action, Who, Reason string }

var errGone = errors.New("there is no such record: it never was, was released, or its retention is over")

// serve makes a view of what show finds.
func (p *page) serve(show func(context.Context, *http.Request, *view) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for name, value := range map[string]string{
			"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "Content-Security-Policy": policy,
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			h.Set(name, value)
		}
		v := &view{Style: template.CSS(style), Title: "Records"}
		status := http.StatusOK
		switch err := p.show(show, r, v); {
		case errors.Is(err, errHost):
			status, v.Message = http.StatusMisdirectedRequest, "This page is asked for by its address, or by a name that it was told to answer to."
		case errors.Is(err, errBusy):
			status, v.Message = http.StatusServiceUnavailable, "Others are looking. Try again in a moment."
			h.Set("Retry-After", "1")
		case errors.Is(err, errGone):
			status, v.Message = http.StatusNotFound, "There is no such record: it never was, was released, or its retention is over."
		case errors.Is(err, errAsked):
			status, v.Message = http.StatusBadRequest, "An id has 2 to 64 digits of 0–9 and a–f, as in the log."
		case err != nil:
			// The error may name a database's user or address.
			p.cfg.Logger.Error("records: the store cannot be read", "error", err)
			status, v.Message = http.StatusServiceUnavailable, "The store cannot be read now; the program's log says why."
		}
		if status != http.StatusOK {
			v.Rows, v.Next, v.One = nil, "", nil
		}
		w.WriteHeader(status)
		if err := views.Execute(w, v); err != nil && r.Context().Err() == nil {
			p.cfg.Logger.Warn("records: the page was not written", "error", err)
		}
	}
}

var (
	errHost  = errors.New("records: the host is not this page's")
	errBusy  = errors.New("records: too many views at once")
	errAsked = errors.New("records: this is no id")
)

func (p *page) show(show func(context.Context, *http.Request, *view) error, r *http.Request, v *view) error {
	if !p.answersTo(r.Host) {
		return errHost
	}
	select {
	case p.room <- struct{}{}:
		defer func() { <-p.room }()
	default:
		return errBusy
	}
	ctx, cancel := context.WithTimeout(r.Context(), p.cfg.Timeout)
	defer cancel()
	return show(ctx, r, v)
}

func (p *page) answersTo(host string) bool {
	name := host
	if cut, _, err := net.SplitHostPort(host); err == nil {
		name = cut
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		return true
	}
	return slices.ContainsFunc(p.cfg.Hosts, func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, host) })
}

// filters are the lists, by the word in the address.
var filters = []struct {
	word, name string
	query      onceward.Query
}{
	{"", "All", onceward.Query{}},
	{"in-progress", "In progress", onceward.Query{State: onceward.InProgress}},
	{"stuck", "Stuck", onceward.Query{Stuck: true}},
	{"completed", "Completed", onceward.Query{State: onceward.Completed}},
}

func (p *page) list(ctx context.Context, r *http.Request, v *view) error {
	asked := r.URL.Query()
	var q onceward.Query
	for _, f := range filters {
		current := asked.Get("show") == f.word
		v.Filters = append(v.Filters, filter{f.name, listURL(f.word, "", nil), current})
		if current {
			q = f.query
		}
	}
	q.Limit = pageSize + 1
	if after, err := hex.DecodeString(asked.Get("after")); err == nil && len(after) == 64 {
		copy(q.After.Scope[:], after[:32])
		copy(q.After.ID[:], after[32:])
	}
	v.ID = strings.ToLower(strings.TrimSpace(asked.Get("id")))
	if v.ID != "" {
		if len(v.ID) < 2 || len(v.ID) > 64 || strings.Trim(v.ID, "0123456789abcdef") != "" {
			return errAsked
		}
		q.Prefix, _ = hex.DecodeString(v.ID[:len(v.ID)&^1])
	}
	found, err := p.lister.List(ctx, q)
	if err != nil {
		return err
	}
	if len(found) > pageSize {
		found = found[:pageSize]
		v.Next = listURL(asked.Get("show"), v.ID, &found[pageSize-1].Key)
	}
	for _, rec := range found {
		// Of an odd number of digits the store knows all but the last.
		if strings.HasPrefix(hex.EncodeToString(rec.Key.ID[:]), v.ID) {
			v.Rows = append(v.Rows, rowOf(rec))
		}
	}
	switch {
	case len(v.Rows) > 0 || v.Next != "":
		return nil
	case v.ID != "":
		v.Message = "No record has this id now."
		return p.changes(ctx, onceward.Key{}, v)
	}
	v.Message = "There are no such records."
	return nil
}

func listURL(show, id string, after *onceward.Key) string {
	q := url.Values{}
	for name, value := range map[string]string{"show": show, "id": id} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if after != nil {
		q.Set("after", hex.EncodeToString(append(slices.Clone(after.Scope[:]), after.ID[:]...)))
	}
	return "/?" + q.Encode()
}

func (p *page) one(ctx context.Context, r *http.Request, v *view) error {
	var key onceward.Key
	for part, into := range map[string][]byte{"scope": key.Scope[:], "id": key.ID[:]} {
		b, err := hex.DecodeString(r.PathValue(part))
		if err != nil || len(b) != 32 {
			return errGone
		}
		copy(into, b)
	}
	v.Title, v.ID = "Record "+key.RecordID(), hex.EncodeToString(key.ID[:])
	rec, found, err := p.look(ctx, key)
	if err != nil {
		return err
	}
	if err := p.changes(ctx, key, v); err != nil {
		return err
	}
	if !found {
		return errGone
	}
	one := rowOf(rec)
	v.One = &one
	return nil
}

// look reads one record. Of a store that is no Looker its list has it, without the
// answer's size.
func (p *page) look(ctx context.Context, key onceward.Key) (onceward.Record, bool, error) {
	if p.looker != nil {
		rec, found, err := p.looker.Look(ctx, key)
		if !errors.Is(err, onceward.ErrEncoding) { // an answer of a later version: the list knows its head
			return rec, found, err
		}
	}
	found, err := p.lister.List(ctx, onceward.Query{Scope: &key.Scope, Prefix: key.ID[:], Limit: 1})
	if err != nil || len(found) == 0 {
		return onceward.Record{}, false, err
	}
	return found[0], true, nil
}

// changes are what operators did to key by hand, or, of the last ones of all, to those
// whose id begins with v.ID.
func (p *page) changes(ctx context.Context, key onceward.Key, v *view) error {
	if p.auditor == nil {
		return nil
	}
	limit := 20
	if key == (onceward.Key{}) {
		limit = 1000
	}
	all, err := p.auditor.Audits(ctx, key, limit)
	if err != nil {
		return err
	}
	for _, a := range all {
		if strings.HasPrefix(hex.EncodeToString(a.Key.ID[:]), v.ID) {
			v.Changes = append(v.Changes, change{a.At.UTC().Format(time.RFC3339), a.Key.RecordID(), legible(a.Action), legible(a.Who), legible(a.Reason)})
		}
	}
	return nil
}

func rowOf(rec onceward.Record) row {
	id, scope := hex.EncodeToString(rec.Key.ID[:]), hex.EncodeToString(rec.Key.Scope[:])
	out := row{
		ID: rec.Key.RecordID(), Scope: rec.Key.ScopeID(), FullID: id, FullScope: scope, URL: "/record/" + scope + "/" + id,
		State: stateOf(rec), Age: rec.Age.Round(time.Second).String(), Attempt: rec.Attempt,
		Request: legible(rec.Method + " " + rec.Path),
	}
	if rec.State == onceward.InProgress {
		out.Lease = "over"
		if rec.LeaseLeft > 0 {
			out.Lease = rec.LeaseLeft.Round(time.Second).String()
		}
	}
	if r := rec.Response; r != nil {
		out.Status, out.Size = strconv.Itoa(r.Status), strconv.Itoa(len(r.Body))+" bytes"
		if r.BodyOmitted {
			out.Size = "its body was not kept"
		}
	}
	return out
}

// stateOf is a record's state in words, with what is no state of its own.
func stateOf(rec onceward.Record) string {
	switch {
	case rec.State == onceward.InProgress && rec.Held:
		return "held"
	case rec.State == onceward.InProgress && rec.LeaseLeft <= 0:
		return "unknown"
	}
	return rec.State.String()
}

// legible quotes a text with characters that would not be seen, or would change how
// others are: a path is whatever a stranger has asked for.
func legible(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.QuoteToGraphic(s)
	}
	return s
}
