package gateway_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mrand "math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// intent is something that a person wants done once.
type intent struct {
	item string
	make func(key string) request // the request, as it is sent under a key
	done func() bool              // looks at the application whether it was done
	good func() error             // says what is wrong with the effect
}

// intents are n of them, of each kind that the shops have.
func (p *person) intents(t *testing.T, n int) (list []intent) {
	for i := range n {
		item := fmt.Sprintf("%s-%s-%d", p.s.kind, p.name, i)
		in := intent{item: item, done: func() bool { return p.effects(item) > 0 }, good: func() error {
			if n := p.effects(item); n != 1 {
				return fmt.Errorf("%s: effects=%d", item, n)
			}
			return nil
		}}
		switch i % 4 {
		case 0:
			in.make = func(key string) request { return ordering(item, key) }
		case 1: // a form with its key in a field, as a page has it
			in.make = func(key string) request {
				form := url.Values{"item": {item}, "qty": {"1"}}
				if p.cookie["csrftoken"] != "" {
					form.Set("csrfmiddlewaretoken", p.cookie["csrftoken"])
				}
				return request{path: "/orders", kind: "application/x-www-form-urlencoded", body: "_key=" + key + "&" + form.Encode(), accept: "text/html"}
			}
		case 2: // a file; the boundary is another one at each try
			in.make = func(key string) request {
				var b bytes.Buffer
				w := multipart.NewWriter(&b)
				_ = w.WriteField("item", item)
				part, _ := w.CreateFormFile("file", "f.bin")
				_, _ = part.Write(bytes.Repeat([]byte(item), 20_000))
				_ = w.Close()
				return request{path: "/files", kind: w.FormDataContentType(), body: b.String(), key: key}
			}
		case 3: // a switch, which a second time undoes; without a body
			a := p.must(p.s.url, ordering(item, ""))
			var made struct{ ID int }
			if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != 201 {
				t.Fatalf("no order to switch: %v", a)
			}
			path := "/orders/" + strconv.Itoa(made.ID)
			state := func() (o order) {
				p.look(path, &o)
				return o
			}
			in.make = func(key string) request { return request{path: path + "/toggle", key: key} }
			in.done = func() bool { return state().Done == 1 }
			in.good = func() error {
				if o := state(); o.Done != 1 {
					return fmt.Errorf("%s was switched on and is off", item)
				}
				return nil
			}
		}
		list = append(list, in)
	}
	return list
}

// tally is how it went.
type tally struct {
	mu                               sync.Mutex
	tries, acknowledged, held, found int
}

// deliver does what a careful client and, where nobody knows, its person do:
// repeats under one key until the request is acknowledged; looks, when nobody
// knows; and begins anew under a new key if it was not done.
func (p *person) deliver(at string, in intent, count *tally) error {
	key := rand.Text()
	req := in.make(key)
	for try := range 200 {
		a, err := p.try(at, req)
		count.mu.Lock()
		count.tries++
		if err == nil && a.acknowledged() {
			count.acknowledged++
		} else if err == nil && a.outcome() == "outcome-unknown" {
			count.held++
		}
		count.mu.Unlock()
		switch {
		case err == nil && a.acknowledged():
			if a.status >= 400 {
				return fmt.Errorf("%s was refused: %v", in.item, a)
			}
			return nil
		case err == nil && a.outcome() == "outcome-unknown":
			if in.done() {
				count.mu.Lock()
				count.found++
				count.mu.Unlock()
				return nil
			}
			key = rand.Text()
			req = in.make(key)
		default:
			time.Sleep(time.Duration(10+mrand.IntN(20*min(try+1, 10))) * time.Millisecond)
			if req.kind != "" && strings.HasPrefix(req.kind, "multipart/") {
				req = in.make(key) // another boundary
			}
		}
	}
	return fmt.Errorf("%s was not acknowledged in 200 tries", in.item)
}

