package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/gateway"
)

const key = "Idempotency-Key"

// R: what the guard promises, it promises through the gateway.
func TestANamedRequestReachesTheApplicationOnce(t *testing.T) {
	app := serve(t, true, func(a *arrival) bool {
		a.say(fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nSet-Cookie: s=1\r\nLocation: /orders/%d\r\nTransfer-Encoding: chunked\r\n\r\n5\r\norder\r\n2\r\n %d\r\n0\r\n\r\n", a.n, a.n))
		return true
	})
	addr := front(t, app.url(), gateway.Config{})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		before := len(app.arrivals())
		first := send(t, addr, method, "/orders?a;b", "tea", key, method)
		first.want(t, 201, "executed")
		again := send(t, addr, method, "/orders?a;b", "tea", key, method)
		again.want(t, 201, "replayed")
		// A chunked answer of a moderate size is kept with its body.
		if again.body != first.body || again.body != fmt.Sprintf("order %d", before+1) || again.header.Get("Location") != first.header.Get("Location") {
			t.Errorf("first %v, then %v", first, again)
		}
		if again.header.Get("Set-Cookie") != "" || first.header.Get("Set-Cookie") != "s=1" {
			t.Errorf("cookies: first %q, then %q", first.header["Set-Cookie"], again.header["Set-Cookie"])
		}
		send(t, addr, method, "/orders?a;b", "coffee", key, method).want(t, 422, "key-reused")
		app.wantArrivals(before + 1)
		if raw := app.arrivals()[before]; !strings.HasPrefix(raw, method+" /orders?a;b HTTP/1.1\r\n") || !strings.Contains(raw, key+": "+method+"\r\n") || !strings.HasSuffix(raw, "\r\n\r\ntea") {
			t.Errorf("the application got %q", raw)
		}
	}
	for _, method := range []string{"GET", "OPTIONS"} { // B118, R: never held
		before := len(app.arrivals())
		for range 2 {
			if got := send(t, addr, method, "/orders", "", key, "POST"); got.status != 201 || got.outcome() != "" {
				t.Errorf("%s: %v", method, got)
			}
		}
		app.wantArrivals(before + 2)
	}
}

// R: the key of a plain form; the form reaches the application whole.
func TestAFormBearsItsKeyInAField(t *testing.T) {
	app := serve(t, true, always("HTTP/1.1 303 See Other\r\nLocation: /orders/1\r\nContent-Length: 0\r\n\r\n"))
	addr := front(t, app.url(), gateway.Config{})
	multipart := "--b\r\nContent-Disposition: form-data; name=\"_key\"\r\n\r\nk2\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n\x00\xff\r\n--b--\r\n"
	for i, form := range [][2]string{{"application/x-www-form-urlencoded", "_key=k1&item=tea"}, {"multipart/form-data; boundary=b", multipart}} {
		for j := range 2 {
			got := send(t, addr, "POST", "/orders", form[1], "Content-Type", form[0], "Accept", "text/html")
			got.want(t, 303, []string{"executed", "replayed"}[j])
			if got.header.Get("Location") != "/orders/1" {
				t.Errorf("answered %v", got.header)
			}
		}
		app.wantArrivals(i + 1)
		if _, body, _ := strings.Cut(app.arrivals()[i], "\r\n\r\n"); body != form[1] {
			t.Errorf("the form arrived as %q", body)
		}
	}
	// Without a key it passes, every time, byte for byte.
	for range 2 {
		send(t, addr, "POST", "/orders", "item=tea&x=%zz;", "Content-Type", "application/x-www-form-urlencoded").want(t, 303, "")
	}
	app.wantArrivals(4)
	if raw := app.arrivals()[3]; !strings.HasSuffix(raw, "\r\n\r\nitem=tea&x=%zz;") {
		t.Errorf("the form arrived as %q", raw)
	}
}

