// Package memstore keeps the records of [onceward.Guard] in a map.
//
// It is for one process: tests, a single-process tool, a first try. Two
// processes with a memstore each are two memories, and a request that reaches
// both runs twice; a restart forgets every key. Where either matters use a store
// that outlives the process, such as sqlitestore.
//
// Durability: none. Complete returns when the answer is in memory.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward"
)

// ErrFull means that a limit of [Config] is reached by records that are all
// alive: nothing was claimed, nothing has run. The guard answers 503.
var ErrFull = errors.New("memstore: full")

// Config bounds a Store. The zero value is safe.
type Config struct {
	// MaxRecords is how many records are kept at most. Past it a Claim of a new
	// key fails with ErrFull until one expires or is released; records that
	// exist are served as ever. Zero means 1,048,576; negative: no limit.
	MaxRecords int
	// MaxBytes is how many bytes of answers (bodies and header lines) may be
	// kept before a Claim of a new key fails with ErrFull. An answer to a claim
	// that was granted is always kept. Zero means 1 GiB; negative: no limit.
	MaxBytes int64
}

// Store implements [onceward.Store] and its optional powers, but for
// [onceward.Transactor]: there is no database that it could share with the
// application. It is safe for concurrent use. It starts no goroutine and needs no closing: each new claim
// deletes up to two expired records, and the guard sweeps the rest.
//
// Time is measured from New on the monotonic clock, so a step of the wall clock
// neither ends a lease nor prolongs one. In a testing/synctest bubble, call New
// inside the bubble.
type Store struct {
	start      time.Time
	maxRecords int64
	maxBytes   int64
	records    atomic.Int64
	bytes      atomic.Int64
	hand       atomic.Uint32 // the shard where the next sweep begins
	shards     [shardCount]shard
}

const shardCount = 64 // a power of two

var (
	_ onceward.Store      = (*Store)(nil)
	_ onceward.Looker     = (*Store)(nil)
	_ onceward.Lister     = (*Store)(nil)
	_ onceward.Forgetter  = (*Store)(nil)
	_ onceward.KeySweeper = (*Store)(nil)
)

// New makes an empty Store.
func New(cfg Config) *Store {
	s := &Store{start: time.Now(), maxRecords: int64(cfg.MaxRecords), maxBytes: cfg.MaxBytes}
	switch {
	case s.maxRecords == 0:
		s.maxRecords = 1 << 20
	case s.maxRecords < 0:
		s.maxRecords = math.MaxInt64
	}
	switch {
	case s.maxBytes == 0:
		s.maxBytes = 1 << 30
	case s.maxBytes < 0:
		s.maxBytes = math.MaxInt64
	}
	for i := range s.shards {
		s.shards[i].records = make(map[onceward.Key]*record)
	}
	return s
}

// Len says how many records are in memory, expired ones that nobody has
// deleted yet included.
func (s *Store) Len() int { return int(s.records.Load()) }

// record is one key's. It is guarded by its shard's mutex, except that response
// is never written again once a caller has been given a pointer to it.
type record struct {
	facts     onceward.Record // LeaseLeft, Age and Response are filled on report
	leaseEnd  int64           // like all times here: nanoseconds since Store.start
	keep      int64           // negative: an abandoned claim never becomes absent
	since     int64           // first claim, or completion
	absentAt  int64           // from this moment on the record counts as absent
	heapIndex int
	size      int64
	lines     []string // header names and values in turn, until the first report
	response  onceward.Response
}

const never = math.MaxInt64

// Claim implements [onceward.Store]. Besides the context's, its only error
// wraps ErrFull.
func (s *Store) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	if err := ctx.Err(); err != nil {
		return onceward.Record{}, false, err
	}
	rec, claimed, err := s.claim(&c)
	if err != nil && s.sweepForRoom() {
		rec, claimed, err = s.claim(&c)
	}
	return rec, claimed, err
}

func (s *Store) claim(c *onceward.Claim) (onceward.Record, bool, error) {
	sh := s.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	r := sh.records[c.Key]
	if r != nil && r.absentAt <= now {
		s.remove(sh, r)
		r = nil
	}
	if r == nil {
		s.dropExpired(sh, now, 2, nil)
		if err := s.reserve(); err != nil {
			return onceward.Record{}, false, err
		}
		r = &record{since: now, keep: int64(c.Keep)}
		r.facts = onceward.Record{
			Key: c.Key, Fingerprint: c.Fingerprint, Method: c.Method, Path: c.Path,
			Token: c.Token, State: onceward.InProgress, Attempt: 1,
		}
		r.lease(now, c.Lease)
		sh.add(r)
		return r.report(now), true, nil
	}
	if r.facts.State == onceward.Completed || r.facts.Fingerprint != c.Fingerprint {
		return r.report(now), false, nil
	}
	if r.facts.Token == c.Token {
		// The caller did not hear the first answer. Its lease began then;
		// what it is promised now must hold from now.
		if end := after(now, c.Lease); end > r.leaseEnd {
			r.lease(now, c.Lease)
			sh.reorder(r)
		}
		return r.report(now), true, nil
	}
	if c.TakeOver && !r.facts.Held && r.leaseEnd <= now {
		r.facts.Token = c.Token
		r.facts.Attempt++
		r.keep = int64(c.Keep)
		r.lease(now, c.Lease)
		sh.reorder(r)
		return r.report(now), true, nil
	}
	return r.report(now), false, nil
}

