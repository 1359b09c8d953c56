package fault_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/fault"
)

// rawUpstream takes one connection after another, writes down the bytes of each
// until they end with want, and answers.
func rawUpstream(t *testing.T, want, answer string) (url string, got func() []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(20 * time.Second))
			var b []byte
			buf := make([]byte, 4096)
			for !bytes.HasSuffix(b, []byte(want)) {
				n, err := c.Read(buf)
				b = append(b, buf[:n]...)
				if err != nil {
					break
				}
			}
			all <- string(b)
			io.WriteString(c, answer)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String(), func() []string {
		var out []string
		for {
			select {
			case s := <-all:
				out = append(out, s)
			default:
				return out
			}
		}
	}
}

// rawDial is a client that writes its own bytes.
func rawDial(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c, bufio.NewReader(c)
}

// Every byte goes through: the header's case and order, repeated lines, the raw
// query, the chunks and their trailer, and the same on the way back.
func TestBytesGoThroughAsTheyAre(t *testing.T) {
	const request = "POST /a%2Fb//../c?x=1;y=%zz&&q HTTP/1.1\r\nhOsT: example.test\r\nX-b: 1\r\nx-A:  two words \r\nX-b: 2\r\nIdempotency-Key: \"a b\"\r\nCookie: caf\xc3\xa9=1\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"3;ext=1\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX-Sum: 9\r\n\r\n"
	const answer = "HTTP/1.1 299 Any Reason\r\nsErVer: x\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nContent-Length: 5\r\nX-Empty:\r\n\r\nhello"
	for _, mode := range []string{"pass", "slow:1ms", "slow-after:1ms", "duplicate", "duplicate-concurrent"} {
		t.Run(mode, func(t *testing.T) {
			url, got := rawUpstream(t, "X-Sum: 9\r\n\r\n", answer)
			p, addr := start(t, url, fault.Config{})
			if err := p.SetMode(mode); err != nil {
				t.Fatal(err)
			}
			c, br := rawDial(t, addr)
			io.WriteString(c, request)
			b := make([]byte, len(answer))
			if _, err := io.ReadFull(br, b); err != nil || string(b) != answer {
				t.Errorf("the client got %q, %v", b, err)
			}
			times := 1
			if strings.HasPrefix(mode, "duplicate") {
				times = 2
			}
			if g := got(); len(g) != times || slices.ContainsFunc(g, func(s string) bool { return s != request }) {
				t.Errorf("the upstream got %d times: %q", len(g), g)
			}
			if e := p.Log()[0]; e.Path != "/a%2Fb//../c" || e.Query != "x=1;y=%zz&&q" || e.Key != `"a b"` || e.Status != 299 {
				t.Errorf("the log says %+v", e)
			}
		})
	}
}

