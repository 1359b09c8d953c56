package deploys_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wish is one tap: to have a task, or to have it done or not done.
type wish struct {
	key   string
	title string // of a new task; empty: a wish about an old one
	id    string
	done  bool
}

// line is one person's outbox on one device: wishes leave in the order in which
// they were made, the next one when the last is acknowledged.
type line struct {
	t      *testing.T
	p      *planner
	client *http.Client
	login  string
	name   string
	// once: it sends each wish once and forgets it, as a page without an outbox
	// does.
	once bool

	mu     sync.Mutex
	wishes []wish // guarded by mu: all that were ever made; the log of intents
	sent   int    // guarded by mu: how many of them are acknowledged
	more   chan struct{}

	// Counted over all lines of a test.
	stats *stats
}

// stats is what clients saw.
type stats struct {
	attempts, replayed atomic.Int64
	// unanswered are requests that were written whole and never answered.
	unanswered atomic.Int64
	// refused are those that found nobody listening.
	refused atomic.Int64
	// flying are written whole and not answered yet.
	flying atomic.Int64
}

func newLine(p *planner, client *http.Client, login, name string, st *stats) *line {
	return &line{t: p.t, p: p, client: client, login: login, name: name, stats: st, more: make(chan struct{}, 1)}
}

// tap makes the line's next wish: every third is a new task, the others turn an
// old one round. The first task repeats every week.
func (l *line) tap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.wishes)
	w := wish{key: rand.Text()}
	if n%3 == 0 {
		w.id, w.title = rand.Text(), fmt.Sprintf("Task %s-%d", l.name, n/3)
		if n == 0 {
			w.title += " every Monday"
		}
	} else {
		// Of the tasks there are, an early one: so that one task has many wishes.
		var ids []string
		state := map[string]bool{}
		for _, old := range l.wishes {
			if old.title != "" {
				ids = append(ids, old.id)
			}
			state[old.id] = old.done
		}
		w.id = ids[mrand.IntN(min(3, len(ids)))]
		w.done = !state[w.id]
	}
	l.wishes = append(l.wishes, w)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// left is how many wishes are not acknowledged.
func (l *line) left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.wishes) - l.sent
}

// next is the wish that is sent until it is acknowledged.
func (l *line) next() (w wish, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent == len(l.wishes) {
		return wish{}, false
	}
	return l.wishes[l.sent], true
}

// run delivers until ctx is done. Only its end is waited for with left.
func (l *line) run(ctx context.Context) {
	for {
		l.mu.Lock()
		var next *wish
		if l.sent < len(l.wishes) {
			next = &l.wishes[l.sent]
		}
		l.mu.Unlock()
		if next == nil {
			select {
			case <-ctx.Done():
				return
			case <-l.more:
			}
			continue
		}
		if !l.deliver(ctx, *next) {
			return
		}
		l.mu.Lock()
		l.sent++
		l.mu.Unlock()
	}
}

// deliver sends a wish under its name until it is acknowledged.
func (l *line) deliver(ctx context.Context, w wish) bool {
	path, form := "/tasks", url.Values{"text": {w.title}, "id": {w.id}}
	if w.title == "" {
		path, form = "/tasks/"+w.id+"/state", url.Values{"completed": {strconv.FormatBool(w.done)}}
	}
	form.Set("_key", w.key)
	body := form.Encode()
	for {
		wait := 60*time.Millisecond + mrand.N(120*time.Millisecond)
		status, token, after, err := l.send(ctx, path, body, w.key)
		switch {
		case l.once:
			return true
		case err != nil:
		case token == "executed" && status < 400:
			return true
		case token == "replayed" && status < 400:
			l.stats.replayed.Add(1)
			return true
		case token == "executed", token == "replayed", token != "in-progress" && token != "released" && token != "unavailable":
			l.t.Errorf("%s %s: %d, Idempotency-Status %q", l.name, path, status, token)
			return false
		case after > 0:
			wait += after
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// send sends once. The answer counts at its clean end only.
func (l *line) send(ctx context.Context, path, body, key string) (status int, token string, after time.Duration, err error) {
	l.stats.attempts.Add(1)
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil && written.CompareAndSwap(false, true) {
			l.stats.flying.Add(1)
		}
	}}
	defer func() {
		switch {
		case !written.Load():
			l.stats.refused.Add(1)
			return
		case err != nil:
			l.stats.unanswered.Add(1)
		}
		l.stats.flying.Add(-1)
	}()
	// In a string, so that net/http cannot send it a second time by itself: what
	// is counted here is one attempt each.
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, l.p.url+path, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		return 0, "", 0, err
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("HX-Request", "true")
	req.Header.Set("Idempotency-Key", key)
	resp, err := l.client.Do(req)
	if err != nil {
		return 0, "", 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, "", 0, err
	}
	token, _, _ = strings.Cut(resp.Header.Get("Idempotency-Status"), ";")
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		after = time.Duration(s) * time.Second
	}
	return resp.StatusCode, token, after, nil
}

// verdict is what a database owes people.
type verdict struct{ lost, doubled, wrong []string }

func (v verdict) String() string {
	return fmt.Sprintf("lost=%d doubled=%d wrong=%d", len(v.lost), len(v.doubled), len(v.wrong))
}

// judge holds the database against the wishes.
func judge(lines []*line) (v verdict) {
	for _, l := range lines {
		byTitle := map[string][]task{}
		for _, t := range l.p.tasks(l.login) {
			byTitle[t.title] = append(byTitle[t.title], t)
		}
		state, titles := map[string]bool{}, map[string]string{}
		for _, w := range l.wishes {
			if w.title != "" {
				titles[w.id] = w.title
			}
			state[w.id] = w.done
		}
		for id, title := range titles {
			title, repeats := strings.CutSuffix(title, " every Monday")
			want := 1
			if repeats && state[id] {
				want = 2 // and the next one
			}
			found := byTitle[title]
			switch {
			case len(found) < want:
				v.lost = append(v.lost, fmt.Sprintf("%s: %q: %d of %d", l.login, title, len(found), want))
			case len(found) > want:
				v.doubled = append(v.doubled, fmt.Sprintf("%s: %q: %d instead of %d", l.login, title, len(found), want))
			}
			for _, t := range found {
				if t.id == id && t.done != state[id] {
					v.wrong = append(v.wrong, fmt.Sprintf("%s: %q: done is %v, and the last wish was %v", l.login, title, t.done, state[id]))
				}
				if t.repeat != repeats {
					v.wrong = append(v.wrong, fmt.Sprintf("%s: %q: repeats is %v", l.login, title, t.repeat))
				}
			}
		}
	}
	return v
}

// expect fails the test unless everything is as it was wished.
func (v verdict) expect(t *testing.T) {
	t.Helper()
	for _, list := range [][]string{v.lost, v.doubled, v.wrong} {
		for _, s := range list[:min(len(list), 10)] {
			t.Error(s)
		}
	}
}
