package gateway_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/gateway"
)

// raw sends bytes over a connection of their own and reads all that comes back before
// the gateway closes it.
func raw(t *testing.T, addr, text string) (answers []answer) {
	t.Helper()
	c := dial(t, addr)
	go io.WriteString(c.Conn, text) // it may be refused in the middle
	for {
		if _, err := c.br.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
			return append(answers, answer{err: err}) // it stays open
		} else if err != nil {
			return answers
		}
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		a := c.answer("POST")
		if a.err != nil {
			return answers
		}
		answers = append(answers, a)
		if a.header.Get("Connection") != "close" && strings.Contains(text, "the last") {
			c.Conn.Close()
			return answers
		}
	}
}

// both tries a shape without a key and with one.
func both(t *testing.T, test func(t *testing.T, key string)) {
	for name, key := range map[string]string{"without a key": "", "with a key": "Idempotency-Key: k\r\n"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, key) })
	}
}

// R: about where a request ends two servers must not differ. What cannot be read in one
// way only is refused before the application hears of it, and ends its connection.
func TestARequestWhoseEndCanBeReadInTwoWaysIsRefused(t *testing.T) {
	both(t, func(t *testing.T, key string) {
		app := serve(t, true, always(created))
		addr := front(t, app.url(), gateway.Config{})
		const chunks, smuggled = "5\r\nhello\r\n0\r\n\r\n", "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
		head := "POST /a HTTP/1.1\r\nHost: x\r\n" + key
		for name, c := range map[string]struct {
			text   string
			status int
		}{
			"two lengths":                {head + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nhello", 400},
			"a list of lengths":          {head + "Content-Length: 5, 5\r\n\r\nhello", 400},
			"a signed length":            {head + "Content-Length: +5\r\n\r\nhello", 400},
			"a negative length":          {head + "Content-Length: -5\r\n\r\nhello", 400},
			"a hexadecimal length":       {head + "Content-Length: 0x5\r\n\r\nhello", 400},
			"an unknown coding":          {head + "Transfer-Encoding: xchunked\r\n\r\n" + chunks, 501},
			"two codings":                {head + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks, 501},
			"a coding, and another":      {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunks, 501},
			"a coding behind a control":  {head + "Transfer-Encoding: \x0bchunked\r\n\r\n" + chunks, 400},
			"a blank before the colon":   {head + "Transfer-Encoding : chunked\r\n\r\n" + chunks, 400},
			"a NUL":                      {head + "X-A: a\x00b\r\nContent-Length: 5\r\n\r\nhello", 400},
			"a bare CR":                  {head + "X-A: a\rContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello", 400},
			"a field with no name":       {head + ": a\r\nContent-Length: 5\r\n\r\nhello", 400},
			"a field with no colon":      {head + "abc\r\nContent-Length: 5\r\n\r\nhello", 400},
			"a name that is none":        {head + "X(A): a\r\nContent-Length: 5\r\n\r\nhello", 400},
			"two hosts":                  {head + "Host: y\r\nContent-Length: 5\r\n\r\nhello", 400},
			"no host":                    {"POST /a HTTP/1.1\r\n" + key + "Content-Length: 5\r\n\r\nhello", 400},
			"a host that is none":        {"POST /a HTTP/1.1\r\nHost: x/y@z\r\n" + key + "Content-Length: 5\r\n\r\nhello", 400},
			"a blank before the method":  {" " + head + "Content-Length: 5\r\n\r\nhello", 400},
			"a method of two words":      {"PO ST /a HTTP/1.1\r\nHost: x\r\n" + key + "Content-Length: 5\r\n\r\nhello", 400},
			"tabs for blanks":            {"POST\t/a\tHTTP/1.1\r\nHost: x\r\n" + key + "Content-Length: 5\r\n\r\nhello", 400},
			"a target that is none":      {"POST /100% HTTP/1.1\r\nHost: x\r\n" + key + "Content-Length: 5\r\n\r\nhello", 400},
			"no version":                 {"POST /a\r\nHost: x\r\n" + key + "\r\n", 400},
			"HTTP/2's preface":           {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
			"a chunk of negative size":   {head + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n", 400},
			"a chunk of size 0x5":        {head + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", 400},
			"a chunk longer than itself": {head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n", 400},
			"a chunk's line ends in LF":  {head + "Transfer-Encoding: chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\n", 400},
			"a length in the trailer":    {head + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 1\r\n\r\n", 400},
			"an expectation of more":     {head + "Expect: more\r\nContent-Length: 5\r\n\r\nhello", 417},
		} {
			got := raw(t, addr, c.text+smuggled)
			if len(got) != 1 || got[0].status != c.status {
				t.Errorf("%s: answered %v, want one %d", name, got, c.status)
			}
		}
		if n := len(app.arrivals()); n != 0 {
			t.Errorf("the application was asked %d times:\n%q", n, app.arrivals())
		}
	})
}

// R: where the standard says which of two readings holds, the request goes on with that
// alone, framed anew; what follows on the connection, which somebody in front may have
// taken for this request's body, is not read.
func TestWhatFollowsADoubtfulEndIsNoRequest(t *testing.T) {
	both(t, func(t *testing.T, key string) {
		app := serve(t, true, always(created))
		addr := front(t, app.url(), gateway.Config{})
		const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
		arrived := 0
		for name, c := range map[string]struct{ text, body string }{
			"a length and chunks":   {"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n" + key + "\r\n5\r\nhello\r\n0\r\n\r\n", "hello"},
			"chunks and a length":   {"POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 999\r\n" + strings.Replace(key, "k", "b", 1) + "\r\n5;x=y\r\nhello\r\n0\r\n\r\n", "hello"},
			"HTTP/1.0, kept alive":  {"POST /c HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 5\r\n" + strings.Replace(key, "k", "c", 1) + "\r\nhello", "hello"},
			"HTTP/1.0, with chunks": {"POST /d HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n" + strings.Replace(key, "k", "d", 1) + "\r\nhello", "hello"},
		} {
			got := raw(t, addr, c.text+smuggled)
			if len(got) != 1 || got[0].status != 201 {
				t.Errorf("%s: answered %v, want one 201", name, got)
			}
			arrived++
			app.wantArrivals(arrived)
			all := app.arrivals()
			last := all[len(all)-1]
			if framed := strings.Count(last, "Content-Length: ") + strings.Count(last, "Transfer-Encoding: "); framed != 1 || !strings.Contains(last, c.body) {
				t.Errorf("%s: the application got %q", name, last)
			}
		}
	})
}

// An HTTP/1.0 body has a length, or there is none. Chunks are no way to end one there,
// and net/http drops them unseen: the application must not be asked with half a request.
func TestAnHTTP10RequestNeedsALength(t *testing.T) {
	both(t, func(t *testing.T, key string) {
		app := serve(t, true, always(created))
		addr := front(t, app.url(), gateway.Config{})
		for _, text := range []string{
			"POST /a HTTP/1.0\r\nHost: x\r\n" + key + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
			"PUT /a HTTP/1.0\r\nHost: x\r\n" + key + "\r\nhello",
		} {
			if got := raw(t, addr, text); len(got) != 1 || got[0].status != http.StatusLengthRequired {
				t.Errorf("answered %v, want 411", got)
			}
		}
		app.wantArrivals(0)
		if got := raw(t, addr, "DELETE /a HTTP/1.0\r\n"+key+"\r\n"); len(got) != 1 || got[0].status != 201 {
			t.Errorf("answered %v", got)
		}
		if got := raw(t, addr, "GET /a HTTP/1.0\r\n\r\n"); len(got) != 1 || got[0].status != 201 {
			t.Errorf("answered %v", got)
		}
		app.wantArrivals(2)
	})
}

// R: a head may have 1 MiB; more is 431, and the application is not asked.
func TestAHugeHeadIsRefused(t *testing.T) {
	both(t, func(t *testing.T, key string) {
		app := serve(t, true, always(created))
		addr := front(t, app.url(), gateway.Config{})
		rest := "Host: x\r\n" + key + "Content-Length: 5\r\n\r\nhello"
		huge := strings.Repeat("a", 2<<20)
		for name, text := range map[string]string{
			"field": "POST / HTTP/1.1\r\nX-A: " + huge + "\r\n" + rest, "target": "POST /" + huge + " HTTP/1.1\r\n" + rest,
			"fields": "POST / HTTP/1.1\r\n" + strings.Repeat("X-A: aaaaaaaa\r\n", 150_000) + rest,
		} {
			if got := raw(t, addr, text); len(got) != 1 || got[0].status != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s: answered %v, want 431", name, got)
			}
		}
		app.wantArrivals(0)
		large := strings.Repeat("b", 500<<10)
		send(t, addr, "POST", "/", "hello", "X-A", large).want(t, 201, "")
		app.wantArrivals(1)
		if !strings.Contains(app.arrivals()[0], "X-A: "+large+"\r\n") {
			t.Error("a large field did not arrive whole")
		}
	})
}

// R: the trailer that a request announced arrives with it, with a key or without; what it
// did not announce, and what only the gateway may say, does not.
func TestATrailerArrivesAsItWasAnnounced(t *testing.T) {
	both(t, func(t *testing.T, key string) {
		app := serve(t, true, always(created))
		addr := front(t, app.url(), gateway.Config{})
		got := raw(t, addr, "POST /a HTTP/1.1\r\nHost: x\r\n"+key+"Transfer-Encoding: chunked\r\nTrailer: X-Sum, X-Forwarded-For\r\nTrailer: X_Forwarded_Host, X-Never\r\n\r\n"+
			"5\r\nhello\r\n0\r\nX-Sum: 42\r\nX-Forwarded-For: 9.9.9.9\r\nX_Forwarded_Host: evil.test\r\nCookie: s=ann\r\nContent-Length: 7\r\n\r\n")
		if len(got) != 1 || got[0].status != 201 {
			t.Fatalf("answered %v", got)
		}
		app.wantArrivals(1)
		head, rest, _ := strings.Cut(app.arrivals()[0], "\r\n\r\n")
		if rest != "5\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n" {
			t.Errorf("the body and its trailer arrived as %q", rest)
		}
		if !strings.Contains(head, "\r\nTrailer: X-Never,X-Sum\r\n") || !strings.Contains(head, "\r\nTransfer-Encoding: chunked\r\n") || strings.Contains(head, "Content-Length") {
			t.Errorf("the head arrived as %q", head)
		}
		if key != "" {
			again := raw(t, addr, "POST /a HTTP/1.1\r\nHost: x\r\n"+key+"Content-Length: 5\r\nX: the last\r\n\r\nhello")
			if len(again) != 1 || again[0].outcome() != "replayed" {
				t.Errorf("answered %v", again)
			}
			app.wantArrivals(1)
		}
	})
}

// R: a body without a key that breaks off or is malformed on its way is the client's
// fault, and nobody is told that the application failed.
func TestABrokenBodyIsNotTheApplicationsFault(t *testing.T) {
	t.Parallel()
	app := serve(t, false, func(a *arrival) bool { io.Copy(io.Discard, a.Body); return false })
	addr := front(t, app.url(), gateway.Config{})
	for _, kind := range []string{"application/octet-stream", "multipart/form-data; boundary=b"} {
		c := dial(t, addr)
		c.say("POST /files HTTP/1.1\r\nHost: x\r\nContent-Type: " + kind + "\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n" + strings.Repeat("x", 0x2000) + "\r\nwhat?\r\n")
		if got := c.answer("POST"); got.status != http.StatusBadRequest || got.outcome() != "" {
			t.Errorf("%s: answered %v", kind, got)
		}
	}
}

// R: who expects a 100 is told at once that the body would be too large, or that nobody
// knows whose it is: it need not be sent.
func TestABodyThatWouldBeRefusedIsNotAskedFor(t *testing.T) {
	t.Parallel()
	app := serve(t, true, always(created))
	addr := frontScoped(t, app.url(), gateway.Cookie("s"), gateway.Config{})
	for head, want := range map[string]int{
		"Cookie: s=ann\r\nIdempotency-Key: k\r\nContent-Length: 99999999\r\n": http.StatusRequestEntityTooLarge,
		"Cookie: s=ann\r\nIdempotency-Key: a, b\r\nContent-Length: 5\r\n":     http.StatusBadRequest,
		"Idempotency-Key: k\r\nContent-Length: 5\r\n":                         http.StatusUnauthorized,
	} {
		c := dial(t, addr)
		c.say("POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + head + "\r\n")
		if got := c.answer("POST"); got.status != want {
			t.Errorf("answered %v, want %d", got, want)
		}
	}
	app.wantArrivals(0)
}