func TestAConnectionServesManyRequests(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{})
	if err := p.SetScript("pass, 502, slow:1ms, captive-200, duplicate, pass"); err != nil {
		t.Fatal(err)
	}
	c, br := rawDial(t, addr)
	var statuses []int
	for i := range 6 {
		fmt.Fprintf(c, "POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", i)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		statuses = append(statuses, res.StatusCode)
	}
	if !slices.Equal(statuses, []int{201, 502, 201, 200, 201, 201}) {
		t.Errorf("statuses %v", statuses)
	}
	for i, e := range p.Log() {
		if e.Conn != 1 || e.OnConn != i+1 || e.N != uint64(i+1) {
			t.Errorf("the log says %+v", e)
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	up := newUpstream(t, nil)
	_, addr := start(t, up.URL, fault.Config{})
	c, br := rawDial(t, addr)
	io.WriteString(c, strings.Repeat("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", 3))
	for i := range 3 {
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		if want := fmt.Sprintf("done %d times", i+1); string(b) != want {
			t.Errorf("answer %d is %q", i, b)
		}
	}
}

func TestAConnectionEndsWhenEitherSideSaysSo(t *testing.T) {
	for name, c := range map[string]struct{ request, answer string }{
		"client":           {"GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, close\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		"upstream":         {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"},
		"old client":       {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		"old upstream":     {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		"without a length": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nok"},
	} {
		for _, mode := range []string{"pass", "slow-after:1ms"} {
			url, _ := rawUpstream(t, "\r\n\r\n", c.answer)
			p, addr := start(t, url, fault.Config{})
			if err := p.SetMode(mode); err != nil {
				t.Fatal(err)
			}
			conn, br := rawDial(t, addr)
			io.WriteString(conn, c.request)
			b, err := io.ReadAll(br)
			if err != nil || string(b) != c.answer {
				t.Errorf("%s, %s: the client got %q, %v", name, mode, b, err)
			}
			if e := p.Log()[0]; e.Fate != fault.Answered {
				t.Errorf("%s, %s: the log says %+v", name, mode, e)
			}
		}
	}
}

// B112's shape, on the way through: each event is with the client before the
// next is made.
func TestAStreamedAnswerFlowsPieceByPiece(t *testing.T) {
	next := make(chan struct{})
	up := newUpstream(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for i := range 3 {
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	})
	p, addr := start(t, up.URL, fault.Config{})
	res, err := oneShot(20 * time.Second).Get("http://" + addr + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	br := bufio.NewReader(res.Body)
	for i := range 3 {
		next <- struct{}{}
		line, err := br.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d is %q, %v", i, line, err)
		}
		br.ReadString('\n')
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("after the last event: %v", err)
	}
	if e := p.Log()[0]; e.Fate != fault.Answered {
		t.Errorf("whoever has the answer's end finds it in the log as %+v", e)
	}
}

// F10: the application learns that the client has left, as it would without a
// proxy.
func TestAClientThatLeavesTakesItsRequestWithIt(t *testing.T) {
	begun, told := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(told)
	})
	p, addr := start(t, up.URL, fault.Config{})
	leave := sendAndLeave(t, "http://"+addr+"/")
	<-begun
	leave()
	select {
	case <-told:
	case <-time.After(20 * time.Second):
		t.Fatal("the application was not told")
	}
	until(t, "the proxy has ended it", func() bool { return p.Log()[0].Fate == fault.Left })
	if e := p.Log()[0]; e.Forwarded != 1 || e.Status != 0 {
		t.Errorf("the log says %+v", e)
	}
}

// What the upstream does to its connection, the client sees on its own (B109).
func TestAnUpstreamThatBreaksOffIsPassedOn(t *testing.T) {
	for answer, want := range map[string]string{
		"":                            "eof",
		"HTTP/1.1 200 OK\r\nContent-": "eof",
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfive!":                   "eof",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfive!\r\n":   "eof",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nfive!\r\n":   "reset or cut",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nfive": "reset or cut",
		"garbage\r\n\r\n": "reset or cut",
	} {
		for _, mode := range []string{"pass", "slow-after:1ms"} {
			url, _ := rawUpstream(t, "xyz", answer)
			p, addr := start(t, url, fault.Config{})
			if err := p.SetMode(mode); err != nil {
				t.Fatal(err)
			}
			g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/", "xyz")
			if g.err == nil {
				t.Errorf("%s, %q: the client saw a whole answer: %+v", mode, answer, g)
			}
			if want == "eof" && mode == "pass" && g.kind() != want {
				t.Errorf("%s, %q: the client saw %s", mode, answer, g.kind())
			}
			if e := p.Log()[0]; e.Fate != fault.Broken || e.Forwarded != 1 || e.Err == "" {
				t.Errorf("%s, %q: the log says %+v", mode, answer, e)
			}
		}
	}
}

func TestExpectContinueIsAnsweredAndTheBodyGoesThrough(t *testing.T) {
	up := newUpstream(t, nil)
	_, addr := start(t, up.URL, fault.Config{})
	c, br := rawDial(t, addr)
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	line, err := br.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	br.ReadString('\n')
	io.WriteString(c, "hello")
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != 201 {
		t.Fatalf("%+v, %v", res, err)
	}
	if s := up.whole(); len(s) != 1 || s[0].Body != "hello" {
		t.Errorf("the application saw %+v", s)
	}
}

func TestInterimAnswersPass(t *testing.T) {
	const early = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"
	const final = "HTTP/1.1 204 No Content\r\n\r\n"
	url, _ := rawUpstream(t, "\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"+early+final)
	p, addr := start(t, url, fault.Config{})
	c, br := rawDial(t, addr)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	b := make([]byte, len(early+final))
	if _, err := io.ReadFull(br, b); err != nil || string(b) != early+final {
		t.Errorf("the client got %q, %v", b, err)
	}
	// The connection is still good: no body belongs to a 204.
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := io.ReadFull(br, b); err != nil || string(b) != early+final {
		t.Errorf("then the client got %q, %v", b, err)
	}
	if e := p.Log()[0]; e.Status != 204 || !slices.Equal(e.Upstream, []int{204}) {
		t.Errorf("the log says %+v", e)
	}
}

func TestAnAnswerToHeadHasNoBody(t *testing.T) {
	up := newUpstream(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1000") })
	p, addr := start(t, up.URL, fault.Config{})
	c, br := rawDial(t, addr)
	for _, mode := range []string{"pass", "slow-after:1ms", "502", "waf-403"} {
		if err := p.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(br, &http.Request{Method: "HEAD"})
		if err != nil || res.ContentLength <= 0 {
			t.Errorf("%s: %+v, %v", mode, res, err)
		}
	}
}

func TestAnUpgradedConnectionIsATunnel(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			br := bufio.NewReader(c)
			http.ReadRequest(br)
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			io.Copy(c, br) // an echo
			c.Close()
		}
	}()
	p, addr := start(t, "http://"+l.Addr().String(), fault.Config{})
	c, br := rawDial(t, addr)
	// The first frame comes with the head.
	io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst")
	if res, err := http.ReadResponse(br, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("%+v, %v", res, err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(br, b); err != nil || string(b) != "first" {
		t.Errorf("%q, %v", b, err)
	}
	io.WriteString(c, "again")
	if _, err := io.ReadFull(br, b); err != nil || string(b) != "again" {
		t.Errorf("%q, %v", b, err)
	}
	c.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(br); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if e := p.Log()[0]; e.Fate != fault.Tunnelled || e.Status != 101 {
		t.Errorf("the log says %+v", e)
	}
}

func TestAnUpstreamMayAnswerBeforeItHasReadTheBody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		time.Sleep(300 * time.Millisecond)
		c.Close()
	}()
	_, addr := start(t, "http://"+l.Addr().String(), fault.Config{})
	if g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/", strings.Repeat("x", 16<<20)); g.status != 413 {
		t.Errorf("the client saw %d, %v", g.status, g.err)
	}
}

