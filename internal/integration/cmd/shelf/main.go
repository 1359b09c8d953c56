// Command shelf is an application of a few routes with the outbox round it: notes
// and files, kept in memory, and a list of what was really done. Browser tests and
// measurements use it for what the planner has not: uploads, forms that send
// themselves twice, a token in a header, pages without a worker.
//
//	go run ./internal/integration/cmd/shelf [-addr 127.0.0.1:0] [-htmx htmx.js] [-outbox '{"softLimit":1500}']
package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/outbox"
)

// effect is one thing that was really done.
type effect struct {
	Kind   string `json:"kind"` // note or file
	Text   string `json:"text,omitempty"`
	Name   string `json:"name,omitempty"` // of the file
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Key    string `json:"key"`
}

type shelf struct {
	mu   sync.Mutex
	done []effect
}

func (s *shelf) do(r *http.Request, e effect) {
	e.Key = orElse(r.Header.Get("Idempotency-Key"), r.PostFormValue("_key"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, e)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// did lists the effects.
func (s *shelf) did(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(append([]effect{}, s.done...))
}

// note takes a text; the text "bad" is refused.
func (s *shelf) note(w http.ResponseWriter, r *http.Request) {
	text := r.PostFormValue("text")
	if text == "" || text == "bad" {
		http.Error(w, "not a good text", http.StatusUnprocessableEntity)
		return
	}
	s.do(r, effect{Kind: "note", Text: text})
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = pieces.ExecuteTemplate(w, "form", nil)
		return
	}
	http.Redirect(w, r, "/?after=note", http.StatusSeeOther)
}

// file takes an upload whole.
func (s *shelf) file(w http.ResponseWriter, r *http.Request) {
	f, head, err := r.FormFile("file")
	if err != nil {
		http.Error(w, "no file: "+err.Error(), http.StatusUnprocessableEntity)
		return
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.do(r, effect{Kind: "file", Text: r.PostFormValue("text"), Name: head.Filename, Size: n, SHA256: fmt.Sprintf("%x", sum.Sum(nil))})
	http.Redirect(w, r, "/?after=file", http.StatusSeeOther)
}

// tap does nothing, as fast as it can; with ?stays in a way that leaves a form's page
// as it is.
func tap(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery == "stays" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_, _ = io.WriteString(w, "ok")
}

// pieces are the forms. The one for notes replaces itself, as many pages of htmx
// do; "both" has a request of its own on the form and on its button, and "events" has
// one on its field and one on itself, which the field's keystroke bubbles up to.
var pieces = template.Must(template.New("").Funcs(template.FuncMap{"key": rand.Text}).Parse(`
{{define "form"}}<form id="note" method="post" action="/notes" hx-post="/notes" hx-swap="outerHTML">
<input type="hidden" name="_key" value="{{key}}" autocomplete="off"><input id="text" name="text"><button id="add">Add</button></form>
{{end}}
{{define "page"}}<!doctype html><html lang="ru"><head><meta charset="utf-8"><title>Shelf</title><link rel="icon" href="data:,">
{{.Outbox}}{{if .Htmx}}<script src="/htmx.js" defer></script>{{end}}</head><body>
{{template "form"}}
<form id="both" hx-post="/notes" hx-swap="none"><input type="hidden" name="text" value="both"><button id="both-button" hx-post="/notes" hx-swap="none">Both</button></form>
<form id="events" hx-post="/notes" hx-swap="none" hx-trigger="keyup"><input id="events-text" name="text" hx-post="/notes" hx-swap="none" hx-trigger="keyup"></form>
<form id="plain" method="post" action="/notes"><input type="hidden" name="_key" value="{{key}}" autocomplete="off"><input id="plain-text" name="text"><button id="plain-button">Save</button></form>
<form id="upload" method="post" action="/files" enctype="multipart/form-data"{{if .Marked}} data-outbox="on"{{end}}>
<input type="hidden" name="_key" value="{{key}}" autocomplete="off"><input id="upload-text" name="text"><input id="upload-file" type="file" name="file"><button id="upload-button">Send</button></form>
</body></html>{{end}}`))

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "shelf:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("shelf", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:0", "listen on this `address`")
	htmx := flags.String("htmx", "", "serve this `file` as htmx")
	limits := flags.String("outbox", "{}", "the outbox's limits, in milliseconds, as `JSON`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var ms struct{ SoftLimit, HardLimit, Backoff, BackoffVisible, KickEvery time.Duration }
	if err := json.Unmarshal([]byte(*limits), &ms); err != nil {
		return fmt.Errorf("-outbox: %w", err)
	}
	secret := []byte(rand.Text())
	everybody, err := onceward.Unscoped(nil)
	if err != nil {
		return err
	}
	script := func(worker string, headers map[string]string) template.HTML {
		return outbox.Script(outbox.ScriptConfig{
			Owner: outbox.Tag(secret, everybody), Worker: worker, Headers: headers,
			SoftLimit: ms.SoftLimit * time.Millisecond, HardLimit: ms.HardLimit * time.Millisecond,
			Backoff: ms.Backoff * time.Millisecond, BackoffVisible: ms.BackoffVisible * time.Millisecond, KickEvery: ms.KickEvery * time.Millisecond,
		})
	}
	s := &shelf{}
	guard, err := onceward.New(memstore.New(memstore.Config{}), outbox.Owned(onceward.Unscoped, secret), onceward.Config{})
	if err != nil {
		return err
	}
	app := http.NewServeMux()
	// ?worker=- has the page do the work; ?token=x has it give that token for
	// every request; ?unmarked leaves uploads to the browser.
	app.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		var headers map[string]string
		if q.Has("token") {
			headers = map[string]string{"X-Csrf-Token": q.Get("token")}
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = pieces.ExecuteTemplate(w, "page", map[string]any{"Outbox": script(q.Get("worker"), headers), "Htmx": *htmx != "", "Marked": !q.Has("unmarked")})
	})
	app.HandleFunc("POST /notes", s.note)
	app.HandleFunc("POST /token/notes", s.note)
	app.HandleFunc("POST /files", s.file)
	app.HandleFunc("POST /tap", tap)

	all := http.NewServeMux()
	all.Handle("/outbox/", outbox.Handler(outbox.Config{}))
	all.HandleFunc("GET /did", s.did)
	all.HandleFunc("GET /htmx.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, *htmx) })
	guarded := guard.Handler(app)
	all.Handle("/", outbox.Edge(guarded, outbox.EdgeConfig{}))
	all.Handle("/token/", outbox.Edge(needsToken(guarded), outbox.EdgeConfig{}))

	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	log.SetFlags(0)
	return http.Serve(l, all)
}

// needsToken stands between Edge and guard, as protection against forged requests
// does.
func needsToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Csrf-Token") != "good" {
			http.Error(w, "the token is missing or old", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
