package shop

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A wish is what a request asks to go wrong, in its query or in its X-Chaos header,
// in the words of examples/orders/chaos.go; -chaos makes the programs obey it. The
// work fails by itself, by returning an error or by panicking, so that a framework
// meets what it would meet. What a framework cannot say, such as flushing, is
// [Write]'s.
type wish struct{ url.Values }

type wishKey struct{}

// words are those of a wish. A header with another one is refused: a test that
// misspells its fault would test nothing.
const words = " write_timeout_ms sleep_ms die status panic then_sleep_ms after cookie header body bytes answer flush deaf "

// WithWish gives ctx the wish of a request.
func WithWish(ctx context.Context, query url.Values, header string) (context.Context, error) {
	asked, err := url.ParseQuery(header)
	for name, values := range asked {
		if !strings.Contains(words, " "+name+" ") {
			err = fmt.Errorf("X-Chaos has no %q", name)
		}
		query[name] = values
	}
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, Text: err.Error()}
	}
	return context.WithValue(ctx, wishKey{}, wish{query}), nil
}

func wishOf(ctx context.Context) wish {
	w, _ := ctx.Value(wishKey{}).(wish)
	return w
}

func (w wish) is(name, value string) bool { return w.Get(name) == value }

func (w wish) number(name string) int {
	n, _ := strconv.Atoi(w.Get(name))
	return n
}

func (w wish) duration(name string) time.Duration {
	return time.Duration(w.number(name)) * time.Millisecond
}

