package outbox_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/outbox"
)

func get(h http.Handler, target string, header ...string) *http.Response {
	r := httptest.NewRequest("GET", target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Result()
}

func read(t *testing.T, res *http.Response) []byte {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// programs are what pages and browsers ask for by name; all else is imported.
var programs = []string{"sw.js", "kill.js", "worker.js", "page.js", "local.js", "kit.js", "kit-edit.js", "kit-leave.js", "kit.css", "queued.js", "words.en.js", "words.ru.js"}

var imported = regexp.MustCompile(`(?m)^import\b[^'"();]*['"]\./([^'"]+)['"]`)

// closure is some scripts and all that they import.
func closure(t *testing.T, roots []string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for todo := slices.Clone(roots); len(todo) > 0; todo = todo[1:] {
		name := todo[0]
		if all[name] {
			continue
		}
		all[name] = true
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range imported.FindAllStringSubmatch(string(text), -1) {
			todo = append(todo, m[1])
		}
	}
	return all
}

func TestEveryScriptIsServedAsItLiesHereButForCommentsAndNothingElseIs(t *testing.T) {
	h := outbox.Handler(outbox.Config{})
	need := closure(t, programs)
	files, err := filepath.Glob("*.*")
	if err != nil || len(files) < len(need) {
		t.Fatal(files, err)
	}
	for _, name := range files {
		res := get(h, "/outbox/"+name)
		if !need[name] {
			if res.StatusCode != 404 {
				t.Errorf("%s is served (%d), and no program imports it", name, res.StatusCode)
			}
			continue
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 200 || !bytes.Equal(read(t, res), outbox.WithoutComments(want)) {
			t.Errorf("%s: %d, or other bytes", name, res.StatusCode)
		}
		for _, doubt := range outbox.Doubts(want) {
			t.Errorf("%s: %s", name, doubt)
		}
		kind := "text/javascript; charset=utf-8"
		if filepath.Ext(name) == ".css" {
			kind = "text/css; charset=utf-8"
		}
		for header, want := range map[string]string{
			"Content-Type":            kind,
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'",
			"Cache-Control":           "no-cache",
			"X-Content-Type-Options":  "nosniff",
		} {
			if got := res.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
	}
}

func TestAScriptIsSentOnceAndThenOnlyConfirmed(t *testing.T) {
	h := outbox.Handler(outbox.Config{})
	plain := get(h, "/outbox/kit.js")
	packed := get(h, "/outbox/kit.js", "Accept-Encoding", "br, gzip")
	if plain.Header.Get("Content-Encoding") != "" || packed.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("encodings %q, %q", plain.Header.Get("Content-Encoding"), packed.Header.Get("Content-Encoding"))
	}
	if !strings.Contains(packed.Header.Get("Vary"), "Accept-Encoding") {
		t.Error("no Vary")
	}
	tags := [2]string{plain.Header.Get("ETag"), packed.Header.Get("ETag")}
	if tags[0] == "" || tags[0] == tags[1] {
		t.Errorf("tags %q", tags)
	}
	zr, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(zr)
	if err != nil || !bytes.Equal(unpacked, read(t, plain)) {
		t.Errorf("gzip holds something else (%v)", err)
	}
	for _, c := range []struct {
		tag    string
		status int
	}{
		{tags[0], 304}, {tags[1], 304}, {"W/" + tags[1], 304}, {`"x", ` + tags[0], 304}, {"*", 304},
		{`"x"`, 200}, {"", 200}, {strings.Trim(tags[0], `"`), 200},
	} {
		res := get(h, "/outbox/kit.js", "If-None-Match", c.tag, "Accept-Encoding", "gzip")
		if res.StatusCode != c.status {
			t.Errorf("If-None-Match %s: %d, want %d", c.tag, res.StatusCode, c.status)
		}
		if body := read(t, res); c.status == 304 && (len(body) > 0 || res.Header.Get("ETag") == "" || res.Header.Get("Content-Encoding") != "") {
			t.Errorf("If-None-Match %s: %d bytes, %v", c.tag, len(body), res.Header)
		}
	}
}

func TestGzipOnlyForThoseWhoTakeIt(t *testing.T) {
	h := outbox.Handler(outbox.Config{})
	for accept, want := range map[string]string{
		"gzip": "gzip", "deflate, GZIP;q=0.5": "gzip", "*": "gzip", "gzip;q=1.0, *;q=0": "gzip",
		"": "", "br": "", "gzip;q=0": "", "*;q=0": "", "gzip;q=0, *": "", "gzip;q=x": "", "xgzip": "",
	} {
		if got := get(h, "/outbox/kit.js", "Accept-Encoding", accept).Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q: %q, want %q", accept, got, want)
		}
	}
}

func TestPing(t *testing.T) {
	res := get(outbox.Handler(outbox.Config{}), "/outbox/ping")
	if res.StatusCode != 204 || res.Header.Get("Outbox-Status") != "pong" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}

func TestOnlyReadsAndOnlyWhatThereIs(t *testing.T) {
	h := outbox.Handler(outbox.Config{})
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("POST", "/outbox/ping", nil))
	if rec.Code != 405 || rec.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", rec.Code, rec.Header())
	}
	rec = httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("HEAD", "/outbox/kit.js", nil))
	if rec.Code != 200 || rec.Body.Len() != 0 || rec.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d, %d bytes, %v", rec.Code, rec.Body.Len(), rec.Header())
	}
	for _, path := range []string{"/outbox/", "/outbox/queued.html", "/outbox/doc.go", "/outbox/../go.mod", "/kit.js", "/outbox/sub/kit.js"} {
		if res := get(h, path); res.StatusCode != 404 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

func TestTheWorkerMayRuleTheWholeSite(t *testing.T) {
	if got := get(outbox.Handler(outbox.Config{}), "/outbox/sw.js").Header.Get("Service-Worker-Allowed"); got != "/" {
		t.Errorf("by default: %q", got)
	}
	h := outbox.Handler(outbox.Config{Prefix: "/app/o/", Scope: "/app/"})
	if got := get(h, "/app/o/sw.js").Header.Get("Service-Worker-Allowed"); got != "/app/" {
		t.Errorf("as configured: %q", got)
	}
	if got := get(h, "/app/o/kit.js").Header.Get("Service-Worker-Allowed"); got != "" {
		t.Errorf("on another script: %q", got)
	}
}

func TestTheKillSwitchTakesTheWorkersPlace(t *testing.T) {
	kill, err := os.ReadFile("kill.js")
	if err != nil {
		t.Fatal(err)
	}
	kill = outbox.WithoutComments(kill)
	res := get(outbox.Handler(outbox.Config{Kill: true}), "/outbox/sw.js")
	if !bytes.Equal(read(t, res), kill) || res.Header.Get("Service-Worker-Allowed") != "/" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if bytes.Equal(read(t, get(outbox.Handler(outbox.Config{}), "/outbox/sw.js")), kill) {
		t.Error("it is there without being asked for")
	}
}

func TestTheQueuedPageSpeaksTheReadersLanguage(t *testing.T) {
	h := outbox.Handler(outbox.Config{Prefix: "/o/"})
	for accept, lang := range map[string]string{
		"": "en", "ru": "ru", "ru-RU,ru;q=0.9,en;q=0.8": "ru", "en-US,en;q=0.9,ru;q=0.8": "en",
		"de,ru;q=0.5,en;q=0.4": "ru", "de": "en", "rup": "en", "ru;q=0": "en", "ru;q=junk, en;q=0.1": "en", "*": "en",
	} {
		res := get(h, "/o/queued", "Accept-Language", accept)
		page := string(read(t, res))
		if !strings.Contains(page, `<html lang="`+lang+`">`) || res.Header.Get("Content-Language") != lang {
			t.Errorf("Accept-Language %q: not %s", accept, lang)
		}
		if !strings.Contains(res.Header.Get("Vary"), "Accept-Language") {
			t.Errorf("Accept-Language %q: %v\n%s", accept, res.Header, page)
		}
	}
}

func TestTheQueuedPageSpeaksAnyLanguageThatIsGiven(t *testing.T) {
	h := outbox.Handler(outbox.Config{Queued: map[string]outbox.QueuedText{
		"ar": {Title: "محفوظ على هذا الجهاز", Back: "رجوع", RightToLeft: true},
		"en": {Title: "Kept & safe"},
	}})
	for accept, want := range map[string][]string{
		"ar-EG,en;q=0.5": {`<html lang="ar" dir="rtl">`, "<h1>محفوظ على هذا الجهاز</h1>", ">رجوع</a>", "it will be sent by itself"},
		"pl":             {`<html lang="en">`, "<title>Kept &amp; safe</title>", ">Back</a>"},
		"ru":             {`<html lang="ru">`, "<h1>Сохранено на этом устройстве</h1>"},
	} {
		page := string(read(t, get(h, "/outbox/queued", "Accept-Language", accept)))
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("Accept-Language %q: no %s in\n%s", accept, text, page)
			}
		}
	}
	if page := string(read(t, get(outbox.Handler(outbox.Config{}), "/outbox/queued"))); strings.Contains(page, "Kept") {
		t.Error("one handler's words are another's")
	}
}

