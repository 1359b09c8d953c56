package deploys_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// crew is some lines of some people, all running.
type crew struct {
	lines []*line
	stats stats
}

// hire starts n lines, of people who share the accounts.
func hire(t *testing.T, p *planner, n, accounts int) *crew {
	t.Helper()
	c := &crew{}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	clients := make([]*http.Client, accounts)
	for i := range clients {
		clients[i] = p.register(fmt.Sprintf("anna%d", i))
	}
	for i := range n {
		l := newLine(p, clients[i%accounts], fmt.Sprintf("anna%d", i%accounts), fmt.Sprintf("L%d", i), &c.stats)
		c.lines = append(c.lines, l)
		wg.Go(func() { l.run(ctx) })
	}
	return c
}

// settle waits until every wish is acknowledged.
func (c *crew) settle(t *testing.T, within time.Duration) {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		left := 0
		for _, l := range c.lines {
			left += l.left()
		}
		if left == 0 {
			return
		}
		if t.Failed() || time.Now().After(end) {
			t.Fatalf("%d wishes are still not acknowledged", left)
		}
	}
}

func (c *crew) taps() (n int) {
	for _, l := range c.lines {
		l.mu.Lock()
		n += len(l.wishes)
		l.mu.Unlock()
	}
	return n
}

// Requirement 48: twenty clicks a second, and four releases in the middle.
func TestRestartsUnderTwentyClicksASecondLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	p := startPlanner(t)
	c := hire(t, p, 8, 2)
	careless := newLine(p, p.register("boris"), "boris", "careless", &stats{})
	careless.once = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go careless.run(ctx)

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second / 20)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				c.lines[n%len(c.lines)].tap()
			}
		}
	}()
	var down time.Duration
	for range 4 {
		time.Sleep(1200 * time.Millisecond)
		begun := time.Now()
		p.term()
		if status := p.wait(); status != 0 {
			t.Errorf("the planner ended with %d", status)
		}
		// What was begun was finished: no key is left in the middle of its work.
		if open := p.claims(); len(open) != 0 {
			t.Errorf("%d requests were left in the middle by a graceful end", len(open))
		}
		for range 3 {
			careless.tap()
		}
		for careless.left() > 0 {
			time.Sleep(time.Millisecond)
		}
		p.start()
		down += time.Since(begun)
	}
	time.Sleep(500 * time.Millisecond)
	close(stop)
	<-stopped
	c.settle(t, 3*time.Minute)

	v := judge(c.lines)
	t.Logf("%d taps in %d attempts, 4 restarts that took %v: %d found nobody, %d were cut off, %d were answered by a replay: %v",
		c.taps(), c.stats.attempts.Load(), down.Round(time.Millisecond), c.stats.refused.Load(), c.stats.unanswered.Load(), c.stats.replayed.Load(), v)
	v.expect(t)
	if c.stats.refused.Load()+c.stats.unanswered.Load() == 0 {
		t.Error("no tap met a restart: nothing was tested")
	}
	// The control: who sends once loses what falls between two versions.
	if v := judge([]*line{careless}); len(v.lost) == 0 {
		t.Errorf("a client that sends once lost nothing: %v", v)
	}
}

// A request that has reached its handler when the planner is told to end is
// finished and answered, although nobody else is let in any more.
func TestSIGTERMFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	p := startPlanner(t)
	client := p.register("anna")
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	var cookies []string
	for _, c := range client.Jar.Cookies(at) {
		cookies = append(cookies, c.Name+"="+c.Value)
	}

	const requests = 5
	type running struct {
		conn   net.Conn
		answer *bufio.Reader
		body   string
	}
	var all []running
	for i := range requests {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		body := fmt.Sprintf("text=Running+%d&id=r%d&_key=k%d", i, i, i)
		fmt.Fprintf(conn, "POST /tasks HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nHX-Request: true\r\nIdempotency-Key: k%d\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
			p.addr, strings.Join(cookies, "; "), i, len(body))
		r := running{conn, bufio.NewReader(conn), body}
		// The server asks for the body when a handler begins to read it: it runs.
		first, err := r.answer.ReadString('\n')
		if err != nil || !strings.HasPrefix(first, "HTTP/1.1 100 ") {
			t.Fatalf("request %d does not run: %q, %v", i, first, err)
		}
		if _, err := r.answer.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}

	p.term()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			break // nobody is let in any more
		}
		conn.Close()
		if time.Now().After(end) {
			t.Fatal("30 s after SIGTERM it still takes connections")
		}
	}
	select {
	case <-p.Done():
		t.Fatal("it ended with requests in the middle")
	default:
	}
	for i, r := range all {
		if _, err := io.WriteString(r.conn, r.body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r.answer, nil)
		if err != nil {
			t.Fatalf("request %d got no answer: %v", i, err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusCreated || !strings.HasPrefix(resp.Header.Get("Idempotency-Status"), "executed;") || !strings.Contains(string(text), fmt.Sprintf("Running %d", i)) {
			t.Errorf("request %d: %s, %q, %v\n%s", i, resp.Status, resp.Header.Get("Idempotency-Status"), err, text)
		}
	}
	if status := p.wait(); status != 0 {
		t.Errorf("the planner ended with %d", status)
	}
	if n := len(p.tasks("anna")); n != requests {
		t.Errorf("%d of %d tasks are there", n, requests)
	}
	if open := p.claims(); len(open) != 0 {
		t.Errorf("%d keys are left in the middle", len(open))
	}
}
