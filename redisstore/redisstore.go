// Package redisstore keeps the records of [onceward.Guard] in Redis, version 5
// or newer, or in Valkey: a single server, servers watched by Sentinel, or a
// Cluster. One record is one hash under one key.
//
// Durability: best effort. A server that is killed and started again has what
// its persistence had written: with appendonly yes and appendfsync always every
// call that returned, with the usual everysec all but about the last second, without
// it whatever the last snapshot had. A failover is worse: replicas follow the
// master some milliseconds behind, and what had not reached the one that is
// promoted is gone. A claim lost so lets the request run a second time; an answer
// lost so is a claim again, whose outcome nobody knows. No key is wedged longer
// than its lease, and no key ever has another's answer. [Wait] narrows the gap
// and does not close it: neither Sentinel nor Cluster promises to promote a
// replica that has confirmed. Where a second run costs money, use a store in
// the application's own database.
//
// A server that evicts keys when its memory is full forgets claims and answers
// while they count, so [New] refuses one.
//
// What a hash holds, in each state, is shown in docs/redis.md.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
)

// Errors of this package, for errors.Is.
var (
	// ErrEvicting: New has met a server whose maxmemory-policy is not noeviction.
	ErrEvicting = errors.New("redisstore: the server evicts keys when its memory is full")
	// ErrTooOld: New has met a server older than Redis 5.
	ErrTooOld = errors.New("redisstore: the server is older than Redis 5")
	// ErrReplicas: the call is done on the master, and fewer replicas than
	// Config.Wait asks for have confirmed it. The same call may be repeated.
	ErrReplicas = errors.New("redisstore: too few replicas have confirmed")
)

// Config tunes a Store. The zero value is right for nearly everybody.
type Config struct {
	// Prefix begins the name of every key. By default "idempotency:". With a hash
	// tag of its own ("{…}") it puts all records into one slot of a Cluster.
	Prefix string
	// Wait makes claims, completions and holds wait for replicas. By default they
	// do not.
	Wait Wait
	// Logger is told by New what it could not find out about a server, and what it
	// found that is fit for less than it looks. By default nobody is.
	Logger *slog.Logger
}

// Wait says how many replicas must have a claim, an answer or a hold before the
// call returns (the command WAIT, one round trip more). Too few within Timeout:
// the call fails with [ErrReplicas], though it may stand.
type Wait struct {
	// Replicas is how many. Zero and less: none, no waiting.
	Replicas int
	// Timeout bounds the waiting. Zero and less mean one second. Keep it below
	// the guard's StoreTimeout.
	Timeout time.Duration
}

// Store implements [onceward.Store], [onceward.Looker], [onceward.Lister] and
// [onceward.Forgetter]. It is safe for concurrent use, has no goroutine of its
// own and needs no closing; the client stays the caller's. It needs no sweeping
// either: Redis deletes what has ended.
//
// Times are the clock of the server that has the key, so the clocks of a
// master and its replicas must agree to a fraction of the lease.
//
// go-redis repeats a command whose connection broke (MaxRetries), which every
// call here can bear. It does not end a command when its context ends, unless
// the client's ContextTimeoutEnabled is set: set it, and a call ends in time
// when Redis hangs.
type Store struct {
	client redis.UniversalClient
	prefix string
	wait   Wait
	seen   *seen // nil: reads could go to replicas
}

var (
	_ onceward.Store     = (*Store)(nil)
	_ onceward.Looker    = (*Store)(nil)
	_ onceward.Lister    = (*Store)(nil)
	_ onceward.Forgetter = (*Store)(nil)
)

// New returns a Store over client: a *redis.Client, Sentinel's included
// (redis.NewFailoverClient), or a *redis.ClusterClient. A *redis.Ring is refused:
// when one of its servers is down, it asks another for that server's keys, and
// finds them absent.
//
// It asks each server for INFO and fails with [ErrTooOld] or [ErrEvicting]; of a
// Sentinel set-up it sees the master only. Where INFO is closed to the client
// it logs a warning and goes on. The context is for New alone.
func New(ctx context.Context, client redis.UniversalClient, cfg Config) (*Store, error) {
	switch client.(type) {
	case nil:
		return nil, errors.New("redisstore: New needs a client")
	case *redis.Client, *redis.ClusterClient:
	default:
		return nil, fmt.Errorf("redisstore: a %T will not do: a *redis.Client or a *redis.ClusterClient is needed", client)
	}
	s := &Store{client: client, prefix: cfg.Prefix, wait: cfg.Wait}
	if s.prefix == "" {
		s.prefix = "idempotency:"
	}
	if s.wait.Timeout <= 0 {
		s.wait.Timeout = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if readsMasters(client) {
		s.seen = new(seen)
	}
	if err := s.checkServers(ctx, cfg.Logger); err != nil {
		return nil, err
	}
	return s, nil
}

// Claim implements [onceward.Store]. c.Method must have no space in it.
func (s *Store) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	if rec, ok := s.glance(ctx, &c); ok {
		return rec, false, nil
	}
	rec, claimed, err := s.claim(ctx, &c)
	if err != nil {
		return onceward.Record{}, false, fmt.Errorf("redisstore: claim: %w", err)
	}
	if s.seen != nil {
		s.seen.add(c.Key)
	}
	return rec, claimed, nil
}

