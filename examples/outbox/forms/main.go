// Command forms is a guest book of plain HTML forms. With scripts what is sent is
// kept until it is there; without them a second press, or the browser's "send
// again?", still counts once, by the name in the form.
//
//	go run ./examples/outbox/forms
//	go run ./examples/outbox/forms -kill    later, to be rid of the outbox
//
// It knows no accounts: everybody shares one book and one space of keys.
package main

import (
	"crypto/rand"
	"flag"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/outbox"
)

// docs: forms: the page
var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Guest book</title>
{{.Outbox}}
<script>
document.addEventListener('outbox:delivered', () => { // what waited is written now
  if (!document.activeElement?.value) location.reload(); // not under the fingers of somebody who writes
});
</script>
</head><body>
<form method="post" action="/entries" enctype="multipart/form-data" data-outbox="on">
  <input type="hidden" name="_key" value="{{call .Key}}">
  <p><textarea name="text" required aria-label="Your words"></textarea>
  <p><input type="file" name="picture" aria-label="A picture">
  <p><button>Write</button>
</form>
<ol>{{range $i, $e := .Entries}}
  <li>{{$e.Text}} {{if $e.Picture}}<a href="/entries/{{$i}}/picture">{{$e.Name}}</a>{{end}}
    <form method="post" action="/entries/{{$i}}/thanks"><input type="hidden" name="_key" value="{{call $.Key}}"><button>Thanks</button> {{$e.Thanks}}</form>{{end}}
</ol>
</body></html>
`))

// docs: end

type entry struct {
	Text    string
	Name    string // of the picture's file
	Picture []byte
	Thanks  int
}

type book struct {
	mu      sync.Mutex
	entries []*entry
	outbox  template.HTML
}

func (b *book) write(w http.ResponseWriter, r *http.Request) {
	e := &entry{Text: r.FormValue("text")}
	if f, header, err := r.FormFile("picture"); err == nil {
		defer f.Close()
		if e.Picture, err = io.ReadAll(f); err != nil {
			http.Error(w, "the picture did not arrive whole", http.StatusInternalServerError) // released: it is sent again
			return
		}
		e.Name = header.Filename
	}
	if e.Text == "" {
		http.Error(w, "Nothing was written.", http.StatusUnprocessableEntity) // kept: nothing to be sent again
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, e)
	log.Printf("written %q", e.Text)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// docs: forms: a name for each form
func (b *book) show(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	// crypto/rand's Text: it is called for each form, so that each has a name of its own.
	data := map[string]any{"Outbox": b.outbox, "Entries": b.entries, "Key": rand.Text}
	if err := page.Execute(w, data); err != nil {
		log.Print(err)
	}
}

// docs: end

// at finds the entry of a path; the lock is held. Nil: it has been answered.
func (b *book) at(w http.ResponseWriter, r *http.Request) *entry {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 0 || n >= len(b.entries) {
		http.NotFound(w, r)
		return nil
	}
	return b.entries[n]
}

// thank adds one: what counts double without a name.
func (b *book) thank(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.at(w, r)
	if e == nil {
		return
	}
	e.Thanks++
	log.Printf("thanks for %q", e.Text)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (b *book) picture(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.at(w, r)
	if e == nil {
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(e.Picture)
}

// docs: forms: nobody signs in
// handler is the app with all that it needs to count a press once.
func (b *book) handler(app http.Handler, secret []byte, kill bool) (http.Handler, error) {
	guard, err := onceward.New(memstore.New(memstore.Config{}), // in life, a store that outlives the process
		outbox.Owned(onceward.Unscoped, secret), onceward.Config{})
	if err != nil {
		return nil, err
	}
	everybody, _ := onceward.Unscoped(nil)
	b.outbox = outbox.Script(outbox.ScriptConfig{Owner: outbox.Tag(secret, everybody)})
	mux := http.NewServeMux()
	mux.Handle("/outbox/", outbox.Handler(outbox.Config{Kill: kill}))
	mux.Handle("/", outbox.Edge(guard.Handler(app), outbox.EdgeConfig{}))
	return mux, nil
}

// docs: end

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen on this `address`")
	kill := flag.Bool("kill", false, "have the browsers send what is left and remove their workers")
	flag.Parse()

	b := &book{}
	app := http.NewServeMux()
	app.HandleFunc("GET /{$}", b.show)
	app.HandleFunc("POST /entries", b.write)
	app.HandleFunc("POST /entries/{n}/thanks", b.thank)
	app.HandleFunc("GET /entries/{n}/picture", b.picture)

	secret := []byte("random bytes of your own, the same after a restart")
	all, err := b.handler(app, secret, *kill)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	log.Fatal(http.Serve(l, all))
}
