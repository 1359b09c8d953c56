// docs/outbox.md shows this file whole, for a reader to paste. htmx is served from the
// folder in which it is started; the page says where to get it.

// docs: start: the program

// Command start is a shopping list that counts each tap once, over any network.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"

	_ "modernc.org/sqlite" // the driver: any for database/sql will do

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/outbox"
	"github.com/onceward/onceward/sqlitestore"
)

const schema = `
CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, text TEXT NOT NULL, bought BOOLEAN NOT NULL DEFAULT FALSE);
CREATE TABLE IF NOT EXISTS sessions (token TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, bytes BLOB NOT NULL);`

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen on this `address`")
	flag.Parse()
	db := must(sql.Open("sqlite", "file:shop.db?_pragma=busy_timeout(5000)"))
	must(db.Exec(schema))
	a := &app{db, must(secret(db))}

	list := http.NewServeMux()
	list.HandleFunc("GET /{$}", a.show)
	list.HandleFunc("POST /items", a.add)
	list.HandleFunc("POST /items/{id}/state", a.state)

	store := must(sqlitestore.New(context.Background(), db, sqlitestore.Config{})) // a table more in the app's database
	guard := must(onceward.New(store, outbox.Owned(a.account, a.secret), onceward.Config{}))
	mux := http.NewServeMux()
	mux.Handle("/outbox/", outbox.Handler(outbox.Config{})) // the scripts: outside authentication
	mux.HandleFunc("/login", a.login)                       // signing in and out: outside the guard
	mux.HandleFunc("POST /logout", a.logout)
	mux.HandleFunc("GET /htmx.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "htmx.js") })
	mux.Handle("/", outbox.Edge(a.auth(guard.Handler(list)), outbox.EdgeConfig{Login: "/login"}))

	listener := must(net.Listen("tcp", *addr))
	fmt.Printf("listening on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, mux))
}

// secret is 32 random bytes, made once and kept: what waits in a browser bears a tag made of them.
func secret(db *sql.DB) (bytes []byte, err error) {
	fresh := make([]byte, 32)
	_, _ = rand.Read(fresh) // never fails
	if _, err = db.Exec(`INSERT OR IGNORE INTO secrets VALUES ('outbox', ?)`, fresh); err == nil {
		err = db.QueryRow(`SELECT bytes FROM secrets WHERE name = 'outbox'`).Scan(&bytes)
	}
	return bytes, err
}

type app struct {
	db     *sql.DB
	secret []byte
}

// auth is yours. To whoever is not signed in it answers 401, or a redirect to EdgeConfig.Login.
func (a *app) auth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.who(r) == "" {
			http.Redirect(w, r, "/login", http.StatusSeeOther)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// account is whose a change is: keys are each person's own.
func (a *app) account(r *http.Request) (string, error) {
	if name := a.who(r); name != "" {
		return name, nil
	}
	return "", &onceward.ProblemError{Status: http.StatusUnauthorized} // not "": that is a mistake of yours, a 500
}

// script is what every page has in its head; name is "" where nobody is signed in.
func (a *app) script(name string) template.HTML {
	cfg := outbox.ScriptConfig{Login: "/login"}
	if name != "" {
		cfg.Owner = outbox.Tag(a.secret, name)
	}
	return outbox.Script(cfg)
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Shopping</title>
{{.Outbox}}
<script src="/htmx.js"></script>
</head><body>
{{if .Name}}
<ul id="items">{{range .Items}}{{template "item" .}}{{end}}</ul>
<form id="add" hx-post="/items" hx-target="#items" hx-swap="beforeend">
  <input name="text" required autofocus autocomplete="off" aria-label="What to buy"> <button>Add</button>
</form>
<script>
// The line is free again when the item was added, and also when it is safely kept.
for (const type of ['added', 'outbox:queued']) {
  document.addEventListener(type, event => event.target.id === 'add' && event.target.reset());
}
</script>
<form method="post" action="/logout" data-outbox="off" data-outbox-logout><button>Log {{.Name}} out</button></form>
{{else}}
<form method="post" action="/login" data-outbox="off"><input name="name" required autofocus aria-label="Name"> <button>Log in</button></form>
{{end}}
</body></html>

{{define "item"}}<li id="item-{{.ID}}" data-outbox-row data-outbox-label="{{if .Bought}}Not bought{{else}}Bought{{end}}: {{.Text}}">
  <button hx-post="/items/{{.ID}}/state" hx-vals='{"bought":"{{not .Bought}}"}' hx-target="closest li" hx-swap="outerHTML">
    {{if .Bought}}☑{{else}}☐{{end}}</button> {{.Text}}</li>{{end}}
`))

type item struct {
	ID     int64
	Text   string
	Bought bool
}

func (a *app) add(w http.ResponseWriter, r *http.Request) {
	i := item{Text: r.FormValue("text")}
	if i.Text == "" {
		http.Error(w, "What is to be bought?", http.StatusUnprocessableEntity) // a final no: kept, shown, not repeated
		return
	}
	err := a.db.QueryRowContext(r.Context(), `INSERT INTO items (text) VALUES (?) RETURNING id`, i.Text).Scan(&i.ID)
	if err != nil {
		fail(w, err) // a 500: it is sent again
		return
	}
	log.Printf("added %q", i.Text)
	w.Header().Set("HX-Trigger", "added") // the page's script frees the line
	render(w, "item", i)
}

func (a *app) state(w http.ResponseWriter, r *http.Request) {
	var i item
	err := a.db.QueryRowContext(r.Context(), `UPDATE items SET bought = ? WHERE id = ? RETURNING id, text, bought`,
		r.FormValue("bought") == "true", r.PathValue("id")).Scan(&i.ID, &i.Text, &i.Bought)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.Error(w, "This is not on the list any more.", http.StatusNotFound)
	case err != nil:
		fail(w, err)
	default:
		log.Printf("bought %q: %v", i.Text, i.Bought)
		render(w, "item", i)
	}
}

func (a *app) show(w http.ResponseWriter, r *http.Request) {
	rows, err := a.db.QueryContext(r.Context(), `SELECT id, text, bought FROM items ORDER BY id`)
	if err != nil {
		fail(w, err)
		return
	}
	defer rows.Close()
	var items []item
	for rows.Next() {
		var i item
		err = errors.Join(err, rows.Scan(&i.ID, &i.Text, &i.Bought))
		items = append(items, i)
	}
	if err = errors.Join(err, rows.Err()); err != nil {
		fail(w, err)
		return
	}
	name := a.who(r)
	render(w, "page", map[string]any{"Name": name, "Items": items, "Outbox": a.script(name)})
}

func render(w http.ResponseWriter, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err := page.ExecuteTemplate(w, name, data); err != nil {
		log.Print(err)
	}
}

func fail(w http.ResponseWriter, err error) {
	log.Print(err)
	http.Error(w, "That did not work.", http.StatusInternalServerError)
}

// who is the one whose session it is, or "".
func (a *app) who(r *http.Request) (name string) {
	if c, err := r.Cookie("session"); err == nil {
		_ = a.db.QueryRowContext(r.Context(), `SELECT name FROM sessions WHERE token = ?`, c.Value).Scan(&name)
	}
	return name
}

// login asks for a name alone, which is no example.
func (a *app) login(w http.ResponseWriter, r *http.Request) {
	name, token := r.PostFormValue("name"), rand.Text()
	if name == "" {
		render(w, "page", map[string]any{"Outbox": a.script("")})
		return
	}
	if _, err := a.db.ExecContext(r.Context(), `INSERT INTO sessions VALUES (?, ?)`, token, name); err != nil {
		fail(w, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (a *app) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie("session"); err == nil {
		if _, err := a.db.ExecContext(r.Context(), `DELETE FROM sessions WHERE token = ?`, c.Value); err != nil {
			fail(w, err)
			return
		}
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
