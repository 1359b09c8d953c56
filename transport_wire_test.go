package onceward_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/fault"
	"github.com/onceward/onceward/memstore"
)

// shop is a server that counts how often each body was carried out.
type shop struct {
	*httptest.Server
	mu      sync.Mutex
	applied map[string]int
	kept    map[string]string // the order of each body
}

// newShop starts a shop; guarded, it stands behind a guard.
func newShop(t *testing.T, guarded bool) *shop {
	t.Helper()
	s := &shop{applied: map[string]int{}, kept: map[string]string{}}
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method != http.MethodGet {
			s.applied[string(body)]++
		}
		s.kept[string(body)] = fmt.Sprintf("order %d", len(s.kept)+1)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, s.kept[string(body)])
	})
	if guarded {
		guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{Require: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = guard.Close(context.Background()) })
		h = guard.Handler(h)
	}
	s.Server = httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func (s *shop) times(body string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied[body]
}

// through starts a bad network in front of a server.
func through(t *testing.T, url, plan string, seed uint64) (*fault.Proxy, string) {
	t.Helper()
	p, err := fault.ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := fault.New(url, fault.Config{Plan: p, Seed: seed, Hold: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(l) }()
	t.Cleanup(func() {
		_ = proxy.Close()
		<-served
	})
	return proxy, "http://" + l.Addr().String()
}

func ownTransport(t *testing.T) *http.Transport {
	base := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

func fetch(t testing.TB, client http.RoundTripper, method, url, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

// B098 (golang/go#19943). The first half shows what net/http's own Transport does:
// the server has no guard, a reused connection dies unanswered, one call to
// RoundTrip is carried out twice, and the caller sees one 201.
func TestNoRequestIsSentAgainBehindOurBack(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		header string
	}{
		"with a body":                       {"milk", "Idempotency-Key"},
		"without a body":                    {"", "Idempotency-Key"},
		"with a body, by the other name":    {"milk", "X-Idempotency-Key"},
		"without a body, by the other name": {"", "X-Idempotency-Key"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ours := range []bool{false, true} {
				s := newShop(t, false)
				proxy, url := through(t, s.URL, "reset-once", 1)
				base := ownTransport(t)
				var client http.RoundTripper = base
				attempts := 0
				if ours {
					client = transport(t, base, onceward.TransportConfig{Header: c.header, Observe: func(onceward.TransportAttempt) { attempts++ }})
				}
				if _, _, err := fetch(t, client, "GET", url+"/warm", ""); err != nil {
					t.Fatal(err)
				}
				attempts = 0
				_, _, err := fetch(t, client, "POST", url+"/orders", c.body, c.header, "k1")
				times, seen := s.times(c.body), len(proxy.Log())-1
				switch {
				case !ours && (times != 2 || err != nil):
					t.Errorf("net/http has changed: carried out %d times, %v", times, err)
				case ours && (times != 1 || seen != 1 || attempts != 1 || !errors.As(err, new(*onceward.SendError))):
					t.Errorf("carried out %d times, %d requests, %d attempts: %v", times, seen, attempts, err)
				}
			}
		})
	}
}

// The same in front of a guard that is known: the repeat is ours, counted, and
// harmless.
func TestARepeatOfOursIsCountedAndDoublesNothing(t *testing.T) { // B010, B099
	for _, body := range []string{"milk", ""} {
		s := newShop(t, true)
		proxy, url := through(t, s.URL, "reset-once", 1)
		attempts := 0
		client := transport(t, ownTransport(t), onceward.TransportConfig{
			Hosts: []string{"127.0.0.1"}, Backoff: time.Millisecond, Observe: func(onceward.TransportAttempt) { attempts++ },
		})
		if _, _, err := fetch(t, client, "GET", url+"/warm", ""); err != nil {
			t.Fatal(err)
		}
		attempts = 0
		res, _, err := fetch(t, client, "POST", url+"/orders", body)
		if err != nil || res.StatusCode != 201 || res.Header.Get("Idempotency-Replayed") != "1" {
			t.Fatalf("%v, %v", res, err)
		}
		if seen := len(proxy.Log()) - 1; s.times(body) != 1 || seen != 2 || attempts != 2 {
			t.Errorf("carried out %d times, %d requests, %d attempts", s.times(body), seen, attempts)
		}
	}
}

// Two hundred orders over a network that loses three answers in ten, and more.
func TestThroughABadNetworkNothingIsLostAndNothingDoubled(t *testing.T) {
	const orders = 200
	const plan = "cut-after-forward=0.3,cut-mid-body=0.08,502-after=0.05,502=0.05,503=0.02,refuse=0.04,half-request=0.04,duplicate=0.05,duplicate-concurrent=0.05,blackhole=0.01"
	s := newShop(t, true)
	proxy, url := through(t, s.URL, plan, 7)
	var attempts atomic.Int64
	base := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(base.CloseIdleConnections)
	client := transport(t, base, onceward.TransportConfig{
		Hosts: []string{"127.0.0.1"}, Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, MaxAttempts: -1,
		Observe: func(onceward.TransportAttempt) { attempts.Add(1) },
	})
	var all sync.WaitGroup
	next := make(chan int)
	for range 8 {
		all.Go(func() {
			for i := range next {
				body := fmt.Sprintf("order %d of a client", i)
				res, text, err := fetch(t, client, "POST", url+"/orders", body)
				if err != nil || res.StatusCode != 201 {
					t.Errorf("%d: %v, %v", i, res, err)
					continue
				}
				s.mu.Lock()
				if text != s.kept[body] {
					t.Errorf("%d: the answer is %q, and the order %q", i, text, s.kept[body])
				}
				s.mu.Unlock()
			}
		})
	}
	for i := range orders {
		next <- i
	}
	close(next)
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	lost, doubled := orders, 0
	for _, n := range s.applied {
		lost--
		doubled += n - 1
	}
	if lost != 0 || doubled != 0 {
		t.Errorf("lost=%d doubled=%d", lost, doubled)
	}
	// The network saw what we counted: nothing else sent anything again. A
	// refused connection is not always a request to it.
	if seen := int64(len(proxy.Log())); seen > attempts.Load() || attempts.Load() < orders*5/4 {
		t.Errorf("the network saw %d requests, we made %d attempts", seen, attempts.Load())
	}
}

// A server that honours no keys: rather an error than a double.
func TestThroughABadNetworkAStrangersOrdersAreNeverDoubled(t *testing.T) {
	const orders = 100
	s := newShop(t, false)
	_, url := through(t, s.URL, "cut-after-forward=0.3,cut-mid-body=0.1,502-after=0.1,refuse=0.1", 3)
	client := transport(t, ownTransport(t), onceward.TransportConfig{Backoff: time.Millisecond})
	failed := 0
	for i := range orders {
		if _, _, err := fetch(t, client, "POST", url+"/orders", fmt.Sprint("order ", i)); err != nil {
			failed++
		}
	}
	for body, n := range s.applied {
		if n != 1 {
			t.Errorf("%s: %d times", body, n)
		}
	}
	if failed == 0 {
		t.Error("a network that loses answers has lost none")
	}
}

// meek is a connection that fails when it is used again.
type meek struct {
	net.Conn
	fail func(request int, p []byte) (n int, err error) // called for each write; err nil: it is written
	n    *atomic.Int32
}

func (m *meek) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "POST ") {
		m.n.Add(1)
	}
	if n, err := m.fail(int(m.n.Load()), p); err != nil {
		if n > 0 {
			_, _ = m.Conn.Write(p[:n])
		}
		_ = m.Conn.Close()
		return n, err
	}
	return m.Conn.Write(p)
}

