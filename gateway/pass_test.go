package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/gateway"
)

// lines splits a head into its first line and its fields, in order of names but
// with the lines of one name as they stood.
func lines(head string) (first string, fields []string) {
	head, _, _ = strings.Cut(head, "\r\n\r\n")
	all := strings.Split(head, "\r\n")
	slices.SortStableFunc(all[1:], func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	})
	return all[0], all[1:]
}

func wantHead(t *testing.T, got, first string, fields ...string) {
	t.Helper()
	gotFirst, gotFields := lines(got)
	_, fields = lines("\r\n" + strings.Join(fields, "\r\n"))
	if gotFirst != first || !slices.Equal(gotFields, fields) {
		t.Errorf("the head is\n%s\n%q\nwant\n%s\n%q", gotFirst, gotFields, first, fields)
	}
}

// R: everything that bears no key passes as it came, both ways: method, target,
// header lines, framing and body.
func TestARequestWithoutAKeyPassesByteForByte(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 5<<20/16)
	for _, c := range []struct {
		method  string
		body    string
		chunked bool
	}{
		{"GET", "", false}, {"HEAD", "", false}, {"OPTIONS", "", false}, {"TRACE", "", false},
		{"POST", "", false}, {"PUT", "x", false}, {"PATCH", large[:64<<10], false}, {"POST", large, true},
		{"DELETE", "", false}, {"PROPFIND", "x", false}, {"patch", "x", false}, {"GET", "x", false}, {"POST", "", true},
	} {
		t.Run(fmt.Sprintf("%s %d %v", c.method, len(c.body), c.chunked), func(t *testing.T) {
			t.Parallel()
			// The answer's body is the request's, framed in the same way.
			app := serve(t, true, func(a *arrival) bool {
				body, _ := io.ReadAll(a.Body)
				a.say("HTTP/1.1 200 OK\r\nserver: app/1\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Twice: b, c\r\nX-Twice: a;\"ä\"\r\nSet-Cookie: s=1; Path=/\r\nSet-Cookie: t=2\r\nX-Empty:\r\n")
				switch {
				case a.Method == "HEAD":
					a.say("Content-Length: 7\r\n\r\n")
				case c.chunked:
					a.say("Transfer-Encoding: chunked\r\n\r\n")
					if len(body) > 0 {
						a.say(fmt.Sprintf("%x\r\n%s\r\n", len(body), body))
					}
					a.say("0\r\n\r\n")
				default:
					a.say(fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
				}
				return true
			})
			addr := front(t, app.url(), gateway.Config{})
			conn := dial(t, addr)
			sent := []string{
				"Host: shop.test:99", "Cookie: a=1; b=\"2\"", "Cookie: c=3", "Accept: text/html;q=0.9, */*", "X-Empty: ",
				"Authorization: Basic eDp5", "Content-Type: Text/Plain; charset=\"UTF-8\"", "Idempotency-Keyless: no",
			}
			framing := []string{}
			body := c.body
			switch {
			case c.chunked:
				framing = []string{"Transfer-Encoding: chunked"}
				body = ""
				if c.body != "" {
					body = fmt.Sprintf("%x\r\n%s\r\n", len(c.body), c.body)
				}
				body += "0\r\n\r\n"
			case c.body != "" || c.method == "POST":
				framing = []string{fmt.Sprintf("Content-Length: %d", len(c.body))}
			}
			conn.say(c.method + " /a%2Fb//c/../d?x=1;y=%zz HTTP/1.1\r\n" + strings.Join(slices.Concat(sent, framing), "\r\n") + "\r\n\r\n")
			go io.WriteString(conn.Conn, body)

			got := conn.head()
			answered := []string{"Date: Thu, 01 Jan 1970 00:00:00 GMT", "Server: app/1", "Set-Cookie: s=1; Path=/", "Set-Cookie: t=2", "X-Empty: ", "X-Twice: b, c", "X-Twice: a;\"ä\""}
			switch {
			case c.method == "HEAD":
				answered = append(answered, "Content-Length: 7")
			case c.chunked:
				// This is the last one on its connection, whatever may follow.
				answered = append(answered, "Connection: close", "Transfer-Encoding: chunked")
			default:
				answered = append(answered, fmt.Sprintf("Content-Length: %d", len(c.body)))
			}
			wantHead(t, got, "HTTP/1.1 200 OK", answered...)
			res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(got), conn.br)), &http.Request{Method: c.method})
			if err != nil {
				t.Fatal(err)
			}
			echo, err := io.ReadAll(res.Body)
			if err != nil || string(echo) != c.body {
				t.Errorf("the answer's body has %d bytes, want %d (%v)", len(echo), len(c.body), err)
			}

			app.wantArrivals(1)
			head, rest, _ := strings.Cut(app.arrivals()[0], "\r\n\r\n")
			forwarded := []string{"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: shop.test:99", "X-Forwarded-Proto: http"}
			if !slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE"}, c.method) {
				forwarded = append(forwarded, "Connection: close")
			}
			wantHead(t, head, c.method+" /a%2Fb//c/../d?x=1;y=%zz HTTP/1.1", slices.Concat(sent, framing, forwarded)...)
			if !c.chunked && rest != c.body {
				t.Errorf("the body at the application has %d bytes, want %d", len(rest), len(c.body))
			}
		})
	}
}

