// Command worker is an app with a service worker of its own, which keeps the page
// for reading without a network; the outbox is taken into it by two lines. It
// also shows the strictest policy: every script by a nonce.
//
//	go run ./examples/outbox/worker
package main

import (
	"crypto/rand"
	"flag"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"
	"sync"

	_ "embed"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/outbox"
)

//go:embed sw.js
var ownWorker []byte

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Laps</title>
{{.Outbox}}
</head><body>
<p><output id="laps">{{.Laps}}</output> laps
<form id="lap" method="post" action="/laps" data-outbox-row><button>One more</button></form>
<script nonce="{{.Nonce}}">document.getElementById('laps').dataset.script = 'ran';</script>
</body></html>
`))

var (
	mu   sync.Mutex
	laps int
)

// docs: worker: the policy
func show(secret []byte) http.HandlerFunc {
	everybody, _ := onceward.Unscoped(nil)
	return func(w http.ResponseWriter, r *http.Request) {
		nonce := rand.Text()
		head := outbox.Script(outbox.ScriptConfig{
			Owner:  outbox.Tag(secret, everybody),
			Worker: "/sw.js", ClassicWorker: true,
			Nonce: nonce,
		})
		w.Header().Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'self'; "+
			"script-src 'nonce-"+nonce+"'; style-src 'nonce-"+nonce+"'; "+
			"connect-src 'self'; worker-src 'self'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		mu.Lock()
		defer mu.Unlock()
		if err := page.Execute(w, map[string]any{"Laps": laps, "Outbox": head, "Nonce": nonce}); err != nil {
			log.Print(err)
		}
	}
}

// docs: end

func lap(w http.ResponseWriter, r *http.Request) {
	mu.Lock()
	defer mu.Unlock()
	laps++
	log.Printf("lap %d", laps)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "listen on this `address`")
	flag.Parse()

	secret := []byte("random bytes of your own, the same after a restart")
	guard, err := onceward.New(memstore.New(memstore.Config{}), outbox.Owned(onceward.Unscoped, secret), onceward.Config{})
	if err != nil {
		log.Fatal(err)
	}
	app := http.NewServeMux()
	app.HandleFunc("GET /{$}", show(secret))
	app.HandleFunc("POST /laps", lap)

	mux := http.NewServeMux()
	mux.Handle("/outbox/", outbox.Handler(outbox.Config{}))
	mux.HandleFunc("GET /sw.js", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(ownWorker)
	})
	mux.Handle("/", outbox.Edge(guard.Handler(app), outbox.EdgeConfig{}))

	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	log.Fatal(http.Serve(l, mux))
}
