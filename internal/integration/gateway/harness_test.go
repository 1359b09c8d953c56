package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/fault"
	"github.com/onceward/onceward/internal/integration/programs"
)

var binary string // the built cmd/onceward

// python is the distribution's, which has its packages; another one may come
// first on the PATH.
const python = "/usr/bin/python3"

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gateway-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command(python, "-c", "import flask, django, gunicorn").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s cannot import flask, django and gunicorn: %v\n%s\napt-get install python3-flask python3-django gunicorn\n", python, err, out)
		if os.Getenv("CI") != "true" {
			missing = true
		} else {
			return 1
		}
	}
	binary = filepath.Join(dir, "onceward")
	if err := programs.Build(binary, "cmd/onceward", programs.Race); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// missing: there are no Python packages, outside CI.
var missing bool

// program is a process that ends with its test, and its children with it.
type program struct {
	programs.Program
	t   *testing.T
	url string
}

func (p *program) start() {
	p.t.Helper()
	url, err := p.Start()
	if err != nil {
		p.t.Fatal(err)
	}
	p.url = url
}

// signal asks the program to end, and waits.
func (p *program) signal() int {
	p.t.Helper()
	err := p.Signal(syscall.SIGTERM)
	if err != nil {
		p.t.Fatal(err)
	}
	code, err := p.Wait()
	if err != nil {
		p.t.Fatal(err)
	}
	return code
}

// shop is one of the two applications.
type shop struct {
	*program
	kind string // "flask" or "django"
	dir  string
}

var kinds = []string{"flask", "django"}

var gunicornListens = regexp.MustCompile(`Listening at: (http://127\.0\.0\.1:\d+)`)

// openShop starts an application with an empty database.
func openShop(t *testing.T, kind string) *shop {
	t.Helper()
	if missing {
		t.Skip("apt-get install python3-flask python3-django gunicorn")
	}
	dir := t.TempDir()
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{kind: kind, dir: dir, program: &program{t: t, Program: programs.Program{Path: python, Listening: gunicornListens, Env: []string{
		"SECRET_KEY=for the tests only", "DATABASE=" + filepath.Join(dir, "shop.db"), "ARRIVALS=" + filepath.Join(dir, "arrivals"),
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + filepath.Join(testdata, kind) + ":" + testdata,
	}}}}
	if kind == "django" {
		text, err := djangosTables()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "shop.db"), text, 0o600)
		}
		if err != nil {
			t.Fatalf("making the tables: %v", err)
		}
	}
	s.Args = []string{"-m", "gunicorn", "--bind", "127.0.0.1:0", "--workers", "1", "--threads", "8", "--graceful-timeout", "1", "chaos:app"}
	s.start()
	s.waitUntilItAnswers()
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("%s said, at its end:\n%s", kind, s.Tail(30))
		}
	})
	return s
}

// djangosTables is a database with the tables that Django wants, and two accounts.
// To make it takes long.
var djangosTables = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "gateway-django-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "shop.db")
	for _, name := range []string{"ann", "bob"} {
		cmd := exec.Command(python, filepath.Join("testdata", "django", "app.py"), name, "password of "+name)
		cmd.Env = append(os.Environ(), "SECRET_KEY=for the tests only", "DATABASE="+file, "PYTHONDONTWRITEBYTECODE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, out)
		}
	}
	return os.ReadFile(file)
})

// waitUntilItAnswers: gunicorn listens before it can answer.
func (s *shop) waitUntilItAnswers() {
	s.t.Helper()
	eventually(s.t, s.kind+" answers", func() bool {
		res, err := fresh.Get(s.url + "/orders")
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusUnauthorized
	})
}

// again starts the application anew at its address, after it was killed.
func (s *shop) again() {
	s.t.Helper()
	s.Args[slices.Index(s.Args, "--bind")+1] = strings.TrimPrefix(s.url, "http://")
	s.start()
	s.waitUntilItAnswers()
}

