package onceward

import (
	"context"
	"time"
)

// Claim is one request's bid for a key. The guard fills it; a store only
// writes it down.
type Claim struct {
	Key         Key
	Fingerprint Fingerprint
	// Method and Path are kept for people and logs; they are no part of the
	// identity (they are hashed into the Fingerprint).
	Method, Path string
	// Token is random and made by the guard. The same Claim call repeated
	// under the same Token finds its own claim, which is what makes a retry
	// after an ambiguous error (a connection lost in COMMIT) safe.
	Token Token
	// Lease is how long the claim holds without being renewed. Zero and
	// negative are values: such a claim's lease is over at once.
	Lease time.Duration
	// Keep says how long after its lease an abandoned claim still counts;
	// past that it is absent. Negative: it never becomes absent.
	Keep time.Duration
	// TakeOver allows this claim to displace one whose lease is over, if the
	// fingerprint is the same and the claim is not held.
	TakeOver bool
}

// Store keeps one record for each [Key] and decides, alone, who may run.
//
// Every method is one atomic compare-and-set, safe for concurrent use by any
// number of goroutines and, for stores that outlive the process, of processes.
// All times are durations, and each store measures them on its own clock; a
// caller's clock never decides. Expiry is judged whenever a record is read and
// never depends on a sweep having run.
//
// Claim, Complete and Release are idempotent under one [Token]: after an error
// that leaves the outcome open, the caller repeats the same call.
//
// A record counts as absent when it is completed and its retention is over, or
// when it is in progress, not held, and its lease has been over for longer than
// the claim's Keep.
//
// The interface does not grow. Further powers are optional interfaces that a
// store may have: [Transactor], [Looker], [LockLooker], [Lister], [Forgetter], [Sweeper].
type Store interface {
	// Claim takes c.Key for the caller, or reports the record that has it.
	//
	//	rec, true, nil    the caller runs: the key was absent, or its lease was
	//	                  over and c.TakeOver displaced it (Attempt is one more),
	//	                  or this Token had claimed it already and it is still
	//	                  in progress (then the lease is renewed if c.Lease is
	//	                  longer than what is left of it)
	//	rec, false, nil   somebody has it: look at rec.State, rec.Fingerprint,
	//	                  rec.LeaseLeft (zero or less: the lease is over),
	//	                  rec.Response (when completed); that includes this
	//	                  Token's own claim when it is completed
	//	_, _, err         nothing is known; the same call may be repeated
	//
	// A record whose fingerprint differs is reported and never changed.
	Claim(ctx context.Context, c Claim) (rec Record, claimed bool, err error)

	// Extend renews the lease of a claim in progress: it now ends lease from
	// this moment. A lease of zero ends it now. With hold the claim can no
	// longer be taken over and never becomes absent by itself; a later Extend
	// never takes a hold away. ErrClaimLost if the key is absent, completed, or
	// another token's. A lease that is over is still the owner's to renew as
	// long as nobody displaced it.
	Extend(ctx context.Context, key Key, tok Token, lease time.Duration, hold bool) error

	// Complete keeps resp as the key's answer for retain from this moment, as
	// durably as the store can, before it returns. ErrClaimLost if the key is
	// absent or another token's; nil and no change if this token completed it
	// already. A lease that is over does not matter as long as nobody displaced
	// it. The store does not keep a reference to resp.
	Complete(ctx context.Context, key Key, tok Token, resp *Response, retain time.Duration) error

	// Release makes the key absent, if it is in progress and tok's. Anything
	// else (gone already, completed, another token's) is nil and no change.
	Release(ctx context.Context, key Key, tok Token) error
}

// Sweeper is the optional power to delete what already counts as absent. It
// frees room and never decides anything: a store must judge expiry without it.
type Sweeper interface {
	// Sweep deletes at most limit absent records and says how many it deleted.
	// It works in small steps, so that no claim waits long for it.
	Sweep(ctx context.Context, limit int) (deleted int, err error)
}

// KeySweeper is the optional power of a [Sweeper] to say whose records it deleted, so
// that the log can tell the end of a record's story. The guard uses it where its Logger
// is enabled for debugging.
type KeySweeper interface {
	// SweepKeys is Sweep. With an error it returns what is deleted nevertheless.
	SweepKeys(ctx context.Context, limit int) (deleted []Key, err error)
}
