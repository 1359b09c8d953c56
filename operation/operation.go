package operation

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/onceward/onceward"
)

// State says where an operation stands.
type State string

const (
	Pending  State = "pending"  // accepted; it waits, runs, or is to be tried again
	Complete State = "complete" // done; Operation.Result is set
	Failed   State = "failed"   // it will not be done; Operation.Failure is set
	Unknown  State = "unknown"  // nobody can tell whether it was done
)

// ErrNotFound means that a [Runner] has no operation of that name: there never was
// one, or it is forgotten.
var ErrNotFound = errors.New("onceward: there is no such operation")

// Job is what a [Runner] is asked to have done.
type Job struct {
	// Key names the operation, in its owner's scope.
	Key onceward.Key
	// Fingerprint is the request's. A second Submit under one Key with another
	// one is refused. The zero Fingerprint is equal to every other.
	Fingerprint onceward.Fingerprint
	// Kind says which work it is, by the name under which the runner knows it.
	Kind string
	// Input is what the work needs to know. It is never shown to anybody.
	Input []byte
}

// Operation is one piece of long work, as its runner knows it.
type Operation struct {
	Key   onceward.Key
	Kind  string
	State State
	// Created and Finished are on the runner's clock; zero where it does not know.
	Created, Finished time.Time
	Result            Result   // of a complete one
	Failure           *Failure // of a failed one
}

// ID is the operation's name in URLs: the hash of its key, 64 hex digits, of which
// the first 16 are the record's id in the log.
func (o Operation) ID() string { return hex.EncodeToString(o.Key.ID[:]) }

// Result is what came of an operation: a value, or an address where the result is
// to be had. Both may be empty.
type Result struct {
	Value    json.RawMessage // shown as it is
	Location string          // a URL or a path
}

// Failure is an error that says what its owner may know of it. Work that returns
// one has failed for good and is not tried again; every other error may be tried
// again, and stays in the log.
type Failure struct {
	Type   string // a URI; empty means urn:onceward:problem:operation-failed
	Title  string // one line
	Detail string // may be empty
}

func (f *Failure) Error() string {
	if f.Detail == "" {
		return "operation failed: " + f.Title
	}
	return "operation failed: " + f.Title + ": " + f.Detail
}

const problem = "urn:onceward:problem:"

// Failures that nobody has described.
var (
	// FailedSilently is what the owner is told of an error whose text is not theirs.
	FailedSilently = Failure{Type: problem + "operation-failed", Title: "The work could not be done",
		Detail: "It was tried and given up. For another try send the request under a new key."}
	// Cancelled is what the owner is told of work that an operator has stopped.
	Cancelled = Failure{Type: problem + "operation-cancelled", Title: "The work was cancelled",
		Detail: "For another try send the request under a new key."}
)

// FailureOf is what the owner of an operation may know of err.
func FailureOf(err error) Failure {
	if own := (*Failure)(nil); errors.As(err, &own) {
		f := *own
		if f.Type == "" {
			f.Type = FailedSilently.Type
		}
		if f.Title == "" {
			f.Title = FailedSilently.Title
		}
		return f
	}
	return FailedSilently
}

// Runner has jobs done, one for each key, and knows what became of them. It is safe
// for concurrent use.
type Runner interface {
	// Submit accepts job, unless its key has an operation already, in whatever
	// state: then that one is reported and nothing is begun. So of any number of
	// calls at once one begins. A job whose fingerprint is not that operation's is
	// refused with an error that wraps onceward.ErrKeyReused.
	//
	// Where ctx carries a transaction that the runner can join (each says which), the
	// job is accepted when that commits, and never if it does not. After an error
	// nobody knows whether it was accepted; the same call may be repeated.
	Submit(ctx context.Context, job Job) (Operation, error)

	// Look reports the operation of key, or an error that wraps [ErrNotFound].
	Look(ctx context.Context, key onceward.Key) (Operation, error)
}

// Waiter is the optional power of a [Runner] to wake those who wait.
type Waiter interface {
	// Wait returns what Look does, as soon as the operation is no longer pending or
	// ctx is over; that ctx is over is no error.
	Wait(ctx context.Context, key onceward.Key) (Operation, error)
}
