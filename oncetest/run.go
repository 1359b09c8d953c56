package oncetest

import (
	"net/http"
	"testing"
)

// Run makes every assertion about one kind of request, each as a subtest of t with a
// request of its own. request is called for each: it makes a fresh one, with a fresh
// key, that changes something.
//
// What the assertions need has to be in cfg, or be said to be missing by one of its
// No… fields: nothing is left out without a word.
func Run(t *testing.T, h http.Handler, request func() *http.Request, cfg Config) {
	t.Helper()
	for _, missing := range cfg.missing() {
		t.Error("oncetest: " + missing)
	}
	if t.Failed() {
		return
	}
	for _, s := range steps {
		if s.leftOut == nil || !s.leftOut(cfg) {
			t.Run(s.name, func(t *testing.T) {
				t.Helper()
				s.assert(cfg, t, h, request())
			})
		}
	}
}

// step is one assertion of Run.
type step struct {
	name    string
	assert  func(c Config, t testing.TB, h http.Handler, r *http.Request)
	leftOut func(c Config) bool
}

// The crash comes last: after it there may be another handler.
var steps = []step{
	{"SentAgain", Config.AssertRepeatable, nil},
	{"AtOnce", Config.AssertConcurrent, nil},
	{"AnswerLost", Config.AssertLostAnswer, nil},
	{"ClientGone", Config.AssertHangUp, nil},
	{"OtherBody", func(c Config, t testing.TB, h http.Handler, r *http.Request) {
		t.Helper()
		c.AssertOtherBodyRefused(t, h, r, c.OtherBody)
	}, func(c Config) bool { return c.NoKey }},
	{"OtherPerson", func(c Config, t testing.TB, h http.Handler, r *http.Request) {
		t.Helper()
		c.AssertOtherPerson(t, h, r, c.OtherPerson)
	}, func(c Config) bool { return c.NoKey || c.NoPersons }},
	{"Failure", func(c Config, t testing.TB, h http.Handler, r *http.Request) {
		t.Helper()
		c.AssertRetryAfterFailure(t, h, r, c.Break)
	}, func(c Config) bool { return c.NoBreak }},
	{"Crash", Config.AssertCrash, nil},
}

// missing says what Run needs and does not have.
func (c Config) missing() (list []string) {
	if c.OtherBody == "" && !c.NoKey {
		list = append(list, "Config.OtherBody is missing: another body that may come under the same key; a request without a key says so with NoKey")
	}
	if c.OtherPerson == nil && !c.NoKey && !c.NoPersons {
		list = append(list, "Config.OtherPerson is missing: what makes a request another person's; an application that has none says so with NoPersons")
	}
	if c.Break == nil && !c.NoBreak {
		list = append(list, "Config.Break is missing: what makes the work fail; an application that cannot be made to says so with NoBreak")
	}
	return list
}
