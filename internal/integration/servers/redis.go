// Package servers starts real servers for tests: each listens on a free port of
// 127.0.0.1, keeps its files in a temporary folder, is stopped by the process
// that started it, and dies with it.
package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// redisTest is what of a testing.TB is needed here. It is not that interface
// itself because only test files import package testing.
type redisTest interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// redisBinary finds the server. ONCEWARD_REDIS_SERVER names another one, such as
// valkey-server.
func redisBinary(t redisTest) string {
	t.Helper()
	name := os.Getenv("ONCEWARD_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v: in CI nothing is skipped; `make install` installs it", err)
	} else if err != nil {
		t.Skipf("%v: `make install` installs it", err)
	}
	return path
}

// RedisServer is one running server.
type RedisServer struct {
	Addr string // host:port

	dir  string
	args []string
	cmd  *exec.Cmd
	out  *os.File
}

// StartRedis starts a server of the test's own, which writes nothing to disk
// unless the directives say so: they are those of redis.conf, each with a value,
// name and value apart.
func StartRedis(t redisTest, directives ...string) *RedisServer {
	t.Helper()
	s, err := startRedis(redisBinary(t), directives...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.remove)
	return s
}

func startRedis(binary string, directives ...string) (*RedisServer, error) {
	dir, err := os.MkdirTemp("", "onceward-redis-")
	if err != nil {
		return nil, err
	}
	// The port may be taken by somebody else before the server has it.
	for range 5 {
		port := redisPort()
		s := &RedisServer{Addr: "127.0.0.1:" + port, dir: dir, args: []string{
			binary, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
			"--databases", "1000", "--repl-diskless-sync-delay", "0",
		}}
		for i := 0; i+1 < len(directives); i += 2 {
			s.args = append(s.args, "--"+directives[i], directives[i+1])
		}
		if err = s.start(); err == nil {
			return s, nil
		}
		s.stop()
	}
	os.RemoveAll(dir)
	return nil, err
}

// Kill ends the server as a power cut ends it: -9.
func (s *RedisServer) Kill() { s.stop() }

// Start starts a killed server again, on its port and with its files, and
// returns when it answers.
func (s *RedisServer) Start(t redisTest) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatalf("%v", err)
	}
}

func (s *RedisServer) start() (err error) {
	// A file, not a pipe: nobody has to read it while the server runs.
	s.out, err = os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	redisStarter.Do(func() { go startForever() })
	answer := make(chan error)
	redisStarts <- redisStart{s.cmd, answer}
	if err := <-answer; err != nil {
		s.cmd = nil
		return err
	}
	return redisWait(20*time.Second, func(context.Context) error {
		err := pong(s.Addr)
		if err != nil {
			said, _ := os.ReadFile(s.out.Name())
			err = fmt.Errorf("%s does not answer: %w\n%s", s.args[0], err, said[max(0, len(said)-2000):])
		}
		return err
	})
}

// pong says whether a server answers, and has read its files.
func pong(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = errors.New(line)
	}
	return err
}

func (s *RedisServer) stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
	if s.out != nil {
		s.out.Close()
	}
}

func (s *RedisServer) remove() {
	s.stop()
	os.RemoveAll(s.dir)
}

// A child that is to die with its parent dies, on Linux, with the thread that
// started it. So one goroutine starts all of them, on a thread that it never
// gives back.
type redisStart struct {
	cmd    *exec.Cmd
	answer chan error
}

var (
	redisStarter sync.Once
	redisStarts  = make(chan redisStart)
)

func startForever() {
	runtime.LockOSThread()
	for s := range redisStarts {
		redisDiesWithUs(s.cmd)
		s.answer <- s.cmd.Start()
	}
}

// sharedRedis is the server that Redis hands out while somebody uses it.
var sharedRedis struct {
	mu       sync.Mutex
	server   *RedisServer
	users    int
	database int
}

// Redis returns the URL of a server that this process's tests share, with an
// empty database of the test's own.
func Redis(t redisTest) string {
	t.Helper()
	binary := redisBinary(t)
	shared := &sharedRedis
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users == 0 {
		server, err := startRedis(binary)
		if err != nil {
			t.Fatalf("%v", err)
		}
		shared.server, shared.database = server, 0
	}
	shared.users++
	t.Cleanup(func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		if shared.users--; shared.users == 0 {
			shared.server.remove()
		}
	})
	shared.database++
	return "redis://" + shared.server.Addr + "/" + strconv.Itoa(shared.database)
}

// redisPorts are the ports given out, so that none is given twice before its
// server has it.
var redisPorts struct {
	mu    sync.Mutex
	given map[string]bool
}

func redisPort() string {
	redisPorts.mu.Lock()
	defer redisPorts.mu.Unlock()
	if redisPorts.given == nil {
		redisPorts.given = map[string]bool{}
	}
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err) // no free port on this machine
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		l.Close()
		if !redisPorts.given[port] {
			redisPorts.given[port] = true
			return port
		}
	}
}

// redisWait asks until check has no error, or says the last one.
func redisWait(limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}
