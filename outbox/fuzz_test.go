package outbox_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward/outbox"
)

// Whatever stands in an answer, Edge writes no redirect status, tells no session
// over that the guard acknowledged, and lets nothing unguarded pass unmarked.
func FuzzEdge(f *testing.F) {
	for _, s := range []int{200, 204, 302, 303, 307, 401, 403, 412, 500} {
		f.Add(s, "/login", `executed;key="k"`, "", "12")
		f.Add(s, "//evil.example/login", "", `{"path":"/login"}`, "")
		f.Add(s, "%zz", "released", "{", "-1")
	}
	f.Fuzz(func(t *testing.T, status int, location, idempotency, htmx, age string) {
		if status < 200 || status > 599 {
			return
		}
		ran := false
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ran = true
			w.Header().Set("Location", location)
			w.Header().Set("Idempotency-Status", idempotency)
			w.Header().Set("HX-Location", htmx)
			w.WriteHeader(status)
			io.WriteString(w, "body")
		})
		r := announced("POST", "/tasks", nil)
		r.Header.Set("Outbox-Age", age)
		res := through(h, outbox.EdgeConfig{Login: "/login"}, r)
		token, _, _ := strings.Cut(idempotency, ";")
		token = strings.TrimSpace(token)
		acknowledged := token == "executed" || token == "replayed"
		switch got := res.Header.Get("Outbox-Status"); {
		case !ran:
			if res.StatusCode != 410 || got != "expired" {
				t.Errorf("refused with %d %q", res.StatusCode, got)
			}
		case res.StatusCode >= 300 && res.StatusCode < 400 && status != res.StatusCode:
			t.Errorf("%d became %d", status, res.StatusCode)
		case res.StatusCode == 301 || res.StatusCode == 302 || res.StatusCode == 303 || res.StatusCode == 307 || res.StatusCode == 308:
			t.Errorf("a redirect passed: %d", res.StatusCode)
		case acknowledged && got != "":
			t.Errorf("acknowledged and %q", got)
		case token == "" && status < 400 && got != "unguarded" && got != "auth":
			t.Errorf("%d passed with %q", status, got)
		}
	})
}

func FuzzHandler(f *testing.F) {
	f.Add("queued", "ru;q=0.5, en", "gzip", `"x", *`)
	f.Add("kit.js", ";;=,", "*;q=0", `W/`)
	h := outbox.Handler(outbox.Config{})
	f.Fuzz(func(t *testing.T, name, language, encoding, tag string) {
		r := httptest.NewRequest("GET", "/outbox/", nil)
		r.URL.Path += name
		r.Header.Set("Accept-Language", language)
		r.Header.Set("Accept-Encoding", encoding)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 200, 204, 304, 404:
		default:
			t.Errorf("%s: %d", name, w.Code)
		}
	})
}
