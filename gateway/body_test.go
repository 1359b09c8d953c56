package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/gateway"
)

const shortBody = 300 * time.Millisecond

// R: whoever stops in the middle of a body is sent away, whatever kind of request it
// is that is read before it goes on, and nobody has seen anything of it.
func TestABodyThatStopsComingIsRefused(t *testing.T) {
	t.Parallel()
	app := serve(t, true, always(created))
	addr := front(t, app.url(), gateway.Config{BodyTimeout: shortBody})
	var wg sync.WaitGroup
	for name, c := range map[string]struct{ head, start string }{
		"keyed":              {"Idempotency-Key: k\r\nContent-Length: 100\r\n", "tea"},
		"keyed, large":       {"Idempotency-Key: k\r\nContent-Length: 1000000\r\n", strings.Repeat("x", 200_000)},
		"keyed, chunked":     {"Idempotency-Key: k\r\nTransfer-Encoding: chunked\r\n", "3\r\ntea\r\n"},
		"keyed, nothing":     {"Idempotency-Key: k\r\nContent-Length: 100\r\n", ""},
		"form":               {"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n", "item=tea"},
		"form in parts":      {"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n", "--b\r\n"},
		"refused by its key": {"Idempotency-Key: a, b\r\nContent-Length: 100\r\n", "tea"}, // net/http reads the rest
	} {
		wg.Go(func() {
			c1 := dial(t, addr)
			c1.say("POST /orders HTTP/1.1\r\nHost: x\r\n" + c.head + "\r\n" + c.start)
			got := c1.answer("POST")
			want := http.StatusRequestTimeout
			if strings.HasPrefix(name, "refused") {
				want = http.StatusBadRequest
			}
			if got.status != want || name != "refused by its key" && got.outcome() != "" {
				t.Errorf("%s: answered %v", name, got)
			}
			if _, err := c1.br.ReadByte(); err != io.EOF {
				t.Errorf("%s: the connection stays open (%v)", name, err)
			}
		})
	}
	wg.Wait()
	app.wantArrivals(0)
	send(t, addr, "POST", "/orders", "tea", key, "k").want(t, 201, "executed") // it took no key
}

// R: a body that comes slowly is no body that has stopped: 64 KiB in time buy as much
// time again. The limit is gone with the body's end: an application may take longer.
func TestABodyThatKeepsComingIsTaken(t *testing.T) {
	t.Parallel()
	const patience, piece, pieces = 3 * time.Second, 80_000, 6 // the machine may be busy between two pieces
	app := serve(t, true, func(a *arrival) bool {
		if a.n == 1 {
			time.Sleep(patience + 200*time.Millisecond)
		}
		body, _ := io.ReadAll(a.Body)
		a.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n%06d", len(body)))
		return true
	})
	addr := front(t, app.url(), gateway.Config{BodyTimeout: patience})
	c := dial(t, addr)
	c.say(fmt.Sprintf("POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\r\nContent-Length: %d\r\n\r\n", piece*pieces))
	for range pieces {
		time.Sleep(patience / 5)
		c.say(strings.Repeat("x", piece))
	}
	got := c.answer("POST")
	got.want(t, 200, "executed")
	if got.body != fmt.Sprint(piece*pieces) {
		t.Errorf("%s bytes arrived", got.body)
	}
	c.say("POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: b\r\nContent-Length: 3\r\n\r\ntea")
	c.answer("POST").want(t, 200, "executed")
	app.wantArrivals(2)
}

