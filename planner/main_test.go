package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/planner/internal/store"
)

// The test binary is the planner itself when a test starts it as a process.
func TestMain(m *testing.M) {
	if args := os.Getenv("PLANNER_TEST_ARGS"); args != "" {
		if err := run(context.Background(), strings.Split(args, "\n"), os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// planner is the program, running in this process.
type planner struct {
	url  string
	stop context.CancelFunc
	done chan error
	out  *bytes.Buffer
}

// start runs the planner until the test ends or stop is called.
func start(t *testing.T, args ...string) *planner {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	p := &planner{stop: cancel, done: make(chan error, 1), out: &bytes.Buffer{}}
	go func() {
		err := run(ctx, args, w, io.Discard)
		_ = w.CloseWithError(err)
		p.done <- err
	}()
	lines := bufio.NewScanner(io.TeeReader(r, p.out))
	for lines.Scan() {
		if m := regexp.MustCompile(`http://\S+[^,\s]`).FindString(lines.Text()); m != "" {
			p.url = m
			break
		}
	}
	if p.url == "" {
		t.Fatalf("the planner did not start: %v\n%s", <-p.done, p.out)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	t.Cleanup(func() { p.end(t) })
	return p
}

func (p *planner) end(t *testing.T) {
	t.Helper()
	p.stop()
	if err, ok := <-p.done; ok && err != nil {
		t.Error(err)
	}
	select {
	case <-p.done:
	default:
		close(p.done)
	}
}

func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: 20 * time.Second,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 16},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func post(c *http.Client, to string, form url.Values, headers ...string) (int, http.Header, error) {
	req, err := http.NewRequest("POST", to, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header, err
}

func register(t *testing.T, c *http.Client, base string) {
	t.Helper()
	status, _, err := post(c, base+"/auth/register", url.Values{"login": {"anna"}, "password": {"correct horse"}})
	if err != nil || status != http.StatusSeeOther {
		t.Fatalf("registering: %d, %v", status, err)
	}
}

func TestThePlannerServesFromAnEmptyFolderAndFindsItsDataAgain(t *testing.T) {
	data := filepath.Join(t.TempDir(), "not", "there", "yet")
	c := browser(t)
	p := start(t, "-addr", "127.0.0.1:0", "-data", data)
	register(t, c, p.url)
	if status, h, err := post(c, p.url+"/tasks", url.Values{"text": {"Купить тетрадь"}, "id": {"t1"}}); err != nil || status != http.StatusSeeOther || h.Get("Location") == "" {
		t.Fatalf("adding: %d %v %v", status, h, err)
	}
	p.end(t)

	p = start(t, "-addr", "127.0.0.1:0", "-data", data)
	base, _ := url.Parse(p.url)
	for _, path := range []string{"/today", "/healthz", "/readyz"} {
		res, err := c.Get(base.JoinPath(path).String()) // the cookie is the host's, on any port
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || path == "/today" && !strings.Contains(string(body), "Купить тетрадь") {
			t.Errorf("%s after a restart: %d", path, res.StatusCode)
		}
	}
	// The first seed's last proof, typed as printed, on the file.
	db, err := sql.Open("sqlite", filepath.Join(data, store.File))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var title string
	var completed bool
	if err := db.QueryRow(`select title, is_completed from tasks`).Scan(&title, &completed); err != nil || title != "Купить тетрадь" || completed {
		t.Errorf("%q, %v, %v", title, completed, err)
	}
}

// What runs behind the requests, River among it, ends with the planner.
func TestNothingGoesOnRunningWhenThePlannerHasStopped(t *testing.T) {
	data := t.TempDir()
	start(t, "-addr", "127.0.0.1:0", "-data", data).end(t)
	before := runtime.NumGoroutine()
	for range 2 {
		p := start(t, "-addr", "127.0.0.1:0", "-data", data)
		c := browser(t)
		register(t, c, p.url)
		if status, h, err := post(c, p.url+"/exports", url.Values{"format": {"json"}, "part": {"all"}, "id": {"file"}}); err != nil || status != http.StatusAccepted || h.Get("Location") == "" {
			t.Fatalf("%d %v %v", status, h, err)
		}
		p.end(t) // the file is ready, or is prepared after the next start
		c.CloseIdleConnections()
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after:\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
}

// An order that was accepted is carried out, also if the planner is killed before or
// while it is (requirement 66, R1).
func TestAnExportSurvivesTheKillOfThePlanner(t *testing.T) {
	data := t.TempDir()
	c := browser(t)
	var base string
	spawn := func() *exec.Cmd {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PLANNER_TEST_ARGS=-addr\n127.0.0.1:0\n-data\n"+data)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatalf("it did not start: %q, %v", line, err)
		}
		base = regexp.MustCompile(`http://[^,\s]+`).FindString(line)
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	cmd := spawn()
	defer func() { kill(cmd) }()
	register(t, c, base)
	order := url.Values{"format": {"json"}, "part": {"all"}}
	var to string
	for range 3 { // killed at once, and the request repeated to the next one
		status, h, err := post(c, base+"/exports", order, "Idempotency-Key", "k")
		if err != nil || status != http.StatusAccepted || to != "" && h.Get("Location") != to {
			t.Fatalf("%d %v %v", status, h, err)
		}
		to = h.Get("Location")
		kill(cmd)
		cmd = spawn()
	}
	var got struct{ State, Location string }
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
		res, err := c.Get(base + to + "?wait=10")
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(res.Body).Decode(&got)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got.State != "pending" {
			break
		}
	}
	if got.State != "complete" {
		t.Fatalf("%v", got)
	}
	if res, err := c.Get(base + got.Location); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", res, err)
	} else {
		res.Body.Close()
	}
	db, err := sql.Open("sqlite", filepath.Join(data, store.File))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var jobs, files int
	if err := db.QueryRow(`SELECT (SELECT count(*) FROM river_job), (SELECT count(*) FROM exports)`).Scan(&jobs, &files); err != nil || jobs != 1 || files != 1 {
		t.Errorf("%d jobs, %d files, %v", jobs, files, err)
	}
}

func TestTheDemoAccountIsFilledOnceAndItsPasswordIsNew(t *testing.T) {
	data := t.TempDir()
	passwords := map[string]bool{}
	for range 2 {
		p := start(t, "-addr", "127.0.0.1:0", "-data", data, "-seed-demo")
		m := regexp.MustCompile(`log in as (\S+) with the password (\S+)`).FindStringSubmatch(p.out.String())
		if m == nil {
			t.Fatalf("no password was printed:\n%s", p.out)
		}
		passwords[m[2]] = true
		c := browser(t)
		if status, _, err := post(c, p.url+"/auth/login", url.Values{"login": {m[1]}, "password": {m[2]}}); err != nil || status != http.StatusSeeOther {
			t.Fatalf("logging in: %d, %v", status, err)
		}
		res, err := c.Get(p.url + "/today")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if n := strings.Count(string(body), `class="tick"`); n != 11+1 { // and the template's row
			t.Errorf("%d rows", n)
		}
		p.end(t)
	}
	if len(passwords) != 2 {
		t.Errorf("passwords %v", passwords)
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-nothing"}, {"-trust-proxy", "the moon"}, {"-outbox", `{"soft":1}`}, {"-addr", "nowhere:xyz", "-data", t.TempDir()}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

// Requirement 48: what runs when the planner is told to stop is finished and
// answered.
func TestStoppingFinishesWhatRuns(t *testing.T) {
	data := t.TempDir()
	p := start(t, "-addr", "127.0.0.1:0", "-data", data)
	c := browser(t)
	register(t, c, p.url)
	base, _ := url.Parse(p.url)
	cookie := c.Jar.Cookies(base)[0]

	conn, err := net.Dial("tcp", base.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	form := "text=begun&id=begun"
	fmt.Fprintf(conn, "POST /tasks HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nIdempotency-Key: begun\r\nContent-Length: %d\r\n\r\n%s",
		base.Host, cookie.String(), len(form), form[:8])
	time.Sleep(100 * time.Millisecond) // the server has the head and half of the body
	p.stop()
	// The port is closed at once, the request is not.
	for range 100 {
		if probe, err := net.Dial("tcp", base.Host); err != nil {
			break
		} else {
			probe.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := net.Dial("tcp", base.Host); err == nil {
		t.Error("new connections are still accepted")
	}
	fmt.Fprint(conn, form[8:])
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("the request was cut: %v", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSeeOther {
		t.Errorf("status %d", res.StatusCode)
	}
	p.end(t)
	if got := titles(t, data); len(got) != 1 || got["begun"] != 1 {
		t.Errorf("tasks %v", got)
	}
}

// titles counts the tasks in a data folder by their titles.
func titles(t *testing.T, data string) map[string]int {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, store.File))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT title FROM tasks`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := map[string]int{}
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		got[s]++
	}
	return got
}

// sender is a client that does not give up: it sends each request under its name
// until the guard acknowledges it, as the outbox does.
type sender struct {
	client *http.Client
	base   *atomic.Pointer[string]
	resent atomic.Int64
}

func (s *sender) send(ctx context.Context, key, path string, form url.Values) error {
	for try := 0; ctx.Err() == nil; try++ {
		if try > 0 {
			s.resent.Add(1)
			time.Sleep(time.Duration(20+rand.IntN(80)) * time.Millisecond)
		}
		status, h, err := post(s.client, *s.base.Load()+path, form, "HX-Request", "true", "Idempotency-Key", key)
		if err != nil || status >= 500 || status == http.StatusConflict {
			continue
		}
		if token, _, _ := strings.Cut(h.Get("Idempotency-Status"), ";"); token != "executed" && token != "replayed" || status >= 300 {
			return fmt.Errorf("%s %s: %d, %q", key, path, status, h.Get("Idempotency-Status"))
		}
		return nil
	}
	return errors.New(key + " was never acknowledged")
}

// lessons clicks through n days of a repeating task and adds a task beside each,
// while somebody ends and starts the planner; and then asks the file.
func lessons(t *testing.T, s *sender, data string, workers, n int, pause time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // a machine may be busy
	defer cancel()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range n {
				id := fmt.Sprintf("w%d-%d", w, i)
				for _, step := range []struct {
					key, path string
					form      url.Values
				}{
					{id + "-add", "/tasks", url.Values{"text": {"lesson " + id + " every day"}, "id": {id}}},
					{id + "-plain", "/tasks", url.Values{"text": {"plain " + id}, "id": {"plain-" + id}}},
					{id + "-done", "/tasks/" + id + "/state", url.Values{"completed": {"true"}}},
					{id + "-undone", "/tasks/" + id + "/state", url.Values{"completed": {"false"}}},
					{id + "-again", "/tasks/" + id + "/state", url.Values{"completed": {"yes"}}},
				} {
					if err := s.send(ctx, step.key, step.path, step.form); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(pause)
				}
			}
		})
	}
	wg.Wait()
}

// wantLessons: of each lesson one done and one next, of each plain task one.
func wantLessons(t *testing.T, data string, workers, n int) {
	t.Helper()
	got := titles(t, data)
	lost, doubled := 0, 0
	for w := range workers {
		for i := range n {
			id := fmt.Sprintf("w%d-%d", w, i)
			for title, want := range map[string]int{"lesson " + id: 2, "plain " + id: 1} {
				if got[title] < want {
					lost++
				}
				if got[title] > want {
					doubled++
				}
			}
		}
	}
	db, err := sql.Open("sqlite", filepath.Join(data, store.File))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var open, done, bad int
	if err := db.QueryRow(`SELECT count(*) FILTER (WHERE done_at IS NULL AND retracted = 0), count(*) FILTER (WHERE done_at IS NOT NULL), count(*) FILTER (WHERE retracted = 1)
		FROM tasks WHERE series_id IS NOT NULL`).Scan(&open, &done, &bad); err != nil {
		t.Fatal(err)
	}
	if lost+doubled > 0 || open != workers*n || done != workers*n || bad != 0 {
		t.Errorf("lost=%d doubled=%d; of %d lessons %d are done, %d have a next one, %d are taken back", lost, doubled, workers*n, done, open, bad)
	}
	var check string
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&check); err != nil || check != "ok" {
		t.Errorf("the file: %s, %v", check, err)
	}
}

// Requirement 48: a new version every second, under about 20 taps a second.
func TestRestartsUnderTapsLoseAndDoubleNothing(t *testing.T) {
	data := t.TempDir()
	p := start(t, "-addr", "127.0.0.1:0", "-data", data)
	s := &sender{client: browser(t), base: &atomic.Pointer[string]{}}
	s.base.Store(&p.url)
	register(t, s.client, p.url)
	const workers, n = 4, 8
	finished := make(chan struct{})
	go func() { defer close(finished); lessons(t, s, data, workers, n, 150*time.Millisecond) }()
	restarts := 0
	for running := true; running; {
		select {
		case <-finished:
			running = false
		case <-time.After(time.Second):
			p.end(t)
			p = start(t, "-addr", "127.0.0.1:0", "-data", data)
			s.base.Store(&p.url)
			restarts++
		}
	}
	t.Logf("%d restarts, %d requests sent again", restarts, s.resent.Load())
	if restarts < 3 {
		t.Errorf("%d restarts: that shows nothing", restarts)
	}
	p.end(t)
	wantLessons(t, data, workers, n)
}

// R1: kill -9 in the middle of changes, at least 20 times. What was acknowledged
// is there, what was not is sent again, and nothing is there twice.
func TestKillingThePlannerInTheMiddleLosesAndDoublesNothing(t *testing.T) {
	data := t.TempDir()
	s := &sender{client: browser(t), base: &atomic.Pointer[string]{}}
	spawn := func() *exec.Cmd {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PLANNER_TEST_ARGS=-addr\n127.0.0.1:0\n-data\n"+data)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatalf("it did not start: %q, %v", line, err)
		}
		at := regexp.MustCompile(`http://[^,\s]+`).FindString(line)
		s.base.Store(&at)
		return cmd
	}
	cmd := spawn()
	end := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	defer func() { end() }()
	register(t, s.client, *s.base.Load())
	const workers, n, kills = 6, 30, 20
	finished := make(chan struct{})
	go func() { defer close(finished); lessons(t, s, data, workers, n, 0) }()
	inside := 0
	for inside < kills {
		before := s.resent.Load()
		select {
		case <-finished:
			t.Fatalf("all was done after %d kills; there must be %d", inside, kills)
		case <-time.After(time.Duration(40+rand.IntN(120)) * time.Millisecond):
		}
		end()
		cmd = spawn()
		time.Sleep(30 * time.Millisecond)
		if s.resent.Load() > before { // somebody had a request under way
			inside++
		}
	}
	select {
	case <-finished:
	case <-time.After(8 * time.Minute):
		t.Fatal("it does not come to an end")
	}
	t.Logf("%d kills, %d requests sent again", inside, s.resent.Load())
	end()
	wantLessons(t, data, workers, n)
}
