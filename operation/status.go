package operation

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/onceward/onceward"
)

// errScope is a status resource that cannot tell who asks.
var errScope = errors.New("onceward: operation: the scope is empty")

// ServeHTTP is GET …/operations/{id}, in the caller's own scope. The id is the
// path's last element, or the pattern's {id}. It stands inside authentication and
// needs no guard.
//
// With ?wait=N, or "Prefer: wait=N", it answers when the operation is no longer
// pending, or after N seconds, at most MaxWait.
func (o *Operations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	id := r.PathValue("id")
	if id == "" {
		id = path.Base(r.URL.Path)
	}
	op, err := o.Look(r, id)
	if err == nil && op.State == Pending {
		if most := o.patience(r); most > 0 {
			op, err = o.wait(r.Context(), op, most)
		}
	}
	if err != nil {
		o.Refuse(w, r, err)
		return
	}
	o.write(w, r, http.StatusOK, op)
}

// Look reports the operation of that id in the scope of whoever sent r. The error
// wraps [ErrNotFound] if there is none.
func (o *Operations) Look(r *http.Request, id string) (Operation, error) {
	key, err := o.key(r, id)
	if err != nil {
		return Operation{}, err
	}
	op, err := o.runner.Look(r.Context(), key)
	if errors.Is(err, ErrNotFound) {
		return o.remembered(r.Context(), key)
	}
	return op, err
}

// Wait is [Operations.Look] for somebody who waits until the operation is no longer
// pending, at most so long.
func (o *Operations) Wait(r *http.Request, id string, most time.Duration) (Operation, error) {
	op, err := o.Look(r, id)
	if err == nil && op.State == Pending && most > 0 {
		return o.wait(r.Context(), op, most)
	}
	return op, err
}

// key is the name of the operation of that id for the caller.
func (o *Operations) key(r *http.Request, id string) (key onceward.Key, err error) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != len(key.ID) || hex.EncodeToString(b) != id {
		return key, ErrNotFound
	}
	scope, err := o.scope(r)
	if err != nil {
		return key, err
	}
	if scope == "" {
		return key, errScope
	}
	key = onceward.NewKey(scope, "")
	copy(key.ID[:], b)
	return key, nil
}

// remembered asks the guard's records about an operation that the runner does not
// know. Somebody was told that it was accepted, so "there is none" would be a lie.
func (o *Operations) remembered(ctx context.Context, key onceward.Key) (Operation, error) {
	if o.cfg.Records == nil {
		return Operation{}, ErrNotFound
	}
	rec, found, err := o.cfg.Records.Look(ctx, key)
	if err != nil {
		return Operation{}, fmt.Errorf("onceward: operation: looking for the record: %w", err)
	}
	op := Operation{Key: key, State: Unknown}
	if !found || rec.Response == nil || rec.Response.Header.Get("Location") != o.Location(op) {
		return Operation{}, ErrNotFound
	}
	op.Created = time.Now().Add(-rec.Age)
	return op, nil
}

// patience is how long a request wants to wait.
func (o *Operations) patience(r *http.Request) time.Duration {
	asked := r.URL.Query().Get("wait")
	if asked == "" {
		asked, _ = preference(r, "wait")
	}
	n, err := strconv.ParseUint(asked, 10, 32)
	if err != nil {
		return 0
	}
	return min(o.cfg.MaxWait, time.Duration(n)*time.Second)
}

// wait returns op as it is when it is no longer pending, or when the time is over.
func (o *Operations) wait(ctx context.Context, op Operation, most time.Duration) (Operation, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	stop := context.AfterFunc(o.closed, cancel)
	defer stop()
	w := o.watches.join(op, o.await)
	defer o.watches.leave(w)
	select {
	case <-w.done:
		return w.op, w.err
	case <-ctx.Done():
		return op, nil
	}
}

// await is one wait, on behalf of all who wait for the operation.
func (o *Operations) await(ctx context.Context, op Operation) (Operation, error) {
	if waiter, ok := o.runner.(Waiter); ok {
		return waiter.Wait(ctx, op.Key)
	}
	return Poll(ctx, op, o.runner.Look, nil)
}

// watches are the waits that go on, one for each operation, however many ask: a runner
// may have to ask its database again and again.
type watches struct {
	mu sync.Mutex
	at map[onceward.Key]*watch // guarded by mu
}

type watch struct {
	key  onceward.Key
	n    int // who waits; guarded by watches.mu
	stop context.CancelFunc
	done chan struct{} // closed when op and err are what came of it
	op   Operation
	err  error
}

func (ws *watches) join(op Operation, await func(context.Context, Operation) (Operation, error)) *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.at[op.Key]
	if w == nil {
		ctx, stop := context.WithCancel(context.Background()) // it is nobody's request
		w = &watch{key: op.Key, stop: stop, done: make(chan struct{})}
		if ws.at == nil {
			ws.at = make(map[onceward.Key]*watch)
		}
		ws.at[op.Key] = w
		go ws.watch(ctx, w, op, await)
	}
	w.n++
	return w
}

func (ws *watches) watch(ctx context.Context, w *watch, op Operation, await func(context.Context, Operation) (Operation, error)) {
	defer close(w.done)
	defer func() {
		if p := recover(); p != nil { // in no handler, where net/http would see to it
			w.err = fmt.Errorf("onceward: operation: the runner panicked: %v\n%s", p, debug.Stack())
		}
		ws.mu.Lock()
		defer ws.mu.Unlock()
		ws.end(w)
	}()
	w.op, w.err = await(ctx, op)
}

func (ws *watches) leave(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.n--; w.n == 0 {
		ws.end(w)
	}
}

// end makes the next who asks begin anew; ws.mu is held.
func (ws *watches) end(w *watch) {
	w.stop()
	if ws.at[w.key] == w {
		delete(ws.at, w.key)
	}
}

// Poll asks look again, with growing pauses, until op is no longer pending or ctx is
// over. woken ends a pause; it may be nil. It is for a [Waiter] whose work may be
// finished by another process, of which it hears nothing.
func Poll(ctx context.Context, op Operation, look func(context.Context, onceward.Key) (Operation, error), woken <-chan struct{}) (Operation, error) {
	pause := 50 * time.Millisecond
	for op.State == Pending {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause = min(2*pause, time.Second)
		case <-woken:
			woken = nil // once; a closed channel would make the loop spin
		case <-ctx.Done():
			timer.Stop()
			return op, nil
		}
		timer.Stop()
		next, err := look(ctx, op.Key)
		if err != nil {
			if ctx.Err() != nil {
				return op, nil
			}
			return op, err
		}
		op = next
	}
	return op, nil
}
