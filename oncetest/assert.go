package oncetest

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// AssertRepeatable is [Config.AssertRepeatable] of the zero Config.
func AssertRepeatable(t testing.TB, h http.Handler, r *http.Request) {
	t.Helper()
	Config{}.AssertRepeatable(t, h, r)
}

// AssertRepeatable sends r to h, and then twice more byte for byte. It wants the
// first try carried out, and each repeat answered like it, with no further effect
// and no change of state. r is left as it was; a key that it carries must be fresh.
func (c Config) AssertRepeatable(t testing.TB, h http.Handler, r *http.Request) {
	t.Helper()
	j := c.judge(t, h, r)
	first, ok := j.first()
	if !ok {
		return
	}
	for range 2 {
		again := j.wired.send(j.h, c.patience(), nil)
		if !j.sameState("sent again", first, again) || !j.sameAnswer("sent again", first, again) {
			return
		}
	}
}

// AssertConcurrent is [Config.AssertConcurrent] of the zero Config.
func AssertConcurrent(t testing.TB, h http.Handler, r *http.Request) {
	t.Helper()
	Config{}.AssertConcurrent(t, h, r)
}

// AssertConcurrent sends Copies of r to h at once: a double click, a retry that
// overtakes. Each is held back at the last byte of its body, and again at the first of
// its answer, until all of them are there, and what asks its context in between waits a
// moment, as a database's driver does: so a handler is caught that looks first and acts
// later, or remembers only when it has answered. One that does all of it between two
// accesses of memory is not. It wants one effect; each answer like the others, or one that says to come
// back (409, 425 or 503 with Retry-After); and whoever comes back gets that answer.
func (c Config) AssertConcurrent(t testing.TB, h http.Handler, r *http.Request) {
	t.Helper()
	j := c.judge(t, h, r)
	answers := make([]*Answer, c.copies())
	gate, door := newGate(len(answers)), newGate(len(answers))
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			if !j.wired.hasBody {
				gate.wait() // nobody reads what is not there
			}
			answers[i] = j.wired.send(j.h, c.patience(), &accident{body: gate.hold, answer: door.wait, restless: true})
		})
	}
	all.Wait()

	var done []*Answer
	var refused *Answer
	for _, a := range answers {
		switch {
		case a.done():
			done = append(done, a)
		case !a.busy():
			refused = a
		}
	}
	if refused != nil {
		what, first := "of copies sent at once one was neither done nor told to come back", (*Answer)(nil)
		if len(done) > 0 {
			what, first = "of copies sent at once a request is refused, and its client cannot tell that it was done", done[0]
		}
		j.complain(what, first, refused, "answer a copy like the first one, or with 409 and Retry-After while the first one runs")
		return
	}
	if len(done) == 0 {
		j.complain("of copies sent at once none was done: each one waits for another", nil, answers[0],
			"let exactly one of them win the claim: one atomic INSERT … ON CONFLICT DO NOTHING")
		return
	}
	now := c.look()
	if c.State != nil && c.Effects == nil && now.state == j.before.state {
		j.complain("copies sent at once undid each other: the state is what it was before", nil, done[0],
			"let the request say the state that it wants, instead of turning it over")
		return
	}
	if j.failedToSee(now, done[0]) {
		return
	}
	if c.Effects != nil && now.effects != j.before.effects+1 {
		j.complain("copies sent at once were done "+times(now.effects-j.before.effects), nil, done[0],
			"looking whether it is done and doing it have to be one step: a unique index and INSERT … ON CONFLICT, or a claim that is stored before the work begins")
		return
	}
	first, other := c.winner(done)
	if other != nil {
		j.complain("copies sent at once were answered differently: "+c.differ(first, other), first, other,
			"keep the answer with the key, and give it to every copy")
		return
	}
	j.after = now
	again := j.patiently()
	_ = j.sameState("sent again after copies at once", first, again) && j.sameAnswer("sent again after copies at once", first, again)
}

