package records_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/records"
)

// audited is a store that remembers what was done by hand.
type audited struct {
	*memstore.Store
	done []onceward.Audit
}

func (a *audited) Audit(_ context.Context, entry onceward.Audit) error {
	a.done = append([]onceward.Audit{entry}, a.done...)
	return nil
}

func (a *audited) Audits(_ context.Context, key onceward.Key, limit int) (found []onceward.Audit, err error) {
	for _, entry := range a.done {
		if (key == onceward.Key{} || entry.Key == key) && len(found) < limit {
			found = append(found, entry)
		}
	}
	return found, nil
}

const (
	secretKey    = "a-key-that-nobody-may-see"
	secretScope  = "ann@example.test"
	secretBody   = "the answer's own words"
	secretHeader = "/orders/7?token=abc"
)

func claim(t *testing.T, store onceward.Store, key, path string, lease time.Duration) onceward.Claim {
	t.Helper()
	c := onceward.Claim{Key: onceward.NewKey(secretScope, key), Token: onceward.Token{byte(len(key)), key[0]}, Method: "POST", Path: path, Lease: lease, Keep: -1}
	if _, claimed, err := store.Claim(t.Context(), c); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	return c
}

// shop has one record in every state.
func shop(t *testing.T) *audited {
	t.Helper()
	store := &audited{Store: memstore.New(memstore.Config{})}
	claim(t, store, "runs", "/runs", time.Hour)
	claim(t, store, "lost", "/lost", 0)
	c := claim(t, store, "held", "/held", time.Hour)
	if err := store.Extend(t.Context(), c.Key, c.Token, 0, true); err != nil {
		t.Fatal(err)
	}
	c = claim(t, store, secretKey, "/done", time.Hour)
	answer := &onceward.Response{Status: 201, Header: http.Header{"Location": {secretHeader}}, Body: []byte(secretBody)}
	if err := store.Complete(t.Context(), c.Key, c.Token, answer, time.Hour); err != nil {
		t.Fatal(err)
	}
	return store
}

// visit asks for the page as a browser on this machine does.
func visit(t *testing.T, page http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", target, nil)
	r.Host = "127.0.0.1:9465"
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff"} {
		if w.Header().Get(name) != want {
			t.Errorf("%s: %s is %q", target, name, w.Header().Get(name))
		}
	}
	for _, secret := range []string{secretKey, secretScope, secretBody, "the answer", "token=abc", "Location"} {
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s shows %q", target, secret)
		}
	}
	return w
}

