package onceward_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// server runs a guard behind real HTTP.
func server(t *testing.T, cfg onceward.Config, app http.HandlerFunc) *httptest.Server {
	t.Helper()
	r := newRig(t, nil, cfg, app)
	srv := httptest.NewServer(r.h)
	t.Cleanup(srv.Close)
	return srv
}

// send makes one request on a connection of its own.
func send(t *testing.T, url, key, body string, header ...string) (*http.Response, []byte, error) {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-User", "ann")
	req.Header.Set("Idempotency-Key", key)
	req.Close = true
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, b, err
}

func TestEveryKindOfBodyReplaysByteForByte(t *testing.T) { // B046, B047, R9
	for name, parts := range map[string][]string{
		"object": {`{"a":1}`}, "array": {`[1]`}, "string": {`"x"`}, "null": {`null`}, "empty": {},
		"binary": {"\x00\xff\x80\xc8\n"}, "three writes": {"a", "b", "c"},
	} {
		srv := server(t, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
			for _, p := range parts {
				_, _ = io.WriteString(w, p)
			}
		})
		first, a, err1 := send(t, srv.URL, "k", "x")
		second, b, err2 := send(t, srv.URL, "k", "x")
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) || string(a) != strings.Join(parts, "") {
			t.Errorf("%s: %q %v, then %q %v", name, a, err1, b, err2)
			continue
		}
		if a, b := first.Header.Get("Content-Type"), second.Header.Get("Content-Type"); a != b {
			t.Errorf("%s: Content-Type %q, then %q", name, a, b)
		}
		if a, b := first.ContentLength, second.ContentLength; a != b {
			t.Errorf("%s: Content-Length %d, then %d", name, a, b)
		}
	}
}

func TestHeadersOfAMomentAreNotReplayedAndTheFirstAnswerIsNotAltered(t *testing.T) { // B050, R7
	srv := server(t, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Set-Cookie", "a=1")
		h.Add("Set-Cookie", "b=2")
		h.Set("X-Request-Id", "7")
		h.Set("X-RateLimit-Remaining", "3")
		h.Set("WWW-Authenticate", "Basic")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("HX-Trigger", `{"saved":"да"}`)
		h.Set("ETag", `"v1"`)
		w.WriteHeader(200)
		h.Set("X-Too-Late", "1")
	})
	first, _, _ := send(t, srv.URL, "k", "x")
	second, _, _ := send(t, srv.URL, "k", "x")
	if got := first.Header["Set-Cookie"]; len(got) != 2 {
		t.Errorf("the first answer lost a cookie: %q", got)
	}
	for _, name := range []string{"Set-Cookie", "X-Request-Id", "X-Ratelimit-Remaining", "Www-Authenticate", "X-Hop", "X-Too-Late"} {
		if v := second.Header[name]; v != nil {
			t.Errorf("the replay has %s: %q", name, v)
		}
	}
	for _, name := range []string{"Hx-Trigger", "Etag"} {
		if a, b := first.Header.Get(name), second.Header.Get(name); a == "" || a != b {
			t.Errorf("%s: %q, then %q", name, a, b)
		}
	}
}

func TestWhatStandsOutsideTheGuardKeepsItsHeaders(t *testing.T) {
	store := memstore.New(memstore.Config{})
	guard, err := onceward.New(store, onceward.Unscoped, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close(context.Background())
	n := 0
	inner := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w.Header().Get("X-Outer") == "" {
			t.Error("the handler does not see what was set outside")
		}
		w.Header().Del("X-Gone")
		w.Header().Set("X-Inner", "1")
	}))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("X-Outer", fmt.Sprint(n))
		w.Header().Set("X-Gone", "1")
		inner.ServeHTTP(w, r)
	})
	first, second := httptest.NewRecorder(), httptest.NewRecorder()
	h.ServeHTTP(first, request("k", ""))
	h.ServeHTTP(second, request("k", ""))
	if first.Header().Get("X-Gone") != "" {
		t.Error("a header that the handler deleted came back")
	}
	if got := second.Header().Get("X-Outer"); got != "2" {
		t.Errorf("the replay has the first answer's X-Outer: %q", got)
	}
	if second.Header().Get("X-Inner") != "1" {
		t.Error("the replay lost X-Inner")
	}
}

