// Command parcels takes files from a plain form, over the guard and the outbox,
// and writes down what arrived: the browser tests use it for what the planner has
// no page for, a file that has to arrive byte for byte and a token against forged
// requests that changes.
//
//	parcels -addr 127.0.0.1:0 -data FOLDER
//
// A request without the page's present token is refused before the guard sees
// it. POST /turn makes another token.
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"flag"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/outbox"

	_ "modernc.org/sqlite"
)

//go:embed page.html
var text string

var page = template.Must(template.New("page").Parse(text))

// Nothing makes an arrival unique: what is done twice is there twice.
const schema = `CREATE TABLE IF NOT EXISTS parcels (
	id     INTEGER PRIMARY KEY,
	key    TEXT NOT NULL,
	note   TEXT NOT NULL,
	name   TEXT NOT NULL,
	type   TEXT NOT NULL,
	size   INTEGER NOT NULL,
	sha256 TEXT NOT NULL
) STRICT`

const tokenHeader = "X-CSRF-Token"

var secret = []byte("of a test, in which nobody has to be kept out")

type app struct {
	db    *sql.DB
	token atomic.Value // string
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen on this `address`")
	data := flag.String("data", ".", "keep parcels.db in this `folder`")
	flag.Parse()
	if err := run(*addr, *data); err != nil {
		log.Fatal(err)
	}
}

func run(addr, data string) error {
	dsn := url.URL{Scheme: "file", Path: filepath.Join(data, "parcels.db"), RawQuery: "_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(schema); err != nil {
		return err
	}
	a := &app{db: db}
	a.token.Store(rand.Text())
	guard, err := onceward.New(memstore.New(memstore.Config{}), outbox.Owned(onceward.Unscoped, secret), onceward.Config{})
	if err != nil {
		return err
	}
	inner := http.NewServeMux()
	inner.HandleFunc("GET /{$}", a.show)
	inner.HandleFunc("POST /parcels", a.take)
	mux := http.NewServeMux()
	mux.Handle("/outbox/", outbox.Handler(outbox.Config{}))
	mux.HandleFunc("POST /turn", func(http.ResponseWriter, *http.Request) { a.token.Store(rand.Text()) })
	mux.Handle("/", outbox.Edge(a.unforged(guard.Handler(inner)), outbox.EdgeConfig{}))

	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("parcels: http://%s\n", l.Addr())
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
	return guard.Close(context.Background())
}

// unforged refuses a change that the present page does not ask for. It stands
// outside the guard, as such a check does.
func (a *app) unforged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := a.token.Load().(string)
		if r.Method == http.MethodPost && subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(token)) != 1 {
			http.Error(w, "this page is too old", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (a *app) show(w http.ResponseWriter, r *http.Request) {
	rows, err := a.db.QueryContext(r.Context(), `SELECT note FROM parcels ORDER BY id`)
	if err != nil {
		fail(w, err)
		return
	}
	defer rows.Close()
	var notes []string
	for rows.Next() {
		var note string
		if err := rows.Scan(&note); err != nil {
			fail(w, err)
			return
		}
		notes = append(notes, note)
	}
	if err := rows.Err(); err != nil {
		fail(w, err)
		return
	}
	token, _ := a.token.Load().(string)
	script := outbox.Script(outbox.ScriptConfig{
		Owner:     outbox.Tag(secret, "unscoped"),
		Headers:   map[string]string{tokenHeader: token},
		SoftLimit: 1500 * time.Millisecond, HardLimit: time.Minute,
		Backoff: 300 * time.Millisecond, BackoffVisible: 1500 * time.Millisecond, KickEvery: time.Second,
	})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// Not no-store: a page that nobody may store is not kept for the way back.
	w.Header().Set("Cache-Control", "no-cache")
	if err := page.Execute(w, map[string]any{"Outbox": script, "Notes": notes, "Key": rand.Text()}); err != nil {
		log.Print(err)
	}
}

// take is POST /parcels.
func (a *app) take(w http.ResponseWriter, r *http.Request) {
	file, header, err := r.FormFile("file")
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	defer file.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, file)
	if err != nil {
		fail(w, err)
		return
	}
	_, err = a.db.ExecContext(r.Context(), `INSERT INTO parcels (key, note, name, type, size, sha256) VALUES (?, ?, ?, ?, ?, ?)`,
		r.FormValue("_key"), r.FormValue("note"), header.Filename, header.Header.Get("Content-Type"), n, hex.EncodeToString(sum.Sum(nil)))
	if err != nil {
		fail(w, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func fail(w http.ResponseWriter, err error) {
	log.Print(err)
	http.Error(w, "error", http.StatusInternalServerError)
}
