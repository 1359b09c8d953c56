package riveroperation

import (
	"context"

	"github.com/riverqueue/river/riverdriver"
)

// Database is where operations and River's jobs are. The packages onpgx and onsqlite
// have the two that there are; it is an interface so that a program links only one.
type Database[TTx any] interface {
	// Driver is River's, on this database.
	Driver() riverdriver.Driver[TTx]
	// Joined is the transaction of onceward.Guard.Atomic that ctx carries.
	Joined(ctx context.Context) (tx TTx, ok bool)
	// InTx runs work in a transaction of its own, which commits if it returns nil.
	InTx(ctx context.Context, work func(tx TTx) error) error
	// Tx makes statements in a transaction.
	Tx(tx TTx) Statements
	// Pool reads outside of one.
	Pool() Statements
	// Tables are the statements that make the table onceward_operations, where it is
	// not there; they run in one transaction.
	Tables() []string
	// Now is the SQL expression of the database's clock: milliseconds since 1970.
	Now() string
}

// Statements are SQL with $1, $2 for its arguments.
type Statements interface {
	// Exec says how many rows changed.
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	// Query calls row for each row, which scans it.
	Query(ctx context.Context, row func(scan func(dest ...any) error) error, query string, args ...any) error
}