// winner finds the answer that all others are like, or two that differ.
func (c Config) winner(done []*Answer) (first, other *Answer) {
	for _, candidate := range done {
		bad := (*Answer)(nil)
		for _, a := range done {
			if a != candidate && bad == nil && c.differ(candidate, a) != "" {
				bad = a
			}
		}
		if bad == nil {
			return candidate, nil
		}
		if first == nil {
			first, other = candidate, bad
		}
	}
	return first, other
}

// AssertLostAnswer is [Config.AssertLostAnswer] of the zero Config.
func AssertLostAnswer(t testing.TB, h http.Handler, r *http.Request) {
	t.Helper()
	Config{}.AssertLostAnswer(t, h, r)
}

// AssertLostAnswer sends r and loses the answer: when its first byte is to go out
// the client is gone, the context is cancelled and every write fails. Then it sends
// r again, and wants it done once in all.
func (c Config) AssertLostAnswer(t testing.TB, h http.Handler, r *http.Request) {
	t.Helper()
	c.afterAccident(t, h, r, "sent again because the answer was lost", &accident{unanswer: true},
		"keep the key with the work, whatever becomes of writing the answer")
}

// AssertHangUp is [Config.AssertHangUp] of the zero Config.
func AssertHangUp(t testing.TB, h http.Handler, r *http.Request) {
	t.Helper()
	Config{}.AssertHangUp(t, h, r)
}

// AssertHangUp sends r and has its client leave in the middle: the context is
// cancelled when the body has been read. Whether the handler goes on or gives up
// is its own affair. Then it sends r again, and wants it done once in all.
func (c Config) AssertHangUp(t testing.TB, h http.Handler, r *http.Request) {
	t.Helper()
	c.afterAccident(t, h, r, "sent again because its client had left in mid-work", &accident{leave: true},
		"either finish without the client (context.WithoutCancel), or undo all and free the key: a cancelled handler has not answered")
}

// AssertCrash is [Config.AssertCrash] of the zero Config.
func AssertCrash(t testing.TB, h http.Handler, r *http.Request) {
	t.Helper()
	Config{}.AssertCrash(t, h, r)
}

// AssertCrash sends r and panics when the first byte of the answer is to go out, as
// if the process died there; what the handler defers still runs. With
// [Config.Restart] the application is then made anew. It sends r again, and wants it
// done once in all.
func (c Config) AssertCrash(t testing.TB, h http.Handler, r *http.Request) {
	t.Helper()
	what := "sent again after a crash at the answer"
	remedy := "store the answer before its first byte goes out, and free the key of a run that died"
	if c.Restart != nil {
		what, remedy = "sent again after a crash and a restart", "store key and answer where they outlive the process, before the first byte goes out"
	}
	c.afterAccident(t, h, r, what, &accident{crash: true}, remedy)
}

// afterAccident is a try that nobody heard the end of, and its repeat.
func (c Config) afterAccident(t testing.TB, h http.Handler, r *http.Request, what string, how *accident, remedy string) {
	t.Helper()
	j := c.judge(t, h, r)
	lost := j.wired.send(j.h, c.patience(), how)
	switch {
	case lost == nil:
		j.complain("the first try was not over in time", nil, lost, "find what it waits for")
		return
	case lost.replayed():
		j.stale(lost)
		return
	case !how.leave && lost.Panic == nil && !lost.done():
		j.refused(lost)
		return
	}
	if how.crash && c.Restart != nil {
		j.h = c.Restart(t)
	}
	j.after = c.look()
	again := j.patiently()
	now := c.look()
	switch {
	case again.busy():
		j.complain(what+", a request is told for ever that the first try still runs", nil, again, remedy)
	case !again.done():
		j.complain(what+", a request is refused, and its client never learns that it was done", nil, again, remedy)
	case c.Effects != nil && now.effects == j.before.effects:
		j.complain(what+", a request was answered as done and was not done", nil, again, remedy)
	case c.Effects != nil && now.effects != j.before.effects+1:
		j.complain(what+", a request was done "+times(now.effects-j.before.effects), nil, again, remedy)
	case c.State != nil && now.state == j.before.state && j.after.state != j.before.state:
		j.complain(what+", a request undid what it had done", nil, again, "let the request say the state that it wants, instead of turning it over")
	case c.State != nil && j.after.state != j.before.state && now.state != j.after.state:
		j.complain(what+", a request changed the state once more", nil, again, remedy)
	default:
		_ = j.failedToSee(now, again)
	}
}

