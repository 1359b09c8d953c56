package oncetest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// judge is one assertion about one request.
type judge struct {
	t      testing.TB
	c      Config
	h      http.Handler
	wired  *wired
	before seen // before the first try
	after  seen // after it
}

// seen is what the test can see of the application.
type seen struct {
	effects int
	state   string
}

func (c Config) look() (s seen) {
	if c.Effects != nil {
		s.effects = c.Effects()
	}
	if c.State != nil {
		s.state = c.State()
	}
	return s
}

func (c Config) judge(t testing.TB, h http.Handler, r *http.Request) *judge {
	j := &judge{t: t, c: c, h: h, wired: wire(r, nil), before: c.look()}
	j.after = j.before
	return j
}

// complain fails the test: what happened to which request, the answers, and what
// to do.
func (j *judge) complain(what string, first, again *Answer, remedy string) {
	j.t.Helper()
	r := j.wired.template
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s", r.Method, r.URL.RequestURI(), what)
	if first != nil {
		fmt.Fprintf(&b, "\n\tfirst answer: %v", first)
	}
	fmt.Fprintf(&b, "\n\tthis answer:  %v", again)
	if j.c.Effects != nil {
		fmt.Fprintf(&b, "\n\teffects:      %d before, %d now", j.before.effects, j.c.Effects())
	}
	fmt.Fprintf(&b, "\n\twhat to do:   %s", remedy)
	j.t.Error(b.String())
}

// first sends the first try. Not ok: it has failed the test, for what follows would
// show nothing.
func (j *judge) first() (a *Answer, ok bool) {
	j.t.Helper()
	a = j.wired.send(j.h, j.c.patience(), nil)
	j.after = j.c.look()
	switch {
	case a == nil:
		j.complain("the first try was not over in time", nil, a, "find what it waits for, or give it more Patience")
	case a.Panic != nil:
		j.complain("the first try panicked", nil, a, "mend that first")
	case a.replayed():
		j.stale(a)
	case !a.done():
		j.refused(a)
	default:
		return a, !j.failedToSee(j.after, a)
	}
	return a, false
}

func (j *judge) stale(a *Answer) {
	j.t.Helper()
	j.complain("the first try was answered like a repeat: its key was used before, so that nothing is tested", nil, a,
		"give the request a key of its own: oncetest.NewKey()")
}

func (j *judge) refused(a *Answer) {
	j.t.Helper()
	j.complain("the first try was refused, so that nothing is tested", nil, a, "give a request that is carried out: signed in, with a body that the handler takes")
}

// failedToSee fails the test if the request, of which now is the time after, has
// left nothing, or too much, to be seen.
func (j *judge) failedToSee(now seen, a *Answer) bool {
	j.t.Helper()
	switch grown := now.effects - j.before.effects; {
	case j.c.Effects != nil && grown == 0:
		j.complain("the request was answered as done, and Effects has not grown, so that nothing is tested", nil, a, "count what this request does")
	case j.c.Effects != nil && grown < 0:
		j.complain("the request made Effects smaller, so that nothing can be told", nil, a, "count what only grows: what was done, not what is there")
	case j.c.Effects == nil && j.c.State != nil && now.state == j.before.state:
		j.complain("the request was answered as done, and State is the same, so that nothing is tested", nil, a, "show what this request changes, or send one that changes something")
	default:
		return false
	}
	return true
}

// named says whether the request has a key; if not it has failed the test.
func (j *judge) named() bool {
	j.t.Helper()
	name := j.c.header()
	if j.wired.template.Header.Get(name) != "" {
		return true
	}
	j.t.Errorf("%s %s: the request has no %s, so that nothing is tested\n\twhat to do:   r.Header.Set(%q, oncetest.NewKey())",
		j.wired.template.Method, j.wired.template.URL.RequestURI(), name, name)
	return false
}

// patiently sends the request again until it is no longer told to come back.
func (j *judge) patiently() (a *Answer) {
	end := time.Now().Add(j.c.patience())
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		a = j.wired.send(j.h, j.c.patience(), nil)
		if !a.busy() || time.Now().Add(wait).After(end) {
			return a
		}
		time.Sleep(wait)
	}
}

// sameState wants that a repeat, which was answered with again, has changed
// nothing.
func (j *judge) sameState(when string, first, again *Answer) bool {
	j.t.Helper()
	now := j.c.look()
	switch {
	case j.c.Effects != nil && now.effects != j.after.effects:
		j.complain(when+", a request was done again: "+times(now.effects-j.before.effects)+" in all", first, again,
			"give the request a name (Idempotency-Key) and do named work once; or let a unique key of the business find what is there")
	case j.c.State != nil && now.state == j.before.state && now.state != j.after.state:
		j.complain(when+", a request undid what it had done: the state is what it was at first", first, again,
			"let the request say the state that it wants, instead of turning it over")
	case j.c.State != nil && now.state != j.after.state:
		j.complain(when+fmt.Sprintf(", a request changed the state once more\n\tstate:        %.300q\n\tnow:          %.300q", j.after.state, now.state), first, again,
			"give the request a name (Idempotency-Key) and do named work once; or let it say the state that it wants")
	default:
		return true
	}
	return false
}

// sameAnswer wants a repeat to be answered as the first try was.
func (j *judge) sameAnswer(when string, first, again *Answer) bool {
	j.t.Helper()
	switch difference := ""; {
	case again == nil:
		j.complain(when+", a request was not over in time", first, again, "find what it waits for")
	case again.Panic != nil:
		j.complain(when+", a request panicked", first, again, "mend that")
	case again.busy():
		j.complain(when+", a request is told that the first still runs, whose answer has been given", first, again,
			"store the answer before it is given")
	case again.Status >= 400:
		j.complain(when+", a request is refused, and its client cannot tell that it was done", first, again,
			"answer a repeat as the first try was answered")
	default:
		if difference = j.c.differ(first, again); difference == "" {
			return true
		}
		j.complain(when+", a request was answered otherwise: "+difference, first, again,
			"keep the answer with the key, status and header included, and give it again; or say with Config.Same what of it matters")
	}
	return false
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
