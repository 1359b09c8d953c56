package main

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
	"sync/atomic"
	"time"
)

// chaos is what a request asks for, in its query or, without touching what the
// guard compares, in a header: X-Chaos: sleep_ms=300&status=500. In the order of
// what happens:
//
//	write_timeout_ms=N   the connection takes nothing more after N ms
//	sleep_ms=N           before the work; the sleeper obeys the request's context
//	die=before           the process exits before the order is stored
//	status=N             answers so instead of working
//	panic=1              panics instead of working
//	                     — the work: the order is stored —
//	die=after            the process exits when the order is stored
//	then_sleep_ms=N      like sleep_ms
//	after=1              lets status and panic come here, after the work
//	cookie=1             the answer sets a cookie
//	header=Name: value   the answer has this line, in place of its own; may be repeated
//	body=BASE64          the answer's body
//	bytes=N              the answer is filled up to N bytes, with spaces
//	answer=WAY           nothing, error, file, hijack, redirect: how it is written;
//	                     short: promises all and writes half
//	flush=1              the body goes out in three flushes
//	panic=abort          breaks off when half of the body is written
//	die=answer           the process exits when the first byte of an executed
//	                     request's answer is to go out: recorded, not sent
//
// deaf=1 makes a sleeper ignore its context; panic=goroutine panics in a
// goroutine of its own, which ends the process. GET /chaos tells how many handlers
// are at work, how many goroutines there are and how many bytes are in use, with
// gc=1 after a collection.
type wishes struct {
	values url.Values
	err    error
}

// known are the words of a wish. A header with another one is refused: a test
// that misspells its fault would test nothing.
var known = strings.Fields("write_timeout_ms sleep_ms die status panic then_sleep_ms after cookie header body bytes answer flush deaf")

func wishesOf(r *http.Request) *wishes {
	w := &wishes{values: r.URL.Query()}
	asked, err := url.ParseQuery(r.Header.Get("X-Chaos"))
	for name, values := range asked {
		if !strings.Contains(" "+strings.Join(known, " ")+" ", " "+name+" ") {
			err = fmt.Errorf("X-Chaos has no %q", name)
		}
		w.values[name] = values
	}
	w.err = err
	return w
}

func (w *wishes) is(name, value string) bool { return w.values.Get(name) == value }

func (w *wishes) number(name string) int64 {
	text := w.values.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		w.err = fmt.Errorf("chaos: %s=%s is no number", name, text)
	}
	return n
}

func (w *wishes) duration(name string) time.Duration {
	return time.Duration(w.number(name)) * time.Millisecond
}

// sleep reports whether the work should go on.
func (w *wishes) sleep(ctx context.Context, name string) bool {
	if w.is("deaf", "1") {
		time.Sleep(w.duration(name))
		return true
	}
	select {
	case <-time.After(w.duration(name)):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// chaos stands between the guard and next, and makes next's answers what the
// request asks for.
func chaos(next http.Handler) http.Handler {
	var running atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chaos" {
			vitals(w, r, running.Load())
			return
		}
		running.Add(1)
		defer running.Add(-1)
		wish := wishesOf(r)
		status, size := int(wish.number("status")), wish.number("bytes")
		body, err := base64.StdEncoding.DecodeString(wish.values.Get("body"))
		for _, name := range []string{"write_timeout_ms", "sleep_ms", "then_sleep_ms"} {
			wish.number(name)
		}
		if wish.err != nil || err != nil || status != 0 && (status < 200 || status > 599) {
			answer(w, http.StatusBadRequest, map[string]string{"error": fmt.Sprint("chaos: a wish that cannot be: ", wish.err, err)})
			return
		}
		if d := wish.duration("write_timeout_ms"); d > 0 {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
		}
		if !wish.sleep(r.Context(), "sleep_ms") {
			return
		}
		if wish.is("die", "before") {
			die("before the work")
		}
		var rec recorder
		failed := func() bool {
			switch wish.values.Get("panic") {
			case "1":
				panic("chaos")
			case "goroutine":
				go panic("chaos")
				select {}
			}
			if status != 0 {
				rec.redo(status)
			}
			return status != 0
		}
		if wish.is("after", "1") || !failed() {
			next.ServeHTTP(&rec, r)
			if wish.is("die", "after") {
				die("after the work")
			}
			if !wish.sleep(r.Context(), "then_sleep_ms") {
				return
			}
			if wish.is("after", "1") {
				failed()
			}
		}
		if len(body) > 0 || wish.values.Has("body") {
			rec.body = *bytes.NewBuffer(body)
		}
		rec.send(w, r, wish, size)
	})
}