// arrivals counts the changing requests that reached the application, of those
// whose line begins so: "POST /orders ".
func (s *shop) arrivals(prefix string) (n int) {
	text, _ := os.ReadFile(filepath.Join(s.dir, "arrivals"))
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// scope is how the gateway is told whose keys they are.
func (s *shop) scope() string {
	return map[string]string{"flask": "cookie:who", "django": "cookie:sessionid"}[s.kind]
}

// openGateway starts `onceward gateway`.
func openGateway(t *testing.T, to, store, scope string, flags ...string) *program {
	t.Helper()
	p := &program{t: t, Program: programs.Program{Path: binary, Args: slices.Concat([]string{"gateway", "--listen", "127.0.0.1:0", "--to", to, "--store", store, "--scope", scope}, flags)}}
	p.start()
	t.Cleanup(func() {
		p.Kill()
		if p.Raced() {
			t.Errorf("the gateway has a data race:\n%s", p.Said())
		} else if t.Failed() {
			t.Logf("the gateway said, at its end:\n%s", p.Tail(40))
		}
	})
	return p
}

func (p *program) againAt(url string) {
	p.t.Helper()
	p.Args[slices.Index(p.Args, "--listen")+1] = strings.TrimPrefix(url, "http://")
	p.start()
}

// network is a bad network before something.
func network(t *testing.T, to, plan string, seed uint64) *fault.Proxy {
	t.Helper()
	parsed, err := fault.ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fault.New(to, fault.Config{Plan: parsed, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func listen(t *testing.T, p *fault.Proxy) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go p.Serve(l)
	return "http://" + l.Addr().String()
}

// fresh uses each connection once.
var fresh = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// person is somebody who has signed in.
type person struct {
	s      *shop
	name   string
	cookie map[string]string
	brief  map[string]bool // the cookies that end with the browser
}

// signIn signs somebody in at the address, which is the application's or what
// stands before it.
func (s *shop) signIn(at, name string) *person {
	s.t.Helper()
	p := &person{s: s, name: name, cookie: map[string]string{}, brief: map[string]bool{}}
	page := p.must(at, request{method: "GET", path: "/"}).body
	form := url.Values{"name": {name}}
	if s.kind == "django" {
		form.Set("csrfmiddlewaretoken", hidden(s.t, page, "csrfmiddlewaretoken"))
		form.Set("password", "password of "+name)
	}
	for field := range form {
		if !strings.Contains(page, `name="`+field+`"`) || !strings.Contains(page, `action="/login"`) || strings.Contains(page, "_key") {
			s.t.Errorf("who has not signed in sees no form, without a key, that has %s:\n%s", field, page)
		}
	}
	a := p.must(at, request{path: "/login", kind: "application/x-www-form-urlencoded", body: form.Encode()})
	if a.status != http.StatusFound && a.status != http.StatusSeeOther {
		s.t.Fatalf("signing in as %s: %v", name, a)
	}
	return p
}

// hidden is the value of a page's hidden field.
func hidden(t *testing.T, page, name string) string {
	t.Helper()
	m := regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no field %s in %s", name, page)
	}
	return m[1]
}

// request is one request; the zero value of a field leaves it out.
type request struct {
	method, path, body, kind string
	key, chaos, prefer       string
	accept                   string
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) outcome() string {
	word, _, _ := strings.Cut(a.header.Get("Idempotency-Status"), ";")
	return word
}

func (a answer) acknowledged() bool { return a.outcome() == "executed" || a.outcome() == "replayed" }

func (a answer) String() string {
	return fmt.Sprintf("%d %s %.300q", a.status, a.header.Get("Idempotency-Status"), a.body)
}

func (a answer) want(t *testing.T, status int, outcome string) {
	t.Helper()
	if a.status != status || a.outcome() != outcome {
		t.Errorf("answered %v, want %d %s", a, status, outcome)
	}
}

// try sends a request as the person; its cookies are kept.
func (p *person) try(at string, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if r.method == "" {
		r.method = "POST"
	}
	req, err := http.NewRequestWithContext(ctx, r.method, at+r.path, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	for name, value := range map[string]string{"Content-Type": r.kind, "Idempotency-Key": r.key, "X-Chaos": r.chaos, "Prefer": r.prefer, "Accept": r.accept} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	for name, value := range p.cookie {
		req.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if token := p.cookie["csrftoken"]; token != "" {
		req.Header.Set("X-CSRFToken", token)
	}
	res, err := fresh.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(text)}, err
}

// must is try for requests that have to be answered; the person keeps the cookies
// of the answer.
func (p *person) must(at string, r request) answer {
	p.s.t.Helper()
	a, err := p.try(at, r)
	if err != nil {
		p.s.t.Errorf("no answer: %v", err)
	}
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.MaxAge < 0 {
			delete(p.cookie, c.Name)
			continue
		}
		p.cookie[c.Name] = c.Value
		p.brief[c.Name] = c.MaxAge == 0 && c.Expires.IsZero()
	}
	return a
}

type order struct {
	ID        int
	Who, Item string
	Qty, Done int
	File      *string
}

// orders asks the application itself what was really done.
func (p *person) orders() (list []order) {
	p.s.t.Helper()
	p.look("/orders", &list)
	return list
}

// look reads from the application itself. It may be called from any goroutine.
func (p *person) look(path string, into any) {
	p.s.t.Helper()
	a, err := p.try(p.s.url, request{method: "GET", path: path})
	if err == nil {
		err = json.Unmarshal([]byte(a.body), into)
	}
	if err != nil || a.status != http.StatusOK {
		p.s.t.Errorf("GET %s: %v: %v", path, a, err)
	}
}

// effects counts the orders of an item.
func (p *person) effects(item string) (n int) {
	p.s.t.Helper()
	for _, o := range p.orders() {
		if o.Item == item {
			n++
		}
	}
	return n
}

func (p *person) wantEffects(item string, n int) {
	p.s.t.Helper()
	if got := p.effects(item); got != n {
		p.s.t.Errorf("%s: effects=%d, want %d", item, got, n)
	}
}

// ordering is a request for an item, in JSON.
func ordering(item, key string) request {
	body, _ := json.Marshal(map[string]any{"item": item, "qty": 1})
	return request{path: "/orders", kind: "application/json", body: string(body), key: key}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// onEach runs a test before both applications.
func onEach(t *testing.T, test func(t *testing.T, s *shop)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, openShop(t, kind))
		})
	}
}

func sqlite(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "keys.db") }

// unreachable waits until nobody listens where the application was.
func (s *shop) unreachable(t *testing.T) {
	t.Helper()
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", u.Host, time.Second)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
	t.Fatal("somebody still listens where the application was killed")
}
