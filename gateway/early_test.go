package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/gateway"
)

// R: an application may begin its answer before it has the whole request, whatever the
// request's framing. It gets every byte of the request, and the client every byte of the
// answer, each as it comes.
func TestAnAnswerMayBeginBeforeTheRequestEnds(t *testing.T) {
	piece := strings.Repeat("x", 10_000)
	for _, method := range []string{"POST", "PUT", "GET"} {
		for framing, write := range map[string]func(string) string{
			"Content-Length: 60000":      func(p string) string { return p },
			"Transfer-Encoding: chunked": func(p string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(p), p) },
		} {
			t.Run(method+" "+framing, func(t *testing.T) {
				t.Parallel()
				rest := make(chan string, 1)
				app := serve(t, false, func(a *arrival) bool {
					_, _ = io.CopyN(io.Discard, a.Body, int64(len(piece)))
					a.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
					n, err := io.Copy(io.Discard, a.Body)
					rest <- fmt.Sprint(n, " ", err)
					a.say("3\r\nend\r\n0\r\n\r\n")
					return true
				})
				c := dial(t, front(t, app.url(), gateway.Config{}))
				c.say(method + " /a HTTP/1.1\r\nHost: x\r\n" + framing + "\r\n\r\n" + write(piece))
				res, err := http.ReadResponse(c.br, nil) // before the rest is sent
				if err != nil {
					t.Fatal(err)
				}
				first := make([]byte, 5)
				if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "hello" {
					t.Fatalf("first came %q (%v)", first, err)
				}
				for range 5 {
					c.say(write(piece))
				}
				if strings.HasPrefix(framing, "T") {
					c.say(write(""))
				}
				if got := <-rest; got != "50000 <nil>" {
					t.Errorf("the rest came to the application as %s", got)
				}
				if end, err := io.ReadAll(res.Body); err != nil || string(end) != "end" {
					t.Errorf("then came %q (%v)", end, err)
				}
			})
		}
	}
}

// R: a client that waits for the answer in the middle of its body gets it: nobody waits
// for the rest of a request that is answered.
func TestAnAnswerDoesNotWaitForTheRequestsEnd(t *testing.T) {
	for name, tail := range map[string]string{
		"a length":   "Content-Length: 3\r\n\r\nbig",
		"nothing":    "Content-Length: 0\r\n\r\n",
		"chunks":     "Transfer-Encoding: chunked\r\n\r\n3\r\nbig\r\n0\r\n\r\n",
		"half of it": "Content-Length: 6\r\n\r\nbig", // the other half when the request has ended
	} {
		for _, method := range []string{"POST", "GET"} {
			t.Run(method+" "+name, func(t *testing.T) {
				t.Parallel()
				app := serve(t, false, func(a *arrival) bool {
					a.say("HTTP/1.1 413 Too Large\r\n" + tail)
					if name == "half of it" {
						_, _ = io.Copy(io.Discard, a.Body)
						a.say("big")
						return true
					}
					a.gone()
					return false
				})
				c := dial(t, front(t, app.url(), gateway.Config{}))
				c.say(method + " /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nhello")
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				if name == "half of it" {
					head := c.head()
					half := make([]byte, 3)
					if _, err := io.ReadFull(c.br, half); err != nil || string(half) != "big" || !strings.HasPrefix(head, "HTTP/1.1 413 ") {
						t.Fatalf("answered %q %q (%v)", head, half, err)
					}
					return
				}
				if got := c.answer("POST"); got.status != http.StatusRequestEntityTooLarge || got.err != nil || len(got.body) != strings.Count(tail, "big")*3 {
					t.Errorf("answered %v", got)
				}
			})
		}
	}
}

// R: an application that answers and closes its connection while the request still
// comes has answered: "413" is what its client hears, and not that nobody knows.
func TestAnAnswerToHalfARequestIsItsAnswer(t *testing.T) {
	large := strings.Repeat("x", 8<<20)
	both(t, func(t *testing.T, named string) {
		app := serve(t, false, func(a *arrival) bool {
			time.Sleep(50 * time.Millisecond) // until the gateway cannot write on
			a.say("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
			return false // the rest is not read: the connection is reset
		})
		addr := front(t, app.url(), gateway.Config{})
		// The gateway hears of the answer and of the failure to write at once.
		var wg sync.WaitGroup
		for part := range 2 {
			wg.Go(func() {
				for i := range 2 {
					c := dial(t, addr)
					go io.WriteString(c.Conn, fmt.Sprintf("POST /a HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n",
						strings.Replace(named, "k", fmt.Sprintf("k%d-%d", part, i), 1), len(large))+large)
					got := c.answer("POST")
					want := map[bool]string{false: "", true: "executed"}[named != ""]
					if got.status != http.StatusRequestEntityTooLarge || got.body != "big" || got.outcome() != want {
						t.Errorf("answered %v", got)
					}
					c.Close()
				}
			})
		}
		wg.Wait()
	})
}

// R: a status that is none is no answer.
func TestAStatusThatIsNoneIsABadAnswer(t *testing.T) {
	both(t, func(t *testing.T, named string) {
		app := serve(t, true, always("HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n"))
		addr := front(t, app.url(), gateway.Config{})
		text := "POST /a HTTP/1.1\r\nHost: x\r\n" + named + "Content-Length: 3\r\nConnection: close\r\n\r\ntea"
		if got := raw(t, addr, text); len(got) != 1 || got[0].status != http.StatusBadGateway {
			t.Errorf("answered %v, want 502", got)
		}
		if named != "" {
			if got := raw(t, addr, text); len(got) != 1 || got[0].outcome() != "outcome-unknown" {
				t.Errorf("answered %v", got)
			}
			app.wantArrivals(1)
		}
	})
}
