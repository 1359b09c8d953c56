package outbox_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/outbox"
)

// The four lines that know of the outbox, around an application of one route.
func Example() {
	secret := []byte("32 random bytes, kept in the database")
	account := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil } // a session, in life
	auth := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-User") == "" {
				http.Redirect(w, r, "/login", http.StatusSeeOther)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Redirect(w, r, "/today", http.StatusSeeOther)
			return
		}
		tag := outbox.Tag(secret, r.Header.Get("X-User"))
		fmt.Fprint(w, "<head>", outbox.Script(outbox.ScriptConfig{Owner: tag, Login: "/login"}), "</head>")
	})

	guard, err := onceward.New(memstore.New(memstore.Config{}), outbox.Owned(account, secret), onceward.Config{})
	if err != nil {
		panic(err)
	}
	defer guard.Close(context.Background())
	mux := http.NewServeMux()
	mux.Handle("/outbox/", outbox.Handler(outbox.Config{}))
	mux.Handle("/", outbox.Edge(auth(guard.Handler(app)), outbox.EdgeConfig{Login: "/login"}))

	send := func(user string) {
		r := httptest.NewRequest("POST", "/tasks", strings.NewReader("text=x"))
		r.Header.Set("Idempotency-Key", "k1")
		r.Header.Set("Outbox-Owner", outbox.Tag(secret, "anna"))
		r.Header.Set("Outbox-Attempt", "1")
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Printf("as %q: %d %s%s%s\n", user, w.Code,
			w.Header().Get("Outbox-Status"), w.Header().Get("Idempotency-Status"), w.Header().Get("Outbox-Location"))
	}
	send("")
	send("boris")
	send("anna")
	send("anna")
	// Output:
	// as "": 401 auth
	// as "boris": 412 owner
	// as "anna": 200 executed;key="k1"/today
	// as "anna": 200 replayed;key="k1"/today
}

func ExampleEdge() {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/login?next=/today", http.StatusSeeOther)
	})
	h := outbox.Edge(app, outbox.EdgeConfig{Login: "/login"})

	r := httptest.NewRequest("POST", "/tasks", nil)
	r.Header.Set("Idempotency-Key", "k1")
	r.Header.Set("Outbox-Owner", "tag")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Outbox-Status"))

	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/tasks", nil)) // a browser's own
	fmt.Println(w.Code, w.Header().Get("Location"))
	// Output:
	// 401 auth
	// 303 /login?next=/today
}

func ExampleHandler() {
	h := outbox.Handler(outbox.Config{})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/outbox/ping", nil))
	fmt.Println(w.Code, w.Header().Get("Outbox-Status"))
	// Output: 204 pong
}
