package outbox_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/outbox"
)

// answer is the head of an answer, in the words of vectors/answers.json.
type answer struct {
	Name                 string `json:"name"`
	Status               int    `json:"status"`
	IdempotencyStatus    string `json:"idempotencyStatus"`
	OutboxStatus         string `json:"outboxStatus"`
	OutboxLocation       string `json:"outboxLocation"`
	OutboxRedirectStatus int    `json:"outboxRedirectStatus"`
	Redirected           bool   `json:"redirected"`
	Type                 string `json:"type"`
	Verdict              string `json:"verdict"`
}

func vectors(t *testing.T) []answer {
	t.Helper()
	text, err := os.ReadFile("../vectors/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []answer `json:"cases"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 50 {
		t.Fatalf("only %d rows", len(file.Cases))
	}
	return file.Cases
}

// announced is a request of the outbox.
func announced(method, target string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, target, body)
	r.Header.Set("Idempotency-Key", "0a1b")
	r.Header.Set("Outbox-Owner", "u1")
	r.Header.Set("Outbox-Attempt", "1")
	return r
}

// answering is a handler that gives this answer.
func answering(status int, header ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		if status != http.StatusNoContent && status != http.StatusNotModified {
			io.WriteString(w, "body")
		}
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func headOf(res *http.Response) answer {
	redirect, _ := strconv.Atoi(res.Header.Get("Outbox-Redirect-Status"))
	return answer{
		Status:               res.StatusCode,
		IdempotencyStatus:    res.Header.Get("Idempotency-Status"),
		OutboxStatus:         res.Header.Get("Outbox-Status"),
		OutboxLocation:       res.Header.Get("Outbox-Location"),
		OutboxRedirectStatus: redirect,
	}
}

func through(h http.Handler, cfg outbox.EdgeConfig, r *http.Request) *http.Response {
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	rec := httptest.NewRecorder()
	outbox.Edge(h, cfg).ServeHTTP(rec, r)
	return rec.Result()
}

// What Edge makes of an answer is looked up in the table that the browser's half
// is held to: the row must exist and must mean what is meant here.
func TestWhatEdgeSaysMeansWhatItShould(t *testing.T) {
	const key = `;key="0a1b"`
	rows := vectors(t)
	used := map[string]bool{}
	for _, c := range []struct {
		name    string
		handler http.Handler
		age     string
		verdict string
	}{
		{"executed redirect", answering(303, "Idempotency-Status", "executed"+key, "Location", "/today"), "", "done"},
		{"released 307", answering(307, "Idempotency-Status", "released"+key, "Location", "/elsewhere"), "", "refused"},
		{"released 401", answering(401, "Idempotency-Status", "released"+key), "", "login"},
		{"401 before the guard", answering(401), "", "login"},
		{"redirect to login", answering(302, "Location", "/login?next=%2Ftoday"), "", "login"},
		{"htmx redirect to login", answering(200, "HX-Redirect", "/login"), "", "login"},
		{"too old", answering(200, "Idempotency-Status", "executed"+key), "86400", "ask"},
		{"another account", answering(412, "Outbox-Status", "owner"), "", "parked"},
		{"unguarded", answering(200), "", "unguarded"},
		{"unguarded redirect", answering(303, "Location", "/today"), "", "unguarded"},
	} {
		r := announced("POST", "/tasks", nil)
		if c.age != "" {
			r.Header.Set("Outbox-Age", c.age)
		}
		got := headOf(through(c.handler, outbox.EdgeConfig{Login: "/login"}, r))
		i := slices.IndexFunc(rows, func(row answer) bool {
			row.Name, row.Verdict = "", ""
			return row == got
		})
		if i < 0 {
			t.Errorf("%s: vectors/answers.json has no row for %+v", c.name, got)
			continue
		}
		used[rows[i].Name] = true
		if rows[i].Verdict != c.verdict {
			t.Errorf("%s: row %q means %s, want %s", c.name, rows[i].Name, rows[i].Verdict, c.verdict)
		}
	}
	for _, row := range rows {
		mine := row.OutboxStatus != "" || row.OutboxLocation != ""
		if mine && row.Verdict != "odd" && !used[row.Name] {
			t.Errorf("nothing here gives the row %q", row.Name)
		}
	}
}

// Whatever the guard or anything between says, Edge changes only what it must:
// the answer still means the same to the entry.
func TestEdgeLeavesEveryOtherAnswerAlone(t *testing.T) {
	for _, row := range vectors(t) {
		if row.Status == 0 || row.Redirected || row.Type != "" || row.OutboxStatus != "" || row.OutboxLocation != "" {
			continue
		}
		header := []string{"X-Mine", "kept"}
		if row.IdempotencyStatus != "" {
			header = append(header, "Idempotency-Status", row.IdempotencyStatus)
		}
		res := through(answering(row.Status, header...), outbox.EdgeConfig{Login: "/login"}, announced("POST", "/tasks", nil))
		got := headOf(res)

		want := row
		want.Name, want.Verdict = "", ""
		acknowledged := strings.HasPrefix(strings.TrimSpace(row.IdempotencyStatus), "executed") || strings.HasPrefix(row.IdempotencyStatus, "replayed")
		switch {
		case row.Status == 401 && !acknowledged:
			want.OutboxStatus = "auth"
		case row.IdempotencyStatus == "" && row.Status < 400:
			want.OutboxStatus = "unguarded"
		case row.Status == 303:
			want.Status = 200
		}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", row.Name, got, want)
		}
		if res.Header.Get("X-Mine") != "kept" {
			t.Errorf("%s: a header is gone", row.Name)
		}
	}
}

