package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/integration/servers"
)

// keys runs `onceward keys` on a gateway's store.
func keys(t *testing.T, store string, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"keys"}, args...)...)
	cmd.Env = append(os.Environ(), "ONCEWARD_STORE="+store)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("keys %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// B030, B033, R: the application is killed while it has the request. Nobody knows
// what it did; it is not asked again; the operator sees the key, looks, and ends
// it.
func TestAnApplicationKilledInMidRequestIsNotAskedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, s *shop) {
		store := sqlite(t)
		g := openGateway(t, s.url, store, s.scope())
		p := s.signIn(s.url, "ann")
		for when, effects := range map[string]int{"before": 0, "after": 1} {
			item := "killed-" + when
			r := ordering(item, item)
			r.chaos = "die-" + when
			p.must(g.url, r).want(t, http.StatusBadGateway, "outcome-unknown")
			s.waitUntilItAnswers() // gunicorn starts another worker
			r.chaos = ""
			for range 3 {
				p.must(g.url, r).want(t, http.StatusConflict, "outcome-unknown")
			}
			p.wantEffects(item, effects)
			if n := s.arrivals("POST /orders " + item); n != 1 {
				t.Errorf("the application was asked %d times", n)
			}
			if list := keys(t, store, "list", "--stuck"); !strings.Contains(list, "held") || !strings.Contains(list, "POST /orders") {
				t.Errorf("keys list --stuck:\n%s", list)
			}
			if effects == 0 { // it was not done: the same request may run now
				keys(t, store, "release", "--key", item, "--reason", "there is no such order")
				p.must(g.url, r).want(t, http.StatusCreated, "executed")
			} else { // it was done: that is the answer
				keys(t, store, "complete", "--key", item, "--reason", "the order is there", "--status", "201", "--header", "Location: /orders/1")
				p.must(g.url, r).want(t, http.StatusCreated, "replayed")
			}
			p.wantEffects(item, 1)
			if list := keys(t, store, "list", "--stuck"); strings.Contains(list, "held") {
				t.Errorf("keys list --stuck:\n%s", list)
			}
		}
	})
}

// R: an application that is down was sent nothing; when it is up again, the same
// request runs.
func TestAnApplicationThatIsDownWasSentNothing(t *testing.T) {
	onEach(t, func(t *testing.T, s *shop) {
		g := openGateway(t, s.url, sqlite(t), s.scope())
		p := s.signIn(s.url, "ann")
		s.Kill()
		s.unreachable(t) // a worker that dies last still accepts
		a := p.must(g.url, ordering("tea", "k"))
		a.want(t, http.StatusServiceUnavailable, "released")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %v", a.header)
		}
		s.again()
		p.must(g.url, ordering("tea", "k")).want(t, http.StatusCreated, "executed")
		p.wantEffects("tea", 1)
	})
}

// B030, R: the gateway is killed (kill -9) while a request is at the application,
// and started again on its store. The key is in progress until its lease is over
// and unknown from then on: never stuck, never run a second time.
func TestAGatewayKilledInMidRequestLeavesNothingStuckAndNothingDoubled(t *testing.T) {
	for kind, open := range map[string]func(t *testing.T) string{
		"sqlite":   sqlite,
		"postgres": func(t *testing.T) string { return servers.Postgres(t) },
		"redis":    func(t *testing.T) string { return servers.Redis(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, "flask")
			store := open(t)
			const lease = 2 * time.Second
			g := openGateway(t, s.url, store, s.scope(), "--lease", lease.String())
			url := g.url
			p := s.signIn(s.url, "ann")
			r := ordering("tea", "k")
			r.chaos = "before=1"
			broken := make(chan error, 1)
			go func() {
				_, err := p.try(url, r)
				broken <- err
			}()
			eventually(t, "the request is at the application", func() bool { return s.arrivals("POST /orders ") == 1 })
			killed := time.Now()
			g.Kill()
			if err := <-broken; err == nil {
				t.Error("a killed gateway answered")
			}
			g.againAt(url)
			first := p.must(url, r)
			if time.Since(killed) < lease {
				first.want(t, http.StatusConflict, "in-progress")
				if first.header.Get("Retry-After") == "" {
					t.Errorf("no Retry-After: %v", first.header)
				}
			}
			var a answer
			eventually(t, "the outcome is unknown", func() bool {
				a = p.must(url, r)
				return a.outcome() != "in-progress"
			})
			a.want(t, http.StatusConflict, "outcome-unknown")
			if since := time.Since(killed); since < lease/2 {
				t.Errorf("the lease was over after %v", since)
			}
			for range 3 {
				p.must(url, r).want(t, http.StatusConflict, "outcome-unknown")
			}
			p.wantEffects("tea", 1)
			if n := s.arrivals("POST /orders "); n != 1 {
				t.Errorf("the application was asked %d times", n)
			}
			if code := g.signal(); code != 0 {
				t.Errorf("the gateway ended with %d", code)
			}
		})
	}
}