// A worker shows the page when nothing can be loaded, so its style and script are
// inside, and the policy must know exactly those.
func TestTheQueuedPageNeedsNothingElse(t *testing.T) {
	res := get(outbox.Handler(outbox.Config{}), "/outbox/queued")
	page := string(read(t, res))
	script, err := os.ReadFile("queued.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, outside := range []string{"src=", "<link", "import ", "style=", "onclick"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	policy := res.Header.Get("Content-Security-Policy")
	for _, c := range []struct{ directive, start, end, want string }{
		{"style-src", "<style>", "</style>", ""},
		{"script-src", `<script type="module">`, "</script>", string(outbox.WithoutComments(script))},
	} {
		if strings.Count(page, c.start) != 1 {
			t.Fatalf("%d of %s", strings.Count(page, c.start), c.start)
		}
		_, text, _ := strings.Cut(page, c.start)
		text, _, _ = strings.Cut(text, c.end)
		if c.want != "" && text != c.want {
			t.Errorf("%s holds something else", c.start)
		}
		sum := sha256.Sum256([]byte(text))
		want := c.directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("policy %q", policy)
	}
}

func TestAPrefixHasBothItsSlashes(t *testing.T) {
	for _, prefix := range []string{"outbox/", "/outbox", "x"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q: no panic", prefix)
				}
			}()
			outbox.Handler(outbox.Config{Prefix: prefix})
		}()
	}
}
