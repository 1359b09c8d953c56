package tiny_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var steps = []string{"0-toggle", "1-state", "2-key", "3-outbox"}

var binaries string // the folder with the built programs

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tiny-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./...")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	code := 1
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the steps:", err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// app is one running step.
type app struct {
	t      *testing.T
	url    string
	client *http.Client
}

func start(t *testing.T, step string) *app {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, step), "-addr", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("the first line is %q: %v", line, err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &app{t, at, &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a *app) do(method, path string, fields url.Values, header http.Header) answer {
	a.t.Helper()
	req, err := http.NewRequest(method, a.url+path, strings.NewReader(fields.Encode()))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := a.client.Do(req)
	if err != nil {
		a.t.Error(err)
		return answer{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Error(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func (a *app) page() string {
	a.t.Helper()
	got := a.do("GET", "/", nil, nil)
	if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
		a.t.Fatalf("the page is %d %s", got.status, got.header.Get("Content-Type"))
	}
	return got.body
}

// submit sends a form as a browser does: the answer is a redirect to the page.
func (a *app) submit(path string, pairs ...string) answer {
	a.t.Helper()
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	got := a.do("POST", path, v, http.Header{"Accept": {"text/html"}, "Sec-Fetch-Mode": {"navigate"}})
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/" {
		a.t.Errorf("POST %s was answered %d to %q: %s", path, got.status, got.header.Get("Location"), got.body)
	}
	return got
}

func (a *app) want(what string, tasks, done int) {
	a.t.Helper()
	page := a.page()
	if n, d := strings.Count(page, "☐")+strings.Count(page, "☑"), strings.Count(page, "☑"); n != tasks || d != done {
		a.t.Errorf("%s: %d tasks, %d done; want %d and %d", what, n, d, tasks, done)
	}
}

var keyField = regexp.MustCompile(`<input type="hidden" name="_key" value="([^"]+)">`)

func (a *app) key() string {
	a.t.Helper()
	m := keyField.FindStringSubmatch(a.page())
	if m == nil {
		a.t.Fatal("the form carries no key")
	}
	return m[1]
}

func TestEveryStepIsAPageWithAListAndABox(t *testing.T) {
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			a := start(t, step)
			a.want("at first", 0, 0)
			a.submit("/tasks", "text", "buy <b>milk</b>")
			a.want("after adding", 1, 0)
			if page := a.page(); !strings.Contains(page, "buy &lt;b&gt;milk") {
				t.Errorf("the text is not escaped: %s", page)
			}
			if got := a.do("GET", "/none", nil, nil); got.status != http.StatusNotFound {
				t.Errorf("a page that is not there was answered %d", got.status)
			}
		})
	}
}

func TestBeforeTheStepsARepeatedTapTakesTheTickAway(t *testing.T) {
	a := start(t, "0-toggle")
	a.submit("/tasks", "text", "milk")
	a.submit("/tasks/0/toggle")
	a.want("after one tap", 1, 1)
	a.submit("/tasks/0/toggle")
	a.want("after the same tap again", 1, 0)
}

func TestFromStep1OnARepeatedTapChangesNothing(t *testing.T) {
	for _, step := range steps[1:] {
		t.Run(step, func(t *testing.T) {
			a := start(t, step)
			a.submit("/tasks", "text", "milk")
			if !strings.Contains(a.page(), `name="completed" value="true"`) {
				t.Error("the button of an open task does not say what it wants")
			}
			for range 3 {
				a.submit("/tasks/0/state", "completed", "true")
				a.want("done, said again and again", 1, 1)
			}
			if !strings.Contains(a.page(), `name="completed" value="false"`) {
				t.Error("the button of a done task does not say what it wants")
			}
			for range 2 {
				a.submit("/tasks/0/state", "completed", "false")
				a.want("not done, said again", 1, 0)
			}
			got := a.do("POST", "/tasks/0/state", url.Values{"completed": {"perhaps"}}, nil)
			if got.status != http.StatusUnprocessableEntity {
				t.Errorf("an unknown wish was answered %d", got.status)
			}
			if got := a.do("POST", "/tasks/0/toggle", nil, nil); got.status != http.StatusNotFound {
				t.Errorf("there is still a toggle: %d", got.status)
			}
		})
	}
}

func TestBeforeStep2ARepeatedAddAddsTwice(t *testing.T) {
	for _, step := range steps[:2] {
		t.Run(step, func(t *testing.T) {
			a := start(t, step)
			for range 2 {
				a.submit("/tasks", "text", "milk")
			}
			a.want("the same form twice", 2, 0)
		})
	}
}

