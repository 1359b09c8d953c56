// Command naive is the planner that the first text of this project tells of, as
// it was before anything was done: a button that says "toggle", a request that
// is sent once, and nobody who remembers what was done already. `make demo`
// taps on it and on the real planner, over the same bad network.
//
//	naive -addr 127.0.0.1:0 -data FOLDER
//
// It is made with care in all other respects: each tap is one transaction, and a
// task that repeats brings its next one when it is closed.
package main

import (
	"context"
	"database/sql"
	_ "embed"
	"flag"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite"
)

//go:embed page.html
var text string

var page = template.Must(template.New("page").Parse(text))

const schema = `CREATE TABLE IF NOT EXISTS tasks (
	id           INTEGER PRIMARY KEY,
	title        TEXT NOT NULL,
	due_date     TEXT,
	weekly       INTEGER NOT NULL,
	is_completed INTEGER NOT NULL DEFAULT 0
) STRICT`

type task struct {
	ID     int64
	Title  string
	Due    sql.NullString
	Weekly bool
	Done   bool
}

type app struct{ db *sql.DB }

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen on this `address`")
	data := flag.String("data", ".", "keep naive.db in this `folder`")
	flag.Parse()
	if err := run(*addr, *data); err != nil {
		log.Fatal(err)
	}
}

func run(addr, data string) error {
	dsn := url.URL{Scheme: "file", Path: filepath.Join(data, "naive.db"), RawQuery: "_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(schema); err != nil {
		return err
	}
	a := &app{db}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /today", answer(a.today))
	mux.HandleFunc("POST /tasks", answer(a.add))
	mux.HandleFunc("POST /tasks/{id}/toggle", answer(a.toggle))

	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("naive: http://%s\n", l.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.WithoutCancel(ctx))
	}()
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func answer(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if err := h(w, r); err != nil {
			log.Print(err)
			http.Error(w, "ошибка", http.StatusInternalServerError)
		}
	}
}

func (a *app) today(w http.ResponseWriter, r *http.Request) error {
	rows, err := a.db.QueryContext(r.Context(), `SELECT id, title, due_date, weekly, is_completed FROM tasks ORDER BY due_date IS NULL, due_date, id`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var tasks []task
	for rows.Next() {
		var t task
		if err := rows.Scan(&t.ID, &t.Title, &t.Due, &t.Weekly, &t.Done); err != nil {
			return err
		}
		tasks = append(tasks, t)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return page.ExecuteTemplate(w, "page", tasks)
}

func (a *app) add(w http.ResponseWriter, r *http.Request) error {
	t := task{}
	text := strings.TrimSpace(r.FormValue("text"))
	if t.Title, t.Weekly = strings.CutSuffix(text, " каждый понедельник"); !t.Weekly {
		t.Title, t.Weekly = strings.CutSuffix(text, " every Monday")
	}
	if t.Weekly {
		t.Due = sql.NullString{String: monday(time.Now()).Format(time.DateOnly), Valid: true}
	}
	err := a.db.QueryRowContext(r.Context(), `INSERT INTO tasks (title, due_date, weekly) VALUES (?, ?, ?) RETURNING id`, t.Title, t.Due, t.Weekly).Scan(&t.ID)
	if err != nil {
		return err
	}
	return page.ExecuteTemplate(w, "row", t)
}

// toggle is POST /tasks/{id}/toggle: what is open is closed, what is closed is
// opened. One button, and the server knows the state: so convenient.
func (a *app) toggle(w http.ResponseWriter, r *http.Request) error {
	tx, err := a.db.BeginTx(r.Context(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var t task
	err = tx.QueryRow(`UPDATE tasks SET is_completed = NOT is_completed WHERE id = ? RETURNING id, title, due_date, weekly, is_completed`, r.PathValue("id")).
		Scan(&t.ID, &t.Title, &t.Due, &t.Weekly, &t.Done)
	if err != nil {
		return err
	}
	if t.Done && t.Weekly {
		due, err := time.Parse(time.DateOnly, t.Due.String)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO tasks (title, due_date, weekly) VALUES (?, ?, 1)`, t.Title, due.AddDate(0, 0, 7).Format(time.DateOnly)); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return page.ExecuteTemplate(w, "row", t)
}

// monday is today, if that is one, or the next.
func monday(t time.Time) time.Time {
	return t.AddDate(0, 0, (int(time.Monday)-int(t.Weekday())+7)%7)
}
