package main

import (
	"net/http/httptest"
	"testing"
)

// What is uploaded as a photo is shown as one, or not at all: a page in its place
// would run with the person's own rights.
func TestAnUploadIsNoPageOfThisSite(t *testing.T) {
	l := &list{items: []*item{{Photo: []byte("\x89PNG\r\n\x1a\n")}, {Photo: []byte("<!doctype html><script>alert(1)</script>")}, {Photo: []byte("<svg xmlns='http://www.w3.org/2000/svg'/>")}}}
	for id, want := range map[string]string{"0": "image/png", "1": "application/octet-stream", "2": "application/octet-stream"} {
		r := httptest.NewRequest("GET", "/items/"+id+"/photo", nil)
		r.SetPathValue("id", id)
		w := httptest.NewRecorder()
		l.showPhoto(w, r)
		if got := w.Header().Get("Content-Type"); got != want || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("photo %s is %s, not %s", id, got, want)
		}
	}
}
