package histories

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/onceward/onceward"
)

// fault is one way in which plainStore breaks the contract; "" is none.
type fault string

const (
	checksThenSets    fault = "claim checks, then sets"
	takeOverChecks    fault = "take-over checks, then sets"
	releasesByKey     fault = "release goes by key"
	completesByKey    fault = "complete asks for no token"
	forgetsItsToken   fault = "the own token is refused"
	ignoresTheLease   fault = "the lease is ignored"
	loseConfirmed     fault = "one confirmed answer in twenty is lost"
	extendsAnyway     fault = "extend revives what was displaced"
	secondOverwrites  fault = "a second complete overwrites"
	leasesAreTooShort fault = "leases end after half their time"
)

// plainStore is the contract in the plainest code, with one fault built in.
type plainStore struct {
	fault fault
	mu    sync.Mutex
	rows  map[onceward.Key]*plainRow
	turn  int
}

type plainRow struct {
	onceward.Record
	keep   time.Duration
	end    time.Time // of the lease
	absent time.Time // zero: never
}

func newPlain(f fault) *plainStore {
	return &plainStore{fault: f, rows: map[onceward.Key]*plainRow{}}
}

// pause lets others in between a check and what should be one with it.
func (s *plainStore) pause() {
	s.mu.Unlock()
	runtime.Gosched()
	s.mu.Lock()
}

func (s *plainStore) row(key onceward.Key, now time.Time) *plainRow {
	r := s.rows[key]
	if r != nil && !r.absent.IsZero() && !now.Before(r.absent) {
		delete(s.rows, key)
		return nil
	}
	return r
}

func (s *plainStore) lease(r *plainRow, now time.Time, d time.Duration) {
	if s.fault == leasesAreTooShort {
		d /= 2
	}
	r.end, r.absent = now.Add(d), time.Time{}
	if !r.Held && r.keep >= 0 {
		r.absent = r.end.Add(r.keep + 1)
	}
}

func (r *plainRow) report(now time.Time) onceward.Record {
	rec := r.Record
	rec.LeaseLeft = r.end.Sub(now)
	return rec
}

func (s *plainStore) Claim(_ context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.row(c.Key, now)
	if r == nil {
		if s.fault == checksThenSets {
			s.pause()
		}
		r = &plainRow{keep: c.Keep, Record: onceward.Record{
			Key: c.Key, Fingerprint: c.Fingerprint, Token: c.Token, State: onceward.InProgress, Attempt: 1,
		}}
		s.lease(r, now, c.Lease)
		s.rows[c.Key] = r
		return r.report(now), true, nil
	}
	over := !r.end.After(now)
	switch {
	case r.State == onceward.Completed || r.Fingerprint != c.Fingerprint:
		return r.report(now), false, nil
	case r.Token == c.Token:
		if s.fault == forgetsItsToken {
			return r.report(now), false, nil
		}
		if now.Add(c.Lease).After(r.end) {
			s.lease(r, now, c.Lease)
		}
		return r.report(now), true, nil
	case c.TakeOver && !r.Held && (over || s.fault == ignoresTheLease):
		if s.fault == takeOverChecks {
			s.pause()
		}
		r.Token, r.keep = c.Token, c.Keep
		r.Attempt++
		s.lease(r, now, c.Lease)
		return r.report(now), true, nil
	}
	return r.report(now), false, nil
}

func (s *plainStore) Extend(_ context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.row(key, now)
	if r == nil || r.State != onceward.InProgress || r.Token != tok && s.fault != extendsAnyway {
		return onceward.ErrClaimLost
	}
	r.Token = tok
	r.Held = r.Held || hold
	s.lease(r, now, lease)
	return nil
}

func (s *plainStore) Complete(_ context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.row(key, now)
	switch {
	case r == nil || r.Token != tok && (s.fault != completesByKey || r.State != onceward.InProgress):
		return onceward.ErrClaimLost
	case r.State == onceward.Completed && s.fault != secondOverwrites:
		return nil
	}
	if s.turn++; s.fault == loseConfirmed && s.turn%20 == 0 {
		return nil
	}
	r.State, r.Held = onceward.Completed, false
	r.Response = &onceward.Response{Status: resp.Status, Body: append([]byte(nil), resp.Body...)}
	r.absent = now.Add(retain)
	return nil
}

func (s *plainStore) Release(_ context.Context, key onceward.Key, tok onceward.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.row(key, time.Now()); r != nil && r.State == onceward.InProgress && (r.Token == tok || s.fault == releasesByKey) {
		delete(s.rows, key)
	}
	return nil
}
