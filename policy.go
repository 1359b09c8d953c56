package onceward

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Unknown is a policy for a repeat whose first run nobody knows the outcome of:
// its process died with the work begun, or its handler failed in the middle.
type Unknown uint8

const (
	// Rerun runs the repeat. A double is seen and can be undone; a loss is not
	// seen. It suits whatever says what is wanted.
	Rerun Unknown = iota
	// Hold never runs it again: 409 outcome-unknown, until the late owner, Resolve
	// or an operator (`onceward keys`) ends the claim. It suits what must not happen
	// twice and cannot be undone. A 5xx, a panic and an answer cut short hold the
	// key as well, unless the handler calls [MarkTransient].
	Hold
	// Resolve asks Config.Resolve, and is Hold where that does not know.
	Resolve
)

// resolve asks the application what became of rec's run. again: the key has been
// settled, so that the claim is to be asked anew.
func (q *request) resolve(rec Record) (again bool, err error) {
	r := q.r.WithContext(q.r.Context())
	r.Body = q.body.body()
	resp, err := q.g.cfg.Resolve(r, rec)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	err = q.g.once(func(ctx context.Context) error {
		if resp == nil {
			return q.g.store.Release(ctx, rec.Key, rec.Token)
		}
		return q.g.store.Complete(ctx, rec.Key, rec.Token, resp, q.g.cfg.kept())
	})
	if err != nil && !errors.Is(err, ErrClaimLost) { // lost: somebody has settled it meanwhile
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return true, nil
}

// mark is what a handler says of its own answer.
type mark uint8

const (
	markFinal mark = iota + 1
	markTransient
)

// marked finds the request that a handler's context belongs to.
type marked struct{}

// MarkFinal says that the answer this handler is about to give is the request's
// own, whatever its status: it is kept and replayed, be it a 429 or a 500. Under
// [Guard.Atomic] what a final answer from 400 on has written is undone. The last
// mark counts. ctx is the request's, or derived from it; outside a guard it does
// nothing.
func MarkFinal(ctx context.Context) { setMark(ctx, markFinal) }

// MarkTransient says that the answer speaks of the moment, whatever its status:
// nothing is kept, and the repeat runs, also under Hold. Under [Guard.Atomic]
// everything is rolled back. See [MarkFinal].
func MarkTransient(ctx context.Context) { setMark(ctx, markTransient) }

func setMark(ctx context.Context, m mark) {
	if u, ok := ctx.Value(marked{}).(*lease); ok {
		u.life.Lock()
		u.mark = m
		u.life.Unlock()
	}
}

// keeps reports whether the answer is one that the same request would get again.
func (u *lease) keeps(code int) bool {
	u.life.Lock()
	defer u.life.Unlock()
	switch u.mark {
	case markFinal:
		return true
	case markTransient:
		return false
	}
	return stored(code)
}

// holds reports whether a claim that ends without a kept answer stays held: its
// handler may have done half of its work.
func (u *lease) holds(code int) bool {
	u.life.Lock()
	defer u.life.Unlock()
	return u.g.cfg.Unknown != Rerun && u.mark != markTransient && (code == 0 || code >= http.StatusInternalServerError)
}