func (s *Store) claim(ctx context.Context, c *onceward.Claim) (rec onceward.Record, claimed bool, err error) {
	if strings.Contains(c.Method, " ") {
		return rec, false, fmt.Errorf("the method %q has a space in it", c.Method)
	}
	fp, err := c.Fingerprint.MarshalBinary()
	if err != nil {
		return rec, false, err
	}
	keep := int64(-1) // rounding up would make zero of the last millisecond
	if c.Keep >= 0 {
		keep = milli(c.Keep)
	}
	takeOver := "0"
	if c.TakeOver {
		takeOver = "1"
	}
	reply, err := s.run(ctx, claimScript, c.Key, []any{fp, c.Token[:], milli(c.Lease), keep, takeOver, c.Method + " " + c.Path}, granted)
	if err != nil {
		return rec, false, err
	}
	what, now, f, err := parse(reply)
	if err != nil {
		return rec, false, err
	}
	rec, err = f.record(c.Key, now)
	return rec, err == nil && what == 1, err
}

// Extend implements [onceward.Store].
func (s *Store) Extend(ctx context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	held, needsReplicas := "0", never
	if hold {
		held, needsReplicas = "1", done // a renewal that is lost costs a lease, a hold a second run
	}
	if err := s.own(ctx, extendScript, key, []any{tok[:], milli(lease), held}, needsReplicas); err != nil {
		return fmt.Errorf("redisstore: extend: %w", err)
	}
	return nil
}

// Complete implements [onceward.Store].
func (s *Store) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	args, err := answerFields([]any{tok[:], milli(retain), resp.Status}, resp)
	if err == nil {
		err = s.own(ctx, completeScript, key, args, done)
	}
	if err != nil {
		return fmt.Errorf("redisstore: complete: %w", err)
	}
	return nil
}

// Release implements [onceward.Store].
func (s *Store) Release(ctx context.Context, key onceward.Key, tok onceward.Token) error {
	if err := s.own(ctx, releaseScript, key, []any{tok[:]}, never); err != nil {
		return fmt.Errorf("redisstore: release: %w", err)
	}
	if s.seen != nil {
		s.seen.drop(key) // the next claim of it is a first one again
	}
	return nil
}

// Look implements [onceward.Looker]. It asks the master, which alone knows.
func (s *Store) Look(ctx context.Context, key onceward.Key) (rec onceward.Record, found bool, err error) {
	reply, err := s.run(ctx, lookScript, key, nil, never)
	if err == nil {
		var what, now int64
		var f fields
		if what, now, f, err = parse(reply); err == nil && what == 1 {
			rec, err = f.record(key, now)
			found = err == nil
		}
	}
	if err != nil {
		return onceward.Record{}, false, fmt.Errorf("redisstore: look: %w", err)
	}
	return rec, found, nil
}

// own runs a script that only the claim's owner may run.
func (s *Store) own(ctx context.Context, script *redis.Script, key onceward.Key, args []any, needsReplicas func(any) bool) error {
	reply, err := s.run(ctx, script, key, args, needsReplicas)
	if err != nil {
		return err
	}
	switch reply {
	case int64(1):
		return nil
	case int64(0):
		return onceward.ErrClaimLost
	case int64(-1):
		return errNewer
	}
	return fmt.Errorf("the script answered %v", reply)
}

var errNewer = fmt.Errorf("%w: a later version of this package made the record", onceward.ErrEncoding)

// Which replies say that something was written which replicas should have.
func never(any) bool      { return false }
func done(reply any) bool { return reply == int64(1) }
func granted(reply any) bool {
	list, ok := reply.([]any)
	return ok && len(list) > 0 && list[0] == int64(1)
}

// parse reads what claimScript and lookScript answer.
func parse(reply any) (what, now int64, f fields, err error) {
	list, ok := reply.([]any)
	if !ok || len(list) < 2 || len(list)%2 != 0 {
		return 0, 0, nil, fmt.Errorf("the script answered %v", reply)
	}
	what, ok = list[0].(int64)
	now, ok2 := list[1].(int64)
	if !ok || !ok2 {
		return 0, 0, nil, fmt.Errorf("the script answered %v", reply)
	}
	if what < 0 {
		return 0, 0, nil, errNewer
	}
	f = make(fields, len(list)/2-1)
	for i := 2; i < len(list); i += 2 {
		name, ok := list[i].(string)
		// A script's numbers would be here as numbers; ours are strings.
		value, ok2 := list[i+1].(string)
		if !ok || !ok2 {
			return 0, 0, nil, fmt.Errorf("the script answered %v", reply)
		}
		f[name] = value
	}
	return what, now, f, nil
}
