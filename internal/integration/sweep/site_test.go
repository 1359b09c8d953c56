//go:build linux

package sweep

import (
	"context"
	"fmt"
	"testing"

	"github.com/onceward/onceward"
)

// place is one store of the sweep.
type place struct {
	name   string
	modes  []string
	kind   string // of the points besides the steps; "": there are none
	open   func(t *testing.T) site
	victim func(ctx context.Context, v *victim) (closeAll func(), err error)
}

// places are all of them. A further one needs a line here, a site and a victim.
func places() []place {
	all := []string{rerun, hold, resolve, atomic}
	apart := []string{rerun, hold, resolve} // the effects are elsewhere
	return []place{
		{"sqlite", all, statement, openSQLite, victimOnSQLite},
		{"postgres", all, message, openPostgres, victimOnPostgres},
		{"postgres-repeatable", all, message, openPostgresRepeatable, victimOnPostgres},
		{"postgres-serializable", all, message, openPostgresSerializable, victimOnPostgres},
		{"postgres-pooler", all, message, openPostgresPooled, victimOnPostgres},
		{"redis", apart, message, openRedis, victimOnRedis},
		{"redis-sentinel", apart, "", openRedisSentinel, victimOnRedis},
		{"redis-cluster", apart, "", openRedisCluster, victimOnRedis},
		{"memory", apart, "", openMemory, victimInMemory},
	}
}

// sampled says whether a sample goes through a mode of a place. What is one store
// behind other servers, or in another isolation, is gone through where most of it is
// at stake: its sample is that of the plain one besides.
func (pl place) sampled(mode, fault string) bool {
	switch pl.name {
	case "postgres-repeatable", "postgres-serializable", "postgres-pooler":
		return mode == atomic && fault == kill
	case "redis-sentinel", "redis-cluster":
		return mode == rerun && fault == kill
	}
	return true
}

// faults are the ways of striking that the store can meet.
func (pl place) faults() []string {
	if pl.kind == message {
		return []string{kill, stop, cut}
	}
	return []string{kill, stop}
}

// open opens the victim's store and ledger.
func (v *victim) open(ctx context.Context) (closeAll func(), err error) {
	for _, pl := range places() {
		if pl.name == v.plan.Store {
			return pl.victim(ctx, v)
		}
	}
	return nil, fmt.Errorf("no store is called %q", v.plan.Store)
}

// site is a store with a ledger, as the parent of its victims sees it.
type site interface {
	// plan is how a victim opens it, directly or, if via is not empty, through a
	// proxy that listens there.
	plan(via string) plan
	// upstream is where such a proxy leads to, and what is spoken there; "" if
	// nothing is.
	upstream() (addr string, messages wire)
	// record says where a key's record stands.
	record(ctx context.Context, key string) (state, error)
	// lapsed reports whether a key is claimed under a lease that is over, by the
	// store's own clock, and may be taken over.
	lapsed(ctx context.Context, key string) (bool, error)
	// effects counts a key's effects.
	effects(ctx context.Context, key string) (int, error)
	// settle waits until the server has done all that it has received from a victim
	// that no longer sends anything.
	settle(ctx context.Context, name string, dead bool) error
	// locked reports whether a stopped process keeps everybody from writing.
	locked(ctx context.Context) (bool, error)
}

// state is where a record stands.
type state string

const (
	absent     state = "absent"
	inProgress state = "in progress"
	completed  state = "completed"
)

// lapsed asks a store whether a key's lease is over.
func lapsed(ctx context.Context, l onceward.Looker, key string) (bool, error) {
	scope, err := onceward.Unscoped(nil)
	if err != nil {
		return false, err
	}
	rec, found, err := l.Look(ctx, onceward.NewKey(scope, key))
	return found && rec.State == onceward.InProgress && !rec.Held && rec.LeaseLeft <= 0, err
}

// look asks a store for the state of a key's record.
func look(ctx context.Context, l onceward.Looker, key string) (state, error) {
	scope, err := onceward.Unscoped(nil)
	if err != nil {
		return "", err
	}
	rec, found, err := l.Look(ctx, onceward.NewKey(scope, key))
	switch {
	case err != nil:
		return "", err
	case !found:
		return absent, nil
	case rec.State == onceward.Completed:
		return completed, nil
	}
	return inProgress, nil
}
