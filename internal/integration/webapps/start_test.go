package webapps

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/outbox"
)

// start runs the page's program in a folder of its own until it is stopped.
func start(t *testing.T, binary, folder string) (address string, stop func()) {
	t.Helper()
	program := exec.CommandContext(t.Context(), binary, "-addr", "127.0.0.1:0")
	program.Dir, program.Stderr = folder, t.Output()
	out, err := program.StdoutPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop = func() { _ = program.Process.Kill(); _ = program.Wait() }
	t.Cleanup(stop)
	late := time.AfterFunc(time.Minute, stop)
	defer late.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), stop
}

// person is a browser in which somebody is signed in.
type person struct {
	t     *testing.T
	app   string // the address
	http  *http.Client
	owner string
}

func (p *person) do(r *http.Request, err error) (*http.Response, string) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer, string(body)
}

func (p *person) get(path string) string {
	p.t.Helper()
	answer, body := p.do(http.NewRequest("GET", p.app+path, nil))
	if answer.StatusCode != http.StatusOK {
		p.t.Fatalf("GET %s: %s", path, answer.Status)
	}
	return body
}

// tap is what the outbox sends: path, form, the intent's name, and whose it is.
func (p *person) tap(path, form, key, owner string) (status int, said, body string) {
	p.t.Helper()
	r, err := http.NewRequest("POST", p.app+path, strings.NewReader(form))
	if err == nil {
		r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Idempotency-Key": {key}, "Outbox-Owner": {owner}, "Outbox-Attempt": {"1"}}
	}
	answer, body := p.do(r, err)
	said, _, _ = strings.Cut(answer.Header.Get("Idempotency-Status"), ";")
	return answer.StatusCode, said + answer.Header.Get("Outbox-Status"), body
}

var ownerTag = regexp.MustCompile(`<meta name="outbox-owner" content="([^"]*)">`)

func signedIn(t *testing.T, app, name string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, app: app, http: &http.Client{Jar: jar, Timeout: time.Minute}}
	nobody := ownerTag.FindStringSubmatch(p.get("/login"))
	answer, err := p.http.PostForm(app+"/login", url.Values{"name": {name}})
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	owner := ownerTag.FindStringSubmatch(p.get("/"))
	if len(nobody) != 2 || nobody[1] != "" || len(owner) != 2 || owner[1] == "" {
		t.Fatalf("before the login the page says %q, after it %q", nobody, owner)
	}
	p.owner = owner[1]
	return p
}

// The program that a reader pastes does what the page says of it: the work is done
// once though the process ends in between, for whom it was done, and an ended session
// is told so that the outbox understands it.
func TestTheProgramOfThePageCountsATapOnceAlsoOverARestart(t *testing.T) {
	folder := t.TempDir()
	binary := filepath.Join(folder, "start")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", root, "-o", binary, "./examples/outbox/start").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(folder, "htmx.js"), []byte(read(t, "examples/outbox/htmx/htmx2.min.js")), 0o600); err != nil {
		t.Fatal(err)
	}
	address, stop := start(t, binary, folder)
	anna := signedIn(t, address, "anna")
	expect := func(p *person, form, key, owner string, status int, said string) {
		t.Helper()
		if gotStatus, got, body := p.tap("/items", form, key, owner); gotStatus != status || got != said {
			t.Errorf("%s under %q: %d %s, want %d %s\n%s", form, key, gotStatus, got, status, said, body)
		}
	}
	expect(anna, "text=Milk", "k1", anna.owner, 200, "executed")
	expect(anna, "text=", "k2", anna.owner, 422, "executed")
	if status, said, body := anna.tap("/items/1/state", "bought=true", "k3", anna.owner); status != 200 || said != "executed" || !strings.Contains(body, "☑") {
		t.Errorf("ticked: %d %s %s", status, said, body)
	}
	if !strings.Contains(anna.get("/htmx.js"), "htmx") {
		t.Error("no htmx")
	}

	stop()
	anna.app, _ = start(t, binary, folder)
	expect(anna, "text=Milk", "k1", anna.owner, 200, "replayed")
	page := anna.get("/")
	if tag := ownerTag.FindStringSubmatch(page); len(tag) != 2 || tag[1] != anna.owner {
		t.Errorf("after the restart %s is called %q", anna.owner, tag)
	}
	if n := strings.Count(page, `data-outbox-label="Not bought: Milk"`); n != 1 {
		t.Errorf("milk stands in the list %d times:\n%s", n, page)
	}

	boris := signedIn(t, anna.app, "boris")
	expect(boris, "text=Bread", "k4", anna.owner, 412, "owner")
	nobody := &person{t: t, app: anna.app, http: &http.Client{Timeout: time.Minute}}
	expect(nobody, "text=Bread", "k4", anna.owner, 401, "auth")
	if _, err := anna.http.PostForm(anna.app+"/logout", nil); err != nil {
		t.Fatal(err)
	}
	expect(anna, "text=Bread", "k4", anna.owner, 401, "auth")
	if page := boris.get("/"); strings.Contains(page, "Bread") || !strings.Contains(page, "Milk") {
		t.Errorf("the list is now\n%s", page)
	}
}

// An app whose handlers ask by themselves who it is has no authentication around the
// guard: the scope function refuses in its place.
func TestAScopeThatRefusesIsAnEndedSession(t *testing.T) {
	secret := []byte("32 bytes that nobody else may know")
	account := func(*http.Request) (string, error) {
		return "", &onceward.ProblemError{Status: http.StatusUnauthorized}
	}
	guard, err := onceward.New(memstore.New(memstore.Config{}), outbox.Owned(account, secret), onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close(t.Context())
	ran := 0
	app := outbox.Edge(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ran++ })), outbox.EdgeConfig{})
	r := httptest.NewRequest("POST", "/items", strings.NewReader("text=Milk"))
	r.Header = http.Header{"Idempotency-Key": {"k1"}, "Outbox-Owner": {outbox.Tag(secret, "anna")}, "Outbox-Attempt": {"1"}}
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	if w.Code != 401 || w.Header().Get("Outbox-Status") != "auth" || ran != 0 {
		t.Errorf("%d %v, ran %d times", w.Code, w.Header(), ran)
	}
}

// Every name that the scripts read is told, and none that they do not.
func TestTheNamesOfTheConfigurationAreThoseOfTheScripts(t *testing.T) {
	source := read(t, "outbox/script.go")
	_, shape, _ := strings.Cut(source, "type scriptJSON struct {")
	shape, _, _ = strings.Cut(shape, "\n}")
	want := map[string]bool{}
	for _, m := range regexp.MustCompile(`json:"(\w+)`).FindAllStringSubmatch(shape, -1) {
		want[m[1]] = true
	}
	if len(want) < 20 {
		t.Fatalf("script.go has %d names", len(want))
	}
	for _, row := range rows(t, "What the page tells the scripts") {
		for _, name := range words(row[0]) {
			if !want[name] {
				t.Errorf("the scripts are not told %q, or the page names it twice", name)
			}
			delete(want, name)
		}
		for _, name := range words(row[1]) {
			if !regexp.MustCompile(`(?m)^\t(\w+, )*` + name + `(,| )`).MatchString(source) {
				t.Errorf("ScriptConfig has no %s", name)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("the page does not name %v", fmt.Sprint(want))
	}
}