func newPage(t *testing.T, store onceward.Store, cfg records.Config) http.Handler {
	t.Helper()
	page, err := records.Page(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

var shownPath = regexp.MustCompile(`<td class="([a-z-]+)">[a-z-]+</td><td class="request"><code>POST (/\w+)</code>`)

func TestEveryListHasTheRecordsThatItIsNamedFor(t *testing.T) {
	page := newPage(t, shop(t), records.Config{})
	for show, want := range map[string]map[string]string{
		"":            {"/runs": "in-progress", "/lost": "unknown", "/held": "held", "/done": "completed"},
		"in-progress": {"/runs": "in-progress", "/lost": "unknown", "/held": "held"},
		"stuck":       {"/lost": "unknown", "/held": "held"},
		"completed":   {"/done": "completed"},
	} {
		w := visit(t, page, "/?show="+show)
		got := map[string]string{}
		for _, m := range shownPath.FindAllStringSubmatch(w.Body.String(), -1) {
			got[m[2]] = m[1]
		}
		if w.Code != 200 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q shows %v, want %v", show, got, want)
		}
		if n := strings.Count(w.Body.String(), `aria-current="page"`); n != 1 {
			t.Errorf("%q: %d lists are the current one", show, n)
		}
	}
	if w := visit(t, newPage(t, memstore.New(memstore.Config{}), records.Config{}), "/"); w.Code != 200 || !strings.Contains(w.Body.String(), "no such records") {
		t.Errorf("an empty store: %d %s", w.Code, w.Body)
	}
}

func TestARecordIsFoundByItsIDInTheLog(t *testing.T) {
	store := shop(t)
	page := newPage(t, store, records.Config{})
	id := onceward.NewKey(secretScope, secretKey).RecordID()
	for _, prefix := range []string{id, id[:15], id[:8], strings.ToUpper(id), " " + id + " "} {
		w := visit(t, page, "/?id="+strings.ReplaceAll(prefix, " ", "+"))
		if m := shownPath.FindAllStringSubmatch(w.Body.String(), -1); len(m) != 1 || m[0][2] != "/done" {
			t.Errorf("%q finds %v", prefix, m)
		}
	}
	other := id[:14] + strings.Map(func(r rune) rune {
		if r == '0' {
			return '1'
		}
		return '0'
	}, id[14:15])
	if w := visit(t, page, "/?id="+other); w.Code != 200 || strings.Contains(w.Body.String(), "/done") {
		t.Errorf("an id that differs in its last, odd digit finds %s", w.Body)
	}
	for _, wrong := range []string{"x", "zz", "1", strings.Repeat("a", 65), secretKey[:3] + "%27"} {
		if w := visit(t, page, "/?id="+wrong); w.Code != 400 {
			t.Errorf("%q: %d", wrong, w.Code)
		}
	}
}

var recordLink = regexp.MustCompile(`href="(/record/[0-9a-f]{64}/[0-9a-f]{64})"`)

// What was done by hand is told with the record, and after it is gone.
func TestARecordsPageTellsWhatWasDoneByHand(t *testing.T) {
	store := shop(t)
	page := newPage(t, store, records.Config{})
	key := onceward.NewKey(secretScope, "held")
	link := recordLink.FindStringSubmatch(visit(t, page, "/?id="+key.RecordID()).Body.String())
	if link == nil {
		t.Fatal("the list has no link")
	}
	w := visit(t, page, link[1])
	for _, part := range []string{`<dd class="held">held`, "<dd>over</dd>", "POST /held", "<code>grep " + key.RecordID(), fmt.Sprintf("%x", key.ID)} {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("no %q in %s", part, w.Body)
		}
	}
	if w.Code != 200 || strings.Contains(w.Body.String(), "Changed by hand") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	entry := onceward.Audit{At: time.Unix(1e9, 0), Who: "eve <b>", Action: "release", Reason: "it is \u202e not there", Key: key}
	if err := store.Audit(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	if err := store.Release(t.Context(), key, onceward.Token{4, 'h'}); err != nil {
		t.Fatal(err)
	}
	for target, code := range map[string]int{link[1]: 404, "/?id=" + key.RecordID(): 200} {
		w = visit(t, page, target)
		if w.Code != code || !strings.Contains(w.Body.String(), "2001-09-09T01:46:40Z <code>"+key.RecordID()+"</code> release by eve &lt;b&gt;: &#34;it is \\u202e not there&#34;") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	done := visit(t, page, recordLink.FindStringSubmatch(visit(t, page, "/?show=completed").Body.String())[1])
	if !strings.Contains(done.Body.String(), "<dd>201, 22 bytes</dd>") {
		t.Errorf("the kept answer: %s", done.Body)
	}
	for _, target := range []string{"/record/00/00", "/record/" + strings.Repeat("z", 64) + "/" + strings.Repeat("0", 64), strings.Replace(link[1], "/record/", "/record/x", 1)} {
		if w := visit(t, page, target); w.Code != 404 {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}

// A path is whatever a stranger asked for.
func TestAHostilePathIsShownAndDoesNothing(t *testing.T) {
	store := memstore.New(memstore.Config{})
	claim(t, store, "k", "/<script>alert(1)</script>\"'\u202e\x1b[31m\u200b", time.Hour)
	w := visit(t, newPage(t, store, records.Config{}), "/")
	if body := w.Body.String(); strings.Contains(body, "<script") || strings.ContainsAny(body, "\u202e\x1b\u200b") || !strings.Contains(body, `\x1b[31m`) {
		t.Errorf("shown as %s", body)
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
}

// A website that gives its own name this machine's address reads nothing.
func TestThePageIsNotReadUnderAStrangersName(t *testing.T) {
	page := newPage(t, shop(t), records.Config{Hosts: []string{"ops.test"}})
	for host, code := range map[string]int{
		"127.0.0.1:9465": 200, "localhost:9465": 200, "LOCALHOST": 200, "[::1]:9465": 200, "[::1]": 200, "10.0.0.5": 200, "ops.test": 200, "Ops.Test:9465": 200,
		"evil.test": 421, "evil.test:9465": 421, "127.0.0.1.evil.test": 421, "localhost.evil.test:1": 421, "": 421,
	} {
		for _, target := range []string{"/", "/?id=00", "/record/" + strings.Repeat("0", 64) + "/" + strings.Repeat("0", 64)} {
			r := httptest.NewRequest("GET", target, nil)
			r.Host = host
			w := httptest.NewRecorder()
			page.ServeHTTP(w, r)
			if w.Code != code && !(code == 200 && w.Code == 404 && strings.HasPrefix(target, "/record")) {
				t.Errorf("%q asks for %s: %d, want %d", host, target, w.Code, code)
			}
			if code == 421 && strings.Contains(w.Body.String(), "/record/") {
				t.Errorf("%q is shown %s", host, w.Body)
			}
		}
	}
}

func TestALongListIsShownInPieces(t *testing.T) {
	store := memstore.New(memstore.Config{})
	for i := range 120 {
		c := onceward.Claim{Key: onceward.NewKey(fmt.Sprint(i%3), fmt.Sprint(i)), Token: onceward.Token{byte(i)}, Method: "POST", Path: fmt.Sprintf("/n%d", i), Lease: 0, Keep: -1}
		if _, _, err := store.Claim(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	page := newPage(t, store, records.Config{})
	seen, pages := map[string]bool{}, 0
	for target := "/?show=stuck"; target != ""; pages++ {
		body := visit(t, page, target).Body.String()
		for _, m := range shownPath.FindAllStringSubmatch(body, -1) {
			if seen[m[2]] {
				t.Errorf("%s is shown twice", m[2])
			}
			seen[m[2]] = true
		}
		target = ""
		if m := regexp.MustCompile(`<a href="([^"]+)" rel="next">`).FindStringSubmatch(body); m != nil {
			target = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if len(seen) != 120 || pages != 3 {
		t.Errorf("%d records on %d pages", len(seen), pages)
	}
}

// sick is a store that fails, or waits.
type sick struct {
	onceward.Store
	list func(context.Context) error
}

func (s sick) List(ctx context.Context, _ onceward.Query) ([]onceward.Record, error) {
	return nil, s.list(ctx)
}

func TestAStoreThatFailsShowsNoneOfItsWords(t *testing.T) {
	page := newPage(t, sick{list: func(context.Context) error { return errors.New("password of postgres://bob") }}, records.Config{})
	if w := visit(t, page, "/"); w.Code != 503 || strings.Contains(w.Body.String(), "bob") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	slow := newPage(t, sick{list: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, records.Config{Timeout: 10 * time.Millisecond})
	if w := visit(t, slow, "/"); w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if _, err := records.Page(struct{ onceward.Store }{}, records.Config{}); !errors.Is(err, records.ErrNotListed) {
		t.Errorf("a store that cannot be listed: %v", err)
	}
}

// Views may be expensive, and whoever reloads the page must not keep the store from its
// work.
func TestTwoViewsAtATimeAreMade(t *testing.T) {
	came, end := make(chan bool), make(chan bool)
	page := newPage(t, sick{list: func(context.Context) error { came <- true; <-end; return nil }}, records.Config{})
	done := make(chan int, 2)
	for range 2 {
		go func() { done <- visit(t, page, "/").Code }()
		<-came
	}
	if w := visit(t, page, "/"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("the third is %d", w.Code)
	}
	close(end)
	for range 2 {
		if code := <-done; code != 200 {
			t.Errorf("answered %d", code)
		}
	}
	go func() { <-came }()
	if w := visit(t, page, "/"); w.Code != 200 {
		t.Errorf("afterwards it is %d", w.Code)
	}
}

// Nothing can be changed.
func TestThePageIsReadOnly(t *testing.T) {
	store := shop(t)
	page := newPage(t, store, records.Config{})
	link := recordLink.FindStringSubmatch(visit(t, page, "/").Body.String())[1]
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"} {
		for _, target := range []string{"/", link} {
			r := httptest.NewRequest(method, target, nil)
			r.Host = "127.0.0.1"
			w := httptest.NewRecorder()
			page.ServeHTTP(w, r)
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, target, w.Code)
			}
		}
	}
	if found, err := store.List(t.Context(), onceward.Query{}); err != nil || len(found) != 4 {
		t.Errorf("%d records are left, %v", len(found), err)
	}
}

func TestListenTakesThisMachineAlone(t *testing.T) {
	for addr, want := range map[string]string{":0": "http://127.0.0.1:", "127.0.0.1:0": "http://127.0.0.1:"} {
		e, err := records.Listen(addr, shop(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(e.URL(), want) {
			t.Errorf("%s is served at %s", addr, e.URL())
		}
		res, err := http.Get(e.URL())
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("answered %d", res.StatusCode)
		}
		http.DefaultClient.CloseIdleConnections()
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := http.Get(e.URL()); err == nil {
			t.Error("it is still served")
		}
	}
	for _, addr := range []string{"nowhere", "127.0.0.1:x"} {
		if _, err := records.Listen(addr, shop(t), nil); err == nil {
			t.Errorf("%s is taken", addr)
		}
	}
}