func TestA403IsNeverTheEndOfASession(t *testing.T) {
	for _, status := range []string{"", `released;key="0a1b"`} {
		res := through(answering(403, "Idempotency-Status", status), outbox.EdgeConfig{Login: "/login"}, announced("POST", "/tasks", nil))
		if res.StatusCode != 403 || res.Header.Get("Outbox-Status") != "" {
			t.Errorf("%q: %d, Outbox-Status %q", status, res.StatusCode, res.Header.Get("Outbox-Status"))
		}
	}
}

// A plain form without a worker, a client of an API, a read: the browser follows
// its redirects as ever.
func TestRequestsThatAreNotAnnouncedPassUnchanged(t *testing.T) {
	h := answering(302, "Location", "/login")
	for name, r := range map[string]*http.Request{
		"a plain form": httptest.NewRequest("POST", "/tasks", strings.NewReader("_key=k1&text=x")),
		"a read":       announced("GET", "/today", nil),
		"only a key":   announced("POST", "/tasks", nil),
		"only a tag":   announced("POST", "/tasks", nil),
	} {
		switch name {
		case "only a key":
			r.Header.Del("Outbox-Owner")
		case "only a tag":
			r.Header.Del("Idempotency-Key")
		}
		r.Header.Set("Outbox-Age", "999999999")
		rec := httptest.NewRecorder()
		var same http.ResponseWriter
		outbox.Edge(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			same = w
			h.ServeHTTP(w, r)
		}), outbox.EdgeConfig{Login: "/login"}).ServeHTTP(rec, r)
		if rec.Code != 302 || rec.Header().Get("Location") != "/login" || rec.Body.String() != "body" {
			t.Errorf("%s: %d %v %q", name, rec.Code, rec.Header(), rec.Body)
		}
		if same != http.ResponseWriter(rec) {
			t.Errorf("%s: the writer is wrapped", name)
		}
	}
}

