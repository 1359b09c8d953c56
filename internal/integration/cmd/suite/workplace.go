package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runVariable marks every process of a run by its environment, so that what a
// killed test left behind can be told from everybody else's browsers.
const runVariable = "ONCEWARD_SUITE"

// workplace is what one run owns: a temporary folder and the processes that
// carry its mark. Both are gone when it is closed.
type workplace struct {
	root string // of the repository
	temp string
	id   string
	out  io.Writer
	// failures of all stages, for the end.
	failures []failure
}

func newWorkplace(root string, out io.Writer) (*workplace, error) {
	temp, err := os.MkdirTemp(inMemory(), "onceward-suite-")
	if err != nil {
		return nil, err
	}
	// A database server refuses to run as root, and whoever it runs as has to reach
	// its folder in here.
	if err := os.Chmod(temp, 0o711); err != nil {
		return nil, err
	}
	return &workplace{root: root, temp: temp, id: rand.Text(), out: &shared{w: out}}, nil
}

// shared lets a command's standard error and the reader of its output write at
// the same time.
type shared struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

func (w *workplace) close() {
	w.endProcesses()
	if err := os.RemoveAll(w.temp); err != nil {
		fmt.Fprintln(w.out, "suite: the temporary folder stays:", err)
	}
}

// command prepares a child in a process group of its own, which is ended, first
// politely, when ctx is. It has no standard input.
func (w *workplace) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(w.root, dir)
	cmd.Env = append(os.Environ(), "TMPDIR="+w.temp, runVariable+"="+w.id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// wait waits for a started command and leaves nobody of its group alive.
func (w *workplace) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return err
}

// output runs a command to its end and returns all that it said.
func (w *workplace) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := w.command(ctx, dir, name, args...)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	if err := cmd.Start(); err != nil {
		return "", err
	}
	err := w.wait(cmd)
	return both.String(), err
}

// lines runs a command and hands over each line of its output as it comes.
// What it writes to standard error goes through to the reader of the run.
func (w *workplace) lines(ctx context.Context, dir string, each func(line []byte), name string, args ...string) error {
	cmd := w.command(ctx, dir, name, args...)
	cmd.Stderr = w.out
	r, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.Stdout = pw
	if err := cmd.Start(); err != nil {
		pw.Close()
		return err
	}
	pw.Close()
	done := make(chan error, 1)
	go func() { done <- w.wait(cmd) }()
	read := make(chan error, 1)
	go func() {
		br := bufio.NewReaderSize(r, 1<<16)
		for {
			line, err := br.ReadBytes('\n')
			if len(line) > 0 {
				each(bytes.TrimRight(line, "\n"))
			}
			if err != nil {
				if err == io.EOF {
					err = nil
				}
				read <- err
				return
			}
		}
	}()
	err = <-done
	select {
	case readErr := <-read:
		return errors.Join(err, readErr)
	case <-time.After(5 * time.Second):
		// Somebody who left the process group still holds the pipe.
		w.endProcesses()
		r.Close()
		return errors.Join(err, <-read, errors.New("a process outlived its stage and was ended"))
	}
}

// endProcesses kills what carries this run's mark. Browsers are started in
// process groups of their own, so ending a stage's group does not reach them
// when the driver above them died first. Linux only: elsewhere nothing is found.
func (w *workplace) endProcesses() {
	mark := []byte(runVariable + "=" + w.id)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil || !bytes.Contains(env, mark) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
		fmt.Fprintf(w.out, "suite: ending %s (%d), which outlived its stage\n", strings.TrimSpace(string(name)), pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// withParent ends the context when the process that started this one is gone:
// `go run` dies of a signal without passing it on.
func withParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}
