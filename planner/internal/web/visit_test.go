package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A handler that panics before it has said anything is a page; one that panics in
// the middle of its answer must not look as if it had come to its end.
func TestAPanicIsAPageOrACutConnection(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.app.observe(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			_, _ = rw.Write([]byte("half an answer"))
			_ = http.NewResponseController(rw).Flush()
		}
		panic("a mistake of ours")
	})))
	defer server.Close()
	res, err := http.Get(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), "<h1>") || strings.Contains(string(body), "mistake") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, err := http.Get(server.URL + "/half"); err == nil {
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil {
			t.Error("half an answer came to a clean end")
		}
	}
	if strings.Count(w.log.String(), "a mistake of ours") != 2 {
		t.Errorf("the log:\n%s", w.log)
	}
}
