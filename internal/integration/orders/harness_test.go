package orders_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/integration/programs"
)

var (
	binary string // the built examples/orders
	plain  string // the same without the race detector
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "orders-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary, plain = filepath.Join(dir, "orders"), filepath.Join(dir, "orders-plain")
	// These tests mostly wait for the program, so more of them may run at once
	// than there are processors. Two programs of each may have six connections to
	// one Postgres.
	flag.Parse()
	if n := runtime.GOMAXPROCS(0); flag.Lookup("test.parallel").Value.String() == fmt.Sprint(n) {
		_ = flag.Set("test.parallel", fmt.Sprint(min(6*n, 24)))
	}
	code := 1
	if another.program != "" {
		binary, plain = another.program, another.plain
		code = m.Run()
	} else if err := errors.Join(programs.Build(binary, "examples/orders", programs.Race), programs.Build(plain, "examples/orders", false)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// server is one running program.
type server struct {
	*programs.Program
	t    *testing.T
	b    backend
	url  string
	args []string // without its address
}

// start starts the program on a fresh store.
func start(t *testing.T, b backend, flags ...string) *server {
	t.Helper()
	return startOn(t, b, b.flags(t), flags...)
}

// startOn starts the program on the store that the flags name.
func startOn(t *testing.T, b backend, store []string, flags ...string) *server {
	t.Helper()
	return startIn(t, nil, b, store, flags...)
}

// startIn starts the program in an environment that has more than the test's.
func startIn(t *testing.T, env []string, b backend, store []string, flags ...string) *server {
	t.Helper()
	s := &server{t: t, b: b, Program: &programs.Program{Env: env}, args: slices.Concat([]string{"-chaos"}, another.flags, store, flags)}
	s.run("127.0.0.1:0")
	t.Cleanup(func() {
		s.Kill()
		if s.Raced() {
			t.Errorf("the program has a data race:\n%s", s.Said())
		} else if t.Failed() {
			t.Logf("the program said, at its end:\n%s", s.Tail(40))
		}
	})
	return s
}

func (s *server) run(addr string) {
	s.t.Helper()
	s.Path, s.Args = plain, append([]string{"-addr", addr}, s.args...)
	if test, _, _ := strings.Cut(s.t.Name(), "/"); raced(test, s.b.name) {
		s.Path = binary
	}
	url, err := s.Start()
	if err != nil {
		s.t.Fatal(err)
	}
	s.url = url
}

// stop asks the program to end and returns how it did.
func (s *server) stop() int {
	s.t.Helper()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	return s.ended()
}

// ended waits for the program's end and returns how it ended.
func (s *server) ended() int {
	s.t.Helper()
	code, err := s.Wait()
	if err != nil {
		s.t.Fatal(err)
	}
	return code
}

// restart starts the program again, on its store and at its address.
func (s *server) restart() {
	s.t.Helper()
	s.ended()
	s.run(strings.TrimPrefix(s.url, "http://"))
}

// request is one request; the zero value of a field leaves it out.
type request struct {
	method  string // POST by default
	path    string // /create-order by default
	key     string
	body    string // an order of one tea by default
	kind    string // Content-Type
	user    string // X-User
	chaos   string // X-Chaos
	prefer  string
	header  http.Header
	client  *http.Client    // a fresh connection by default
	timeout time.Duration   // the client hangs up; a minute by default
	leave   <-chan struct{} // … or when this is closed
}

const oneTea = `{"item":"tea","qty":1}`

// fresh uses each connection once: a reused one that dies makes Go's client
// send a request with a key again by itself, which is one test's subject here
// and every other test's disturbance.
var fresh = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// try sends a request to the server and returns the answer, or what went wrong.
func (s *server) try(r request) (answer, error) { return tryAt(s.url, r) }

func tryAt(url string, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), orElse(r.timeout, time.Minute))
	defer cancel()
	go func() {
		select {
		case <-r.leave:
			cancel()
		case <-ctx.Done():
		}
	}()
	var body io.Reader
	method := orElse(r.method, http.MethodPost)
	if method == http.MethodPost || method == http.MethodPut || r.body != "" {
		body = strings.NewReader(orElse(r.body, oneTea))
	}
	req, err := http.NewRequestWithContext(ctx, method, url+orElse(r.path, "/create-order"), body)
	if err != nil {
		return answer{}, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	for name, value := range map[string]string{
		"Content-Type": orElse(r.kind, "application/json"), "Idempotency-Key": r.key,
		"X-User": r.user, "X-Chaos": r.chaos, "Prefer": r.prefer,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := orElse(r.client, fresh).Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

func orElse[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// send is try for requests that have to be answered. It may be called from any
// goroutine.
func (s *server) send(r request) answer {
	s.t.Helper()
	a, err := s.try(r)
	if err != nil {
		s.t.Errorf("no answer: %v", err)
	}
	return a
}

// patiently is send, for requests of which there are a hundred at once: a machine
// may be so busy that these take longer than a call of the store may, and a 503
// says so. It is repeated; nothing else is forgiven.
func (s *server) patiently(r request) (a answer, repeated bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; repeated = true {
		a = s.send(r)
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || time.Now().After(end) {
			return a, repeated
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// outcome is the first word of Idempotency-Status.
func (a answer) outcome() string {
	word, _, _ := strings.Cut(a.header.Get("Idempotency-Status"), ";")
	return word
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s %.200q", a.status, a.header.Get("Idempotency-Status"), a.body)
}

// want checks status and outcome; an outcome of "" means no such header.
func (a answer) want(t *testing.T, status int, outcome string) answer {
	t.Helper()
	if a.status != status || a.outcome() != outcome {
		t.Errorf("answered %v, want %d %s", a, status, outcome)
	}
	if replayed := a.header.Get("Idempotency-Replayed") == "1"; replayed != (a.outcome() == "replayed") {
		t.Errorf("answered %v with Idempotency-Replayed: %q", a, a.header.Get("Idempotency-Replayed"))
	}
	return a
}

// wantReplayOf checks that an answer repeats a stored one byte for byte.
func (a answer) wantReplayOf(t *testing.T, first answer) answer {
	t.Helper()
	a.want(t, first.status, "replayed")
	if a.body != first.body {
		t.Errorf("the replay's body is %.200q, the first was %.200q", a.body, first.body)
	}
	for name, values := range first.header {
		switch name {
		case "Date", "Idempotency-Status", "Idempotency-Replayed", "Set-Cookie", "Connection":
		default:
			if !slices.Equal(a.header[name], values) {
				t.Errorf("the replay's %s is %q, the first was %q", name, a.header[name], values)
			}
		}
	}
	return a
}

// wantBusy checks a refusal because the first request still runs.
func (a answer) wantBusy(t *testing.T) {
	t.Helper()
	a.want(t, http.StatusConflict, "in-progress")
	if ra := a.header.Get("Retry-After"); ra != "1" && ra != "2" {
		t.Errorf("Retry-After is %q, want 1 or 2 seconds", ra)
	}
	a.wantProblem(t, "in-progress")
}

// wantProblem checks the machine-readable form of a refusal.
func (a answer) wantProblem(t *testing.T, token string) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("answered %v as %s: %v", a, a.header.Get("Content-Type"), err)
	}
	if p.Type != "urn:onceward:problem:"+token || p.Status != a.status || p.Title == "" {
		t.Errorf("the problem is %+v, want type …:%s and status %d", p, token, a.status)
	}
}

// order is one entry of GET /orders.
type order struct {
	ID         string `json:"id"`
	User       string `json:"user"`
	ExternalID string `json:"external_id"`
	Item       string `json:"item"`
	Qty        int    `json:"qty"`
	Status     string `json:"status"`
	FileSHA256 string `json:"file_sha256"`
}

func (a answer) order(t *testing.T) (o order) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &o); err != nil || o.ID == "" {
		t.Errorf("answered %v, which is no order: %v", a, err)
	}
	return o
}

// orders is what was really done.
func (s *server) orders() (list []order) {
	s.t.Helper()
	a, err := s.try(request{method: http.MethodGet, path: "/orders"})
	if err == nil {
		err = json.Unmarshal([]byte(a.body), &list)
	}
	if err != nil || a.status != http.StatusOK {
		s.t.Fatalf("GET /orders: %v: %v", a, err)
	}
	return list
}

// wantEffects checks how many orders there are, and returns as many as there
// should be, so that the caller may look at each of them.
func (s *server) wantEffects(n int) []order {
	s.t.Helper()
	list := s.orders()
	if len(list) != n {
		s.t.Errorf("effects=%d, want %d: %+v", len(list), n, list)
		list = append(list, make([]order, n)...)[:n]
	}
	return list
}

// eventually waits for something that has no event to wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !within(30*time.Second, ok) {
		t.Fatalf("not within 30 s: %s", what)
	}
}

// within asks again and again. It may be called from any goroutine.
func within(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// until repeats a request, as a client does, until an answer acknowledges it.
func (s *server) until(r request) answer {
	s.t.Helper()
	var a answer
	eventually(s.t, "an acknowledged answer", func() bool {
		var err error
		a, err = s.try(r)
		return err == nil && (a.outcome() == "executed" || a.outcome() == "replayed")
	})
	return a
}

// vitals is what GET /chaos tells.
type vitals struct{ Running, Goroutines, Heap int }

func (s *server) vitals() (v vitals, err error) {
	a, err := s.try(request{method: http.MethodGet, path: "/chaos?gc=1"})
	if err == nil {
		err = json.Unmarshal([]byte(a.body), &v)
	}
	return v, err
}

// waitRunning waits until n handlers are at work.
func (s *server) waitRunning(n int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d handlers at work", n), func() bool {
		var v vitals
		a, err := s.try(request{method: http.MethodGet, path: "/chaos"})
		return err == nil && json.Unmarshal([]byte(a.body), &v) == nil && v.Running == n
	})
}

// background sends a request that goes on; a zero answer means that none came.
func (s *server) background(r request) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		defer close(c)
		a, _ := s.try(r)
		c <- a
	}()
	return c
}

// sendRaw writes bytes to a connection and reads one answer.
func (s *server) sendRaw(text string) answer {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// chaosOf writes a wish for X-Chaos.
func chaosOf(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

// isTimeout tells a client that hung up from a connection that broke.
func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
