// Before the first step: a to-do list as everybody writes it first. It works,
// until a request is repeated: a repeated tap on the box takes the tick away
// again, and a repeated "Add" adds the task twice.
//
//	go run ./examples/tiny/0-toggle
package main

import (
	"flag"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"
	"sync"
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
<form method="post" action="/tasks"><input name="text" required autofocus> <button>Add</button></form>
{{range .Tasks}}
<form method="post" action="/tasks/{{.ID}}/toggle"><button>{{if .Done}}☑{{else}}☐{{end}}</button> {{.Text}}</form>
{{end}}
</body></html>
`))

func show(w http.ResponseWriter, r *http.Request) {
	mu.Lock()
	defer mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := page.Execute(w, map[string]any{"Tasks": tasks}); err != nil {
		log.Print(err)
	}
}

func add(w http.ResponseWriter, r *http.Request) {
	mu.Lock()
	defer mu.Unlock()
	tasks = append(tasks, &task{ID: len(tasks), Text: r.FormValue("text")})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func toggle(w http.ResponseWriter, r *http.Request) {
	mu.Lock()
	defer mu.Unlock()
	for _, t := range tasks {
		if fmt.Sprint(t.ID) == r.PathValue("id") {
			t.Done = !t.Done
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
	mux.HandleFunc("POST /tasks/{id}/toggle", toggle)

	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	log.Fatal(http.Serve(l, mux))
}
