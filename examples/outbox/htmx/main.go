// Command htmx is a shopping list that counts each tap once, over any network:
// htmx 2 or 4, photos too, a guard, and the outbox. Everybody signs in by a name, so
// that one can see what becomes of a change when the session ends or somebody else
// takes the phone.
//
//	go run ./examples/outbox/htmx
//	go run ./examples/outbox/htmx -htmx 4
//
// The list and the guard's records are in memory: a restart forgets both, and
// with them the sign-ins.
package main

import (
	"crypto/rand"
	"crypto/sha256"
	"flag"
	"fmt"
	"html/template"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	_ "embed"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/outbox"
)

var (
	//go:embed htmx2.min.js
	htmx2 []byte
	//go:embed htmx4.min.js
	htmx4 []byte
)

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Shopping</title>
{{.Outbox}}
<script src="/htmx.js"></script>
</head><body>
<ul id="items">{{range .Items}}{{template "item" .}}{{end}}</ul>

<form id="add" hx-post="/items" hx-target="#items" hx-swap="beforeend">
  <input name="text" required autofocus autocomplete="off" aria-label="What to buy">
  <button>Add</button>
</form>
<script>
// The line is free again when the item was added, and also when it is safely kept.
for (const type of ['added', 'outbox:queued']) {
  document.addEventListener(type, event => event.target.id === 'add' && event.target.reset());
}
</script>

<form method="post" action="/logout" data-outbox="off" data-outbox-logout><button>Log {{.Name}} out</button></form>
</body></html>

{{define "item"}}<li id="item-{{.ID}}" data-outbox-row data-outbox-label="{{if .Bought}}Not bought{{else}}Bought{{end}}: {{.Text}}">
  <button hx-post="/items/{{.ID}}/state" hx-vals='{"bought":"{{not .Bought}}"}' hx-target="closest li" hx-swap="outerHTML">
    {{if .Bought}}☑{{else}}☐{{end}}</button> {{.Text}}
  {{if .Photo}}<img src="/items/{{.ID}}/photo?{{.Sum}}" alt="" height="48">{{end}}
  <form hx-post="/items/{{.ID}}/photo" hx-encoding="multipart/form-data" hx-target="closest li" hx-swap="outerHTML" data-outbox="on">
    <input type="file" name="photo" aria-label="Photo" required><button>Send</button></form>