func TestWhatIsCertainlyNotSentIsRepeatedWithoutTrust(t *testing.T) { // gateway-check B4
	broken := errors.New("broken pipe")
	for _, c := range []struct {
		name  string
		body  string
		fail  func(p []byte) (int, error)
		again bool
	}{
		{"nothing was written", "milk", func([]byte) (int, error) { return 0, broken }, true},
		{"nothing was written, no body", "", func([]byte) (int, error) { return 0, broken }, true},
		{"half of the head was written", "milk", func(p []byte) (int, error) { return min(10, len(p)), broken }, true},
		{"the head was written, and not the body", "milk", func(p []byte) (int, error) {
			if strings.HasPrefix(string(p), "POST ") {
				return 0, nil
			}
			return 0, broken
		}, false},
		{"half of the head was written, no body", "", func(p []byte) (int, error) { return min(10, len(p)), broken }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShop(t, false)
			var posts atomic.Int32
			base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				return &meek{conn, func(request int, p []byte) (int, error) {
					if request != 1 {
						return 0, nil
					}
					return c.fail(p)
				}, &posts}, err
			}}
			t.Cleanup(base.CloseIdleConnections)
			client := transport(t, base, onceward.TransportConfig{Backoff: time.Millisecond})
			if _, _, err := fetch(t, client, "GET", s.URL+"/warm", ""); err != nil {
				t.Fatal(err)
			}
			_, _, err := fetch(t, client, "POST", s.URL+"/orders", c.body)
			if c.again != (err == nil) {
				t.Errorf("%v", err)
			}
			if want := map[bool]int{true: 1}[c.again]; s.times(c.body) != want {
				t.Errorf("carried out %d times", s.times(c.body))
			}
			if !c.again && onceward.SafeToRetry(err) {
				t.Errorf("it calls safe what is not: %v", err)
			}
		})
	}
}

func TestARefusedConnectionIsNotSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	_ = l.Close()
	client := transport(t, ownTransport(t), onceward.TransportConfig{Backoff: time.Millisecond, MaxAttempts: 3, Methods: []string{}})
	_, _, err = fetch(t, client, "POST", url, "milk")
	var lost *onceward.SendError
	if !errors.As(err, &lost) || !onceward.SafeToRetry(err) || lost.Attempts != 3 || lost.Key != "" {
		t.Errorf("%#v", err)
	}
	// What is no request at all is not tried again.
	attempts := 0
	client = transport(t, ownTransport(t), onceward.TransportConfig{Hosts: []string{"*"}, Observe: func(onceward.TransportAttempt) { attempts++ }})
	for _, bad := range []string{"ftp://127.0.0.1/x", "http://127.0.0.1/x"} {
		attempts = 0
		req := httptest.NewRequest("POST", bad, strings.NewReader("x"))
		req.RequestURI = ""
		req.Header["X"] = []string{"a\nb"}
		if _, err := client.RoundTrip(req); err == nil || attempts != 1 {
			t.Errorf("%s: %v after %d attempts", bad, err, attempts)
		}
	}
}

// http2Server speaks just enough HTTP/2 to answer each request of a connection
// with one frame.
func http2Server(t *testing.T, frame func(stream uint32) []byte) (url string, streams *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	streams = new(atomic.Int32)
	var all sync.WaitGroup
	var conns sync.Map
	serve := func(conn net.Conn) {
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, 24)); err != nil { // the preface
			return
		}
		_, _ = conn.Write(http2Frame(4, 0, 0, nil)) // SETTINGS
		head := make([]byte, 9)
		for {
			if _, err := io.ReadFull(conn, head); err != nil {
				return
			}
			length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
			if _, err := io.CopyN(io.Discard, conn, length); err != nil {
				return
			}
			stream := binary.BigEndian.Uint32(head[5:])
			switch {
			case head[3] == 4 && head[4]&1 == 0:
				_, _ = conn.Write(http2Frame(4, 1, 0, nil))
			case head[3] == 1:
				streams.Add(1)
				if f := frame(stream); f != nil {
					_, _ = conn.Write(f)
				} else { // 204, from HPACK's static table
					_, _ = conn.Write(http2Frame(1, 5, stream, []byte{0x89}))
				}
			}
		}
	}
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(conn, true)
			all.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		conns.Range(func(conn, _ any) bool {
			_ = conn.(net.Conn).Close()
			return true
		})
		all.Wait()
	})
	return "http://" + l.Addr().String(), streams
}

func http2Frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, payload...)
}

// net/http sends an HTTP/2 request again, up to six times, also after a reset that
// does not say that nothing was done.
func TestOverHTTP2OnlyWhatWasRefusedIsRepeatedWithoutTrust(t *testing.T) {
	const protocolError, refusedStream, internalError = 1, 7, 2
	for _, c := range []struct {
		name  string
		code  byte
		body  string
		plain int // how often net/http sends it
		ours  int
	}{
		{"refused, with a body", refusedStream, "milk", 2, 2},
		{"a protocol error, with a body", protocolError, "milk", 2, 1},
		{"a protocol error, without a body", protocolError, "", 2, 1},
		{"an internal error, with a body", internalError, "milk", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, ours := range []bool{false, true} {
				first := true
				url, streams := http2Server(t, func(stream uint32) []byte {
					if !first {
						return nil
					}
					first = false
					return http2Frame(3, 0, stream, []byte{0, 0, 0, c.code})
				})
				base := &http.Transport{Protocols: new(http.Protocols)}
				base.Protocols.SetUnencryptedHTTP2(true)
				t.Cleanup(base.CloseIdleConnections)
				var client http.RoundTripper = base
				attempts, want := 0, c.plain
				if ours {
					client, want = transport(t, base, onceward.TransportConfig{Backoff: time.Millisecond, Observe: func(onceward.TransportAttempt) { attempts++ }}), c.ours
				}
				_, _, err := fetch(t, client, "POST", url+"/orders", c.body)
				if int(streams.Load()) != want || (err == nil) != (want == 2) {
					t.Errorf("ours: %v: sent %d times, want %d: %v", ours, streams.Load(), want, err)
				}
				if ours && attempts != want {
					t.Errorf("%d attempts, want %d", attempts, want)
				}
				base.CloseIdleConnections()
			}
		})
	}
}

func TestTheClientOfTheStandardLibraryFollowsRedirectsThroughIt(t *testing.T) {
	var keys []string
	mux := http.NewServeMux()
	mux.HandleFunc("POST /old", func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
	})
	mux.HandleFunc("POST /new", func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	base := ownTransport(t)
	client := &http.Client{Transport: transport(t, base, onceward.TransportConfig{}), Timeout: 10 * time.Second}
	for _, intent := range []bool{false, true} {
		ctx := t.Context()
		if intent {
			ctx = onceward.ContextWithKey(ctx, "intent")
		}
		keys = nil
		req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/old", strings.NewReader("milk"))
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if string(body) != "milk" || len(keys) != 2 || keys[0] == "" || (keys[0] == keys[1]) != intent {
			t.Errorf("%q; keys %v", body, keys)
		}
	}
	base.CloseIdleConnections()
}
