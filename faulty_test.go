package onceward_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// faulty is a store whose calls can be made to fail.
type faulty struct {
	onceward.Store
	mu                               sync.Mutex
	claim, extend, complete, release func() error
}

func (f *faulty) fail(call func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if call == nil {
		return nil
	}
	return call()
}

func (f *faulty) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	if err := f.fail(f.claim); err != nil {
		return onceward.Record{}, false, err
	}
	return f.Store.Claim(ctx, c)
}

func (f *faulty) Extend(ctx context.Context, k onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	if err := f.fail(f.extend); err != nil {
		return err
	}
	return f.Store.Extend(ctx, k, tok, lease, hold)
}

func (f *faulty) Complete(ctx context.Context, k onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	if err := f.fail(f.complete); err != nil {
		return err
	}
	return f.Store.Complete(ctx, k, tok, resp, retain)
}

func (f *faulty) Release(ctx context.Context, k onceward.Key, tok onceward.Token) error {
	if err := f.fail(f.release); err != nil {
		return err
	}
	return f.Store.Release(ctx, k, tok)
}

// failing returns a call that fails n times.
func failing(n int) func() error {
	return func() error {
		if n--; n >= 0 {
			return errors.New("the store is down")
		}
		return nil
	}
}

func TestAStoreThatCannotBeReachedMeans503AndNothingRan(t *testing.T) { // B097 (a)
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: memstore.New(memstore.Config{}), claim: failing(3)}
		r := newRig(t, store, onceward.Config{}, created)
		w := r.post("k", "x")
		want(t, w, 503, "unavailable")
		if w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		r.wantRuns(0)
		want(t, r.post("k", "x"), 201, "executed")
		store.claim = failing(2) // a short hiccup is not the client's affair
		want(t, r.post("k2", "x"), 201, "executed")
		store.claim = failing(3)
		open := newRig(t, store, onceward.Config{FailOpen: true}, created)
		want(t, open.post("k3", "x"), 201, "")
	})
}

func TestAClaimMadeInSpiteOfAnErrorIsGivenBack(t *testing.T) { // gateway-check S1
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(memstore.Config{})
		store := &lostAnswers{Store: mem, lose: 1 << 30}
		r := newRig(t, store, onceward.Config{}, created)
		want(t, r.post("k", "x"), 503, "unavailable")
		synctest.Wait()
		store.lose = 0
		want(t, r.post("k", "x"), 201, "executed") // at once, not after a lease
		store.lose = 1                             // the claim is made, its answer is lost: the same token finds it
		want(t, r.post("k2", "x"), 201, "executed")
		r.wantRuns(2)
	})
}

// lostAnswers makes claims and loses the answers of the next few.
type lostAnswers struct {
	onceward.Store
	lose int
}

func (l *lostAnswers) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	rec, claimed, err := l.Store.Claim(ctx, c)
	if l.lose > 0 {
		l.lose--
		return onceward.Record{}, false, errors.New("connection reset")
	}
	return rec, claimed, err
}

func TestAnAnswerThatCannotBeRecordedIsSentAndRecordedLater(t *testing.T) { // B097 (b)
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: memstore.New(memstore.Config{}), complete: failing(3)}
		r := newRig(t, store, onceward.Config{}, created)
		want(t, r.post("k", "x"), 201, "executed;unrecorded")
		want(t, r.post("k", "x"), 409, "in-progress") // never released: the work is done
		time.Sleep(5 * time.Second)
		want(t, r.post("k", "x"), 201, "replayed")
		r.wantRuns(1)
	})
}