// AssertOtherBodyRefused is [Config.AssertOtherBodyRefused] of the zero Config.
func AssertOtherBodyRefused(t testing.TB, h http.Handler, r *http.Request, other string) {
	t.Helper()
	Config{}.AssertOtherBodyRefused(t, h, r, other)
}

// AssertOtherBodyRefused sends r, and then another body under the same key: a
// client's mistake, which must be refused with a 4xx and change nothing. To answer
// it with what r was answered would lose it without a word. r must carry a key.
func (c Config) AssertOtherBodyRefused(t testing.TB, h http.Handler, r *http.Request, other string) {
	t.Helper()
	j := c.judge(t, h, r)
	if !j.named() {
		return
	}
	first, ok := j.first()
	if !ok {
		return
	}
	a := wire(r, []byte(other)).send(j.h, c.patience(), nil)
	const remedy = "keep a hash of the request with its key, compare it, and answer 422 if it is another one"
	switch {
	case a.done() && (a.replayed() || string(a.Body) == string(first.Body)):
		j.complain("another body under the same key got the first one's answer: what it asked for is lost, and nobody is told", first, a, remedy)
	case a.done():
		j.complain("another body under the same key was carried out", first, a, remedy)
	case a == nil || a.Panic != nil || a.Status < 400 || a.Status >= 500:
		j.complain("another body under the same key was not refused with a 4xx", first, a, remedy)
	default:
		again := j.patiently()
		_ = j.sameState("sent again after a misuse of its key", first, again) && j.sameAnswer("sent again after a misuse of its key", first, again)
	}
}

// AssertOtherPerson is [Config.AssertOtherPerson] of the zero Config.
func AssertOtherPerson(t testing.TB, h http.Handler, r *http.Request, as func(r *http.Request)) {
	t.Helper()
	Config{}.AssertOtherPerson(t, h, r, as)
}

// AssertOtherPerson sends r, and then the same request, key included, as another
// person, which as makes of it. That one must never get the first one's answer: it
// is carried out for its own sender, or refused with a 4xx. Without Effects the two
// answers must differ, or the second must say that it was executed
// (Idempotency-Status). r must carry a key.
func (c Config) AssertOtherPerson(t testing.TB, h http.Handler, r *http.Request, as func(r *http.Request)) {
	t.Helper()
	j := c.judge(t, h, r)
	if !j.named() {
		return
	}
	first, ok := j.first()
	if !ok {
		return
	}
	w := wire(r, nil)
	w.template = r.Clone(r.Context())
	as(w.template)
	a := w.send(j.h, c.patience(), nil)
	now := c.look()
	const remedy = "store keys by account and key together, and ask authentication for the account"
	switch {
	case a == nil || a.Panic != nil || a.Status >= 500:
		j.complain("another person's request under the same key failed", first, a, remedy)
		return
	case a.replayed(), a.done() && c.Effects != nil && now.effects == j.after.effects,
		a.done() && c.Effects == nil && a.word() != "executed" && c.differ(first, a) == "":
		j.complain("another person who used the same key got the first one's answer", first, a, remedy)
		return
	case a.done() && c.Effects != nil && now.effects != j.after.effects+1:
		j.complain("another person's request was done "+times(now.effects-j.after.effects), first, a, remedy)
		return
	case !a.done() && c.Effects != nil && now.effects != j.after.effects:
		j.complain("another person's request was refused, and done", first, a, remedy)
		return
	}
	j.after = now
	again := j.patiently()
	_ = j.sameState("sent again after another person's", first, again) && j.sameAnswer("sent again after another person's", first, again)
}

