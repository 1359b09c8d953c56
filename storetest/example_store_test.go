package storetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/storetest"
)

// docs: store
// tiny is a store in a map, and nothing else: one lock is what makes each method
// one atomic step.
type tiny struct {
	mu      sync.Mutex
	records map[onceward.Key]*tinyRecord
}

type tinyRecord struct {
	onceward.Record
	keep           time.Duration
	created, lease time.Time
	done, until    time.Time // of a completed one
}

// absent judges expiry whenever a record is read; no sweep has to have run.
func (r *tinyRecord) absent(now time.Time) bool {
	switch {
	case r == nil:
		return true
	case r.State == onceward.Completed:
		return !now.Before(r.until)
	}
	return !r.Held && r.keep >= 0 && !now.Before(r.lease.Add(r.keep))
}

func (s *tiny) Claim(_ context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.records[c.Key]
	fresh := r.absent(now)
	same := !fresh && r.Fingerprint == c.Fingerprint && r.State == onceward.InProgress
	switch {
	case fresh:
		r = &tinyRecord{created: now, keep: c.Keep, Record: onceward.Record{
			Key: c.Key, Fingerprint: c.Fingerprint, Method: c.Method, Path: c.Path, State: onceward.InProgress}}
		s.records[c.Key] = r
		fallthrough
	case same && c.TakeOver && !r.Held && r.Token != c.Token && !now.Before(r.lease):
		r.Token, r.lease, r.keep = c.Token, now.Add(c.Lease), c.Keep
		r.Attempt++
		return r.seen(now), true, nil
	case same && r.Token == c.Token: // the same call once more
		if until := now.Add(c.Lease); until.After(r.lease) {
			r.lease = until
		}
		return r.seen(now), true, nil
	}
	return r.seen(now), false, nil
}

// seen is the record as it stands now, in durations.
func (r *tinyRecord) seen(now time.Time) onceward.Record {
	rec := r.Record
	rec.LeaseLeft, rec.Age = r.lease.Sub(now), now.Sub(r.created)
	if rec.State == onceward.Completed {
		rec.Age = now.Sub(r.done)
	}
	return rec
}

// own is the claim of this token, nil if it is another's by now. A lease that is
// over is still its owner's.
func (s *tiny) own(key onceward.Key, tok onceward.Token) *tinyRecord {
	if r := s.records[key]; !r.absent(time.Now()) && r.Token == tok {
		return r
	}
	return nil
}

func (s *tiny) Extend(_ context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.own(key, tok)
	if r == nil || r.State != onceward.InProgress {
		return onceward.ErrClaimLost
	}
	r.lease = time.Now().Add(lease)
	r.Held = r.Held || hold
	return nil
}

func (s *tiny) Complete(_ context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.own(key, tok)
	switch {
	case r == nil:
		return onceward.ErrClaimLost
	case r.State == onceward.Completed:
		return nil
	}
	// A copy, by the encoding that every store that outlives its process uses.
	text, err := resp.MarshalBinary()
	if err != nil {
		return err
	}
	r.Response = new(onceward.Response)
	if err := r.Response.UnmarshalBinary(text); err != nil {
		return err
	}
	r.State, r.Held, r.done = onceward.Completed, false, time.Now()
	r.until = r.done.Add(retain)
	return nil
}

func (s *tiny) Release(_ context.Context, key onceward.Key, tok onceward.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.own(key, tok); r != nil && r.State == onceward.InProgress {
		delete(s.records, key)
	}
	return nil
}

// docs: end

// docs: test
func TestTiny(t *testing.T) {
	storetest.Run(t, storetest.Config{
		New:      func(testing.TB) onceward.Store { return &tiny{records: map[onceward.Key]*tinyRecord{}} },
		FakeTime: true, // it reads the clock from package time and does no I/O
		NoFaults: true, // and has no connection to lose
		// Powers that it does not have.
		NoTransactor: true, NoSweeper: true, NoLooker: true, NoLister: true, NoForgetter: true,
	})
}

// docs: end

// docs: faulty
// farAway is the client of a store at the other end of a connection: each call is
// one message, and a message can be lost.
type farAway struct {
	onceward.Store
	what storetest.Loss
	left int // messages until one is lost; negative: that is past
}

// lose is the hook. A proxy counts the messages that pass through it, a driver
// around a driver its statements.
func (f *farAway) lose(what storetest.Loss, n int) (met func() bool) {
	f.what, f.left = what, n+1
	return func() bool {
		lost := f.left <= 0
		f.left = -1
		return lost
	}
}

func (f *farAway) send(call func() error) error {
	if f.left--; f.left != 0 {
		return call()
	}
	if f.what == storetest.LoseAnswer {
		_ = call() // it is done, and nobody hears of it
	}
	return errors.New("connection reset")
}

func (f *farAway) Claim(ctx context.Context, c onceward.Claim) (rec onceward.Record, claimed bool, err error) {
	err = f.send(func() (err error) { rec, claimed, err = f.Store.Claim(ctx, c); return err })
	return rec, claimed, err
}

func (f *farAway) Extend(ctx context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	return f.send(func() error { return f.Store.Extend(ctx, key, tok, lease, hold) })
}

func (f *farAway) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	return f.send(func() error { return f.Store.Complete(ctx, key, tok, resp, retain) })
}

func (f *farAway) Release(ctx context.Context, key onceward.Key, tok onceward.Token) error {
	return f.send(func() error { return f.Store.Release(ctx, key, tok) })
}

func TestTinyFarAway(t *testing.T) {
	storetest.Run(t, storetest.Config{
		New: func(testing.TB) onceward.Store { return &tiny{records: map[onceward.Key]*tinyRecord{}} },
		Faulty: func(_ testing.TB, store onceward.Store) (onceward.Store, storetest.Lose) {
			far := &farAway{Store: store, left: -1}
			return far, far.lose
		},
		FakeTime: true, NoTransactor: true, NoSweeper: true, NoLooker: true, NoLister: true, NoForgetter: true,
	})
}

// docs: end