</li>{{end}}
`))

type item struct {
	ID     int
	Text   string
	Bought bool
	Photo  []byte
}

// Sum is new whenever the photo is.
func (i *item) Sum() string { return fmt.Sprintf("%x", sha256.Sum256(i.Photo))[:16] }

type list struct {
	secret []byte

	mu       sync.Mutex
	items    []*item
	sessions map[string]string // cookie → name
}

// who is the one whose session it is, or "".
func (l *list) who(r *http.Request) string {
	c, err := r.Cookie("session")
	if err != nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[c.Value]
}

func (l *list) auth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.who(r) == "" {
			http.Redirect(w, r, "/login", http.StatusSeeOther)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// handler is the app with all that it needs to count a tap once.
func (l *list) handler(app http.Handler) (http.Handler, error) {
	account := func(r *http.Request) (string, error) { return l.who(r), nil }
	guard, err := onceward.New(memstore.New(memstore.Config{}), // sqlitestore or pgxstore: they outlive the process
		outbox.Owned(account, l.secret), onceward.Config{Logger: slog.Default()})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/outbox/", outbox.Handler(outbox.Config{})) // the scripts: outside authentication
	mux.HandleFunc("/login", l.login)                       // signing in is never repeated: outside the guard
	mux.HandleFunc("POST /logout", l.logout)
	mux.Handle("/", outbox.Edge(l.auth(guard.Handler(app)), outbox.EdgeConfig{Login: "/login"}))
	return mux, nil
}

// script is what every page has in its head; name is "" on the login page.
func (l *list) script(name string) template.HTML {
	cfg := outbox.ScriptConfig{Login: "/login"}
	if name != "" {
		cfg.Owner = outbox.Tag(l.secret, name)
	}
	return outbox.Script(cfg)
}

func (l *list) show(w http.ResponseWriter, r *http.Request) {
	name := l.who(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	render(w, "page", map[string]any{"Items": l.items, "Name": name, "Outbox": l.script(name)})
}

func render(w http.ResponseWriter, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err := page.ExecuteTemplate(w, name, data); err != nil {
		log.Print(err)
	}
}

func (l *list) add(w http.ResponseWriter, r *http.Request) {
	text := r.FormValue("text")
	if text == "" {
		http.Error(w, "What is to be bought?", http.StatusUnprocessableEntity) // final: kept, shown, not repeated
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := &item{ID: len(l.items), Text: text}
	l.items = append(l.items, i)
	log.Printf("added %q", text)
	w.Header().Set("HX-Trigger", "added")
	render(w, "item", i)
}

// change finds the item, has fn change it, and answers with its row.
func (l *list) change(w http.ResponseWriter, r *http.Request, fn func(*item)) {
	n, err := strconv.Atoi(r.PathValue("id"))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || n < 0 || n >= len(l.items) {
		http.NotFound(w, r)
		return
	}
	fn(l.items[n])
	render(w, "item", l.items[n])
}

func (l *list) state(w http.ResponseWriter, r *http.Request) {
	bought, err := strconv.ParseBool(r.FormValue("bought"))
	if err != nil {
		http.Error(w, "bought is true or false", http.StatusUnprocessableEntity)
		return
	}
	l.change(w, r, func(i *item) {
		i.Bought = bought
		log.Printf("bought %q: %v", i.Text, bought)
	})
}

func (l *list) photo(w http.ResponseWriter, r *http.Request) {
	f, _, err := r.FormFile("photo")
	if err != nil {
		http.Error(w, "the photo is missing", http.StatusUnprocessableEntity)
		return
	}
	defer f.Close()
	photo, err := io.ReadAll(f)
	if err != nil {
		http.Error(w, "the photo did not arrive whole", http.StatusInternalServerError)
		return
	}
	l.change(w, r, func(i *item) {
		i.Photo = photo
		log.Printf("photo of %q: %d bytes", i.Text, len(photo))
	})
}

func (l *list) showPhoto(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("id"))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || n < 0 || n >= len(l.items) {
		http.NotFound(w, r)
		return
	}
	kind := http.DetectContentType(l.items[n].Photo)
	if !strings.HasPrefix(kind, "image/") {
		kind = "application/octet-stream" // what somebody uploads is no page of this site
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(l.items[n].Photo)
}

var loginPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Log in</title>{{.}}</head><body>
<form method="post" data-outbox="off"><input name="name" required autofocus aria-label="Name"> <button>Log in</button></form>
</body></html>
`))

// login asks for a name alone, which is no example.
func (l *list) login(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.FormValue("name") != "" {
		session := rand.Text()
		l.mu.Lock()
		l.sessions[session] = r.FormValue("name")
		l.mu.Unlock()
		http.SetCookie(w, &http.Cookie{Name: "session", Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := loginPage.Execute(w, l.script("")); err != nil {
		log.Print(err)
	}
}

func (l *list) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie("session"); err == nil {
		l.mu.Lock()
		delete(l.sessions, c.Value)
		l.mu.Unlock()
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen on this `address`")
	version := flag.Int("htmx", 2, "which htmx: 2 or 4")
	flag.Parse()
	htmx := map[int][]byte{2: htmx2, 4: htmx4}[*version]
	if htmx == nil {
		log.Fatal("-htmx is 2 or 4")
	}

	secret := []byte("random bytes of your own, the same after a restart")
	l := &list{secret: secret, sessions: map[string]string{}}

	app := http.NewServeMux()
	app.HandleFunc("GET /{$}", l.show)
	app.HandleFunc("POST /items", l.add)
	app.HandleFunc("POST /items/{id}/state", l.state)
	app.HandleFunc("POST /items/{id}/photo", l.photo)
	app.HandleFunc("GET /items/{id}/photo", l.showPhoto)
	app.HandleFunc("GET /htmx.js", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write(htmx)
	})
	all, err := l.handler(app)
	if err != nil {
		log.Fatal(err)
	}
	serve(*addr, all)
}

func serve(addr string, h http.Handler) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, h))
}
