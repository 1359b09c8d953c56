package outbox

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// Config is [Handler]'s configuration. The zero value is usable.
type Config struct {
	// Prefix is the path that the handler is mounted at, with both slashes. Empty
	// means "/outbox/".
	Prefix string

	// Scope is the part of the site that the worker may be registered for, sent as
	// Service-Worker-Allowed. Empty means "/".
	Scope string

	// Kill serves, in sw.js's place, a worker that sends what it can and then
	// removes itself: the way back for a site that wants to be rid of the outbox.
	// Browsers fetch it by themselves at the next visit. Entries that could not be
	// sent stay in the browser; pages that still have the script send them.
	Kill bool

	// Queued has further languages for the page that a plain form lands on while
	// its request waits, by their tags without a region ("pl"), or other words in
	// Russian ("ru") and English ("en"), which is for everybody else. What the kit
	// says is ScriptConfig.Texts.
	Queued map[string]QueuedText
}

// The policy on sw.js rules what the worker itself may load and whom it may
// call; a page's policy has no say in that.
const (
	scriptPolicy = "default-src 'none'; script-src 'self'; connect-src 'self'"
	queuedPolicy = "default-src 'none'; script-src 'sha256-%s'; connect-src 'self'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// asset is one answer, made ready.
type asset struct {
	body, gzip []byte
	etag       string // without quotes
	header     map[string]string
}

type handler struct {
	prefix string
	assets map[string]asset // by name below prefix; "queued" is by language
	queued map[string]asset
}

// Handler serves the scripts and the stylesheet by name, below Prefix, and
//
//   - classic.js: engine and worker as one classic script, for an application's
//     own worker that is no module: importScripts("/outbox/classic.js"), then
//     onceward.attach(self);
//   - ping: 204 with Outbox-Status: pong, by which the browser's half tells
//     this server from a captive portal;
//   - queued: the page that a plain form lands on while its request waits, in
//     Russian, English or a language of Config.Queued, as Accept-Language asks.
//
// Mount it outside authentication: a browser refuses a worker script that was
// redirected. Nothing it serves depends on who asks. Scripts are revalidated on
// every use (no-cache, with the content's hash as ETag), for a worker's imports
// may otherwise be older than the worker.
//
// Handler panics if Prefix does not begin and end with a slash.
func Handler(cfg Config) http.Handler {
	prefix := cleanPrefix(cfg.Prefix)
	scope := cfg.Scope
	if scope == "" {
		scope = "/"
	}
	h := &handler{prefix: prefix, assets: map[string]asset{}, queued: map[string]asset{}}
	for name, f := range shipped() {
		h.assets[name] = f
	}
	h.assets["classic.js"] = classicAsset()
	if cfg.Kill {
		h.assets["sw.js"] = h.assets["kill.js"]
	}
	for _, name := range []string{"sw.js", "kill.js"} {
		h.assets[name] = h.assets[name].with("Service-Worker-Allowed", scope)
	}
	for _, texts := range []map[string]QueuedText{queuedTexts, cfg.Queued} {
		for lang, text := range texts {
			lang = strings.ToLower(lang)
			h.queued[lang] = queuedAsset(lang, text)
		}
	}
	return h
}

func cleanPrefix(prefix string) string {
	if prefix == "" {
		return "/outbox/"
	}
	if prefix[0] != '/' || prefix[len(prefix)-1] != '/' {
		panic("onceward: outbox: the prefix " + strconv.Quote(prefix) + " must begin and end with a slash")
	}
	return prefix
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, h.prefix)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeProblem(w, http.StatusMethodNotAllowed, "about:blank", "")
		return
	}
	switch name {
	case "ping":
		w.Header().Set(HeaderStatus, StatusPong)
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
	case "queued":
		w.Header().Add("Vary", "Accept-Language")
		h.queued[h.language(r.Header.Get("Accept-Language"))].serve(w, r)
	default:
		a, ok := h.assets[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		a.serve(w, r)
	}
}

// newAsset compresses and hashes once; an answer is then a copy of bytes.
func newAsset(body []byte, contentType, policy string) asset {
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err == nil {
		_, err = zw.Write(body)
	}
	if err == nil {
		err = zw.Close()
	}
	if err != nil {
		panic(err) // writing to memory at a level that exists
	}
	sum := sha256.Sum256(body)
	return asset{
		body: body,
		gzip: buf.Bytes(),
		etag: base64.RawURLEncoding.EncodeToString(sum[:16]),
		header: map[string]string{
			"Content-Type":                 contentType,
			"Content-Security-Policy":      policy,
			"Cache-Control":                "no-cache",
			"X-Content-Type-Options":       "nosniff",
			"Cross-Origin-Resource-Policy": "same-origin",
		},
	}
}

// with returns a copy that has one more header.
func (a asset) with(name, value string) asset {
	header := map[string]string{name: value}
	for k, v := range a.header {
		header[k] = v
	}
	a.header = header
	return a
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for k, v := range a.header {
		h.Set(k, v)
	}
	h.Add("Vary", "Accept-Encoding")
	body, etag := a.body, `"`+a.etag+`"`
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		body, etag = a.gzip, `"`+a.etag+`-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", etag)
	if a.matches(r.Header.Values("If-None-Match")) {
		h.Del("Content-Encoding")
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// matches compares weakly (RFC 9110 section 8.8.3.2), for a proxy that
// compresses makes a strong tag weak; and either encoding's tag will do, since
// both stand for the same script.
func (a asset) matches(lines []string) bool {
	for _, line := range lines {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == "*" || tag == `"`+a.etag+`"` || tag == `"`+a.etag+`-gz"` {
				return true
			}
		}
	}
	return false
}

// acceptsGzip reads Accept-Encoding (RFC 9110 section 12.5.3).
func acceptsGzip(value string) bool {
	q, found := preference(value, "gzip")
	if !found {
		q, found = preference(value, "*")
	}
	return found && q > 0
}

// preference finds one member of a list with weights and tells its weight, in
// thousandths. A weight that cannot be read is 0.
func preference(value, want string) (int, bool) {
	for member := range strings.SplitSeq(value, ",") {
		name, params, _ := strings.Cut(member, ";")
		if strings.EqualFold(strings.TrimSpace(name), want) {
			return weight(params), true
		}
	}
	return 0, false
}

func weight(params string) int {
	for p := range strings.SplitSeq(params, ";") {
		name, v, ok := strings.Cut(strings.TrimSpace(p), "=")
		if !ok || !strings.EqualFold(name, "q") {
			continue
		}
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f >= 0 && f <= 1) {
			return 0
		}
		return int(f * 1000)
	}
	return 1000
}
