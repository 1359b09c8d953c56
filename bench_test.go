package onceward_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// discard is the cheapest http.ResponseWriter, so that the guard's own cost is
// what is seen.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkMemory measures what the guard adds to a bare handler: compare
// bare, first and replay of one run.
func BenchmarkMemory(b *testing.B) {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":1}`)
	})
	const body = `{"item":"book","qty":1}`
	newRequest := func(key string) *http.Request {
		r, _ := http.NewRequest("POST", "http://x/create-order", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header["Idempotency-Key"] = []string{key}
		return r
	}
	run := func(b *testing.B, h http.Handler, key func(int) string) {
		b.ReportAllocs()
		r := newRequest("x")
		src := strings.NewReader(body)
		for i := 0; b.Loop(); i++ {
			src.Reset(body)
			r.Body = io.NopCloser(src)
			r.Header["Idempotency-Key"][0] = key(i)
			h.ServeHTTP(&discard{header: make(http.Header)}, r)
		}
	}
	guarded := func(b *testing.B) http.Handler {
		guard, err := onceward.New(memstore.New(memstore.Config{MaxRecords: -1, MaxBytes: -1}), onceward.Unscoped, onceward.Config{SweepEvery: -1})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = guard.Close(context.Background()) })
		return guard.Handler(app)
	}
	unique := func(i int) string { return "key-" + strconv.Itoa(i) }
	b.Run("bare", func(b *testing.B) { run(b, app, unique) })
	b.Run("first", func(b *testing.B) { run(b, guarded(b), unique) })
	b.Run("replay", func(b *testing.B) { run(b, guarded(b), func(int) string { return "key-0000000" }) })
}
