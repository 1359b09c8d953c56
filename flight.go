package onceward

import (
	"context"
	"sync"
)

// flights are the claims that this process is making or running, by key. They
// serve two promises: waiters in one process are woken, not polled; and a
// process never takes over a claim that it is itself running, whatever a clock
// says.
type flights struct {
	mu     sync.Mutex
	byKey  map[Key]flight
	active int           // requests past their claim, and work that outlives them
	closed bool          // Close was called
	idle   chan struct{} // closed when active is 0 after Close
}

type flight struct {
	claims int
	wake   chan struct{} // closed when a run of the key ends; nil while nobody waits
}

// enter announces a claim. alone: no other claim of this key is under way here,
// so a take-over displaces no run of ours. ok is false after Close.
func (f *flights) enter(key Key) (alone, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false, false
	}
	fl := f.byKey[key]
	fl.claims++
	f.byKey[key] = fl
	f.active++
	return fl.claims == 1, true
}

// leave ends what enter began. ran: the key's state has changed.
func (f *flights) leave(key Key, ran bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byKey[key]
	fl.claims--
	if ran && fl.wake != nil {
		close(fl.wake)
		fl.wake = nil
	}
	if fl.claims == 0 {
		delete(f.byKey, key)
	} else {
		f.byKey[key] = fl
	}
	f.done()
}

// done counts one piece of active work less. f.mu is held.
func (f *flights) done() {
	f.active--
	if f.active == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// ended returns a channel that is closed when a run of the key ends here; nil
// when this process runs none.
func (f *flights) ended(key Key) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl, ok := f.byKey[key]
	if !ok {
		return nil
	}
	if fl.wake == nil {
		fl.wake = make(chan struct{})
		f.byKey[key] = fl
	}
	return fl.wake
}

// begin counts work that outlives its request; it ends with end.
func (f *flights) begin() {
	f.mu.Lock()
	f.active++
	f.mu.Unlock()
}

func (f *flights) end() {
	f.mu.Lock()
	f.done()
	f.mu.Unlock()
}

// close refuses further claims and waits for what is active.
func (f *flights) close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	if f.active == 0 {
		f.mu.Unlock()
		return nil
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle := f.idle
	f.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