// R: a target goes on as it came: encoded slashes, double slashes, dot segments,
// what no URI may have, a bare question mark.
func TestATargetPassesByteForByte(t *testing.T) {
	app := serve(t, true, always("HTTP/1.1 204 No Content\r\n\r\n"))
	addr := front(t, app.url(), gateway.Config{})
	for _, target := range []string{
		"/", "/?", "/a?", "/?a=1;b=2&c=%zz&&=", "//", "//a//b/", "/a/../b/./c", "/a%2Fb", "/a%2fb", "/%e9?%ff", "/a+b%20c",
		"/a|b\"<c>^`{d}", "/\xc3\xa4/\xff", "/a:b@c", "/a;v=1,2", "/a%00b", "/a\\b", "/?u=http://x/y?z#w", "///x", "/*",
	} {
		for _, method := range []string{"GET", "POST"} {
			before := len(app.arrivals())
			send(t, addr, method, target, "").want(t, 204, "")
			app.wantArrivals(before + 1)
			first, _ := lines(app.arrivals()[before])
			if want := method + " " + target + " HTTP/1.1"; first != want {
				t.Errorf("%q arrived as %q", want, first)
			}
		}
	}
	for sent, want := range map[string]string{
		"OPTIONS *":                              "OPTIONS *",
		"GET http://shop.test/a%2Fb?c":           "GET /a%2Fb?c",
		"GET http://shop.test":                   "GET /",
		"POST http://shop.test?x=http://y.test/": "POST /?x=http://y.test/",
	} {
		method, target, _ := strings.Cut(sent, " ")
		before := len(app.arrivals())
		send(t, addr, method, target, "").want(t, 204, "")
		app.wantArrivals(before + 1)
		if first, _ := lines(app.arrivals()[before]); first != want+" HTTP/1.1" {
			t.Errorf("%q arrived as %q", sent, first)
		}
	}
	if got := send(t, addr, "CONNECT", "other.test:80", ""); got.status != http.StatusNotImplemented {
		t.Errorf("CONNECT: %v", got)
	}
}

