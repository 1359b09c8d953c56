// Package servers starts real servers for tests: each listens on a free port of
// 127.0.0.1, keeps its files in a temporary folder, is stopped by the process
// that started it, and dies with it.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresTest is what of a testing.TB is needed here. It is not that interface
// itself because only test files import package testing.
type postgresTest interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Postgres returns the connection string of an empty database of the test's own,
// on a server that all tests of the process share and that writes nothing
// durably. Connection parameters may be appended to it with "&".
func Postgres(t postgresTest) string {
	t.Helper()
	return quickPostgres.database(t)
}

// DurablePostgres is Postgres on a server that keeps what it has committed: for
// tests that kill its processes, which is felt by all who use this server, and for
// measuring.
func DurablePostgres(t postgresTest) string {
	t.Helper()
	return durablePostgres.database(t)
}

var (
	quickPostgres   = postgresServer{settings: []string{"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"}}
	durablePostgres = postgresServer{}
)

// postgresServer is started when it is first asked for.
type postgresServer struct {
	settings []string
	once     sync.Once
	address  string // up to the name of the database
	err      error
	lifeline io.Closer // when it is closed, the server ends
	count    atomic.Int64
}

func (s *postgresServer) database(t postgresTest) string {
	t.Helper()
	s.once.Do(s.start)
	if errors.Is(s.err, exec.ErrNotFound) && os.Getenv("CI") != "true" {
		t.Skipf("%v: `make install` installs it", s.err)
	} else if s.err != nil {
		t.Fatalf("%v", s.err)
	}
	name := fmt.Sprintf("test_%d", s.count.Add(1))
	if err := s.run("CREATE DATABASE " + name); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := s.run("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Fatalf("%v", err)
		}
	})
	return s.address + name + "?sslmode=disable"
}

// run executes one statement, as soon as the server is up: a test may just have
// made it recover.
func (s *postgresServer) run(statement string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		var conn *pgx.Conn
		if conn, err = pgx.Connect(ctx, s.address+"postgres?sslmode=disable"); err == nil {
			_, err = conn.Exec(ctx, statement)
			conn.Close(ctx)
			if err == nil || ctx.Err() != nil || !conn.IsClosed() {
				return err
			}
		}
		if ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// postgresProgram finds a program of the newest installed version.
func postgresProgram(name string) (string, error) {
	newest, version := "", 0
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	for _, path := range found {
		if n, err := strconv.Atoi(strings.Split(path, "/")[4]); err == nil && n > version {
			newest, version = path, n
		}
	}
	if newest != "" {
		return newest, nil
	}
	return exec.LookPath(name)
}

// supervise runs the server and, when its standard input ends because the test's
// process has closed it or is no more, stops the server and clears up.
const supervise = `dir=$1; shift
"$@" </dev/null >"$dir/log" 2>&1 &
server=$!
read -r _
kill -INT $server 2>/dev/null
wait $server
cd / && rm -rf "$dir"`

func (s *postgresServer) start() { s.err = s.tryStart() }

func (s *postgresServer) tryStart() error {
	initdb, err := postgresProgram("initdb")
	if err != nil {
		return fmt.Errorf("no PostgreSQL: %w", err)
	}
	server, err := postgresProgram("postgres")
	if err != nil {
		return fmt.Errorf("no PostgreSQL: %w", err)
	}
	dir, err := os.MkdirTemp("", "onceward-postgres-")
	if err != nil {
		return err
	}
	as, err := postgresUser(dir)
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	cmd := exec.Command(initdb, "-D", data, "-U", "onceward", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.SysProcAttr, cmd.Dir = as, dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePostgresPort()
	if err != nil {
		return err
	}
	args := append([]string{
		server, "-D", data, "-p", port, "-k", dir, "-c", "listen_addresses=127.0.0.1",
		"-c", "max_connections=400", "-c", "shared_buffers=128MB", "-c", "max_wal_size=2GB",
	}, s.settings...)
	if s.lifeline, err = startSupervised(dir, as, args...); err != nil {
		return err
	}
	s.address = "postgres://onceward@127.0.0.1:" + port + "/"
	if err := s.run("SELECT 1"); err != nil {
		said, _ := os.ReadFile(filepath.Join(dir, "log"))
		return fmt.Errorf("PostgreSQL does not answer: %w\n%s", err, said[max(0, len(said)-2000):])
	}
	return nil
}

// startSupervised runs a server whose folder is dir, until the lifeline is closed.
func startSupervised(dir string, as *syscall.SysProcAttr, args ...string) (lifeline io.Closer, err error) {
	cmd := exec.Command("sh", append([]string{"-c", supervise, "sh", dir}, args...)...)
	cmd.SysProcAttr, cmd.Dir = as, dir
	if lifeline, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait() }()
	return lifeline, nil
}

// freePostgresPort is free now; that nobody takes it before the server does is
// likely, not certain.
func freePostgresPort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), nil
}

// postgresUser makes dir the server's and says as whom it has to run: it refuses
// to be root.
func postgresUser(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(who.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