// seedOf is printed, and may be given: SEED=….
func seedOf(t *testing.T) uint64 {
	seed := mrand.Uint64N(1_000_000)
	if text := os.Getenv("SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("SEED=%d", seed)
	return seed
}

// What the networks do on both sides of the gateway. A network that doubles a
// request between the gateway and the application is beyond any gateway.
const (
	frontPlan = "cut-after-forward=0.2,cut-mid-body=0.1,502=0.1,503-after=0.1,half-request=0.1,refuse=0.05,duplicate=0.1,duplicate-concurrent=0.1,slow=0.2:20ms"
	backPlan  = "cut-after-forward=0.12,cut-mid-body=0.05,502-after=0.05,502=0.05,500=0.05,half-request=0.08,refuse=0.05,slow=0.3:30ms"
)

// R: before Flask and before Django, with a bad network on each side, each intent
// has one effect, whatever it is: an order in JSON, one in a form, a file, a
// switch.
func TestEveryIntentCountsOnceBetweenTwoBadNetworks(t *testing.T) {
	onEach(t, func(t *testing.T, s *shop) {
		seed := seedOf(t)
		back := listen(t, network(t, s.url, backPlan, seed))
		g := openGateway(t, back, sqlite(t), s.scope())
		front := listen(t, network(t, g.url, frontPlan, seed+1))
		var wg sync.WaitGroup
		var count tally
		people := []*person{s.signIn(s.url, "ann"), s.signIn(s.url, "bob")}
		intents := [][]intent{people[0].intents(t, 12), people[1].intents(t, 12)}
		for n, p := range people {
			for part := range 3 {
				wg.Go(func() {
					for i, in := range intents[n] {
						if i%3 != part {
							continue
						}
						if err := p.deliver(front, in, &count); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		for _, in := range slices.Concat(intents...) {
			if err := in.good(); err != nil {
				t.Error(err)
			}
		}
		t.Logf("%d tries, %d intents acknowledged; %d answers said that nobody knows, where a person looked: %d were done", count.tries, count.acknowledged, count.held, count.found)
		if count.tries < 40 || count.held == 0 {
			t.Errorf("the networks were too good: %d tries, %d unknown", count.tries, count.held)
		}
	})
}

// The control: the same intents over the same networks, and nothing between.
// Whoever repeats until he hears of success doubles.
func TestWithoutTheGatewayTheSameIntentsDouble(t *testing.T) {
	onEach(t, func(t *testing.T, s *shop) {
		seed := seedOf(t)
		back := listen(t, network(t, s.url, backPlan, seed))
		front := listen(t, network(t, back, frontPlan, seed+1))
		p := s.signIn(s.url, "ann")
		wrong := 0
		for _, in := range p.intents(t, 12) {
			for range 200 {
				a, err := p.try(front, in.make("k"))
				if err == nil && a.status < 400 && a.status >= 200 {
					break
				}
			}
			if err := in.good(); err != nil {
				wrong++
			}
		}
		t.Logf("%d of 12 intents are wrong", wrong)
		if wrong < 3 {
			t.Errorf("only %d of 12 intents are wrong: the networks prove nothing", wrong)
		}
	})
}

// R: a page's form with a hidden key, sent twice, as Back or a browser that
// repeats by itself does: the redirect is the same, the order is one.
func TestAFormThatIsSentTwiceIsOneOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s *shop) {
		g := openGateway(t, s.url, sqlite(t), s.scope())
		p := s.signIn(g.url, "ann") // signing in bears no key and passes
		page := p.must(g.url, request{method: "GET", path: "/"})
		form := url.Values{"_key": {hidden(t, page.body, "_key")}, "item": {"tea"}, "qty": {"2"}}
		if s.kind == "django" {
			form.Set("csrfmiddlewaretoken", hidden(t, page.body, "csrfmiddlewaretoken"))
		}
		r := request{path: "/orders", kind: "application/x-www-form-urlencoded", body: form.Encode(), accept: "text/html"}
		first, err := p.try(g.url, r)
		if err != nil {
			t.Fatal(err)
		}
		first.want(t, http.StatusSeeOther, "executed")
		again := p.must(g.url, r)
		again.want(t, http.StatusSeeOther, "replayed")
		if to := again.header.Get("Location"); !strings.HasPrefix(to, "/orders/") || to != first.header.Get("Location") {
			t.Errorf("first to %q, then to %q", first.header.Get("Location"), to)
		}
		p.wantEffects("tea", 1)
		// The next page has another key: the same order again is another order.
		page = p.must(g.url, request{method: "GET", path: "/"})
		form.Set("_key", hidden(t, page.body, "_key"))
		r.body = form.Encode()
		p.must(g.url, r).want(t, http.StatusSeeOther, "executed")
		p.wantEffects("tea", 2)
	})
}

// B044, R: what the application refuses it refuses through the gateway, and a
// refusal of the moment does not stick: a form without Django's token is 403, and
// the key is free for the one with it.
func TestAnApplicationsRefusalsAreItsOwn(t *testing.T) {
	s := openShop(t, "django")
	g := openGateway(t, s.url, sqlite(t), s.scope())
	p := s.signIn(s.url, "ann")
	token := p.cookie["csrftoken"]
	delete(p.cookie, "csrftoken")
	p.must(g.url, ordering("tea", "k")).want(t, http.StatusForbidden, "released")
	p.wantEffects("tea", 0)
	p.cookie["csrftoken"] = token
	p.must(g.url, ordering("tea", "k")).want(t, http.StatusCreated, "executed")
	p.wantEffects("tea", 1)
	p.must(g.url, ordering("", "k2")).want(t, http.StatusUnprocessableEntity, "executed")
	p.must(g.url, ordering("", "k2")).want(t, http.StatusUnprocessableEntity, "replayed")
}

// B077: one key in the hands of two people is two orders.
func TestOneKeyOfTwoPeopleIsTwoOrders(t *testing.T) {
	onEach(t, func(t *testing.T, s *shop) {
		g := openGateway(t, s.url, sqlite(t), s.scope())
		ann, bob := s.signIn(s.url, "ann"), s.signIn(s.url, "bob")
		for _, p := range []*person{ann, bob} {
			p.must(g.url, ordering("tea", "k")).want(t, 201, "executed")
			p.must(g.url, ordering("tea", "k")).want(t, 201, "replayed")
			p.wantEffects("tea", 1)
		}
		stranger := &person{s: s, cookie: map[string]string{}}
		stranger.must(g.url, ordering("tea", "k")).want(t, http.StatusUnauthorized, "")
		if n := s.arrivals("POST /orders "); n != 2 {
			t.Errorf("the application was asked %d times", n)
		}
	})
}

// R: Flask's session cookie is another one after each change of the session, so a
// repeat that bears the new one would be another person's. The cookie that the
// application names the account by stays.
func TestFlasksSessionCookieIsNoScope(t *testing.T) {
	s := openShop(t, "flask")
	byForm := func(key string) request {
		return request{path: "/orders", kind: "application/x-www-form-urlencoded", body: "_key=" + key + "&item=" + key}
	}
	for scope, effects := range map[string]int{"cookie:session": 2, "cookie:who": 1} {
		g := openGateway(t, s.url, sqlite(t), scope)
		p := s.signIn(s.url, "ann")
		before := p.cookie["session"]
		key := strings.ReplaceAll(scope, ":", "-")
		p.must(g.url, byForm(key)).want(t, 303, "executed") // flash() changes the session
		if p.cookie["session"] == before {
			t.Fatal("the session did not change")
		}
		p.must(g.url, byForm(key))
		p.wantEffects(key, effects)
	}
}

// Flask signs its session anew with each answer: name, content, then the second, the
// signature over it, and the day it ends.
var flasksSecond = regexp.MustCompile(`^(session=[\w-]+)\.[\w-]{6}\.[\w-]{27}; Expires=[^;]+ GMT(;|$)`)

// R: what bears no key is the same with the gateway and without it.
func TestAnAnswerIsTheSameWithAndWithoutTheGateway(t *testing.T) {
	onEach(t, func(t *testing.T, s *shop) {
		g := openGateway(t, s.url, sqlite(t), s.scope())
		p := s.signIn(s.url, "ann")
		for _, r := range []request{
			{method: "GET", path: "/orders"}, {method: "HEAD", path: "/orders"}, {method: "OPTIONS", path: "/orders"},
			{method: "GET", path: "/nothing/../here//?a;b=%zz"}, {method: "GET", path: "/orders/9"}, ordering("", ""),
			{path: "/orders/9/toggle"}, {method: "DELETE", path: "/orders/9"}, {method: "PUT", path: "/orders", body: "x", kind: "text/plain"},
		} {
			direct, through := p.must(s.url, r), p.must(g.url, r)
			for _, h := range []http.Header{direct.header, through.header} {
				h.Del("Date")
				h.Del("Connection")
				for i, cookie := range h["Set-Cookie"] {
					h["Set-Cookie"][i] = flasksSecond.ReplaceAllString(cookie, "$1 at some second$2")
				}
			}
			if fmt.Sprint(direct.header) != fmt.Sprint(through.header) || direct.status != through.status || direct.body != through.body {
				t.Errorf("%s %s: directly %v %v, through the gateway %v %v", r.method, r.path, direct, direct.header, through, through.header)
			}
		}
	})
}