func TestEveryWayToTheLoginPageIsSeen(t *testing.T) {
	for _, c := range []struct {
		login  string
		status int
		header []string
		auth   bool
	}{
		{"/login", 303, []string{"Location", "/login"}, true},
		{"/login", 307, []string{"Location", "/login"}, true},
		{"/login", 302, []string{"Location", "/login/"}, true},
		{"/login", 302, []string{"Location", "login?next=/x"}, true},
		{"/login", 302, []string{"Location", "https://example.com/login#form"}, true},
		{"/login", 302, []string{"Location", "https://sso.example.org/login"}, true},
		{"https://sso.example.org/login", 302, []string{"Location", "https://SSO.example.org/login?x=1"}, true},
		{"https://sso.example.org/login", 302, []string{"Location", "/login"}, false},
		{"https://sso.example.org/", 302, []string{"Location", "https://sso.example.org"}, true},
		{"/auth/login", 401, []string{"HX-Redirect", "/auth/login"}, true},
		{"/auth/login", 204, []string{"HX-Location", `{"path":"/auth/login","target":"#main"}`}, true},
		{"/auth/login", 200, []string{"HX-Location", "/auth/login"}, true},
		{"/login", 302, []string{"Location", "/logins"}, false},
		{"/login", 302, []string{"Location", "/today?from=/login"}, false},
		{"/login", 302, []string{"Location", "::"}, false},
		{"/login", 201, []string{"Location", "/login"}, false},
		{"", 302, []string{"Location", "/login"}, false},
		// What the guard acknowledged was done, wherever it then leads.
		{"/login", 303, []string{"Location", "/login", "Idempotency-Status", `executed;key="k"`}, false},
		{"/login", 200, []string{"HX-Redirect", "/login", "Idempotency-Status", `replayed;key="k"`}, false},
	} {
		res := through(answering(c.status, c.header...), outbox.EdgeConfig{Login: c.login}, announced("POST", "/tasks", nil))
		got := res.StatusCode == 401 && res.Header.Get("Outbox-Status") == "auth"
		if got != c.auth {
			t.Errorf("Login %q, %d %v: %d %v", c.login, c.status, c.header, res.StatusCode, res.Header)
		}
		for _, name := range []string{"Location", "HX-Redirect", "HX-Location"} {
			if got && res.Header.Get(name) != "" {
				t.Errorf("Login %q, %v: %s is still there", c.login, c.header, name)
			}
		}
	}
}

func TestARedirectHasNoBodyAndNoRestOfOne(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Idempotency-Status", "executed")
		w.Header().Set("Content-Length", "4")
		w.Header().Set("Etag", `"x"`)
		http.Redirect(w, r, "/today#task-5", http.StatusSeeOther)
	})
	res := through(h, outbox.EdgeConfig{}, announced("POST", "/tasks", nil))
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 200 || res.Header.Get("Outbox-Location") != "/today#task-5" || len(body) != 0 {
		t.Errorf("%d %v %q", res.StatusCode, res.Header, body)
	}
	for _, name := range []string{"Location", "Content-Length", "Content-Type", "Etag"} {
		if v := res.Header.Get(name); v != "" {
			t.Errorf("%s: %s", name, v)
		}
	}
	// fetch hides a redirect status with no Location too.
	res = through(answering(303, "Idempotency-Status", "executed"), outbox.EdgeConfig{}, announced("POST", "/tasks", nil))
	if res.StatusCode != 200 {
		t.Errorf("303 without Location: %d", res.StatusCode)
	}
}

func TestAnEntryOlderThanTheRetentionIsNotExecuted(t *testing.T) {
	for _, c := range []struct {
		retention time.Duration
		age       string
		runs      bool
	}{
		{0, "", true},
		{0, "0", true},
		{0, "86000", true},
		{0, "86399", false}, // the way there takes time as well
		{0, "86401", false},
		{time.Hour, "3400", true},
		{time.Hour, "3601", false},
		{10 * time.Second, "9", true},
		{10 * time.Second, "10", false},
		{-1, "99999999", true},
		{0, "yesterday", false},
		{0, "-5", false},
		{0, "99999999999999999999999", false},
	} {
		ran := false
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ran = true
			w.Header().Set("Idempotency-Status", "executed")
		})
		r := announced("POST", "/tasks", nil)
		if c.age != "" {
			r.Header.Set("Outbox-Age", c.age)
		}
		res := through(h, outbox.EdgeConfig{Retention: c.retention}, r)
		if ran != c.runs {
			t.Errorf("retention %v, age %q: ran %v", c.retention, c.age, ran)
		}
		if !ran && (res.StatusCode != 410 || res.Header.Get("Outbox-Status") != "expired" || res.Header.Get("Idempotency-Status") != "") {
			t.Errorf("retention %v, age %q: %d %v", c.retention, c.age, res.StatusCode, res.Header)
		}
	}
}

