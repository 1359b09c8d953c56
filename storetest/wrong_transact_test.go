package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/storetest"
)

// wrongConfig is the suite's configuration for the contract in plain code.
func wrongConfig(w wrong) storetest.Config {
	return storetest.Config{
		FakeTime: true,
		New:      func(testing.TB) onceward.Store { return newWrong(w) },
		Work:     wrongWork,
		Effects:  func(_ testing.TB, s onceward.Store) int { return s.(*wrongStore).committed() },
		Faulty: func(_ testing.TB, s onceward.Store) (onceward.Store, storetest.Lose) {
			l := &losing{wrongStore: s.(*wrongStore)}
			return l, l.lose
		},
	}
}

// wrongTx is what a work writes before it is committed.
type wrongTx struct {
	store   *wrongStore
	effects int
	forgets [][32]byte
	over    bool
}

type wrongTxKey struct{}

func wrongWork(ctx context.Context) error {
	tx, _ := ctx.Value(wrongTxKey{}).(*wrongTx)
	switch {
	case tx == nil:
		return errors.New("no transaction")
	case tx.over && tx.store.is("the transaction outlives its work"):
		tx.store.mu.Lock()
		defer tx.store.mu.Unlock()
		tx.store.effects++
		return nil
	case tx.over && tx.store.is("late statements are swallowed"):
		return nil
	case tx.over:
		return errors.New("the transaction is over")
	}
	tx.effects++
	return nil
}

func (s *wrongStore) committed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects
}

// transactTakes says whether a Transact may run over the record r.
func (s *wrongStore) transactTakes(r *row, c onceward.Claim, now time.Time) bool {
	if r.State == onceward.Completed {
		return s.is("own token transacts again") && r.Token == c.Token ||
			s.is("transact runs another request") && !s.sameRequest(r, c)
	}
	over := !r.leaseEnd.After(now)
	if r.Token == c.Token {
		return s.sameRequest(r, c)
	}
	switch s.wrong {
	case "transact never takes over":
		return false
	case "transact runs over a live claim":
		return c.TakeOver && !r.Held && s.sameRequest(r, c)
	case "transact takes over unasked":
		return over && !r.Held && s.sameRequest(r, c)
	case "transact takes any request over":
		return over && !r.Held && c.TakeOver
	case "transact ignores a hold":
		return over && s.sameRequest(r, c) && c.TakeOver
	}
	return over && !r.Held && c.TakeOver && s.sameRequest(r, c)
}

func (s *wrongStore) Transact(ctx context.Context, c onceward.Claim, work func(context.Context) (onceward.Verdict, *onceward.Response, error)) (onceward.Record, bool, error) {
	if err := ctx.Err(); err != nil && !s.is("transact ignores its context") {
		return onceward.Record{}, false, err
	}
	// One at a time, as with one writer. A channel, for a bubble knows those
	// who wait for one.
	s.one <- struct{}{}
	s.mu.Lock()
	now := time.Now()
	r := s.live(s.key(c.Key), now)
	if r != nil && !s.transactTakes(r, c, now) {
		defer s.mu.Unlock()
		<-s.one
		rec := s.report(r, c, now)
		if s.is("a duplicate is told nothing") {
			rec.Response = nil
		}
		return rec, false, nil
	}
	s.mu.Unlock()
	if s.is("transact checks, then sets") {
		<-s.one
		time.Sleep(time.Nanosecond)
		s.one <- struct{}{}
	}
	tx := &wrongTx{store: s}
	begun := time.Now()
	verdict, resp, err := onceward.Abort, (*onceward.Response)(nil), error(nil)
	returned := false
	defer func() {
		tx.over = true
		if !returned {
			if s.is("a panic commits") {
				s.mu.Lock()
				s.effects += tx.effects
				s.mu.Unlock()
			}
			if s.is("a panic leaves its claim") {
				s.Claim(context.Background(), c)
			}
		}
		<-s.one
	}()
	verdict, resp, err = work(context.WithValue(ctx, wrongTxKey{}, tx))
	returned = true
	tx.over = true
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && s.is("an error with a verdict is committed"):
	case err != nil && s.is("errors are wrapped"):
		return onceward.Record{}, false, errors.New("transact: " + err.Error())
	case err != nil:
		return onceward.Record{}, false, err
	}
	if ctx.Err() != nil && !s.is("transact ignores its context") {
		if s.is("cut work stays") {
			s.effects += tx.effects
		}
		return onceward.Record{}, false, ctx.Err()
	}
	return s.settle(r, c, begun, verdict, resp, tx), true, err
}