func TestLargeBodiesGoThrough(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	up := newUpstream(t, func(_ int, w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) })
	p, addr := start(t, up.URL, fault.Config{})
	for _, mode := range []string{"pass", "duplicate-concurrent", "slow-after:1ms"} {
		if err := p.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		if g := send(oneShot(30*time.Second), "POST", "http://"+addr+"/", body); g.body != body {
			t.Errorf("%s: the client got %d bytes, %v", mode, len(g.body), g.err)
		}
	}
	for _, s := range up.all() {
		if s.Body != body {
			t.Errorf("the application got %d bytes, %v", len(s.Body), s.BodyErr)
		}
	}
	if n := len(up.all()); n != 4 {
		t.Errorf("the application saw %d requests", n)
	}
}

func TestTheTargetIsChecked(t *testing.T) {
	for _, target := range []string{"", "127.0.0.1:80", "https://x", "http://", "http://x:", "http://x/app", "http://x?y", "http://u:p@x", "://"} {
		if _, err := fault.New(target, fault.Config{}); err == nil || !strings.HasPrefix(err.Error(), "fault: target") {
			t.Errorf("%q: %v", target, err)
		}
	}
	if _, err := fault.New("http://127.0.0.1:1/", fault.Config{Login: "login"}); err == nil || !strings.Contains(err.Error(), "Config.Login") {
		t.Errorf("a bad Login: %v", err)
	}
}

func TestCloseEndsWhateverIsUnderWay(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	up := newUpstream(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	p, err := fault.New(up.URL, fault.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	if err := p.SetScript("blackhole, slow:1h, pass, cut-after-forward, duplicate-concurrent"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan got, 10)
	for range 5 {
		go func() { ended <- send(oneShot(time.Minute), "POST", "http://"+l.Addr().String()+"/", "x") }()
	}
	rawDial(t, l.Addr().String()) // and one that says nothing
	until(t, "all are under way", func() bool { return p.State().Open == 5 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, fault.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	for range 5 {
		if g := <-ended; g.err == nil {
			t.Errorf("a client got %d", g.status)
		}
	}
	if err := p.Serve(l); !errors.Is(err, fault.ErrClosed) {
		t.Errorf("Serve after Close: %v", err)
	}
	if n := p.State().Open; n != 0 {
		t.Errorf("%d requests are open after Close", n)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestALogThatCannotBeWrittenIsTold(t *testing.T) {
	up := newUpstream(t, nil)
	p, err := fault.New(up.URL, fault.Config{LogTo: failingWriter{}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go p.Serve(l)
	if g := send(oneShot(20*time.Second), "POST", "http://"+l.Addr().String()+"/", "x"); g.status != 201 {
		t.Errorf("the client saw %+v", g)
	}
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Close: %v", err)
	}
}
