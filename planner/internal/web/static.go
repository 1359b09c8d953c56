package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// static/htmx.min.js is htmx 2.0.11, dist/htmx.min.js of the npm package htmx.org
// byte for byte; its licence (0BSD) stands beside it.
//
//go:embed static
var staticFiles embed.FS

// file is one static file, made ready.
type file struct {
	body, gzip []byte // gzip is nil where it saves nothing
	kind       string
	version    string
}

// static serves the files under /static/.
type static struct{ files map[string]file }

// newStatic reads the files once in the process's life: they are in the binary.
var newStatic = sync.OnceValue(func() *static {
	s := &static{files: map[string]file{}}
	all, err := fs.Sub(staticFiles, "static")
	if err != nil {
		panic(err) // the folder is embedded
	}
	err = fs.WalkDir(all, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(all, name)
		if err != nil {
			return err
		}
		if (strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".css")) && !strings.HasSuffix(name, ".min.js") {
			body = withoutComments(body)
		}
		s.files[name] = newFile(name, body)
		return nil
	})
	if err != nil {
		panic(err)
	}
	return s
})

var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".png": "image/png",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// withoutComments empties the lines of a script or a style sheet that are nothing
// but comment: a phone in the underground does not read them, and line numbers
// stay. No file of ours has such a line within a text.
func withoutComments(script []byte) []byte {
	var b bytes.Buffer
	block := false
	for line := range bytes.Lines(script) {
		text := bytes.TrimSpace(line)
		end := bytes.Index(text, []byte("*/"))
		switch {
		case block:
			block = end < 0
		case bytes.HasPrefix(text, []byte("/*")) && end < 0:
			block = true
		case bytes.HasPrefix(text, []byte("/*")) && end == len(text)-2, bytes.HasPrefix(text, []byte("//")):
		default: // code, maybe behind a comment
			b.Write(line)
			continue
		}
		line = line[len(line)-1:]
		b.Write(line)
	}
	return b.Bytes()
}

func newFile(name string, body []byte) file {
	sum := sha256.Sum256(body)
	f := file{body: body, kind: kinds[path.Ext(name)], version: base64.RawURLEncoding.EncodeToString(sum[:9])}
	if f.kind == "" {
		panic("planner: no content type for static/" + name)
	}
	var buf bytes.Buffer
	zw, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression) // a level that exists
	_, _ = zw.Write(body)
	_ = zw.Close()
	if buf.Len() < len(body)*9/10 {
		f.gzip = buf.Bytes()
	}
	return f
}

// url is the address of a file, with its version: such an address always means
// the same bytes and may be kept for ever.
func (s *static) url(name string) string {
	f, ok := s.files[name]
	if !ok {
		panic("planner: no file static/" + name)
	}
	return "/static/" + name + "?v=" + f.version
}

func (s *static) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, r.URL.Path) }

func (s *static) serve(w http.ResponseWriter, r *http.Request, name string) {
	f, ok := s.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// Modules import each other without a version, so those are asked about on
	// each use.
	h.Set("Cache-Control", "no-cache")
	if v := r.URL.Query().Get("v"); v == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body, etag := f.body, `"`+f.version+`"`
	if f.gzip != nil {
		h.Add("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			body, etag = f.gzip, `"`+f.version+`-gz"`
			h.Set("Content-Encoding", "gzip")
		}
	}
	h.Set("ETag", etag)
	if strings.Contains(r.Header.Get("If-None-Match"), etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}
