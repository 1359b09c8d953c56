package storetest_test

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward"
)

// wrong names one way in which wrongStore breaks the contract; "" is none.
type wrong string

// wrongStore is the contract in the plainest code, with one fault built in. It
// is slow and simple on purpose: right, it is what the suite is measured with.
type wrongStore struct {
	wrong wrong
	mu    sync.Mutex
	rows  map[onceward.Key]*row
	ring  [32][]byte // for answersShareARing
	turn  int

	one     chan struct{} // held by the one transaction
	effects int
	commits int
	first   *onceward.Response // of a transaction
}

type row struct {
	onceward.Record
	previous             onceward.Token
	begun, done          time.Time
	displacedAt          time.Time
	leaseEnd, absent     time.Time
	firstAbsent          time.Time
	leased, keep, retain time.Duration
	extended             int
	response             *onceward.Response
	ringed               int
	forgotten            bool
}

func newWrong(w wrong) *wrongStore {
	return &wrongStore{wrong: w, rows: map[onceward.Key]*row{}, one: make(chan struct{}, 1)}
}

func (s *wrongStore) is(w wrong) bool { return s.wrong == w }

// eternity is an instant that no case reaches.
var eternity = time.Unix(math.MaxInt32, 0)

// pause lets other goroutines in between a check and what should be one with it.
func (s *wrongStore) pause() {
	s.mu.Unlock()
	time.Sleep(time.Nanosecond)
	runtime.Gosched()
	s.mu.Lock()
}

func (s *wrongStore) key(k onceward.Key) onceward.Key {
	if s.is("scope is ignored") {
		k.Scope = [32]byte{}
	}
	if s.is("key is cut short") {
		k.ID[31] = 0
	}
	return k
}

func (s *wrongStore) live(k onceward.Key, now time.Time) *row {
	r := s.rows[k]
	switch {
	case r == nil:
		return nil
	case s.is("retention only ends by sweep") && r.State == onceward.Completed && r.retain > 0:
		return r
	case !now.Before(r.absent):
		return nil
	}
	return r
}

func (s *wrongStore) setLease(r *row, now time.Time, d time.Duration) {
	r.leaseEnd, r.leased = now.Add(d), d
	s.setAbsent(r)
}

func (s *wrongStore) setAbsent(r *row) {
	switch {
	case r.Held:
		r.absent = eternity
	case r.keep < 0 && !s.is("negative keep is zero"):
		r.absent = eternity
	default:
		r.absent = r.leaseEnd.Add(max(r.keep, 0) + 1)
	}
}

func (s *wrongStore) sameRequest(r *row, c onceward.Claim) bool {
	if s.is("fingerprint version is ignored") {
		return r.Fingerprint.Sum == c.Fingerprint.Sum
	}
	return r.Fingerprint == c.Fingerprint
}