// B098, B099, B100, B101, B107, B108: sent once, and no answer: the client hears
// that nobody knows, and no repeat reaches the application.
func TestARequestThatWasSentIsNeverSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		body   string
		status int // 0: the transfer breaks
	}{
		"closed":                     {"", "tea", 502},
		"closed, no body":            {"", "", 502},
		"half a head":                {"HTTP/1.1 201 Crea", "tea", 502},
		"no HTTP":                    {"what?\r\n\r\n", "tea", 502},
		"half a body":                {"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nfirst", "tea", 0},
		"half a chunked body":        {"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n", "tea", 0},
		"a proxy's 502":              {"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "tea", 502},
		"a proxy's 504, and no body": {"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n", "", 504},
	} {
		t.Run(name, func(t *testing.T) {
			app := serve(t, true, func(a *arrival) bool { a.say(c.answer); return false })
			addr := front(t, app.url(), gateway.Config{})
			got := send(t, addr, "POST", "/orders", c.body, key, "k")
			if c.status == 0 && got.err == nil {
				t.Errorf("answered %v", got)
			} else if c.status != 0 {
				got.want(t, c.status, "outcome-unknown")
			}
			for range 3 {
				again := send(t, addr, "POST", "/orders", c.body, key, "k")
				again.want(t, 409, "outcome-unknown")
				if !strings.Contains(again.body, "urn:onceward:problem:outcome-unknown") {
					t.Errorf("answered %v", again)
				}
			}
			app.wantArrivals(1)
			// Without a key it is 502 as well, and each goes out once.
			if got := send(t, addr, "POST", "/orders", c.body); c.status != 0 && got.status != c.status {
				t.Errorf("without a key: %v", got)
			}
			app.wantArrivals(2)
		})
	}
}

// B098 (golang.org/issue/19943): a reused connection that dies unanswered makes
// net/http send a request with a key again by itself. The same rig shows it with a
// bare reverse proxy, so that the test can fail.
func TestGoDoesNotResendAKeyedRequestBehindTheGateway(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		for _, body := range []string{"", "tea"} {
			var carried atomic.Int32
			app := serve(t, true, func(a *arrival) bool {
				if a.URL.Path == "/warm" {
					a.say(created)
					return true // the connection stays, to be used again
				}
				carried.Add(1)
				return false
			})
			to, _ := url.Parse(app.url())
			bare := httptest.NewServer(httputil.NewSingleHostReverseProxy(to))
			defer bare.Close()
			for addr, want := range map[string]int32{
				bare.Listener.Addr().String(): map[string]int32{"": 2, "tea": 1}[body],
				front(t, app.url(), gateway.Config{Guard: onceward.Config{Header: "Onceward-Key"}}): 1, // as if it were unguarded
				front(t, app.url(), gateway.Config{}):                                               1,
			} {
				carried.Store(0)
				for _, method := range []string{"GET", "POST"} { // whatever connections are kept for
					send(t, addr, method, "/warm", "").want(t, 201, "")
				}
				if got := send(t, addr, "POST", "/orders", body, name, "k"); got.status != 502 {
					t.Errorf("answered %v", got)
				}
				if n := carried.Load(); n != want {
					t.Errorf("%s, %d bytes: carried out %d times, want %d", name, len(body), n, want)
				}
			}
		}
	}
}

// R: where nothing was sent the key is free: the same request runs when the
// application is there.
func TestARequestThatWasNotSentFreesItsKey(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	addr := front(t, "http://"+at, gateway.Config{})
	for range 2 {
		got := send(t, addr, "POST", "/orders", "tea", key, "k")
		got.want(t, 503, "released")
		if got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "urn:onceward:problem:unavailable") {
			t.Errorf("answered %v %v", got, got.header)
		}
	}
	for _, method := range []string{"GET", "POST"} {
		if got := send(t, addr, method, "/orders", ""); got.status != 503 || got.header.Get("Retry-After") == "" || got.outcome() != "" {
			t.Errorf("%s without a key: %v", method, got)
		}
	}
	page := send(t, addr, "POST", "/orders", "", "Accept", "text/html", "Accept-Language", "ru")
	if !strings.Contains(page.body, `lang="ru"`) || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") {
		t.Errorf("a person sees %v", page)
	}
	if l, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201) }))
	send(t, addr, "POST", "/orders", "tea", key, "k").want(t, 201, "executed")
}