// R: what is streamed is the application's to bound.
func TestAnUploadThatIsStreamedMayPause(t *testing.T) {
	t.Parallel()
	app := serve(t, false, func(a *arrival) bool {
		n, _ := io.Copy(io.Discard, a.Body)
		a.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n%05d", n))
		return true
	})
	addr := front(t, app.url(), gateway.Config{BodyTimeout: shortBody})
	for _, kind := range []string{"application/octet-stream", "multipart/form-data; boundary=b"} {
		c := dial(t, addr)
		c.say("POST /files HTTP/1.1\r\nHost: x\r\nContent-Type: " + kind + "\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("x", 10_000))
		time.Sleep(3 * shortBody)
		c.say(strings.Repeat("y", 10_000))
		if got := c.answer("POST"); got.status != 200 || got.body != "20000" {
			t.Errorf("%s: answered %v", kind, got)
		}
	}
}

// R: bodies that have stopped give back the room that they took: others are served
// again, and not told that the spool is full.
func TestStalledBodiesDoNotHoldTheSpool(t *testing.T) {
	t.Parallel()
	app := serve(t, true, always(created))
	addr := front(t, app.url(), gateway.Config{BodyTimeout: 4 * time.Second, Guard: onceward.Config{MaxSpool: 2 << 20, SpoolDir: t.TempDir()}})
	large := strings.Repeat("x", 1<<20)
	ended := make(chan answer, 3)
	for i := range cap(ended) {
		c := dial(t, addr)
		c.say(fmt.Sprintf("POST /up HTTP/1.1\r\nHost: x\r\nIdempotency-Key: stalled%d\r\nContent-Length: %d\r\n\r\n%s", i, 1<<20, large[:600<<10]))
		go func() { ended <- c.answer("POST") }()
	}
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusCreated} {
		status := 0
		for i := 0; i < 400 && status != want; i++ {
			status = send(t, addr, "POST", "/up", large, key, fmt.Sprintf("%d-%d", want, i)).status
			time.Sleep(50 * time.Millisecond)
		}
		if status != want {
			t.Fatalf("the last of 400 requests is %d, want %d", status, want)
		}
	}
	for range cap(ended) {
		if got := <-ended; got.status != http.StatusRequestTimeout && got.status != http.StatusServiceUnavailable {
			t.Errorf("a stalled one: %v", got)
		}
	}
}

// R: a limit of none is none.
func TestABodysLimitCanBeTakenAway(t *testing.T) {
	t.Parallel()
	app := serve(t, true, always(created))
	addr := front(t, app.url(), gateway.Config{BodyTimeout: -1})
	c := dial(t, addr)
	c.say("POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 6\r\n\r\ntea")
	time.Sleep(2 * shortBody)
	c.say("tea")
	c.answer("POST").want(t, 201, "executed")
}

// R: whoever does not read his answer holds neither the spool nor memory for ever, and
// finds his answer later, as after any lost one. Slowly read, it is whole.
func TestAnAnswerThatNobodyReadsDoesNotHoldTheSpool(t *testing.T) {
	t.Parallel()
	const size = 12 << 20 // more than the sockets take
	large := strings.Repeat("x", size)
	app := serve(t, true, func(a *arrival) bool {
		if a.URL.Path == "/large" {
			a.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", size, large))
		} else {
			a.say(created)
		}
		return true
	})
	const patience = 3 * time.Second
	addr := front(t, app.url(), gateway.Config{BodyTimeout: patience, Guard: onceward.Config{MaxSpool: size + 1<<20, SpoolDir: t.TempDir()}})
	deaf := dial(t, addr)
	deaf.say("POST /large HTTP/1.1\r\nHost: x\r\nIdempotency-Key: deaf\r\nContent-Length: 0\r\n\r\n")
	if _, err := deaf.br.Peek(1); err != nil { // its answer is on its way, and no more of it is read
		t.Fatal(err)
	}
	upload := strings.Repeat("y", 2<<20)
	status := 0
	for i := 0; i < 200 && status != http.StatusCreated; i++ {
		status = send(t, addr, "POST", "/up", upload, key, fmt.Sprint(i)).status
		time.Sleep(patience / 20)
	}
	if status != http.StatusCreated {
		t.Fatalf("the last of 200 uploads is %d: one answer holds the spool", status)
	}
	if got := deaf.answer("POST"); got.err == nil {
		t.Errorf("the answer that nobody read arrived whole: %d bytes", len(got.body))
	}
	slow := dial(t, addr)
	slow.say("POST /large HTTP/1.1\r\nHost: x\r\nIdempotency-Key: slow\r\nContent-Length: 0\r\n\r\n")
	res, err := http.ReadResponse(slow.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for end := false; !end; {
		got, err := io.CopyN(io.Discard, res.Body, 3<<20)
		n, end = n+int(got), err != nil
		time.Sleep(patience / 3) // in all it takes longer than one patience
	}
	if n != size || res.Header.Get("Idempotency-Status") != `executed;key="slow"` {
		t.Errorf("%d bytes arrived of %d, %s", n, size, res.Header.Get("Idempotency-Status"))
	}
}