func TestFromStep2OnARepeatedAddAddsOnce(t *testing.T) {
	for _, step := range steps[2:] {
		t.Run(step, func(t *testing.T) {
			a := start(t, step)
			key := a.key()
			first := a.submit("/tasks", "_key", key, "text", "milk")
			if first.header.Get("Idempotency-Replayed") != "" {
				t.Error("the first answer says that it is a replay")
			}
			again := a.submit("/tasks", "_key", key, "text", "milk")
			if again.header.Get("Idempotency-Replayed") != "1" {
				t.Errorf("the second answer is no replay: %v", again.header)
			}
			a.want("one form twice", 1, 0)

			// Eight presses at once, and a second task with the same text.
			key = a.key()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() { a.submit("/tasks", "_key", key, "text", "milk") })
			}
			wg.Wait()
			a.want("a second task of the same text", 2, 0)

			got := a.do("POST", "/tasks", url.Values{"_key": {key}, "text": {"bread"}}, nil)
			if got.status != http.StatusUnprocessableEntity {
				t.Errorf("another text under one key was answered %d", got.status)
			}
			a.want("another text under one key", 2, 0)
		})
	}
}

func TestStep3ServesTheBrowsersHalf(t *testing.T) {
	a := start(t, "3-outbox")
	page := a.page()
	scripts := regexp.MustCompile(`<script type="module" src="([^"]+)"></script>`).FindAllStringSubmatch(page, -1)
	if len(scripts) == 0 {
		t.Fatalf("the page has no script: %s", page)
	}
	for _, m := range append(scripts, []string{"", "/outbox/sw.js"}) {
		got := a.do("GET", m[1], nil, nil)
		if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/javascript") {
			t.Errorf("%s: %d %s", m[1], got.status, got.header.Get("Content-Type"))
		}
	}
	if got := a.do("GET", "/outbox/sw.js", nil, nil); got.header.Get("Service-Worker-Allowed") != "/" {
		t.Errorf("the worker may not have the whole site: %v", got.header)
	}
	if got := a.do("GET", "/outbox/ping", nil, nil); got.status != http.StatusNoContent || got.header.Get("Outbox-Status") != "pong" {
		t.Errorf("ping: %d %v", got.status, got.header)
	}
}

// What the worker sends: named, with the page's owner, and wanting an answer
// that it can read.
func TestStep3AnswersTheWorker(t *testing.T) {
	a := start(t, "3-outbox")
	m := regexp.MustCompile(`<meta name="outbox-owner" content="([^"]+)">`).FindStringSubmatch(a.page())
	if m == nil {
		t.Fatal("the page names no owner")
	}
	send := func(key, owner string) answer {
		return a.do("POST", "/tasks", url.Values{"_key": {key}, "text": {"milk"}}, http.Header{
			"Idempotency-Key": {key}, "Outbox-Owner": {owner}, "Outbox-Attempt": {"1"},
		})
	}
	for i, want := range []string{`executed;key="k"`, `replayed;key="k"`} {
		got := send("k", m[1])
		if got.status != http.StatusOK || got.header.Get("Outbox-Location") != "/" || got.header.Get("Idempotency-Status") != want {
			t.Errorf("send %d was answered %d %v, want 200 %s", i+1, got.status, got.header, want)
		}
	}
	a.want("sent twice", 1, 0)
	if got := send("k2", "somebody-else"); got.status != http.StatusPreconditionFailed || got.header.Get("Outbox-Status") != "owner" {
		t.Errorf("another's entry was answered %d %v", got.status, got.header)
	}
	a.want("another's entry", 1, 0)
}

// The steps are worth comparing only while two neighbours differ by little.
func TestNeighboursDifferByLittle(t *testing.T) {
	var texts [][]string
	for _, step := range steps {
		text, err := os.ReadFile(filepath.Join(step, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, strings.Split(string(text), "\n"))
	}
	for i := range len(steps) - 1 {
		a, b := texts[i], texts[i+1]
		changed := len(a) + len(b) - 2*common(a, b)
		t.Logf("%s to %s: %d lines", steps[i], steps[i+1], changed)
		if changed == 0 || changed > 30 {
			t.Errorf("diff %s %s has %d lines, want 1 to 30", steps[i], steps[i+1], changed)
		}
	}
}

// common is the length of the longest common subsequence.
func common(a, b []string) int {
	row := make([]int, len(b)+1)
	for _, line := range a {
		last := slices.Clone(row)
		for j := range b {
			if line == b[j] {
				row[j+1] = last[j] + 1
			} else {
				row[j+1] = max(row[j], last[j+1])
			}
		}
	}
	return row[len(b)]
}