// Extend implements [onceward.Store].
func (s *Store) Extend(ctx context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	r := sh.records[key]
	if r == nil || r.absentAt <= now || r.facts.State == onceward.Completed || r.facts.Token != tok {
		return onceward.ErrClaimLost
	}
	r.facts.Held = r.facts.Held || hold
	r.lease(now, lease)
	sh.reorder(r)
	return nil
}

// Complete implements [onceward.Store].
func (s *Store) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Copied before the lock is taken: a large body holds up nobody else.
	lines := flatten(resp.Header)
	body := append([]byte(nil), resp.Body...)

	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	r := sh.records[key]
	if r == nil || r.absentAt <= now || r.facts.Token != tok {
		return onceward.ErrClaimLost
	}
	if r.facts.State == onceward.Completed {
		return nil
	}
	r.facts.State = onceward.Completed
	r.facts.Held = false
	r.since = now
	r.lines = lines
	r.response = onceward.Response{Status: resp.Status, Body: body, BodyOmitted: resp.BodyOmitted}
	r.size = int64(len(body))
	for _, line := range lines {
		r.size += int64(len(line))
	}
	s.bytes.Add(r.size)
	r.absentAt = after(now, retain)
	sh.reorder(r)
	return nil
}

// Release implements [onceward.Store].
func (s *Store) Release(ctx context.Context, key onceward.Key, tok onceward.Token) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r := sh.records[key]; r != nil && r.facts.State == onceward.InProgress && r.facts.Token == tok {
		s.remove(sh, r)
	}
	return nil
}

// now is the time since New. Both readings are monotonic.
func (s *Store) now() int64 { return int64(time.Since(s.start)) }

func (s *Store) shard(key onceward.Key) *shard {
	return &s.shards[(key.ID[0]^key.Scope[0])&(shardCount-1)]
}

// reserve counts one more record, or says which limit forbids it.
func (s *Store) reserve() error {
	if b := s.bytes.Load(); b >= s.maxBytes {
		return fmt.Errorf("%w: %d bytes of answers are kept, the limit is %d", ErrFull, b, s.maxBytes)
	}
	if s.records.Add(1) > s.maxRecords {
		s.records.Add(-1)
		return fmt.Errorf("%w: %d records are alive", ErrFull, s.maxRecords)
	}
	return nil
}

// remove takes r out of sh, whose mutex the caller holds.
func (s *Store) remove(sh *shard, r *record) {
	sh.drop(r)
	s.records.Add(-1)
	s.bytes.Add(-r.size)
}

// lease starts r's lease anew and sets when r becomes absent by itself.
func (r *record) lease(now int64, d time.Duration) {
	r.leaseEnd = after(now, d)
	switch {
	case r.facts.Held || r.keep < 0:
		r.absentAt = never
	default:
		// "Longer than Keep", so one nanosecond past it.
		r.absentAt = after(after(r.leaseEnd, time.Duration(r.keep)), 1)
	}
}

// report is what a caller may see of r. The Response is shared by all who ask;
// the contract makes it read-only.
func (r *record) report(now int64) onceward.Record {
	rec := r.facts
	rec.Age = time.Duration(now - r.since)
	if rec.State != onceward.Completed {
		rec.LeaseLeft = time.Duration(r.leaseEnd - now)
		return rec
	}
	if r.response.Header == nil {
		r.response.Header = unflatten(r.lines)
		r.lines = nil
	}
	rec.Response = &r.response
	return rec
}

// flatten makes one slice of a header. Most answers are never replayed, and a
// slice costs less to make and to keep than a map.
func flatten(h http.Header) []string {
	n := 0
	for _, values := range h {
		n += len(values)
	}
	if n == 0 {
		return nil
	}
	lines := make([]string, 0, 2*n)
	for name, values := range h {
		for _, value := range values {
			lines = append(lines, name, value)
		}
	}
	return lines
}

// unflatten rebuilds the header; a name's values are neighbours in lines.
func unflatten(lines []string) http.Header {
	h := make(http.Header, len(lines)/2)
	values := make([]string, 0, len(lines)/2)
	for i := 0; i < len(lines); {
		name, first := lines[i], len(values)
		for ; i < len(lines) && lines[i] == name; i += 2 {
			values = append(values, lines[i+1])
		}
		h[name] = values[first:len(values):len(values)]
	}
	return h
}

// after adds without overflow; d may be negative.
func after(t int64, d time.Duration) int64 {
	sum := t + int64(d)
	if d > 0 && sum < t {
		return never
	}
	return sum
}
