//go:build linux

package sweep

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	atomics "sync/atomic"
	"syscall"
	"time"

	"github.com/onceward/onceward"
)

// The steps of a guarded request at which a victim can be struck.
const (
	beforeClaim     = "before the claim"
	afterClaim      = "after the claim"
	beforeWork      = "before the work"
	afterWork       = "after the work"
	beforeComplete  = "before completing"
	afterComplete   = "after completing"
	beforeFirstByte = "before the first byte"
	afterFirstByte  = "after the first byte"
)

var steps = []string{beforeClaim, afterClaim, beforeWork, afterWork, beforeComplete, afterComplete, beforeFirstByte, afterFirstByte}

// The two ways of striking.
const (
	kill = "kill" // SIGKILL
	stop = "stop" // SIGSTOP, and SIGCONT when another process has taken the repeat
)

// point is where a victim is struck, and how. It is a step of the request, or the
// N-th statement or network message since the request came.
type point struct {
	Fault string // kill, stop or cut
	Step  string
	Kind  string // statement or message, if Step is empty
	N     int    // from 1
	After bool   // it was done, or forwarded, when the victim is struck
}

const (
	statement = "statement"
	message   = "message"
)

func (p point) String() string {
	if p.Step != "" {
		return p.Fault + " " + p.Step
	}
	when := "before"
	if p.After {
		when = "after"
	}
	return fmt.Sprintf("%s %s %s %d", p.Fault, when, p.Kind, p.N)
}

// aim strikes its own process when that comes to a point.
type aim struct {
	point      point
	armed      atomics.Bool // the request has come
	statements atomics.Int64
	once       sync.Once
	resume     chan struct{} // closed when a victim that waits may go on
}

// step is called at each step.
func (a *aim) step(name string) {
	if a.point.Step == name && a.armed.Load() {
		a.strike()
	}
}

// statement is called in place of do, which executes one statement.
func (a *aim) statement(do func() error) error {
	if !a.armed.Load() {
		return do()
	}
	here := a.statements.Add(1) == int64(a.point.N) && a.point.Kind == statement
	if here && !a.point.After {
		a.strike()
	}
	err := do()
	if here && a.point.After {
		a.strike()
	}
	return err
}

// strike tells the parent and sends the signal. It goes to this thread, so that
// not one more instruction of the caller is executed before it takes effect.
func (a *aim) strike() {
	a.once.Do(func() {
		fmt.Println("reached")
		if a.point.Fault == wait {
			if err := a.pause(); err != nil {
				panic(err)
			}
			return
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		sig := syscall.SIGKILL
		if a.point.Fault == stop {
			sig = syscall.SIGSTOP
		}
		if err := syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), sig); err != nil {
			panic(err)
		}
	})
}

// stepped makes a store that comes to the steps.
func (a *aim) stepped(s onceward.Store) onceward.Store {
	under := steppedStore{s, a}
	if t, ok := s.(onceward.Transactor); ok {
		return steppedTransactor{under, t}
	}
	return under
}

type steppedStore struct {
	onceward.Store
	aim *aim
}

func (s steppedStore) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	s.aim.step(beforeClaim)
	defer s.aim.step(afterClaim)
	return s.Store.Claim(ctx, c)
}

func (s steppedStore) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	s.aim.step(beforeComplete)
	defer s.aim.step(afterComplete)
	return s.Store.Complete(ctx, key, tok, resp, retain)
}

type steppedTransactor struct {
	steppedStore
	transactor onceward.Transactor
}

func (s steppedTransactor) Transact(ctx context.Context, c onceward.Claim, work func(context.Context) (onceward.Verdict, *onceward.Response, error)) (onceward.Record, bool, error) {
	s.aim.step(beforeClaim)
	defer s.aim.step(afterComplete)
	return s.transactor.Transact(ctx, c, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		s.aim.step(afterClaim)
		defer s.aim.step(beforeComplete)
		return work(ctx)
	})
}

// steppedWriter lets the first byte of the answer's body go out alone.
type steppedWriter struct {
	http.ResponseWriter
	aim   *aim
	begun bool
}

func (w *steppedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *steppedWriter) Write(p []byte) (int, error) {
	if w.begun || len(p) == 0 {
		return w.ResponseWriter.Write(p)
	}
	w.begun = true
	w.aim.step(beforeFirstByte)
	n, err := w.ResponseWriter.Write(p[:1])
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	w.aim.step(afterFirstByte)
	if err != nil {
		return n, err
	}
	m, err := w.ResponseWriter.Write(p[1:])
	return n + m, err
}

// count reads a number that a victim has printed.
func count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}
