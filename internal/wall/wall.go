// Package wall is the clock on the wall, for a store whose times several
// processes share through a file. Everywhere else time is measured on the
// monotonic clock. It is a package of its own so that this repository's tests can
// set the clock of one process; nobody else can import it.
package wall

import (
	"sync/atomic"
	"time"
)

var offset atomic.Int64

// Now is time.Now, or what the clock was set to.
func Now() time.Time { return time.Now().Add(time.Duration(offset.Load())) }

// Set puts this process's clock so far ahead of the machine's, or behind it.
func Set(ahead time.Duration) { offset.Store(int64(ahead)) }