// B104, B106, R: an answered 5xx is the application's word; what it does to the
// key is a choice.
func TestAnAnswered5xxFreesTheKeyOrHoldsIt(t *testing.T) {
	broken := "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"error\":\"db\"}"
	for policy, want := range map[gateway.ServerErrors]string{gateway.ReleaseServerErrors: "released", gateway.HoldServerErrors: "outcome-unknown"} {
		app := serve(t, true, func(a *arrival) bool {
			if a.n == 1 {
				a.say(broken)
			} else {
				a.say(created)
			}
			return true
		})
		addr := front(t, app.url(), gateway.Config{OnServerError: policy})
		got := send(t, addr, "POST", "/orders", "tea", key, "k")
		got.want(t, 500, want)
		if got.body != `{"error":"db"}` || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("the application's own error became %v", got)
		}
		again := send(t, addr, "POST", "/orders", "tea", key, "k")
		if policy == gateway.ReleaseServerErrors {
			again.want(t, 201, "executed")
			app.wantArrivals(2)
		} else {
			again.want(t, 409, "outcome-unknown")
			app.wantArrivals(1)
		}
	}
}

// B100: an application that does not answer in time is not asked again.
func TestAnApplicationThatHangsIsAskedOnce(t *testing.T) {
	app := serve(t, true, func(a *arrival) bool { a.gone(); return false })
	addr := front(t, app.url(), gateway.Config{Guard: onceward.Config{MaxRuntime: 100 * time.Millisecond}})
	got := send(t, addr, "POST", "/orders", "tea", key, "k")
	if got.status != 503 && got.status != 504 || got.outcome() != "in-progress" && got.outcome() != "outcome-unknown" {
		t.Errorf("answered %v", got)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		got = send(t, addr, "POST", "/orders", "tea", key, "k")
		if got.outcome() == "outcome-unknown" || time.Now().After(end) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	got.want(t, 409, "outcome-unknown")
	app.wantArrivals(1)
}

// R: of an answer that only its connection's end ends nobody knows whether it is
// whole; no part of it is kept.
func TestAnAnswerWithoutAnEndIsKeptWithoutItsBody(t *testing.T) {
	app := serve(t, true, func(a *arrival) bool {
		a.say("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nas much as came")
		return false
	})
	addr := front(t, app.url(), gateway.Config{})
	first := send(t, addr, "POST", "/orders", "tea", key, "k")
	first.want(t, 200, "executed")
	if first.body != "as much as came" {
		t.Errorf("answered %v", first)
	}
	again := send(t, addr, "POST", "/orders", "tea", key, "k")
	again.want(t, 200, "replayed")
	if again.body != "" || !strings.Contains(again.header.Get("Idempotency-Status"), "body=omitted") {
		t.Errorf("replayed %v", again)
	}
	app.wantArrivals(1)
}

// R: an answer without a type is replayed without one, and trailers are no reason
// to lose a body.
func TestAReplayIsTyped(t *testing.T) {
	app := serve(t, true, func(a *arrival) bool {
		if a.URL.Path == "/trailers" {
			a.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 42\r\n\r\n")
		} else {
			a.say("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")
		}
		return true
	})
	addr := front(t, app.url(), gateway.Config{})
	for _, outcome := range []string{"executed", "replayed"} {
		got := send(t, addr, "POST", "/notype", "tea", key, "k")
		got.want(t, 200, outcome)
		if _, typed := got.header["Content-Type"]; typed || got.body != "<html>" {
			t.Errorf("%s: %v %v", outcome, got, got.header)
		}
		got = send(t, addr, "POST", "/trailers", "tea", key, "t")
		got.want(t, 200, outcome)
		if got.body != "ok" || outcome == "executed" && got.trailer.Get("X-Sum") != "42" {
			t.Errorf("%s: %v %v", outcome, got, got.trailer)
		}
	}
}

// R: two taps at once are one.
func TestConcurrentTapsReachTheApplicationOnce(t *testing.T) {
	var at atomic.Int32
	release := make(chan bool)
	app := serve(t, true, func(a *arrival) bool {
		at.Add(1)
		<-release
		a.say(created)
		return true
	})
	addr := front(t, app.url(), gateway.Config{})
	answers := make(chan answer, 8)
	for range cap(answers) {
		go func() { answers <- send(t, addr, "POST", "/orders", "tea", key, "k", "Prefer", "wait=10") }()
	}
	for at.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	executed := 0
	for range cap(answers) {
		a := <-answers
		if a.outcome() == "executed" {
			executed++
		}
		if a.status != 201 || a.body != "milk" {
			t.Errorf("answered %v", a)
		}
	}
	if executed != 1 {
		t.Errorf("%d of them were executed", executed)
	}
	app.wantArrivals(1)
}

// R: a body that is cut short takes no key and reaches nobody.
func TestARequestThatIsCutShortReachesNobody(t *testing.T) {
	app := serve(t, true, always(created))
	addr := front(t, app.url(), gateway.Config{})
	c := dial(t, addr)
	c.say("POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\ntea")
	c.Conn.(*net.TCPConn).CloseWrite()
	_, _ = io.ReadAll(c.br)
	app.wantArrivals(0)
	send(t, addr, "POST", "/orders", "tea", key, "k").want(t, 201, "executed")
}

func TestPathsOutsideTheGuardPassWithAKey(t *testing.T) {
	app := serve(t, true, always(created))
	addr := frontScoped(t, app.url(), gateway.Cookie("s"), gateway.Config{Except: []string{"/login", "/hooks/*"}})
	for path, outcome := range map[string]string{"/login": "", "/hooks/a/b": "", "/login/x": "anonymous", "/orders": "anonymous"} {
		got := send(t, addr, "POST", path, "x", key, "k")
		if outcome == "anonymous" {
			got.want(t, 401, "")
		} else {
			got.want(t, 201, "")
		}
	}
	app.wantArrivals(2)
}

func TestAConfigThatCannotBeMeantIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		to  string
		cfg gateway.Config
	}{
		"path":    {"http://127.0.0.1:1/base", gateway.Config{}},
		"scheme":  {"https://127.0.0.1:1", gateway.Config{}},
		"nothing": {"", gateway.Config{}},
		"port":    {"http://127.0.0.1:", gateway.Config{}},
		"policy":  {"http://127.0.0.1:1", gateway.Config{OnServerError: 7}},
		"timeout": {"http://127.0.0.1:1", gateway.Config{DialTimeout: -1}},
		"except":  {"http://127.0.0.1:1", gateway.Config{Except: []string{"/a*b"}}},
		"guard":   {"http://127.0.0.1:1", gateway.Config{Guard: onceward.Config{Lease: -1}}},
	} {
		if _, err := gateway.New(c.to, nopStore{}, onceward.Unscoped, c.cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := gateway.New("http://127.0.0.1:1", nil, onceward.Unscoped, gateway.Config{}); err == nil {
		t.Error("no store is taken")
	}
	if _, err := gateway.New("http://127.0.0.1:1", nopStore{}, nil, gateway.Config{}); err == nil {
		t.Error("no scope is taken")
	}
}

type nopStore struct{ onceward.Store }

// A browser sends fetch's "patch" as it is written, and many servers take it for
// PATCH.
func TestAMethodInSmallLettersIsGuardedAndPassesAsItCame(t *testing.T) {
	app := serve(t, true, func(a *arrival) bool {
		a.say("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(a.Method)) + "\r\n\r\n" + a.Method)
		return true
	})
	addr := front(t, app.url(), gateway.Config{})
	for _, outcome := range []string{"executed", "replayed"} {
		got := send(t, addr, "patch", "/orders/1", "tea", key, "k")
		got.want(t, 200, outcome)
		if got.body != "patch" {
			t.Errorf("the application got the method %q", got.body)
		}
	}
	app.wantArrivals(1)
}
