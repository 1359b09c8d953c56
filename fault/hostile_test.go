package fault_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/fault"
)

func TestWhatIsNoRequestIsRefusedAndNeverForwarded(t *testing.T) {
	up := newUpstream(t, nil)
	patient, patientAddr := start(t, up.URL, fault.Config{MaxHead: 8 << 10, MaxBody: 1 << 10})
	hasty, hastyAddr := start(t, up.URL, fault.Config{RequestTimeout: 300 * time.Millisecond})
	const post = "POST / HTTP/1.1\r\nHost: x\r\n"
	for name, c := range map[string]struct {
		bytes  string
		status int
	}{
		"TLS":                       {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400},
		"zeros":                     {strings.Repeat("\x00", 100), 400},
		"words":                     {"hello, is anybody there?\r\n\r\n", 400},
		"HTTP/2":                    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 501},
		"CONNECT":                   {"CONNECT example.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", 501},
		"HTTP/3.7":                  {"GET / HTTP/3.7\r\n\r\n", 400},
		"a huge head":               {"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 9<<10) + "\r\n\r\n", 431},
		"a huge line without end":   {"GET /" + strings.Repeat("x", 20<<10), 431},
		"many fields":               {"GET / HTTP/1.1\r\n" + strings.Repeat("a: b\r\n", 5000) + "\r\n", 431},
		"many empty lines":          {strings.Repeat("\r\n", 9<<10), 431},
		"a bare line feed":          {"GET / HTTP/1.1\nHost: x\n\n", 400},
		"a line feed in a field":    {"GET / HTTP/1.1\r\nX: a\nb: c\r\n\r\n", 400},
		"a folded field":            {"GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n", 400},
		"a space before the colon":  {"GET / HTTP/1.1\r\nX : a\r\n\r\n", 400},
		"a field without colon":     {"GET / HTTP/1.1\r\nX\r\n\r\n", 400},
		"a control character":       {"GET / HTTP/1.1\r\nX: a\x00b\r\n\r\n", 400},
		"a space in the target":     {"GET /a b HTTP/1.1\r\n\r\n", 400},
		"a relative target":         {"GET tasks HTTP/1.1\r\n\r\n", 400},
		"no target":                 {"GET  HTTP/1.1\r\n\r\n", 400},
		"two lengths":               {post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
		"a signed length":           {post + "Content-Length: +1\r\n\r\nx", 400},
		"a negative length":         {post + "Content-Length: -1\r\n\r\n", 400},
		"an endless length":         {post + "Content-Length: 99999999999999999999\r\n\r\n", 400},
		"length and chunks":         {post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"chunks in HTTP/1.0":        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"an unknown coding":         {post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
		"a body over the limit":     {post + "Content-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000), 413},
		"chunks over the limit":     {post + "Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + strings.Repeat("x", 2000) + "\r\n0\r\n\r\n", 413},
		"a chunk of no size":        {post + "Transfer-Encoding: chunked\r\n\r\n;x\r\n\r\n", 400},
		"a negative chunk":          {post + "Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n", 400},
		"an endless chunk":          {post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx", 400},
		"an endless chunk line":     {post + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 4<<10), 400},
		"a chunk without its end":   {post + "Transfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n", 400},
		"an endless trailer":        {post + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("a: b\r\n", 9000), 413},
		"a slow head":               {"GET / HTTP/1.1\r\nX: ", 408},
		"a slow body":               {post + "Content-Length: 10\r\n\r\nx", 408},
		"a chunk that never comes":  {post + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", 408},
		"a request line and no end": {"POST / HTTP/1.1\r\n", 408},
	} {
		t.Run(name, func(t *testing.T) {
			p, addr := patient, patientAddr
			if c.status == http.StatusRequestTimeout {
				p, addr = hasty, hastyAddr
			}
			before := p.State().Requests
			conn, br := rawDial(t, addr)
			io.WriteString(conn, c.bytes)
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			b, _ := io.ReadAll(res.Body)
			if res.StatusCode != c.status || !strings.HasPrefix(string(b), "fault proxy: ") {
				t.Errorf("answered %d %q, want %d", res.StatusCode, b, c.status)
			}
			if _, err := br.ReadByte(); err == nil {
				t.Error("the connection goes on")
			}
			log := p.LogAfter(before)
			if len(log) != 1 || log[0].Fate != fault.Malformed || log[0].Status != c.status || log[0].Forwarded != 0 || log[0].Err == "" {
				t.Errorf("the log says %+v", log)
			}
		})
	}
	if all := up.all(); len(all) != 0 {
		t.Errorf("the application saw %+v", all)
	}
}

// A peer that sends a byte now and then holds a connection no longer than
// RequestTimeout.
func TestASlowPeerIsBoundedAsAWhole(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{RequestTimeout: 300 * time.Millisecond})
	conn, br := rawDial(t, addr)
	stop := make(chan struct{})
	dripped := make(chan struct{})
	go func() {
		defer close(dripped)
		for _, b := range []byte("POST / HTTP/1.1\r\nX: " + strings.Repeat("x", 4000)) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	res, err := http.ReadResponse(br, nil)
	close(stop)
	<-dripped
	if err != nil || res.StatusCode != 408 {
		t.Errorf("%+v, %v", res, err)
	}
	if e := p.Log()[0]; e.Fate != fault.Malformed {
		t.Errorf("the log says %+v", e)
	}
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{IdleTimeout: time.Second})
	conn, br := rawDial(t, addr)
	if b, err := br.ReadByte(); err != io.EOF {
		t.Errorf("a connection that says nothing got %q, %v", b, err)
	}
	conn.Close()
	conn, br = rawDial(t, addr)
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	if b, err := br.ReadByte(); err != io.EOF {
		t.Errorf("after its answer it got %q, %v", b, err)
	}
	if n := p.State().Requests; n != 1 {
		t.Errorf("%d requests in the log", n)
	}
}

// A client that asks for much and reads nothing costs one connection for a
// bounded time.
func TestAClientThatReadsNothingIsDropped(t *testing.T) {
	up := newUpstream(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		b := make([]byte, 1<<20)
		for range 64 {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	p, addr := start(t, up.URL, fault.Config{IdleTimeout: 300 * time.Millisecond})
	conn, _ := rawDial(t, addr)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	until(t, "the client is dropped", func() bool { l := p.Log(); return len(l) == 1 && l[0].Fate == fault.Left })
}

func TestAHalfSentRequestIsNeverForwarded(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{})
	for _, s := range []string{"POST / HTTP", "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"} {
		conn, _ := rawDial(t, addr)
		io.WriteString(conn, s)
		conn.Close()
	}
	until(t, "the proxy has noticed", func() bool {
		l := p.Log()
		return len(l) == 2 && l[0].Fate == fault.Left && l[1].Fate == fault.Left
	})
	if n := len(up.all()); n != 0 {
		t.Errorf("the application saw %d requests", n)
	}
}

// Whatever the bytes are: no panic, and what would be forwarded is what came.
func FuzzReadRequest(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /a?b HTTP/1.0\r\nContent-Length: 3\r\n\r\nabcGET",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;e\r\nabc\r\n0\r\nT: 1\r\n\r\nrest",
		"\r\n\r\nOPTIONS * HTTP/1.1\r\n\r\n", "GET http://x/y HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		raw, decoded, rest, err := fault.ReadRequest(bytes.NewReader(in), 4<<10, 4<<10)
		if err != nil {
			return
		}
		tail, _ := io.ReadAll(rest)
		lead := bytes.TrimSuffix(in, append(bytes.Clone(raw), tail...))
		if strings.Trim(string(lead), "\r\n") != "" || len(lead)+len(raw)+len(tail) != len(in) {
			t.Fatalf("of %q, %q would be forwarded and %q is left", in, raw, tail)
		}
		// A server of the standard library reads the same request, or refuses.
		body, err := serverReads(raw)
		if err == nil && !bytes.Equal(body, decoded) {
			t.Fatalf("%q: a server reads the body %q, the proxy %q", raw, body, decoded)
		}
	})
}

func serverReads(raw []byte) ([]byte, error) {
	br := bufio.NewReader(bytes.NewReader(raw))
	req, err := http.ReadRequest(br)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if br.Buffered() > 0 {
		return append(body, " and bytes are left"...), nil
	}
	return body, nil
}