// R: hop-by-hop fields end here, and who asked is told by the gateway, not by the
// client, unless the client is a proxy that is trusted.
func TestHopByHopAndForwardingFields(t *testing.T) {
	app := serve(t, true, always("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nX-Kept: 1\r\n\r\n"))
	plain := front(t, app.url(), gateway.Config{})
	behind := front(t, app.url(), gateway.Config{TrustProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	other := front(t, app.url(), gateway.Config{TrustProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	header := []string{
		"Connection", "X-Mine, keep-alive", "X-Mine", "1", "Keep-Alive", "5", "Proxy-Authorization", "Basic eDp5", "TE", "trailers, gzip",
		"X-Forwarded-For", "1.2.3.4", "X-Forwarded-For", "5.6.7.8", "X-Forwarded-Host", "evil.test", "X-Forwarded-Proto", "https", "Forwarded", "for=1.2.3.4", "X-Kept", "1",
		"X_Forwarded_For", "9.9.9.9", "x-forwarded_proto", "https", "X_Kept", "1",
	}
	for addr, want := range map[string][]string{
		plain:  {"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: shop.test", "X-Forwarded-Proto: http"},
		other:  {"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: shop.test", "X-Forwarded-Proto: http"},
		behind: {"X-Forwarded-For: 1.2.3.4, 5.6.7.8, 127.0.0.1", "X-Forwarded-Host: evil.test", "X-Forwarded-Proto: https", "Forwarded: for=1.2.3.4"},
	} {
		before := len(app.arrivals())
		got := send(t, addr, "GET", "/", "", header...)
		got.want(t, 200, "")
		for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Authenticate", "Connection"} {
			if v := got.header[name]; v != nil {
				t.Errorf("the client got %s: %q", name, v)
			}
		}
		if got.header.Get("X-Kept") != "1" {
			t.Error("X-Kept was lost")
		}
		wantHead(t, app.arrivals()[before], "GET / HTTP/1.1", append(want, "Host: shop.test", "X-Kept: 1", "X_kept: 1", "Te: trailers")...)
	}
}

// R, go#80416: only a websocket gets a tunnel; h2c and the rest are asked as if
// they had not wanted one.
func TestOnlyAWebsocketIsUpgraded(t *testing.T) {
	app := serve(t, true, func(a *arrival) bool {
		if a.Header.Get("Upgrade") != "websocket" {
			a.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain")
			return true
		}
		a.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(a.conn, a.br) // what is said is said back
		return false
	})
	addr := front(t, app.url(), gateway.Config{})
	c := dial(t, addr)
	c.say("GET /ws HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nIdempotency-Key: k\r\n\r\n")
	if head := c.head(); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("answered %q", head)
	}
	for _, text := range []string{"hello", strings.Repeat("x", 100_000)} {
		go io.WriteString(c.Conn, text)
		back := make([]byte, len(text))
		if _, err := io.ReadFull(c.br, back); err != nil || string(back) != text {
			t.Errorf("the tunnel gave %.20q back (%v)", back, err)
		}
	}
	for _, c := range [][]string{{"GET", "h2c"}, {"GET", "websocket, h2c"}, {"GET", "TLS/1.0"}, {"POST", "websocket"}} {
		before := len(app.arrivals())
		got := send(t, addr, c[0], "/", "", "Connection", "Upgrade, HTTP2-Settings", "Upgrade", c[1], "HTTP2-Settings", "AAMAAABkAAQAAP__")
		if got.status != 200 || got.body != "plain" {
			t.Errorf("%s with Upgrade: %s: %v", c[0], c[1], got)
		}
		if raw := app.arrivals()[before]; strings.Contains(raw, "Upgrade") || strings.Contains(raw, "Settings") {
			t.Errorf("the application got %q", raw)
		}
	}
}

// B112, B113: events flow one by one.
func TestAnEventReachesTheClientBeforeTheNextOneIsMade(t *testing.T) {
	for _, method := range []string{"GET", "POST", "POST keyed"} {
		next := make(chan bool)
		app := serve(t, true, func(a *arrival) bool {
			a.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
			for i := range 3 {
				event := fmt.Sprintf("data: %d\n\n", i)
				a.say(fmt.Sprintf("%x\r\n%s\r\n", len(event), event))
				<-next
			}
			a.say("0\r\n\r\n")
			return true
		})
		addr := front(t, app.url(), gateway.Config{})
		c := dial(t, addr)
		m, keyed := strings.CutSuffix(method, " keyed")
		key := ""
		if keyed {
			key = "Idempotency-Key: k\r\n"
		}
		c.say(m + " /events HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\nAccept: application/json\r\n" + key + "\r\n")
		head := c.head()
		body := bufio.NewReader(httpChunks(c))
		for i := range 3 {
			line, err := body.ReadString('\n')
			if want := fmt.Sprintf("data: %d\n", i); line != want || err != nil {
				t.Fatalf("%s: got %q (%v), want %q", method, line, err, want)
			}
			body.ReadString('\n')
			next <- true
		}
		if _, err := body.ReadByte(); err != io.EOF {
			t.Errorf("%s: the stream ended with %v", method, err)
		}
		if !keyed {
			continue
		}
		if !strings.Contains(head, `Idempotency-Status: executed;key="k"`) {
			t.Errorf("the head is %q", head)
		}
		again := send(t, addr, "POST", "/events", "", "Accept", "application/json", "Idempotency-Key", "k")
		again.want(t, 200, "replayed")
		if !strings.Contains(again.header.Get("Idempotency-Status"), "body=omitted") {
			t.Errorf("a stream was replayed as %v", again)
		}
		app.wantArrivals(1)
	}
}

func httpChunks(c *client) io.Reader {
	res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), c.br)), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.Body
}

