package onceward

import (
	"context"
	"sync"
	"time"
)

// lazyContext is a context with a deadline and a cause, whose machinery is made
// only when somebody looks at Done or Value. A store in memory and a short
// handler never do, and for them it saves a third of what a guarded request
// would allocate. It is used for one call or one handler, never again. Package
// context finds its own kind of parent through Value, so contexts derived from
// it cost no goroutine.
type lazyContext struct {
	parent   context.Context
	detached bool // parent's end is not ours
	deadline time.Time
	enforced bool // it ends at the deadline by itself

	mu    sync.Mutex
	made  context.Context
	stop  context.CancelCauseFunc
	cause error // set by cancel
}

var _ context.Context = (*lazyContext)(nil)

func (c *lazyContext) cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = cause
	}
	if c.stop != nil {
		c.stop(cause)
	}
}

func (c *lazyContext) full() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		parent := c.parent
		if c.detached {
			parent = context.WithoutCancel(parent)
		}
		ctx, stop := context.WithCancelCause(parent)
		c.made, c.stop = ctx, stop
		if c.enforced {
			timed, release := context.WithDeadline(ctx, c.deadline)
			c.made, c.stop = timed, func(cause error) { stop(cause); release() }
		}
		if c.cause != nil {
			c.stop(c.cause)
		}
	}
	return c.made
}

func (c *lazyContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *lazyContext) Done() <-chan struct{} { return c.full().Done() }

func (c *lazyContext) Value(key any) any { return c.full().Value(key) }

func (c *lazyContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.made != nil:
		return c.made.Err()
	case c.cause != nil:
		return context.Canceled
	case c.enforced && !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	case !c.detached:
		return c.parent.Err()
	}
	return nil
}
