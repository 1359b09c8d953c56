// Package programs runs the programs of the repository as their users do: built,
// started, told apart by what they print, asked to end, and killed.
package programs

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Limit is how long a program may take to listen, and to end when it is asked to.
const Limit = time.Minute

// Build builds a main package of the repository, named as its folder is, into a file;
// with the race detector if raced.
func Build(file, folder string, raced bool) error {
	args := []string{"build", "-o", file}
	if raced {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "github.com/onceward/onceward/"+folder)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", folder, err, out)
	}
	return nil
}

// listening is what the programs of the repository print.
var listening = regexp.MustCompile(`^listening on (http://\S+)`)

// Program is a program through all the lives of its process. One goroutine starts and
// ends it; what it has said is safe to ask for at any time.
type Program struct {
	Path      string
	Args      []string
	Dir       string         // by default the test's own
	Env       []string       // more of it than the test's own
	Listening *regexp.Regexp // the line that tells its address, as the first group; by default the repository's own

	cmd  *exec.Cmd
	done chan struct{}
	said said
}

// Start runs the process and returns the address that it tells.
func (p *Program) Start() (url string, err error) {
	found, err := p.run()
	if err != nil {
		return "", err
	}
	select {
	case url = <-found:
		return url, nil
	case <-p.done:
		return "", fmt.Errorf("%s ended at once:\n%s", p.Path, p.Said())
	case <-time.After(Limit):
		p.Kill()
		return "", fmt.Errorf("%s does not listen after %v:\n%s", p.Path, Limit, p.Said())
	}
}

// Run starts the process, which ends with the test even when the test is killed.
func (p *Program) Run() error {
	_, err := p.run()
	return err
}

func (p *Program) run() (found chan string, err error) {
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.SysProcAttr = ownGroup()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	found = make(chan string, 1)
	read, done := make(chan struct{}), make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		defer close(read)
		p.read(bufio.NewReader(r), found)
	}()
	go func() {
		_ = cmd.Wait()
		select {
		case <-read:
		case <-time.After(time.Second): // a child holds it open
		}
		close(done)
		<-read
		r.Close()
	}()
	return found, nil
}

// read keeps what the process says, and sends the first address in it.
func (p *Program) read(lines *bufio.Reader, found chan<- string) {
	pattern := p.Listening
	if pattern == nil {
		pattern = listening
	}
	for {
		line, err := lines.ReadString('\n')
		p.said.write(line)
		if m := pattern.FindStringSubmatch(line); m != nil {
			select {
			case found <- m[1]:
			default:
			}
		}
		if err != nil {
			return
		}
	}
}

// Kill is kill -9 of the process and its children, by the id of their group, and waits
// for the end.
func (p *Program) Kill() {
	if p.cmd == nil {
		return
	}
	select {
	case <-p.done:
		return
	default:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// Signal sends the process a signal.
func (p *Program) Signal(s syscall.Signal) error {
	return syscall.Kill(p.cmd.Process.Pid, s)
}

// Wait waits for the end of the process and returns its exit status.
func (p *Program) Wait() (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(Limit):
		return 0, fmt.Errorf("%s has not ended within %v", p.Path, Limit)
	}
}

// Done is closed when the process has ended, and all that it said is kept.
func (p *Program) Done() <-chan struct{} { return p.done }

// Pid is the id of the process.
func (p *Program) Pid() int { return p.cmd.Process.Pid }

// Said is what all the lives of the process have written.
func (p *Program) Said() string { return p.said.String() }

// Tail is the end of what it has said, of at most so many lines.
func (p *Program) Tail(lines int) string {
	all := slices.Collect(strings.Lines(p.Said()))
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// Raced tells whether the race detector of the process has found something.
func (p *Program) Raced() bool { return strings.Contains(p.Said(), "DATA RACE") }

// said keeps what is written.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.WriteString(text)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}