// R: an upload without a key is not stored before it goes on.
func TestAnUploadWithoutAKeyGoesOnAsItComes(t *testing.T) {
	for _, kind := range []string{"application/octet-stream", "multipart/form-data; boundary=b"} {
		part := make(chan int)
		app := serve(t, false, func(a *arrival) bool {
			first := make([]byte, 100_000)
			n, _ := io.ReadFull(a.Body, first)
			part <- n
			rest, _ := io.Copy(io.Discard, a.Body)
			part <- int(rest)
			a.say(created)
			return true
		})
		addr := front(t, app.url(), gateway.Config{})
		c := dial(t, addr)
		start := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
		c.say("POST /files HTTP/1.1\r\nHost: x\r\nContent-Type: " + kind + "\r\nContent-Length: 300000\r\n\r\n")
		c.say(start + strings.Repeat("x", 100_000-len(start)))
		if n := <-part; n != 100_000 { // the client has not sent the rest yet
			t.Fatalf("%s: %d bytes came", kind, n)
		}
		c.say(strings.Repeat("y", 200_000))
		if n := <-part; n != 200_000 {
			t.Errorf("%s: then %d bytes came", kind, n)
		}
		c.answer("POST").want(t, 201, "")
	}
}

// R: who expects a 100 gets the application's own word before the body is sent.
func TestExpectContinueIsTheApplicationsToAnswer(t *testing.T) {
	app := serve(t, true, func(a *arrival) bool {
		if a.URL.Path == "/refused" {
			a.say("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return false
		}
		if a.Header.Get("Expect") != "" {
			a.say("HTTP/1.1 100 Continue\r\n\r\n")
		}
		body, _ := io.ReadAll(a.Body)
		a.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		return false
	})
	addr := front(t, app.url(), gateway.Config{})
	for _, key := range []string{"", "Idempotency-Key: k\r\n"} {
		c := dial(t, addr)
		c.say("POST /taken HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n" + key + "\r\n")
		if head := c.head(); !strings.HasPrefix(head, "HTTP/1.1 100 ") {
			t.Fatalf("answered %q", head)
		}
		c.say("milk")
		if got := c.answer("POST"); got.status != 200 || got.body != "milk" {
			t.Errorf("answered %v", got)
		}
		// With a key the body is here already: nobody need wait for a word about it.
		if all := app.arrivals(); strings.Contains(all[len(all)-1], "Expect: ") != (key == "") {
			t.Errorf("%q: the application got %q", key, all[len(all)-1])
		}
	}
	// The gateway waits a second for the application's word; a machine may be so busy
	// that this is over.
	head := ""
	for range 5 {
		c := dial(t, addr)
		c.say("POST /refused HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
		if head = c.head(); strings.HasPrefix(head, "HTTP/1.1 413 ") {
			return
		}
	}
	t.Errorf("answered %q", head)
}

// B115, B116, B117, R: what an answer is stays what it is: early hints, trailers,
// codings, a missing type, redirects, answers without a body.
func TestAnAnswerPassesAsItIs(t *testing.T) {
	answers := map[string]string{
		"/hints":    "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"/trailers": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 42\r\n\r\n",
		"/gzip":     "HTTP/1.1 422 Unprocessable\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\nVary: Accept-Encoding\r\n\r\n\x1f\x8bnot\x00gz\xff",
		"/notype":   "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
		"/redirect": "HTTP/1.1 303 See Other\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
		"/204":      "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
		"/304":      "HTTP/1.1 304 Not Modified\r\nEtag: \"a\"\r\n\r\n",
		"/500":      "HTTP/1.1 500 Broken\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"error\":\"x\"}",
		"/old":      "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end",
	}
	app := serve(t, true, func(a *arrival) bool { a.say(answers[a.URL.Path]); return a.URL.Path != "/old" })
	addr := front(t, app.url(), gateway.Config{})
	for _, method := range []string{"GET", "POST"} {
		c := dial(t, addr)
		c.say(method + " /hints HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		if head := c.head(); head != "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" {
			t.Errorf("the first head is %q", head)
		}
		if got := c.answer(method); got.status != 200 || got.body != "ok" || got.header.Get("Link") != "" || got.header["Content-Type"] != nil {
			t.Errorf("/hints: %v %v", got, got.header)
		}
		if got := send(t, addr, method, "/trailers", ""); got.body != "ok" || got.trailer.Get("X-Sum") != "42" {
			t.Errorf("/trailers: %v %v", got, got.trailer)
		}
		got := send(t, addr, method, "/gzip", "")
		if got.status != 422 || got.body != "\x1f\x8bnot\x00gz\xff" || got.header.Get("Content-Encoding") != "gzip" || got.header.Get("Content-Length") != "9" {
			t.Errorf("/gzip: %v %v", got, got.header)
		}
		if raw := app.arrivals(); strings.Contains(raw[len(raw)-1], "Accept-Encoding") {
			t.Errorf("the application was asked for a coding that the client did not ask for")
		}
		got = send(t, addr, method, "/notype", "")
		if _, typed := got.header["Content-Type"]; typed || got.body != "<html>" {
			t.Errorf("/notype: %v %v", got, got.header)
		}
		if got = send(t, addr, method, "/redirect", ""); got.status != 303 || got.header.Get("Location") != "/elsewhere" {
			t.Errorf("/redirect: %v", got)
		}
		if got = send(t, addr, method, "/500", ""); got.status != 500 || got.body != `{"error":"x"}` {
			t.Errorf("/500: %v", got)
		}
		if got = send(t, addr, method, "/204", ""); got.status != 204 || got.header.Get("X-A") != "1" {
			t.Errorf("/204: %v", got)
		}
		if got = send(t, addr, method, "/304", ""); got.status != 304 || got.header.Get("Etag") != `"a"` {
			t.Errorf("/304: %v", got)
		}
		if got = send(t, addr, method, "/old", ""); got.status != 200 || got.body != "until the end" || got.err != nil {
			t.Errorf("/old: %v", got)
		}
	}
}

// R: trailers of a request that is passed on go with it.
func TestARequestsTrailersPass(t *testing.T) {
	seen := make(chan string, 1)
	app := serve(t, false, func(a *arrival) bool {
		io.Copy(io.Discard, a.Body)
		seen <- a.Trailer.Get("X-Sum")
		a.say(created)
		return true
	})
	c := dial(t, front(t, app.url(), gateway.Config{}))
	c.say("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 42\r\n\r\n")
	c.answer("POST").want(t, 201, "")
	if sum := <-seen; sum != "42" {
		t.Errorf("X-Sum is %q", sum)
	}
}

// R: a client that leaves takes its request with it, as without a gateway, unless
// the request has a key.
func TestAClientThatLeavesCancelsARequestWithoutAKeyOnly(t *testing.T) {
	for _, key := range []string{"", "Idempotency-Key: k\r\n"} {
		came, left, ended := make(chan bool), make(chan bool), make(chan bool, 1)
		app := serve(t, true, func(a *arrival) bool {
			came <- true
			<-left
			if key == "" {
				ended <- a.gone()
				return false
			}
			time.Sleep(200 * time.Millisecond) // what would cancel it has time to
			a.say(created)
			return true
		})
		addr := front(t, app.url(), gateway.Config{})
		c := dial(t, addr)
		c.say("POST /orders HTTP/1.1\r\nHost: shop.test\r\n" + key + "Content-Length: 3\r\n\r\ntea")
		<-came
		c.Close()
		left <- true
		if key == "" {
			if !<-ended {
				t.Error("the application's connection stayed open")
			}
			continue
		}
		got := send(t, addr, "POST", "/orders", "tea", "Idempotency-Key", "k", "Prefer", "wait=10")
		got.want(t, 201, "replayed")
		app.wantArrivals(1)
	}
}

// B109: an answer that breaks off does not end as if it were whole.
func TestAnAnswerThatBreaksOffIsNoCleanAnswer(t *testing.T) {
	for name, text := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n64\r\nhalf",
	} {
		app := serve(t, true, func(a *arrival) bool { a.say(text); return false })
		addr := front(t, app.url(), gateway.Config{})
		for _, method := range []string{"GET", "POST"} {
			if got := send(t, addr, method, "/", ""); got.err == nil {
				t.Errorf("%s %s: answered %v, as if it were whole", method, name, got)
			}
		}
	}
}