func TestALargeAnswerArrivesWholeAndReplaysWithoutItsBody(t *testing.T) { // R8, B059
	const size = 3 << 20
	srv := server(t, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"big"`)
		chunk := bytes.Repeat([]byte("x"), 1<<10)
		for range size >> 10 {
			_, _ = w.Write(chunk)
		}
	})
	_, body, err := send(t, srv.URL, "k", "x")
	if err != nil || len(body) != size {
		t.Fatalf("got %d bytes, %v", len(body), err)
	}
	resp, body, err := send(t, srv.URL, "k", "x")
	if err != nil || len(body) != 0 || resp.StatusCode != 200 {
		t.Fatalf("the replay: %d with %d bytes, %v", resp.StatusCode, len(body), err)
	}
	if got, want := resp.Header.Get("Idempotency-Status"), `replayed;body=omitted;key="k"`; got != want {
		t.Errorf("status %q, want %q", got, want)
	}
	if resp.Header.Get("HX-Reswap") != "none" || resp.Header.Get("ETag") != "" {
		t.Errorf("headers %v", resp.Header)
	}
}

func TestAFullSpoolLetsALargeAnswerStreamThrough(t *testing.T) {
	srv := server(t, onceward.Config{MaxSpool: 1, MaxResponse: 10}, func(w http.ResponseWriter, r *http.Request) {
		for range 10 {
			_, _ = io.WriteString(w, "0123456789")
		}
	})
	_, body, err := send(t, srv.URL, "k", "")
	if err != nil || len(body) != 100 {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	resp, _, _ := send(t, srv.URL, "k", "")
	if got := resp.Header.Get("Idempotency-Status"); got != `replayed;body=omitted;key="k"` {
		t.Error(got)
	}
}

func TestAFlushedAnswerFlowsButItsEndWaitsForTheRecord(t *testing.T) { // B113, B112
	for _, length := range []string{"", "8"} {
		store := &faulty{Store: memstore.New(memstore.Config{})}
		entered, leave := make(chan struct{}), make(chan struct{})
		store.complete = func() error { close(entered); <-leave; store.complete = nil; return nil }
		r := newRig(t, store, onceward.Config{}, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			_, _ = io.WriteString(w, "one\n")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "two\n")
			w.(http.Flusher).Flush()
		})
		srv := httptest.NewServer(r.h)
		req, _ := http.NewRequest("POST", srv.URL, nil)
		req.Header.Set("X-User", "ann")
		req.Header.Set("Idempotency-Key", "k")
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := bufio.NewReader(resp.Body)
		if line, err := body.ReadString('\n'); line != "one\n" {
			t.Fatalf("%q, %v", line, err)
		}
		<-entered
		ended := make(chan []byte, 1)
		go func() { rest, _ := io.ReadAll(body); ended <- rest }()
		select {
		case rest := <-ended:
			t.Errorf("the answer ended before it was recorded: %q", rest)
		case <-time.After(50 * time.Millisecond):
		}
		close(leave)
		if rest := <-ended; string(rest) != "two\n" {
			t.Errorf("rest %q", rest)
		}
		resp.Body.Close()
		srv.Close()
		w := r.post("k", "", "Content-Type", "")
		_ = w
	}
}

func TestHalfAnAnswerIsNeverKept(t *testing.T) { // B108, design: ErrAbortHandler after 5 of 100 bytes
	for name, end := range map[string]func(){
		"abort": func() { panic(http.ErrAbortHandler) }, "return": func() {},
	} {
		for _, flush := range []bool{false, true} {
			n := 0
			srv := server(t, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
				n++
				if n > 1 {
					_, _ = io.WriteString(w, "whole")
					return
				}
				w.Header().Set("Content-Length", "100")
				w.WriteHeader(201)
				_, _ = io.WriteString(w, "12345")
				if flush {
					w.(http.Flusher).Flush()
				}
				end()
			})
			if _, b, err := send(t, srv.URL, "k", ""); err == nil {
				t.Errorf("%s, flush %v: the client took half an answer for a whole one: %q", name, flush, b)
			}
			resp, b, err := send(t, srv.URL, "k", "")
			if err != nil || string(b) != "whole" || !strings.HasPrefix(resp.Header.Get("Idempotency-Status"), "executed") {
				t.Errorf("%s, flush %v: the retry got %q, %v", name, flush, b, err)
			}
		}
	}
}

func TestNobodyReachesPastTheCapture(t *testing.T) { // B038
	srv := server(t, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if _, _, err := rc.Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack: %v", err)
		}
		if err := rc.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("SetWriteDeadline: %v", err)
		}
		if _, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
			t.Error("the capture can be unwrapped")
		}
		w.WriteHeader(http.StatusEarlyHints) // passes through
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
			t.Errorf("a body of a 204: %v", err)
		}
		w.WriteHeader(500) // superfluous
	})
	resp, _, err := send(t, srv.URL, "k", "")
	if err != nil || resp.StatusCode != 204 {
		t.Fatal(resp, err)
	}
}

func TestTrailersReachTheFirstClient(t *testing.T) {
	srv := server(t, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
	})
	resp, _, err := send(t, srv.URL, "k", "")
	if err != nil || resp.Trailer.Get("X-Sum") != "42" {
		t.Errorf("trailer %v, %v", resp.Trailer, err)
	}
}

func TestCORSHeadersAreReplayedToTheSameOriginOnly(t *testing.T) { // design 3.4; B118
	srv := server(t, onceward.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	})
	first, _, _ := send(t, srv.URL, "k", "", "Origin", "https://a.example")
	if !strings.Contains(first.Header.Get("Access-Control-Expose-Headers"), "Idempotency-Status") {
		t.Error("the page cannot read Idempotency-Status")
	}
	same, _, _ := send(t, srv.URL, "k", "", "Origin", "https://a.example")
	other, _, _ := send(t, srv.URL, "k", "", "Origin", "https://b.example")
	if same.Header.Get("Access-Control-Allow-Origin") != "https://a.example" {
		t.Error("the same origin lost its header")
	}
	if v := other.Header.Get("Access-Control-Allow-Origin"); v != "" {
		t.Errorf("another origin got %q", v)
	}
}

// raw sends one request as it stands and returns all that comes back until the
// server closes the connection.
func raw(t *testing.T, srv *httptest.Server, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn) // a cut connection is an answer too
	return string(answer)
}

// To a client of HTTP/1.0 the end of the connection is the end of the answer: a
// crash in mid-stream looks just like a success, so nothing may have been
// promised by then.
func TestAnAnswerWithoutAVisibleEndPromisesNothingBeforeItIsRecorded(t *testing.T) { // B108, B113
	for name, unframed := range map[string]struct{ proto, te string }{
		"HTTP/1.0": {"HTTP/1.0", ""},
		"identity": {"HTTP/1.1", "identity"},
	} {
		t.Run(name, func(t *testing.T) {
			var fail atomic.Bool
			srv := server(t, onceward.Config{MaxSpool: 8, MaxResponse: 4}, func(w http.ResponseWriter, r *http.Request) {
				if unframed.te != "" {
					w.Header().Set("Transfer-Encoding", unframed.te)
				}
				_, _ = io.WriteString(w, "half ")
				if r.URL.Query().Get("full") != "" {
					_, _ = io.WriteString(w, strings.Repeat("an answer ", 2000)) // more than the spool has room for
				} else {
					w.(http.Flusher).Flush()
				}
				if fail.Load() {
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, "whole")
			})
			for _, path := range []string{"/flushed", "/flushed?full=1"} {
				fail.Store(true)
				req := "POST " + path + " " + unframed.proto + "\r\nHost: x\r\nConnection: close\r\nX-User: ann\r\nIdempotency-Key: " + path + "\r\nContent-Length: 1\r\n\r\nx"
				got := raw(t, srv, req)
				framed := strings.Contains(got, "Transfer-Encoding: chunked")
				if strings.Contains(got, "Status: executed") && !framed {
					t.Errorf("%s: half an answer says that the work is done:\n%s", path, got)
				}
				fail.Store(false)
				got = raw(t, srv, req)
				if !strings.Contains(got, "half ") || !strings.Contains(got, "whole") {
					t.Errorf("%s: the retry got\n%s", path, got)
				}
				if got = raw(t, srv, req); !strings.Contains(got, "Status: replayed") {
					t.Errorf("%s: the repeat got\n%s", path, got)
				}
			}
		})
	}
}

func TestAWriterThatIsKeptAfterTheEndTouchesNoAnswer(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan error, 1)
	r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "mine")
		go func() {
			for {
				select {
				case <-stop:
					_, err := io.WriteString(w, "late")
					stopped <- err
					return
				default:
					_, _ = io.WriteString(w, "")
					_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
				}
			}
		}()
	})
	w := r.post("k", "x")
	close(stop)
	if err := <-stopped; err == nil {
		t.Error("a write after the handler's end was accepted")
	}
	if w.Body.String() != "mine" {
		t.Errorf("got %q", w.Body)
	}
	if again := r.post("k", "x"); again.Body.String() != "mine" {
		t.Errorf("the replay has %q", again.Body)
	}
}

// brokenPipe is a writer outside the guard that gives up on a client by panic.
type brokenPipe struct{ *httptest.ResponseRecorder }

func (brokenPipe) Write([]byte) (int, error) { panic(http.ErrAbortHandler) }

func TestAWriterThatPanicsKeepsNoRoomInTheSpool(t *testing.T) {
	r := newRig(t, nil, onceward.Config{MaxMemory: 4, MaxResponse: 4, MaxSpool: 100}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 60))
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		r.h.ServeHTTP(brokenPipe{httptest.NewRecorder()}, request("k", "x"))
	}()
	chunked := request("k2", strings.Repeat("y", 60))
	chunked.ContentLength = -1
	want(t, r.do(chunked), 200, "executed") // not 503: the spool is empty
}

func TestAFlushedAnswersReplayExposesItsHeadersOnce(t *testing.T) { // B118
	r := newRig(t, nil, onceward.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = io.WriteString(w, "x")
		w.(http.Flusher).Flush()
	})
	first := r.post("k", "x").Header()["Access-Control-Expose-Headers"]
	again := r.post("k", "x").Header()["Access-Control-Expose-Headers"]
	if len(first) != 1 || len(again) != 1 || first[0] != again[0] {
		t.Errorf("first %q, then %q", first, again)
	}
}