// R: a restart by a signal loses nothing: what was sent is answered, what was
// answered is replayed, on every store.
func TestARestartOfTheGatewayLosesNoAnswer(t *testing.T) {
	for kind, open := range map[string]func(t *testing.T) string{
		"sqlite":   sqlite,
		"postgres": func(t *testing.T) string { return servers.Postgres(t) },
		"redis":    func(t *testing.T) string { return servers.Redis(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, "flask")
			g := openGateway(t, s.url, open(t), s.scope())
			url := g.url
			p := s.signIn(s.url, "ann")
			r := ordering("tea", "k")
			r.chaos = "before=0.5"
			answered := make(chan answer, 1)
			go func() {
				a, _ := p.try(url, r)
				answered <- a
			}()
			eventually(t, "the request is at the application", func() bool { return s.arrivals("POST /orders ") == 1 })
			if code := g.signal(); code != 0 {
				t.Errorf("the gateway ended with %d", code)
			}
			first := <-answered
			first.want(t, http.StatusCreated, "executed")
			g.againAt(url)
			again := p.must(url, r)
			again.want(t, http.StatusCreated, "replayed")
			if again.body != first.body || again.header.Get("Location") != first.header.Get("Location") {
				t.Errorf("first %v, then %v", first, again)
			}
			p.wantEffects("tea", 1)
		})
	}
}

// B098 (design: what was found by trying): a reused connection that dies unanswered
// makes net/http send a request with a key again by itself. Behind a bare reverse
// proxy the switch is thrown twice, and so is where it was; behind the gateway it is
// thrown once.
func TestGosSilentResendThrowsASwitchTwiceAndTheGatewayOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *shop) {
		p := s.signIn(s.url, "ann")
		for name, done := range map[string]int{"bare": 0, "gateway": 1} {
			a := p.must(s.url, ordering("switch-"+name, ""))
			m := regexp.MustCompile(`"id": ?(\d+)`).FindStringSubmatch(a.body)
			if m == nil {
				t.Fatalf("no order: %v", a)
			}
			path := "/orders/" + m[1]
			back := listen(t, network(t, s.url, "POST /orders/*/toggle -> reset-once", 1))
			at := ""
			if name == "bare" {
				to, _ := url.Parse(back)
				bare := httptest.NewServer(httputil.NewSingleHostReverseProxy(to))
				defer bare.Close()
				at = bare.URL
			} else {
				at = openGateway(t, back, sqlite(t), s.scope()).url
			}
			// A connection to the application is open and idle.
			p.must(at, request{method: "GET", path: "/orders"})
			p.must(at, ordering("warm-"+name, ""))
			toggle := request{path: path + "/toggle", key: "k"}
			for range 3 {
				if a, err := p.try(at, toggle); err == nil && (a.acknowledged() || name == "bare" && a.status == 200) {
					break
				}
			}
			var o order
			p.look(path, &o)
			if o.Done != done || strconv.Itoa(o.ID) != m[1] {
				t.Errorf("%s: the switch is %d, want %d", name, o.Done, done)
			}
			if n, want := s.arrivals("POST "+path+"/toggle"), map[string]int{"bare": 2, "gateway": 1}[name]; n != want {
				t.Errorf("%s: the application was asked %d times, want %d", name, n, want)
			}
		}
	})
}