// recorder keeps next's answer until it is known what becomes of it.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (rec *recorder) Header() http.Header {
	if rec.header == nil {
		rec.header = make(http.Header)
	}
	return rec.header
}

func (rec *recorder) WriteHeader(status int) {
	if rec.status == 0 {
		rec.status = status
	}
}

func (rec *recorder) Write(p []byte) (int, error) {
	rec.WriteHeader(http.StatusOK)
	return rec.body.Write(p)
}

// redo replaces the answer by one with this status.
func (rec *recorder) redo(status int) {
	location := rec.Header().Get("Location")
	*rec = recorder{status: status}
	switch {
	case status == http.StatusNoContent || status == http.StatusNotModified:
		return
	case status == http.StatusCreated || status >= 300 && status < 400:
		if location == "" {
			location = "/orders"
		}
		rec.Header().Set("Location", location)
	}
	rec.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(&rec.body).Encode(map[string]any{"chaos": status})
}

// send writes the answer the way that wish asks for.
func (rec *recorder) send(w http.ResponseWriter, r *http.Request, wish *wishes, size int64) {
	if rec.status == 0 {
		return // next wrote nothing; neither do we
	}
	h := w.Header()
	for name, values := range rec.header {
		h[name] = values
	}
	for i, line := range wish.values["header"] {
		name, value, _ := strings.Cut(line, ":")
		if i == 0 || !strings.HasPrefix(wish.values["header"][i-1], name+":") {
			h.Del(name)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	if wish.is("cookie", "1") {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "s3cret", Path: "/", HttpOnly: true})
	}
	body := rec.body.Bytes()
	switch wish.values.Get("answer") {
	case "nothing":
		return
	case "error":
		http.Error(w, "chaos", rec.status)
		return
	case "file":
		http.ServeContent(w, r, "order.json", time.Time{}, bytes.NewReader(body))
		return
	case "redirect":
		http.Redirect(w, r, h.Get("Location"), http.StatusSeeOther)
		return
	case "hijack":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			fmt.Fprintf(conn, "HTTP/1.1 %d Hijacked\r\nContent-Length: %d\r\n\r\n%s", rec.status, len(body), body)
			_ = conn.Close()
			return
		}
		h.Set("X-Chaos-Hijack", err.Error())
	}
	size = max(size, int64(len(body)))
	steps := []int64{size}
	flush, abort := wish.is("flush", "1"), wish.is("panic", "abort")
	if flush {
		steps = []int64{size / 3, size / 3 * 2, size}
	}
	if abort || wish.is("answer", "short") {
		steps = []int64{size / 2}
	}
	if !flush && size > 0 {
		h.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	w.WriteHeader(rec.status)
	from := int64(0)
	for _, to := range steps {
		if err := writePadded(w, body, from, to); err != nil {
			return
		}
		if flush {
			_ = http.NewResponseController(w).Flush()
		}
		from = to
	}
	if abort {
		panic(http.ErrAbortHandler)
	}
}

// writePadded writes the bytes from…to of an endless body that begins with body
// and goes on with spaces.
func writePadded(w http.ResponseWriter, body []byte, from, to int64) error {
	spaces := bytes.Repeat([]byte(" "), 32<<10)
	for from < to {
		part := spaces
		if from < int64(len(body)) {
			part = body[from:]
		}
		n, err := w.Write(part[:min(int64(len(part)), to-from)])
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// dieAtAnswer stands outside the guard, where the first byte of an answer
// passes when its record is complete.
func dieAtAnswer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wishesOf(r).is("die", "answer") {
			w = &mortal{ResponseWriter: w}
		}
		next.ServeHTTP(w, r)
	})
}

type mortal struct {
	http.ResponseWriter
	spared bool // this answer is one to let through
}

func (m *mortal) Unwrap() http.ResponseWriter { return m.ResponseWriter }

func (m *mortal) WriteHeader(status int) {
	// The repeat of a request that asks for it must find its answer.
	outcome := m.Header().Get("Idempotency-Status")
	if status >= 200 && !m.spared && (outcome == "" || strings.HasPrefix(outcome, "executed")) {
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
	fmt.Fprintln(os.Stderr, "orders: chaos: exit", when)
	os.Exit(70)
}

func vitals(w http.ResponseWriter, r *http.Request, running int64) {
	if r.URL.Query().Get("gc") == "1" {
		runtime.GC()
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	answer(w, http.StatusOK, map[string]int64{"running": running, "goroutines": int64(runtime.NumGoroutine()), "heap": int64(mem.HeapAlloc)})
}
