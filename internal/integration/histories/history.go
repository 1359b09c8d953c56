package histories

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Kind names a method of onceward.Store.
type Kind string

const (
	Claim    Kind = "claim"
	Extend   Kind = "extend"
	Complete Kind = "complete"
	Release  Kind = "release"
)

// Call is one call as it was before it was made.
type Call struct {
	Client   int           `json:"client"`
	Key      int           `json:"key"`
	Kind     Kind          `json:"kind"`
	Token    uint64        `json:"token"`
	Print    int           `json:"print,omitempty"` // which request: the fingerprint's number
	TakeOver bool          `json:"takeover,omitempty"`
	Hold     bool          `json:"hold,omitempty"`
	Lease    time.Duration `json:"lease,omitempty"`
	Keep     time.Duration `json:"keep,omitempty"`
	Retain   time.Duration `json:"retain,omitempty"`
	Body     string        `json:"body,omitempty"`
	At       int64         `json:"at"`   // on the machine's monotonic clock, in nanoseconds
	Wall     int64         `json:"wall"` // the wall clock less At: it changes when the wall clock is set
}

// Result is what a call said.
type Result string

const (
	Unknown Result = ""        // an error, or nobody lived to hear it
	Claimed Result = "claimed" // Claim: true
	Taken   Result = "taken"   // Claim: false
	Done    Result = "done"    // nil
	Lost    Result = "lost"    // onceward.ErrClaimLost
)

// Seen is what a Claim said of the record.
type Seen struct {
	Completed bool          `json:"completed,omitempty"`
	Token     uint64        `json:"token"`
	Print     int           `json:"print"`
	Attempt   int           `json:"attempt"`
	Held      bool          `json:"held,omitempty"`
	Left      time.Duration `json:"left,omitempty"`
	Body      string        `json:"body,omitempty"`
}

// Answer is what became of a call.
type Answer struct {
	Until  int64  `json:"until"` // when it was heard, on the same clock
	Result Result `json:"result,omitempty"`
	Seen   Seen   `json:"seen,omitzero"`
	Error  string `json:"error,omitempty"` // of an unknown result; for people
}

// Op is a call and its answer.
type Op struct {
	Call
	Answer
	// Repeated: this is a first try of a call that a store, or its client, has
	// repeated by itself when its connection was lost. Nobody heard what it said,
	// and it was over when the call was.
	Repeated bool
}

// forever is later than every instant of a history, and far enough from the
// largest number that a lease can be added to it.
const forever = math.MaxInt64 / 4

// begun and ended bound the moment at which the call happened, if it did.
func (o *Op) begun() int64 { return o.At }

func (o *Op) ended() int64 {
	if o.Result == Unknown && !o.Repeated {
		return forever
	}
	return o.Until
}

func (o *Op) String() string {
	ms := func(t int64) string {
		if t == forever {
			return "…"
		}
		return fmt.Sprintf("%.3f", float64(t)/1e6)
	}
	args := fmt.Sprintf("token %x", o.Token)
	switch o.Kind {
	case Claim:
		args += fmt.Sprintf(", request %d, lease %v, keep %v, take over %v", o.Print, o.Lease, o.Keep, o.TakeOver)
	case Extend:
		args += fmt.Sprintf(", lease %v, hold %v", o.Lease, o.Hold)
	case Complete:
		args += fmt.Sprintf(", answer %q, retain %v", o.Body, o.Retain)
	}
	told := string(o.Result)
	switch o.Result {
	case Unknown:
		told = "nobody knows"
		if o.Error != "" {
			told += ": " + o.Error
		}
	case Claimed, Taken:
		s := o.Seen
		state := "in progress"
		if s.Completed {
			state = fmt.Sprintf("completed with %q", s.Body)
		}
		told += fmt.Sprintf(": %s, token %x, request %d, attempt %d, held %v, left %v", state, s.Token, s.Print, s.Attempt, s.Held, s.Left)
	}
	return fmt.Sprintf("[%s, %s] client %d: %s(%s) -> %s", ms(o.begun()), ms(o.ended()), o.Client, o.Kind, args, told)
}

// monotonic is the one clock that all processes of a machine share and nobody
// sets.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// offset is the wall clock less the monotonic one. The two are not read at once;
// of a few readings the one with the shortest time between counts.
func offset() int64 {
	best, shortest := int64(0), int64(math.MaxInt64)
	for range 5 {
		before := monotonic()
		wall := time.Now().UnixNano()
		if took := monotonic() - before; took < shortest {
			best, shortest = wall-before-took/2, took
		}
		if shortest < int64(10*time.Microsecond) {
			break
		}
	}
	return best
}

// Recorder writes a history down, a line for each call and a line for each
// answer, each in one write, so that a process killed with -9 leaves behind all
// that it had asked. It is safe for concurrent use.
type Recorder struct {
	file *os.File
	last atomic.Int64
	err  atomic.Pointer[error]
}

// line is one line of the file; calls and answers meet by their number.
type line struct {
	N      int64   `json:"n"`
	Call   *Call   `json:"call,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
}

// NewRecorder begins the file name.
func NewRecorder(name string) (*Recorder, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("histories: %w", err)
	}
	return &Recorder{file: file}, nil
}

// Call notes that c is about to be made, and when, and returns its number.
func (r *Recorder) Call(c Call) int64 {
	n := r.last.Add(1)
	c.Wall = offset()
	c.At = monotonic()
	r.write(line{N: n, Call: &c})
	return n
}

// Answer notes what call n was told, and when.
func (r *Recorder) Answer(n int64, a Answer) {
	a.Until = monotonic()
	r.write(line{N: n, Answer: &a})
}

func (r *Recorder) write(l line) {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = r.file.Write(append(text, '\n'))
	}
	if err != nil {
		r.err.CompareAndSwap(nil, &err)
	}
}

// Close ends the file and says whether everything could be written.
func (r *Recorder) Close() error {
	err := r.file.Close()
	if first := r.err.Load(); first != nil {
		err = *first
	}
	if err != nil {
		return fmt.Errorf("histories: %w", err)
	}
	return nil
}

// Read reads the histories that several processes have left. A last line that
// was cut off by a kill counts as not written.
func Read(names ...string) ([]*Op, error) {
	var ops []*Op
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("histories: %w", err)
		}
		found, err := read(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("histories: %s: %w", name, err)
		}
		ops = append(ops, found...)
	}
	return ops, nil
}

func read(r io.Reader) ([]*Op, error) {
	var ops []*Op
	byNumber := map[int64]*Op{}
	in := bufio.NewReader(r)
	for {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return ops, nil
		}
		if err != nil {
			return nil, err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("%w: %s", err, text)
		}
		op := byNumber[l.N]
		switch {
		case l.Call != nil && op == nil:
			op = &Op{Call: *l.Call}
			byNumber[l.N] = op
			ops = append(ops, op)
		case l.Answer != nil && op != nil:
			op.Answer = *l.Answer
		default:
			return nil, fmt.Errorf("a line that fits nothing: %s", text)
		}
	}
}