// AssertRetryAfterFailure is [Config.AssertRetryAfterFailure] of the zero Config.
func AssertRetryAfterFailure(t testing.TB, h http.Handler, r *http.Request, breakIt func() (mend func())) {
	t.Helper()
	Config{}.AssertRetryAfterFailure(t, h, r, breakIt)
}

// AssertRetryAfterFailure breaks the application, sends r, which is to fail with a
// 5xx, mends it and sends r again: now it must be done, and done once in all. A
// handler that keeps the failure with the key loses the request.
func (c Config) AssertRetryAfterFailure(t testing.TB, h http.Handler, r *http.Request, breakIt func() (mend func())) {
	t.Helper()
	j := c.judge(t, h, r)
	mend := breakIt()
	failed := j.wired.send(j.h, c.patience(), nil)
	mend()
	if failed == nil || failed.Panic == nil && failed.Status < 500 {
		j.complain("the application was to fail, and did not: nothing is tested", nil, failed, "let Break do what makes the work fail")
		return
	}
	again := j.patiently()
	now := c.look()
	const remedy = "free the key when the work has failed: the repeat has to be a real one"
	switch {
	case !again.done():
		j.complain("sent again after a failure that is over, a request is still not done", failed, again, remedy)
	case c.Effects != nil && now.effects == j.before.effects:
		j.complain("sent again after a failure, a request was answered as done and was not done", failed, again, remedy)
	case c.Effects != nil && now.effects != j.before.effects+1:
		j.complain("sent again after a failure, a request was done "+times(now.effects-j.before.effects), failed, again,
			"undo what a failed run has written: one transaction for the work, its key and its answer")
	}
}

// gate holds n copies back, at the last byte of each body for one, until all n are there. A handler may let
// in one at a time, so that the others never come while the first one is held: some
// time after that one has come the gate stays open.
type gate struct {
	mu   sync.Mutex
	left int           // guarded by mu
	held bool          // guarded by mu
	open chan struct{} // closed when everybody may pass
	let  func()        // closes it, once
}

const gateTime = 300 * time.Millisecond

func newGate(n int) *gate {
	g := &gate{left: n, open: make(chan struct{})}
	g.let = sync.OnceFunc(func() { close(g.open) })
	return g
}

func (g *gate) hold(body io.ReadCloser) io.ReadCloser { return &heldBody{ReadCloser: body, gate: g} }

func (g *gate) wait() {
	g.mu.Lock()
	if !g.held {
		g.held = true
		time.AfterFunc(gateTime, g.let)
	}
	g.left--
	all := g.left == 0
	g.mu.Unlock()
	if all {
		g.let()
	}
	<-g.open
}

// heldBody is read byte for byte to its last one, and that one behind the gate.
type heldBody struct {
	io.ReadCloser
	gate *gate
	kept []byte // read, not given on
	end  error
	past bool
}

func (b *heldBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for b.end == nil && len(b.kept) < 2 {
		buf := make([]byte, max(len(p), 2))
		n, err := b.ReadCloser.Read(buf)
		b.kept, b.end = append(b.kept, buf[:n]...), err
	}
	if b.end == nil {
		n := copy(p, b.kept[:len(b.kept)-1])
		b.kept = b.kept[n:]
		return n, nil
	}
	if len(b.kept) > 1 {
		n := copy(p, b.kept[:len(b.kept)-1])
		b.kept = b.kept[n:]
		return n, nil
	}
	if !b.past {
		b.past = true
		b.gate.wait()
	}
	n := copy(p, b.kept)
	b.kept = b.kept[n:]
	if len(b.kept) == 0 {
		return n, b.end
	}
	return n, nil
}
