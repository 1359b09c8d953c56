package deploys_test

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/onceward/onceward/internal/integration/programs"
)

var binary string // the built planner

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "deploys-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "planner")
	code := 1
	if err := programs.Build(binary, "planner", programs.Race); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// planner is one planner with its data, through all the lives of its process.
type planner struct {
	programs.Program
	t    *testing.T
	data string
	addr string // host:port, the same in each life
	url  string
}

func startPlanner(t *testing.T) *planner {
	t.Helper()
	p := &planner{t: t, data: onDisk(t), addr: "127.0.0.1:0", Program: programs.Program{Path: binary, Listening: listens}}
	p.start()
	t.Cleanup(func() {
		p.Kill()
		if p.Raced() {
			t.Errorf("the planner has a data race:\n%s", p.Said())
		} else if t.Failed() {
			t.Logf("the planner said, at its end:\n%s", p.Tail(40))
		}
	})
	return p
}

// onDisk makes a folder on a disk, which a run's own folder may not be. The moment
// between a commit and its answer, in which a kill has to fall, is the wait for it.
func onDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "onceward-deploys-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

var listens = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)`)

// start starts the process and waits until it listens.
func (p *planner) start() {
	p.t.Helper()
	p.Args = []string{"-addr", p.addr, "-data", p.data}
	url, err := p.Start()
	if err != nil {
		p.t.Fatal(err)
	}
	if p.url == "" { // later it is the same, and clients are reading it
		p.addr, p.url = strings.TrimPrefix(url, "http://"), url
	}
}

// term asks it to end, as a deploy does.
func (p *planner) term() {
	p.t.Helper()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the end and returns the exit status.
func (p *planner) wait() int {
	p.t.Helper()
	status, err := p.Wait()
	if err != nil {
		p.t.Fatal(err)
	}
	return status
}

// rows asks the database; the planner may be running, or be dead.
func (p *planner) rows(query string, scan func(*sql.Rows) error, args ...any) {
	p.t.Helper()
	q := url.Values{"_pragma": {"busy_timeout(10000)", "query_only(1)"}}
	dsn := url.URL{Scheme: "file", Path: filepath.Join(p.data, "planner.db"), RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		p.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(query, args...)
	if err != nil {
		p.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		p.t.Fatal(err)
	}
}

// answered are the keys, by their hash, whose work and answer are in the database.
func (p *planner) answered() map[[32]byte]bool {
	p.t.Helper()
	found := map[[32]byte]bool{}
	p.rows(`SELECT key FROM idempotency_keys WHERE completed_at IS NOT NULL`, func(r *sql.Rows) error {
		var key []byte
		err := r.Scan(&key)
		found[[32]byte(key)] = true
		return err
	})
	return found
}

// claims lists the keys that a request has and nobody has answered.
func (p *planner) claims() (paths []string) {
	p.t.Helper()
	p.rows(`SELECT path FROM idempotency_keys WHERE completed_at IS NULL`, func(r *sql.Rows) error {
		var path string
		err := r.Scan(&path)
		paths = append(paths, path)
		return err
	})
	return paths
}

// task is a row of the database, as far as these tests ask.
type task struct {
	id, title    string
	done, repeat bool
}

// tasks returns a person's, without successors that "not done" took back.
func (p *planner) tasks(login string) (found []task) {
	p.t.Helper()
	p.rows(`SELECT tasks.id, title, is_completed, series_id IS NOT NULL FROM tasks JOIN users ON users.id = tasks.user_id
		WHERE users.login = ? AND retracted = 0 AND deleted_at IS NULL`, func(r *sql.Rows) error {
		var t task
		err := r.Scan(&t.id, &t.title, &t.done, &t.repeat)
		found = append(found, t)
		return err
	}, login)
	return found
}

// register makes an account and returns a client that is signed in.
func (p *planner) register(login string) *http.Client {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	client := &http.Client{
		Jar:           jar,
		Timeout:       time.Minute,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 100},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	p.t.Cleanup(client.CloseIdleConnections)
	resp, err := client.PostForm(p.url+"/auth/register", url.Values{"login": {login}, "password": {"correct horse battery"}, "tz": {"Europe/Moscow"}})
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther {
		body, _ := io.ReadAll(resp.Body)
		p.t.Fatalf("registering %s: %s\n%s", login, resp.Status, body)
	}
	return client
}
