// Step 2: what is created gets a name. The form carries a key, made when it is
// shown, and the guard does the work of one key once: a repeated "Add" adds
// nothing and is answered like the first. What is lost on the way is still lost.
//
//	go run ./examples/tiny/2-key
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

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>To do</title></head><body>
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
	if err := page.Execute(w, map[string]any{"Tasks": tasks, "Key": rand.Text()}); err != nil {
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
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		log.Fatal(err)
	}

	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	log.Fatal(http.Serve(l, guard.Handler(mux)))
}
