// Step 3: nothing is lost on the way. The browser keeps each request until it is
// proven delivered, and repeats it under its key: tap while the network is away,
// and the tap arrives when it is back.
//
//	go run ./examples/tiny/3-outbox
package main

import (
	"crypto/rand"
	"flag"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/outbox"
)

type task struct {
	ID   int
	Text string
	Done bool
}

var (
	mu    sync.Mutex
	tasks []*task
)

// The page tells the browser's half whose requests it keeps: here, everybody's.
var (
	secret       = []byte("random bytes of your own, the same after a restart")
	everybody, _ = onceward.Unscoped(nil)
	script       = outbox.Script(outbox.ScriptConfig{Owner: outbox.Tag(secret, everybody)})
)

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>To do</title>{{.Outbox}}</head><body>
<form method="post" action="/tasks"><input type="hidden" name="_key" value="{{.Key}}"><input name="text" required autofocus> <button>Add</button></form>
{{range .Tasks}}
<form method="post" action="/tasks/{{.ID}}/state"><button name="completed" value="{{not .Done}}">{{if .Done}}☑{{else}}☐{{end}}</button> {{.Text}}</form>
{{end}}
</body></html>
`))

func show(w http.ResponseWriter, r *http.Request) {
	mu.Lock()
	defer mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := page.Execute(w, map[string]any{"Tasks": tasks, "Key": rand.Text(), "Outbox": script}); err != nil {
		log.Print(err)
	}
}

func add(w http.ResponseWriter, r *http.Request) {
	mu.Lock()
	defer mu.Unlock()
	tasks = append(tasks, &task{ID: len(tasks), Text: r.FormValue("text")})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func state(w http.ResponseWriter, r *http.Request) {
	completed, err := strconv.ParseBool(r.FormValue("completed"))
	if err != nil {
		http.Error(w, "completed is true or false", http.StatusUnprocessableEntity)
		return
	}
	mu.Lock()
	defer mu.Unlock()
	for _, t := range tasks {
		if fmt.Sprint(t.ID) == r.PathValue("id") {
			t.Done = completed
		}
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen on this `address`")
	flag.Parse()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", show)
	mux.HandleFunc("POST /tasks", add)
	mux.HandleFunc("POST /tasks/{id}/state", state)

	// One list for all, so nobody's keys have to be kept from anybody.
	scope := outbox.Owned(onceward.Unscoped, secret)
	guard, err := onceward.New(memstore.New(memstore.Config{}), scope, onceward.Config{})
	if err != nil {
		log.Fatal(err)
	}

	all := http.NewServeMux()
	all.Handle("/outbox/", outbox.Handler(outbox.Config{}))
	all.Handle("/", outbox.Edge(guard.Handler(mux), outbox.EdgeConfig{}))

	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	log.Fatal(http.Serve(l, all))
}
