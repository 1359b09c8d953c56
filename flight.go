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
	claims int           // being made, or running
	runs   int           // of them, those that run
	taking bool          // one of those being made may take over
	wake   chan struct{} // closed when a run of the key ends; nil while nobody waits
}

// enter announces a claim; left or started ends that. alone: it may take over,
// for no run of this key is under way here that it could displace. Only one
// claim at a time may, however many wait. ok is false after Close.
func (f *flights) enter(key Key) (alone, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false, false
	}
	fl := f.byKey[key]
	alone = fl.runs == 0 && !fl.taking
	fl.claims++
	fl.taking = fl.taking || alone
	f.byKey[key] = fl
	f.active++
	return alone, true
}

// left ends a claim that was not granted.
func (f *flights) left(key Key, alone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byKey[key]
	fl.taking = fl.taking && !alone
	f.drop(key, fl)
}

// started makes a run of a claim that was granted.
func (f *flights) started(key Key, alone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byKey[key]
	fl.runs++
	fl.taking = fl.taking && !alone
	f.byKey[key] = fl
}

// ran ends a run: the key's state has changed.
func (f *flights) ran(key Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byKey[key]
	fl.runs--
	if fl.wake != nil {
		close(fl.wake)
		fl.wake = nil
	}
	f.drop(key, fl)
}

// drop takes one claim out of fl. f.mu is held.
func (f *flights) drop(key Key, fl flight) {
	fl.claims--
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

// working tells that a claim being made already does its work, as a transaction
// does; worked ends that. Those who wait are woken then.
func (f *flights) working(key Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byKey[key]
	fl.runs++
	f.byKey[key] = fl
}

func (f *flights) worked(key Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.byKey[key]
	fl.runs--
	if fl.wake != nil {
		close(fl.wake)
		fl.wake = nil
	}
	f.byKey[key] = fl
}

// runs reports whether this process runs the key.
func (f *flights) runs(key Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKey[key].runs > 0
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
