package sqlitestore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// isBusy says whether err means that another connection holds a lock that this
// one needs. Drivers have types of their own for it; the codes and the text are
// SQLite's.
func isBusy(err error) bool {
	if err == nil {
		return false
	}
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		switch coded.Code() & 0xff {
		case 5, 6, 15: // SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL (a race for the log's index)
			return true
		}
		return false
	}
	text := err.Error()
	return strings.Contains(text, "database is locked") ||
		strings.Contains(text, "database table is locked") ||
		strings.Contains(text, "locking protocol") ||
		strings.Contains(text, "SQLITE_BUSY")
}

// backoff waits a little longer each time, up to a length at which a writer in
// another process is not missed between two of its commits. SQLite's own busy
// handler sleeps up to 100 ms, and a process that does not sleep wins every time.
type backoff struct{ next time.Duration }

// wait says false if ctx ended.
func (b *backoff) wait(ctx context.Context) bool {
	const first, longest = 100 * time.Microsecond, 3 * time.Millisecond
	b.next = min(max(b.next*2, first), longest)
	timer := time.NewTimer(b.next/2 + rand.N(b.next/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
