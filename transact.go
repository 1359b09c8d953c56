package onceward

import (
	"context"
	"time"
)

// Verdict says what becomes of a transaction and of the answer made in it.
type Verdict uint8

const (
	// Abort undoes everything, the key too: the repeat is a real one. It is the
	// zero value.
	Abort Verdict = iota
	// Commit keeps the work and its answer.
	Commit
	// Undo undoes the work and keeps the answer: a refusal that the same request
	// would get again.
	Undo
)

func (v Verdict) String() string {
	switch v {
	case Commit:
		return "commit"
	case Undo:
		return "undo"
	}
	return "abort"
}

// Transactor is the optional power of a [Store] that lives in the application's
// own database: the claim, what the handler writes and the stored answer commit
// together, so that a crash at any point leaves all of it or nothing.
// [Guard.Atomic] uses it.
type Transactor interface {
	// Transact takes c.Key and calls work inside one transaction, whose handle
	// work gets through its context (each store says how: sqlitestore.Tx,
	// pgxstore.Tx). What work returns decides: Commit and Undo keep the response
	// for c.Keep from now, Abort and an error keep nothing. c.Lease does not
	// matter; c.TakeOver does, for the key may lie in progress under a claim that
	// was made by Claim.
	//
	// work may be called again in a new transaction, after a serialization
	// failure or a deadlock, or where another's failure has undone it; the last
	// call counts. When it has returned, its transaction accepts no more
	// statements, also from goroutines that it left behind.
	//
	//	rec, true, nil    work ran, and what its verdict asks for is as durable
	//	                  as the store can make it; rec is that record, or with
	//	                  Abort the zero Record
	//	rec, false, nil   somebody has the key: as for Store.Claim. While another
	//	                  transaction holds it, rec is InProgress with c's own
	//	                  fingerprint, since nobody can read the other's yet
	//	_, _, err         nothing is kept; if err wraps ErrInProgress, nobody
	//	                  knows yet, and the same request repeated will tell.
	//	                  An error of work is returned as it is
	//
	// ctx bounds the whole call, waiting included. Transact is safe for
	// concurrent use.
	Transact(ctx context.Context, c Claim, work func(context.Context) (Verdict, *Response, error)) (rec Record, ran bool, err error)
}

// Looker is the optional power to read one record without touching it. Guard.Status
// and the admin tools use it.
type Looker interface {
	// Look reports the record of key; found is false where it counts as absent.
	Look(ctx context.Context, key Key) (rec Record, found bool, err error)
}

// LockLooker is the optional power of a [Transactor] to tell that a transaction has a
// key at this moment, whichever process began it. [Guard.Status] uses it: such a key
// has no record yet.
type LockLooker interface {
	// LookLock reports whether a transaction of Transact has key. It takes no lock and
	// waits for none.
	LookLock(ctx context.Context, key Key) (locked bool, err error)
}

// Forgetter is the optional power to delete all records of a scope, for the
// deletion of an account. Claims in progress go too: their owners get
// ErrClaimLost. Where ctx carries the store's own transaction, it takes part in it.
type Forgetter interface {
	Forget(ctx context.Context, scope [32]byte) error
}

// Lister is the optional power to go through the records. The admin tools use it.
type Lister interface {
	// List returns at most q.Limit records in the order of their keys, starting
	// after q.After, without their responses' bodies. Records that count as absent
	// are left out.
	List(ctx context.Context, q Query) ([]Record, error)
}

// Query says which records [Lister] returns. The zero value, but for Limit, means
// all of them.
type Query struct {
	Scope  *[32]byte // of this scope alone
	Prefix []byte    // whose Key.ID begins so
	State  State     // in this state alone
	Stuck  bool      // in progress with the lease over, or held
	After  Key       // begin after this key, as Compare orders them
	Limit  int       // at most so many; zero means 100
}

// Auditor is the optional power to remember what operators did to records by hand.
type Auditor interface {
	// Audit writes a down, on the store's clock, before the change is made.
	Audit(ctx context.Context, a Audit) error
	// Audits returns the latest entries of key, newest first; at most limit. A
	// zero key means all of them.
	Audits(ctx context.Context, key Key, limit int) ([]Audit, error)
}

// Audit is one change that an operator made, or was about to make.
type Audit struct {
	At     time.Time // set by the store
	Who    string    // the operator's name
	Action string    // release, complete
	Reason string
	Key    Key
	Token  Token // of the claim that was ended
}
