package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/outbox"
)

var (
	secret    = []byte("of the application")
	oldSecret = []byte("of last year")
)

// byUser is the scope function of an app whose session is a header.
func byUser(r *http.Request) (string, error) {
	if u := r.Header.Get("X-User"); u != "" {
		return u, nil
	}
	return "", &onceward.ProblemError{Status: http.StatusUnauthorized}
}

func TestATagIsOpaqueAndSteady(t *testing.T) {
	a := outbox.Tag(secret, "anna")
	if a != outbox.Tag(secret, "anna") {
		t.Error("two tags of one account")
	}
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`).MatchString(a) {
		t.Errorf("tag %q", a)
	}
	if a == outbox.Tag(secret, "boris") || a == outbox.Tag(oldSecret, "anna") {
		t.Error("one tag for two")
	}
}

// R24, B161: entries go out only as the person who made them.
func TestAnEntryIsOnlySentAsItsOwner(t *testing.T) {
	owned := outbox.Owned(byUser, secret, oldSecret)
	anna := outbox.Tag(secret, "anna")
	for _, c := range []struct {
		name    string
		owner   []string
		attempt string
		passes  bool
	}{
		{"her own", []string{anna}, "1", true},
		{"under the secret before", []string{outbox.Tag(oldSecret, "anna")}, "4", true},
		{"another's", []string{outbox.Tag(secret, "boris")}, "1", false},
		{"another's, without the attempt", []string{outbox.Tag(secret, "boris")}, "", false},
		{"of a secret that nobody has", []string{outbox.Tag([]byte("x"), "anna")}, "1", false},
		{"the account's name itself", []string{"anna"}, "1", false},
		{"an empty one", []string{""}, "1", false},
		{"two lines", []string{anna, anna}, "1", false},
		{"joined by a proxy", []string{anna + ", " + anna}, "1", false},
		{"lost on the way", nil, "2", false},
		{"none: a plain form, an API's client", nil, "", true},
	} {
		r := httptest.NewRequest("POST", "/tasks", nil)
		r.Header.Set("X-User", "anna")
		for _, o := range c.owner {
			r.Header.Add("Outbox-Owner", o)
		}
		if c.attempt != "" {
			r.Header.Set("Outbox-Attempt", c.attempt)
		}
		scope, err := owned(r)
		if c.passes {
			if scope != "anna" || err != nil {
				t.Errorf("%s: %q, %v", c.name, scope, err)
			}
			continue
		}
		var p *onceward.ProblemError
		if !errors.As(err, &p) {
			t.Errorf("%s: scope %q, err %v", c.name, scope, err)
			continue
		}
		if p.Status != 412 || p.Header.Get("Outbox-Status") != "owner" || p.Header.Get("Outbox-Owner") != anna {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// G13, B161: a form that a browser sends by itself has its owner in its key alone.
func TestAFormThatTheBrowserSendsByItselfIsOnlyDoneAsItsOwner(t *testing.T) {
	a := newApp(t)
	anna, before := outbox.Tag(secret, "anna"), outbox.Tag(oldSecret, "anna")
	multipart := func(key string) (string, string) {
		return "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"_key\"\r\n\r\n" + key + "\r\n--b--\r\n"
	}
	form := func(key string) (string, string) {
		return "application/x-www-form-urlencoded", "text=x&_key=" + url.QueryEscape(key)
	}
	for i, c := range []struct {
		name, user, key, header string
		body                    func(string) (string, string)
		status                  int
	}{
		{"as its owner", "anna", "f0~" + anna, "", form, 303},
		{"as its owner, once more", "anna", "f0~" + anna, "", form, 303},
		{"as another", "boris", "f0~" + anna, "", form, 412},
		{"with a file, as its owner", "anna", "f1~" + anna, "", multipart, 303},
		{"with a file, as another", "boris", "f1~" + anna, "", multipart, 412},
		{"under a secret that is none any more", "anna", "f2~" + before, "", form, 412},
		{"a key of the server's own", "boris", "f3", "", form, 303},
		{"of something that is no tag", "boris", "f4~" + anna[1:], "", form, 303},
		{"not announced, by a script: in the header", "boris", "", "f5~" + anna, form, 412},
		{"not announced, by a script of its owner", "anna", "", "f5~" + anna, form, 303},
	} {
		kind, body := c.body(c.key)
		if c.header != "" {
			body = "text=x"
		}
		r, err := http.NewRequest("POST", a.URL+"/tasks", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		r.Header.Set("X-User", c.user)
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		if c.header != "" {
			r.Header.Set("Idempotency-Key", c.header)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%d, %s: %d", i, c.name, res.StatusCode)
		}
		if c.status == 412 && !strings.Contains(string(page), "made under another account") {
			t.Errorf("%d, %s: the person reads %q", i, c.name, page)
		}
	}
	if n := a.done.Load(); n != 5 {
		t.Errorf("done %d times", n)
	}
}

func TestTheScopeFunctionsOwnWordComesFirst(t *testing.T) {
	r := httptest.NewRequest("POST", "/tasks", nil)
	r.Header.Set("Outbox-Owner", outbox.Tag(secret, "anna"))
	_, err := outbox.Owned(byUser, secret)(r)
	var p *onceward.ProblemError
	if !errors.As(err, &p) || p.Status != http.StatusUnauthorized {
		t.Errorf("nobody signed in: %v", err)
	}
	none := func(*http.Request) (string, error) { return "", nil }
	if scope, err := outbox.Owned(none, secret)(r); scope != "" || err != nil {
		t.Errorf("no scope: %q %v", scope, err)
	}
}

func TestOwnedNeedsASecret(t *testing.T) {
	for name, secrets := range map[string][][]byte{"none": nil, "an empty one": {secret, {}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			outbox.Owned(byUser, secrets...)
		}()
	}
}

// app is the whole wiring over a real guard: Edge, authentication, guard, app.
type app struct {
	*httptest.Server
	done atomic.Int32
}

func newApp(t *testing.T) *app {
	t.Helper()
	guard, err := onceward.New(memstore.New(memstore.Config{}), outbox.Owned(byUser, secret), onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	a := &app{}
	work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.done.Add(1)
		switch r.URL.Path {
		case "/busy":
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case "/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusPermanentRedirect)
		case "/bad":
			http.Error(w, "too long", http.StatusUnprocessableEntity)
		default:
			http.Redirect(w, r, "/today", http.StatusSeeOther)
		}
	})
	auth := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-User") == "" {
				http.Redirect(w, r, "/login", http.StatusFound)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	mux := http.NewServeMux()
	mux.Handle("/outbox/", outbox.Handler(outbox.Config{}))
	mux.Handle("/", outbox.Edge(auth(guard.Handler(work)), outbox.EdgeConfig{Login: "/login", Logger: quiet()}))
	a.Server = serve(t, mux)
	t.Cleanup(func() {
		if err := guard.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a
}

// send posts as the worker does: it follows no redirect and says whose it is.
func (a *app) send(t *testing.T, path, user, owner, key string, header ...string) (answer, string) {
	t.Helper()
	r, err := http.NewRequest("POST", a.URL+path, strings.NewReader("text=x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Idempotency-Key", key)
	for name, v := range map[string]string{"X-User": user, "Outbox-Owner": owner, "Outbox-Attempt": "1"} {
		if v != "" {
			r.Header.Set(name, v)
		}
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	head := headOf(res)
	head.IdempotencyStatus, _, _ = strings.Cut(head.IdempotencyStatus, ";")
	return head, string(body)
}

func TestTheWholeWiring(t *testing.T) {
	a := newApp(t)
	anna, boris := outbox.Tag(secret, "anna"), outbox.Tag(secret, "boris")
	for i, step := range []struct {
		name                   string
		path, user, owner, key string
		header                 []string
		want                   answer
		done                   int32
	}{
		{"the first send", "/tasks", "anna", anna, "k1", nil,
			answer{Status: 200, IdempotencyStatus: "executed", OutboxLocation: "/today"}, 1},
		{"its repeat", "/tasks", "anna", anna, "k1", []string{"Outbox-Age", "40"},
			answer{Status: 200, IdempotencyStatus: "replayed", OutboxLocation: "/today"}, 1},
		{"the session is over", "/tasks", "", anna, "k2", nil,
			answer{Status: 401, OutboxStatus: "auth"}, 1},
		{"another person is signed in", "/tasks", "boris", anna, "k2", nil,
			answer{Status: 412, OutboxStatus: "owner"}, 1},
		{"back as its owner", "/tasks", "anna", anna, "k2", nil,
			answer{Status: 200, IdempotencyStatus: "executed", OutboxLocation: "/today"}, 2},
		{"the same key of another person is another key", "/tasks", "boris", boris, "k2", nil,
			answer{Status: 200, IdempotencyStatus: "executed", OutboxLocation: "/today"}, 3},
		{"too old", "/tasks", "anna", anna, "k1", []string{"Outbox-Age", "90000"},
			answer{Status: 410, OutboxStatus: "expired"}, 3},
		{"the same key for another request", "/other", "anna", anna, "k1", nil,
			answer{Status: 422, IdempotencyStatus: "key-reused"}, 3},
		{"the app refuses", "/bad", "anna", anna, "k3", nil,
			answer{Status: 422, IdempotencyStatus: "executed"}, 4},
		{"the app is busy", "/busy", "anna", anna, "k4", nil,
			answer{Status: 503, IdempotencyStatus: "released"}, 5},
		{"ask elsewhere", "/moved", "anna", anna, "k5", nil,
			answer{Status: 200, IdempotencyStatus: "released", OutboxLocation: "/elsewhere", OutboxRedirectStatus: 308}, 6},
		{"its owner was lost on the way", "/tasks", "anna", "", "k6", nil,
			answer{Status: 412, OutboxStatus: "owner"}, 6},
	} {
		got, _ := a.send(t, step.path, step.user, step.owner, step.key, step.header...)
		if got != step.want || a.done.Load() != step.done {
			t.Errorf("%d, %s: %+v, done %d; want %+v, done %d", i, step.name, got, a.done.Load(), step.want, step.done)
		}
	}
}

// A 412 is the guard's refusal as any other: JSON for scripts, and the tag of
// whoever is signed in.
func TestTheOwnersRefusalTellsWhoIsSignedIn(t *testing.T) {
	a := newApp(t)
	r, _ := http.NewRequest("POST", a.URL+"/tasks", nil)
	r.Header.Set("Idempotency-Key", "k1")
	r.Header.Set("X-User", "boris")
	r.Header.Set("Outbox-Owner", outbox.Tag(secret, "anna"))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var problem struct {
		Type   string
		Status int
	}
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil {
		t.Fatal(err)
	}
	if problem.Type != "urn:onceward:outbox:owner" || problem.Status != 412 || res.Header.Get("Outbox-Owner") != outbox.Tag(secret, "boris") {
		t.Errorf("%+v %v", problem, res.Header)
	}
	if a.done.Load() != 0 {
		t.Error("it was done")
	}
}

func ExampleOwned() {
	secret := []byte("32 random bytes, kept in the database")
	scope := outbox.Owned(func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }, secret)

	r := httptest.NewRequest("POST", "/tasks", nil)
	r.Header.Set("X-User", "boris")
	r.Header.Set("Outbox-Owner", outbox.Tag(secret, "anna"))
	_, err := scope(r)
	fmt.Println(err)
	// Output: onceward: refused with 412 Precondition Failed
}