func (s *wrongStore) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	if err := ctx.Err(); err != nil {
		if s.is("ended claim says taken") {
			return onceward.Record{}, false, nil
		}
		return onceward.Record{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k := s.key(c.Key)
	r := s.live(k, now)
	switch {
	case r == nil && s.is("keep only ends by sweep") && s.rows[k] != nil && s.rows[k].State == onceward.InProgress:
		r = s.rows[k]
	case r != nil && s.is("held claims expire") && r.Held && now.After(r.leaseEnd.Add(r.keep)):
		r = nil
	}
	if s.is("claim checks, then sets") && r == nil {
		s.pause()
	}
	if r == nil {
		return s.insert(k, c, now), true, nil
	}
	over := !r.leaseEnd.After(now)
	mine := r.Token == c.Token
	if s.is("own token reopens its answer") && mine {
		r.State = onceward.InProgress
	}
	if r.State == onceward.Completed {
		switch {
		case s.is("take-over reopens an answer") && c.TakeOver && over && r.done.Before(now):
			r.State = onceward.InProgress
		case s.is("mismatch reopens an answer") && !s.sameRequest(r, c):
			return s.insert(k, c, now), true, nil
		default:
			return s.report(r, c, now), false, nil
		}
	}
	if !s.sameRequest(r, c) {
		switch {
		case s.is("take-over ignores the fingerprint") && c.TakeOver && over && r.Fingerprint.Version == c.Fingerprint.Version:
		case s.is("mismatch overwrites the fingerprint") && !over && !r.Held && r.keep >= 0 && r.leased == long:
			r.Fingerprint = c.Fingerprint
			return s.report(r, c, now), false, nil
		default:
			return s.report(r, c, now), false, nil
		}
	}
	if mine {
		switch {
		case s.is("own token is refused") && !over:
			return s.report(r, c, now), false, nil
		case s.is("own token is refused after its lease") && over && !c.TakeOver:
			return s.report(r, c, now), false, nil
		case s.is("own token counts as a take-over") && over && c.TakeOver:
			r.Attempt++
		}
		return s.report(r, c, now), true, nil
	}
	may := c.TakeOver && over && !r.Held
	switch s.wrong {
	case "lease is ignored":
		may = c.TakeOver && !r.Held && (over || r.Attempt == 1)
	case "take-over unasked":
		may = over && !r.Held
	case "hold is ignored":
		may = c.TakeOver && over && (!r.Held || r.extended == 1)
	case "takes over only once":
		may = may && r.Attempt < 2
	}
	if !may {
		return s.report(r, c, now), false, nil
	}
	if s.is("take-over checks, then sets") {
		if s.pause(); r.State == onceward.Completed {
			return s.report(r, c, now), false, nil
		}
	}
	r.previous = r.Token
	r.Token = c.Token
	if !s.is("attempts are not counted") {
		r.Attempt++
	}
	if s.is("take-over restarts the age") {
		r.begun = now
	}
	if !s.is("take-over keeps the old keep") {
		r.keep = c.Keep
	}
	r.displacedAt = now
	if s.is("take-over has a lease of its own") {
		c.Lease = min(c.Lease, time.Minute)
	}
	s.setLease(r, now, c.Lease)
	return s.report(r, c, now), true, nil
}

func (s *wrongStore) insert(k onceward.Key, c onceward.Claim, now time.Time) onceward.Record {
	r := &row{begun: now, keep: c.Keep}
	r.Record = onceward.Record{
		Key: c.Key, Fingerprint: c.Fingerprint, Method: c.Method, Path: c.Path,
		Token: c.Token, State: onceward.InProgress, Attempt: 1,
	}
	if s.is("attempts begin at zero") {
		r.Attempt = 0
	}
	if s.is("zero lease is the default") && c.Lease == 0 {
		c.Lease = 30 * time.Second
	}
	if s.is("negative lease is for ever") && c.Lease < 0 {
		c.Lease = 100 * 24 * time.Hour
	}
	s.setLease(r, now, c.Lease)
	r.firstAbsent = r.absent
	s.rows[k] = r
	return s.report(r, c, now)
}

func (s *wrongStore) report(r *row, c onceward.Claim, now time.Time) onceward.Record {
	rec := r.Record
	rec.LeaseLeft = r.leaseEnd.Sub(now)
	rec.Age = now.Sub(r.begun)
	if rec.State == onceward.Completed {
		rec.Response = r.response
		if !s.is("age counts from the claim") {
			rec.Age = now.Sub(r.done)
		}
	}
	switch s.wrong {
	case "the asker's token is reported":
		if rec.State == onceward.InProgress && s.sameRequest(r, c) {
			rec.Token = c.Token
		}
	case "method and path are forgotten":
		rec.Method, rec.Path = "", ""
	case "hold is not reported":
		rec.Held = false
	case "the whole lease is reported":
		if rec.LeaseLeft > 0 {
			rec.LeaseLeft = r.leased
		}
	case "lease left is at least a second":
		if c.Token != rec.Token {
			rec.LeaseLeft = max(rec.LeaseLeft, time.Second)
		}
	case "answers share a ring":
		if rec.Response != nil && s.turn >= 64 {
			copied := *rec.Response
			copied.Body = s.ring[r.ringed]
			rec.Response = &copied
		}
	}
	return rec
}

func (s *wrongStore) Extend(ctx context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k := s.key(key)
	r := s.live(k, now)
	switch {
	case r == nil && s.is("extend revives what is absent") && s.rows[k] != nil:
		r = s.rows[k]
	case r == nil && s.is("extend of nothing is nil") && s.rows[k] == nil:
		return nil
	case r == nil:
		return onceward.ErrClaimLost
	case r.State == onceward.Completed:
		if s.is("extend of an answer is nil") {
			return nil
		}
		return onceward.ErrClaimLost
	}
	over := !r.leaseEnd.After(now)
	switch {
	case r.Token == tok:
	case s.is("extend ignores the token") && r.Attempt == 1:
	case s.is("extend takes the previous token") && r.previous == tok:
	default:
		return onceward.ErrClaimLost
	}
	switch {
	case s.is("extend needs a lease") && over && hold == r.Held && !now.After(r.absent):
		return onceward.ErrClaimLost
	case s.is("extend of zero is no change") && lease == 0,
		s.is("extend below zero is no change") && lease < 0,
		s.is("extend never lengthens") && lease > r.leaseEnd.Sub(now) && !over && r.leased == long:
		return nil
	case s.is("extend adds up") && !over && lease >= time.Hour && lease == r.leased:
		lease += r.leaseEnd.Sub(now)
	}
	if s.is("extend takes the hold away") {
		r.Held = hold
	} else {
		r.Held = r.Held || hold
	}
	absent := r.absent
	r.extended++
	s.setLease(r, now, lease)
	if s.is("extend does not move keep") && !r.Held && r.keep < long && lease == long {
		r.absent = absent
	}
	return nil
}

func (s *wrongStore) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	if err := ctx.Err(); err != nil {
		switch s.wrong {
		case "ended complete says nil":
			return nil
		case "ended complete says lost":
			return onceward.ErrClaimLost
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k := s.key(key)
	r := s.live(k, now)
	switch {
	case r == nil && s.is("a forgotten owner may complete") && s.rows[k] != nil && s.rows[k].forgotten,
		r == nil && s.is("complete revives what is absent") && s.rows[k] != nil:
		r = s.rows[k]
	case r == nil && s.is("complete creates") && s.rows[k] == nil:
		s.insert(k, onceward.Claim{Key: key, Token: tok, Keep: long, Lease: long}, now)
		return onceward.ErrClaimLost
	case r == nil:
		return onceward.ErrClaimLost
	}
	if r.State == onceward.Completed {
		switch {
		case r.Token == tok && s.is("second complete is lost"):
			return onceward.ErrClaimLost
		case r.Token == tok && s.is("second complete overwrites") && string(resp.Body) != string(r.response.Body):
		case r.Token == tok, s.is("any token completes an answer"):
			return nil
		default:
			return onceward.ErrClaimLost
		}
	}
	switch {
	case r.Token == tok:
	case s.is("complete ignores the token") && r.Attempt == 1:
	case s.is("complete takes the previous token") && r.previous == tok && r.displacedAt.Before(now):
	default:
		return onceward.ErrClaimLost
	}
	if s.is("complete needs a lease") && !r.leaseEnd.After(now) && string(resp.Body) == "late" ||
		s.is("held cannot be completed") && r.Held && r.leaseEnd.After(now) {
		return onceward.ErrClaimLost
	}
	if s.is("complete checks, then sets") {
		s.pause()
	}
	r.State = onceward.Completed
	r.done, r.retain = now, retain
	if s.is("zero retention is a day") && retain <= 0 {
		retain = 24 * time.Hour
	}
	r.absent = now.Add(retain)
	switch {
	case s.is("lease is the retention") && retain == long:
		r.absent = now.Add(2 * r.leased)
	case s.is("retention counts from the claim"):
		r.absent = r.begun.Add(retain)
		if retain <= 0 || r.absent.Before(now) && retain < 2*time.Second {
			r.absent = now.Add(retain)
		}
	}
	r.response = s.keepAnswer(r, resp)
	return nil
}

func (s *wrongStore) keepAnswer(r *row, resp *onceward.Response) *onceward.Response {
	kept := &onceward.Response{
		Status: resp.Status, Header: resp.Header.Clone(), Body: slices.Clone(resp.Body), BodyOmitted: resp.BodyOmitted,
	}
	r.ringed = s.turn % len(s.ring)
	s.ring[r.ringed] = kept.Body
	s.turn++
	switch s.wrong {
	case "the body is aliased":
		kept.Body = resp.Body
	case "the header is aliased":
		kept.Header = resp.Header
	case "every status is 200":
		kept.Status = 200
	case "the body is text":
		kept.Body = []byte(strings.ToValidUTF8(string(resp.Body), "?"))
	case "header lines are joined":
		for name, values := range kept.Header {
			kept.Header[name] = []string{strings.Join(values, ", ")}
		}
		if len(kept.Header) < 3 {
			kept.Header = resp.Header.Clone()
		}
	case "header names are canonical":
		for name, values := range kept.Header {
			delete(kept.Header, name)
			for _, v := range values {
				kept.Header.Add(name, v)
			}
		}
	case "an empty answer is none":
		if len(resp.Body) == 0 && len(resp.Header) == 0 {
			return nil
		}
	case "body omitted is forgotten":
		kept.BodyOmitted = false
	case "bodies end at 64 KiB":
		kept.Body = kept.Body[:min(len(kept.Body), 64<<10)]
	}
	return kept
}

func (s *wrongStore) Release(ctx context.Context, key onceward.Key, tok onceward.Token) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.key(key)
	r := s.rows[k]
	switch {
	case r == nil && s.is("release of nothing is lost"):
		return onceward.ErrClaimLost
	case r == nil:
		return nil
	case r.State == onceward.Completed && !s.is("release deletes an answer"):
		return nil
	case r.Token == tok:
	case s.is("release goes by key") && r.Attempt == 1:
	case s.is("release takes the previous token") && r.previous == tok:
	case s.is("release by a stranger is lost") && r.previous == (onceward.Token{}):
		return onceward.ErrClaimLost
	default:
		return nil
	}
	if s.is("held cannot be released") && r.Held {
		return nil
	}
	if s.is("release only ends the lease") && !r.Held {
		r.leaseEnd = time.Now()
		return nil
	}
	delete(s.rows, k)
	return nil
}

func (s *wrongStore) Sweep(ctx context.Context, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	n := 0
	for k, r := range s.rows {
		gone := !now.Before(r.absent)
		switch s.wrong {
		case "sweep deletes nothing":
			gone = false
		case "sweep deletes what is not leased":
			gone = gone || r.State == onceward.InProgress && !r.leaseEnd.After(now)
		case "sweep goes by the minute":
			gone = gone || !r.Held && !now.Before(r.absent.Truncate(time.Minute))
		case "sweep goes by the first end of a claim":
			gone = gone || !r.Held && r.State == onceward.InProgress && !now.Before(r.firstAbsent)
		case "sweep forgets the abandoned":
			gone = gone && r.State == onceward.Completed
		}
		if gone && (n < limit || s.is("sweep knows no limit")) {
			delete(s.rows, k)
			n++
		}
	}
	return n, nil
}

const long = time.Hour // as in the suite
