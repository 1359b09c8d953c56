package onceward_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// The recipe of docs/guide.md for those who have not logged in. What stands between
// "guide begins" and "guide ends" is printed there; a test holds the two together.

// guide begins: visitor
// visitors gives each browser a scope of its own before anybody has logged in: a
// random name in a cookie that only this secret can have signed.
type visitors struct{ secret []byte }

func (v visitors) sign(name string) string {
	mac := hmac.New(sha256.New, v.secret)
	mac.Write([]byte("visitor " + name))
	return name + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (v visitors) name(r *http.Request) (string, bool) {
	c, err := r.Cookie("visitor")
	if err != nil {
		return "", false
	}
	name, _, _ := strings.Cut(c.Value, ".")
	return name, hmac.Equal([]byte(c.Value), []byte(v.sign(name)))
}

// pages sets the cookie with the page that has the form, and never with the answer to
// a named request: whoever lost that answer would come back as somebody else.
func (v visitors) pages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := v.name(r); !ok && r.Method == http.MethodGet {
			http.SetCookie(w, &http.Cookie{
				Name: "visitor", Value: v.sign(rand.Text()), Path: "/", MaxAge: 365 * 24 * 3600,
				HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
			})
		}
		next.ServeHTTP(w, r)
	})
}

// scope is the guard's. The words before the name keep visitors apart from accounts.
func (v visitors) scope(r *http.Request) (string, error) {
	name, ok := v.name(r)
	if !ok {
		return "", &onceward.ProblemError{Status: http.StatusForbidden, Detail: "Open the page again, then send the form."}
	}
	return "visitor " + name, nil
}

// guide ends.

// B080: callers without a login have a scope each, from a signed cookie. None reads
// another's answer under the same key, with the same request, nor with a cookie that
// he made himself; and a repeat with the first one's cookie is a repeat.
func TestB080AnonymousCallersHaveAScopeEach(t *testing.T) {
	v := visitors{secret: []byte("0123456789abcdef0123456789abcdef")}
	guard, err := onceward.New(memstore.New(memstore.Config{}), v.scope, onceward.Config{SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guard.Close(t.Context()) })
	runs := 0
	h := v.pages(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			runs++
			w.Header().Set("Location", "/orders/"+string(rune('0'+runs)))
			w.WriteHeader(http.StatusCreated)
		}
	})))
	send := func(method, cookie string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/orders", strings.NewReader(`{"item":"bread"}`))
		if method == http.MethodPost {
			r.Header.Set("Idempotency-Key", "k")
		}
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "visitor", Value: cookie})
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	visit := func() string {
		t.Helper()
		cookies := send("GET", "").Result().Cookies()
		if len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure {
			t.Fatalf("the page sets %v", cookies)
		}
		return cookies[0].Value
	}
	first, second := visit(), visit()
	if first == second {
		t.Fatal("two visitors have one name")
	}
	if w := send("GET", first); len(w.Result().Cookies()) != 0 {
		t.Error("a visitor is given another name")
	}
	want(t, send("POST", first), 201, "executed")
	want(t, send("POST", second), 201, "executed")
	if w := send("POST", first); w.Code != 201 || w.Header().Get("Location") != "/orders/1" {
		t.Errorf("the repeat: %d %v", w.Code, w.Header())
	}
	if w := send("POST", second); w.Header().Get("Location") != "/orders/2" || w.Header().Get("Idempotency-Replayed") != "1" {
		t.Errorf("the second one's repeat: %d %v", w.Code, w.Header())
	}
	name, _, _ := strings.Cut(first, ".")
	stranger := visitors{secret: []byte("another secret")}
	for what, cookie := range map[string]string{
		"none": "", "a name without a signature": name, "another's signature": stranger.sign(name), "an empty one": ".",
		"a signature of another name": name + "x" + first[len(name):],
	} {
		if w := send("POST", cookie); w.Code != http.StatusForbidden || w.Header().Get("Location") != "" || len(w.Result().Cookies()) != 0 {
			t.Errorf("%s: %d %v", what, w.Code, w.Header())
		}
	}
	if runs != 2 {
		t.Errorf("it ran %d times, want 2", runs)
	}
}
