// Step 1: the button says what is wanted, "done" or "not done", instead of
// "turn it over". A repeated tap on the box changes nothing now. If you do
// nothing else, do this. A repeated "Add" still adds the task twice.
//
//	go run ./examples/tiny/1-state
package main

import (
	"flag"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"
	"strconv"
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
<form method="post" action="/tasks/{{.ID}}/state"><button name="completed" value="{{not .Done}}">{{if .Done}}☑{{else}}☐{{end}}</button> {{.Text}}</form>
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

	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	log.Fatal(http.Serve(l, mux))
}