// settle does what the verdict asks for; s.mu is held.
func (s *wrongStore) settle(r *row, c onceward.Claim, begun time.Time, verdict onceward.Verdict, resp *onceward.Response, tx *wrongTx) onceward.Record {
	now := time.Now()
	if verdict == onceward.Commit && !(s.is("commit loses the work") && string(resp.Body) == "done") ||
		verdict == onceward.Undo && s.is("undo keeps the work") && string(resp.Body) == "refused" ||
		verdict == onceward.Abort && s.is("abort keeps the work") && string(resp.Body) == "failed" {
		s.effects += tx.effects
	}
	if verdict == onceward.Commit || s.is("forget ignores the transaction") {
		for _, scope := range tx.forgets {
			s.forget(scope)
		}
	}
	if verdict == onceward.Abort {
		if s.is("abort undoes its neighbour") && s.commits > 0 {
			s.effects--
		}
		if s.is("abort keeps the key") && string(resp.Body) == "failed" {
			s.insert(s.key(c.Key), c, now)
		}
		return onceward.Record{}
	}
	attempt := 1
	if r != nil && !s.is("transact restarts the attempts") {
		attempt = r.Attempt + 1
	}
	s.insert(s.key(c.Key), c, begun)
	k := s.key(c.Key)
	r = s.rows[k]
	r.Attempt = attempt
	r.State, r.done, r.retain = onceward.Completed, now, c.Keep
	r.absent = now.Add(c.Keep)
	if s.is("transact keeps for a day") {
		r.absent = now.Add(24 * time.Hour)
	}
	if s.is("transact forgets method and path") {
		r.Method, r.Path = "", ""
	}
	r.response = s.keepAnswer(r, resp)
	rec := s.report(r, c, now)
	s.commits++
	if s.is("answers of a commit are mixed up") && s.commits > 1 {
		rec.Response = s.first
	}
	if s.first == nil {
		s.first = r.response
	}
	if s.is("undo keeps nothing") && verdict == onceward.Undo {
		delete(s.rows, k)
	}
	return rec
}

func (s *wrongStore) forget(scope [32]byte) {
	many := len(s.rows) > 2
	for k, r := range s.rows {
		switch {
		case k.Scope != scope && !(s.is("forget forgets everybody") && r.Key.ID != [32]byte{}):
		case s.is("forget leaves claims in progress") && r.State == onceward.InProgress && r.leaseEnd.After(time.Now()) && many,
			s.is("forget leaves what is held") && r.Held:
		case s.is("a forgotten owner may complete"):
			r.absent, r.forgotten = time.Time{}, true
		default:
			delete(s.rows, k)
		}
	}
}

func (s *wrongStore) Forget(ctx context.Context, scope [32]byte) error {
	if tx, _ := ctx.Value(wrongTxKey{}).(*wrongTx); tx != nil {
		if s.is("forget goes past the transaction") {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.forget(scope)
			return nil
		}
		if s.is("forget in a transaction is lost") {
			return nil
		}
		tx.forgets = append(tx.forgets, scope)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.rows)
	s.forget(scope)
	if s.is("forget of nothing is an error") && before == len(s.rows) {
		return errors.New("no such scope")
	}
	return nil
}

func (s *wrongStore) Look(ctx context.Context, key onceward.Key) (onceward.Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.live(s.key(key), now)
	if r == nil && s.is("look sees the expired") {
		r = s.rows[s.key(key)]
	}
	if r == nil {
		if s.is("look claims what is absent") && s.rows[s.key(key)] == nil {
			s.insert(s.key(key), onceward.Claim{Key: key, Lease: long, Keep: long}, now)
		}
		return onceward.Record{}, false, nil
	}
	if s.is("look renews the lease") && !r.leaseEnd.After(now) {
		s.setLease(r, now, long)
	}
	rec := s.report(r, onceward.Claim{}, now)
	if s.is("look has no answer") {
		rec.Response = nil
	}
	return rec, true, nil
}

func (s *wrongStore) List(ctx context.Context, q onceward.Query) ([]onceward.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if q.Limit == 0 && s.is("list knows no limit of its own") {
		q.Limit = 1 << 30
	} else if q.Limit == 0 {
		q.Limit = 100
	}
	var found []onceward.Record
	for k, r := range s.rows {
		switch {
		case !now.Before(r.absent) && !s.is("list shows the absent"):
		case q.Scope != nil && k.Scope != *q.Scope && !s.is("list ignores the scope"):
		case !s.hasPrefix(k.ID[:], q.Prefix):
		case q.State != 0 && r.State != q.State && !s.is("list ignores the state"):
		case q.Stuck && !s.stuck(r, now):
		case q.After != (onceward.Key{}) && k.Compare(q.After) <= 0 && !(s.is("list begins at its mark") && k == q.After && q.Limit < 100):
		default:
			rec := s.report(r, onceward.Claim{}, now)
			if rec.Response != nil && !s.is("list sends bodies") {
				short := *rec.Response
				short.Body = nil
				rec.Response = &short
			}
			found = append(found, rec)
		}
	}
	slices.SortFunc(found, func(a, b onceward.Record) int {
		if s.is("list is in the order of the IDs") {
			return bytes.Compare(a.Key.ID[:], b.Key.ID[:])
		}
		return a.Key.Compare(b.Key)
	})
	return found[:min(len(found), q.Limit)], nil
}

func (s *wrongStore) hasPrefix(id, prefix []byte) bool {
	return bytes.HasPrefix(id, prefix) || s.is("list compares one byte of a prefix") && len(prefix) > 0 && id[0] >= prefix[0]
}

func (s *wrongStore) stuck(r *row, now time.Time) bool {
	switch s.wrong {
	case "stuck forgets the held":
		return r.State == onceward.InProgress && !r.Held && !r.leaseEnd.After(now)
	case "stuck counts the answered":
		return r.Held || !r.leaseEnd.After(now)
	}
	return r.State == onceward.InProgress && (r.Held || !r.leaseEnd.After(now))
}