func TestARouteWithoutTheGuardIsLoud(t *testing.T) {
	var log bytes.Buffer
	cfg := outbox.EdgeConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	through(answering(201), cfg, announced("POST", "/forgotten", nil))
	if s := log.String(); !strings.Contains(s, "level=ERROR") || !strings.Contains(s, "path=/forgotten") {
		t.Errorf("log: %s", s)
	}
	log.Reset()
	through(answering(201, "Idempotency-Status", "executed"), cfg, announced("POST", "/tasks", nil))
	through(answering(413), cfg, announced("POST", "/tasks", nil))
	if log.Len() > 0 {
		t.Errorf("log: %s", &log)
	}
}

func TestAnEmptyAnswerIsAnAnswer(t *testing.T) {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	if got := headOf(through(nothing, outbox.EdgeConfig{}, announced("POST", "/tasks", nil))); got.Status != 200 || got.OutboxStatus != "unguarded" {
		t.Errorf("%+v", got)
	}
}

// serve runs a real server, because streaming and informational answers are
// nothing that a recorder has.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func post(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest("POST", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "0a1b")
	r.Header.Set("Outbox-Owner", "u1")
	return r
}

func TestStreamingAndInformationalAnswersPassThrough(t *testing.T) {
	half := make(chan struct{})
	s := serve(t, outbox.Edge(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Idempotency-Status", "executed")
		io.WriteString(w, "first ")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-half
		io.WriteString(w, "second")
		w.(http.Flusher).Flush()
	}), outbox.EdgeConfig{Logger: quiet()}))

	hints := 0
	r := post(t, s.URL)
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			if code == http.StatusEarlyHints {
				hints++
			}
			return nil
		},
	}))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	part := make([]byte, 6)
	if _, err := io.ReadFull(res.Body, part); err != nil || string(part) != "first " {
		t.Fatalf("%q %v", part, err)
	}
	close(half)
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(rest) != "second" || hints != 1 || res.Header.Get("Outbox-Status") != "" {
		t.Errorf("%q %v, %d hints, %v", rest, err, hints, res.Header)
	}
}

func TestAFlushBeforeTheHeadStillRewritesIt(t *testing.T) {
	s := serve(t, outbox.Edge(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
	}), outbox.EdgeConfig{Logger: quiet()}))
	res, err := http.DefaultClient.Do(post(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := res.Header.Get("Outbox-Status"); got != "unguarded" {
		t.Errorf("Outbox-Status %q", got)
	}
}

// The guard holds back the end of a streamed answer until it is recorded. A
// redirect that loses its body must not end earlier than that.
func TestAFlushedRedirectEndsOnlyWithItsHandler(t *testing.T) {
	recorded := make(chan struct{})
	s := serve(t, outbox.Edge(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Idempotency-Status", "executed")
		w.Header().Set("Location", "/today")
		w.WriteHeader(http.StatusSeeOther)
		http.NewResponseController(w).Flush()
		<-recorded
	}), outbox.EdgeConfig{}))
	res, err := http.DefaultClient.Do(post(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(res.Body)
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("the answer ended before its record: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(recorded)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTheConnectionCanBeTakenOverAndGivenDeadlines(t *testing.T) {
	s := serve(t, outbox.Edge(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("SetWriteDeadline: %v", err)
		}
		var conn net.Conn
		var rw *bufio.ReadWriter
		conn, rw, err := c.Hijack()
		if err != nil {
			t.Errorf("Hijack: %v", err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 299 Mine\r\nContent-Length: 0\r\n\r\n")
		rw.Flush()
	}), outbox.EdgeConfig{}))
	res, err := http.DefaultClient.Do(post(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 299 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestAPanicPassesThroughEdge(t *testing.T) {
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("the panic is gone")
		}
	}()
	through(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), outbox.EdgeConfig{}, announced("POST", "/", nil))
}