func (w wish) sleep(ctx context.Context, name string) error {
	if w.is("deaf", "1") {
		time.Sleep(w.duration(name))
		return nil
	}
	select {
	case <-time.After(w.duration(name)):
		return ctx.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w wish) failure() error {
	switch w.Get("panic") {
	case "1":
		panic("chaos")
	case "goroutine":
		go panic("chaos")
		select {}
	}
	status := w.number("status")
	if status == 0 || w.is("answer", "error") {
		return nil
	}
	e := &Error{Status: status, Text: fmt.Sprint("chaos ", status)}
	if status == http.StatusCreated || status >= 300 && status < 400 && status != http.StatusNotModified {
		e.Location = "/orders"
	}
	return e
}

// work does what changes the shop, as the request's wish has it.
func (s *Shop) work(ctx context.Context, do func() error) error {
	s.running.Add(1)
	defer s.running.Add(-1)
	w := wishOf(ctx)
	if err := w.sleep(ctx, "sleep_ms"); err != nil {
		return err
	}
	if w.is("die", "before") {
		die("before the work")
	}
	late := w.is("after", "1")
	if !late {
		if err := w.failure(); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if w.is("die", "after") {
		die("after the work")
	}
	if err := w.sleep(ctx, "then_sleep_ms"); err != nil {
		return err
	}
	if late {
		return w.failure()
	}
	return nil
}

// Twisted reports whether the answer to this request is to be written by [Write].
func Twisted(ctx context.Context) bool {
	w := wishOf(ctx)
	for _, name := range []string{"write_timeout_ms", "cookie", "header", "body", "bytes", "answer", "flush", "panic"} {
		if w.Has(name) {
			return true
		}
	}
	return false
}

// Write answers with v in the way that the request asks for, through w, which is
// the framework's writer: what it wraps has to be reachable through it.
func Write(w http.ResponseWriter, r *http.Request, status int, v any) {
	wish, h := wishOf(r.Context()), w.Header()
	body, _ := json.Marshal(v)
	if wish.Has("body") {
		body, _ = base64.StdEncoding.DecodeString(wish.Get("body"))
	}
	h.Set("Content-Type", "application/json")
	for i, line := range wish.Values["header"] { // in place of the handler's own
		name, value, _ := strings.Cut(line, ":")
		if i == 0 || !strings.HasPrefix(wish.Values["header"][i-1], name+":") {
			h.Del(name)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	if wish.is("cookie", "1") {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s3cret", Path: "/", HttpOnly: true})
	}
	control := http.NewResponseController(w)
	if d := wish.duration("write_timeout_ms"); d > 0 {
		if err := control.SetWriteDeadline(time.Now().Add(d)); err != nil {
			panic(err) // the framework's writer hides the connection's
		}
		time.Sleep(2 * d)
	}
	switch wish.Get("answer") {
	case "nothing":
		h.Del("Location")
		h.Del("Content-Type")
		return
	case "error":
		http.Error(w, "chaos", wish.number("status"))
		return
	case "file":
		http.ServeContent(w, r, "order.json", time.Time{}, bytes.NewReader(body))
		return
	case "redirect":
		http.Redirect(w, r, h.Get("Location"), http.StatusSeeOther)
		return
	case "hijack":
		if conn, _, err := control.Hijack(); err == nil {
			fmt.Fprintf(conn, "HTTP/1.1 %d Hijacked\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
			_ = conn.Close()
			return
		} else {
			h.Set("X-Chaos-Hijack", err.Error())
		}
	}
	size := max(wish.number("bytes"), len(body))
	steps := []int{size}
	flush, abort := wish.is("flush", "1"), wish.is("panic", "abort")
	if flush {
		steps = []int{size / 3, size / 3 * 2, size}
	}
	if abort || wish.is("answer", "short") {
		steps = []int{size / 2}
	}
	if !flush && size > 0 {
		h.Set("Content-Length", strconv.Itoa(size))
	}
	w.WriteHeader(status)
	from := 0
	for _, to := range steps {
		if err := writePadded(w, body, from, to); err != nil {
			return
		}
		if flush {
			_ = control.Flush()
		}
		from = to
	}
	if abort {
		panic(http.ErrAbortHandler)
	}
}

// writePadded writes the bytes from…to of an endless body that begins with body
// and goes on with spaces.
func writePadded(w http.ResponseWriter, body []byte, from, to int) error {
	spaces := bytes.Repeat([]byte(" "), 32<<10)
	for from < to {
		part := spaces
		if from < len(body) {
			part = body[from:]
		}
		n, err := w.Write(part[:min(len(part), to-from)])
		if err != nil {
			return err
		}
		from += n
	}
	return nil
}

// chaos stands around a whole program: it gives every request its wish, tells
// GET /chaos how many are at work, and ends the process instead of sending the
// first byte of an answer that is recorded.
func (s *Shop) chaos(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := WithWish(r.Context(), r.URL.Query(), r.Header.Get("X-Chaos"))
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		case r.URL.Path == "/chaos":
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(s.Vitals(r.URL.Query().Get("gc") == "1"))
			return
		}
		if wishOf(ctx).is("die", "answer") {
			w = &mortal{ResponseWriter: w}
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Vitals is how many handlers are at work, how many goroutines there are and how
// many bytes are in use.
func (s *Shop) Vitals(collect bool) map[string]int64 {
	if collect {
		runtime.GC()
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return map[string]int64{"running": s.running.Load(), "goroutines": int64(runtime.NumGoroutine()), "heap": int64(mem.HeapAlloc)}
}

// DieInstead ends the process if the request asks for that where its answer is
// recorded and not sent. outcome is the answer's Idempotency-Status.
func DieInstead(ctx context.Context, outcome string) {
	// The repeat of a request that asks for it must find its answer.
	if wishOf(ctx).is("die", "answer") && (outcome == "" || strings.HasPrefix(outcome, "executed")) {
		die("instead of answering")
	}
}

type mortal struct {
	http.ResponseWriter
	spared bool // this answer is one to let through
}

func (m *mortal) Unwrap() http.ResponseWriter { return m.ResponseWriter }

func (m *mortal) WriteHeader(status int) {
	if outcome := m.Header().Get("Idempotency-Status"); status >= 200 && !m.spared && (outcome == "" || strings.HasPrefix(outcome, "executed")) {
		die("instead of answering")
	}
	m.spared = m.spared || status >= 200
	m.ResponseWriter.WriteHeader(status)
}

func (m *mortal) Write(p []byte) (int, error) {
	if !m.spared {
		m.WriteHeader(http.StatusOK)
	}
	return m.ResponseWriter.Write(p)
}

func die(when string) {
	fmt.Fprintln(os.Stderr, "shop: chaos: exit", when)
	os.Exit(70)
}
