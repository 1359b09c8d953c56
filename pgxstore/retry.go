package pgxstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATE codes that this package tells apart.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	completionUnknown    = "40003"
	uniqueViolation      = "23505"
	divisionByZero       = "22012"
	invalidText          = "22P02"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
)

const (
	maxTries              = 12
	firstPause, longPause = 2 * time.Millisecond, 250 * time.Millisecond
)

// code is the SQLSTATE of err, or "".
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// undone says that the server has rolled a transaction back because of others,
// and that the same once more may succeed.
func undone(err error) bool {
	c := code(err)
	return c == serializationFailure || c == deadlockDetected
}

// repeatable says that the same call under the same token is the right answer to
// err; lost means that the connection was lost with it, and with it maybe the
// news that a COMMIT has succeeded.
func repeatable(err error, lost bool) bool {
	var refused *pgconn.ConnectError
	if errors.As(err, &refused) {
		return false // there is no server to repeat it to; the caller decides
	}
	c := code(err)
	return lost || undone(err) || c == completionUnknown || c == adminShutdown || c == crashShutdown
}

// retried calls f until it succeeds, fails for good, or ctx ends. f says whether
// it lost its connection.
func retried(ctx context.Context, f func() (lost bool, err error)) error {
	for try := 1; ; try++ {
		lost, err := f()
		if err == nil || !repeatable(err, lost) || try == maxTries || !pause(ctx, try) {
			return err
		}
	}
}

// pause waits a little, longer after each try, and says false if ctx ended.
func pause(ctx context.Context, try int) bool {
	d := min(firstPause<<min(try-1, 10), longPause)
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
