//go:build linux

package sweep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a victim as its parent sees it.
type process struct {
	plan    plan
	url     string
	reached chan struct{} // closed when it says that it has come to its point
	exited  chan struct{} // closed when it is no more

	cmd *exec.Cmd
	in  io.WriteCloser
	log logged
}

// logged collects what a process writes to standard error.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A process that is to die with its parent, be it stopped, dies with the thread
// that started it. So one goroutine starts all of them, on a thread that it never
// gives back.
var starts = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})

// start starts a victim and returns when it is ready to serve.
func start(p plan) (*process, error) {
	spec, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	v := &process{plan: p, reached: make(chan struct{}), exited: make(chan struct{}), cmd: exec.Command(exe)}
	v.cmd.Env = append(os.Environ(), victimPlan+"="+string(spec))
	v.cmd.Stderr = &v.log
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	starts() <- func() { started <- v.cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if line := lines.Text(); line == "reached" {
				close(v.reached)
			} else if url, ok := strings.CutPrefix(line, "ready "); ok {
				ready <- url
			}
		}
		close(ready)
		v.cmd.Wait()
		close(v.exited)
	}()
	if v.url = <-ready; v.url == "" {
		<-v.exited
		return nil, fmt.Errorf("a victim did not start: %v\n%s", v.cmd.ProcessState, &v.log)
	}
	return v, nil
}

// kill ends the process as a power cut would, also one that is stopped.
func (v *process) kill() {
	_ = v.cmd.Process.Kill()
	<-v.exited
}

// halt stops the process and returns when all of it stands still.
func (v *process) halt() error {
	if err := v.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return v.halted()
}

// halted waits until every thread has stopped.
func (v *process) halted() error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		still, err := stopped(v.cmd.Process.Pid)
		if err != nil || still {
			return err
		}
	}
	return errors.New("the victim does not stop")
}

func stopped(pid int) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(dir + "/" + thread.Name() + "/stat")
		if errors.Is(err, os.ErrNotExist) {
			continue // that thread has ended
		} else if err != nil {
			return false, err
		}
		// "pid (name) T …", and the name may have anything in it.
		if rest := stat[bytes.LastIndexByte(stat, ')')+1:]; !bytes.HasPrefix(rest, []byte(" T")) {
			return false, nil
		}
	}
	return true, nil
}

// wake lets a stopped process go on.
func (v *process) wake() error { return v.cmd.Process.Signal(syscall.SIGCONT) }

// end lets the process end by itself, within limits.
func (v *process) end() {
	v.in.Close()
	select {
	case <-v.exited:
	case <-time.After(5 * time.Second):
		v.kill()
	}
}
