package histories

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward"
)

// seed is of the whole run. Every failure names it.
var seed = func() uint64 {
	if s, err := strconv.ParseUint(os.Getenv("ONCEWARD_SEED"), 10, 64); err == nil {
		return s
	}
	return uint64(time.Now().UnixNano()) % 1_000_000
}()

// run plays plan in this process and reads what it recorded.
func run(t testing.TB, plan Plan, store onceward.Store) []*Op {
	t.Helper()
	file := filepath.Join(t.TempDir(), "history")
	r, err := NewRecorder(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := plan.Run(ctx, store, r); err != nil {
		t.Fatal(err)
	}
	plan.Process += 900
	plan.Look(ctx, store, r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	ops, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range ops { // here nobody is killed and nothing is cut
		if o.Result == Unknown && o.Error != ErrLost.Error() {
			t.Errorf("ONCEWARD_SEED=%d: an error that nobody made: %v", seed, o)
		}
	}
	return ops
}

func judge(t testing.TB, ops []*Op, cuts ...int64) Verdict {
	t.Helper()
	v, err := Judge(ops, cuts...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// linearizable fails the test unless every key's calls have an order.
func linearizable(t testing.TB, ops []*Op, cuts ...int64) {
	t.Helper()
	v := judge(t, ops, cuts...)
	t.Logf("seed %d: %d calls on %d keys, %d of them unanswered", seed, v.Ops, v.Keys, v.Unknown)
	for i, story := range v.Wrong {
		if i == 3 {
			t.Errorf("and %d keys more", len(v.Wrong)-i)
			break
		}
		t.Errorf("ONCEWARD_SEED=%d: no order of these calls is allowed:\n%s", seed, story)
	}
	// On a busy machine calls take long, overlap more, and a key in a thousand may
	// have more orders than can be searched. It is told, and more are a failure.
	for _, story := range v.Undecided {
		t.Logf("ONCEWARD_SEED=%d: not decided within %v:\n%s", seed, patience, story)
	}
	if n := len(v.Undecided); n > v.Keys/1000 {
		t.Errorf("ONCEWARD_SEED=%d: %d of %d keys are not decided", seed, n, v.Keys)
	}
}

// small is a plan of some thousand calls by one process.
func small(ops int) Plan {
	return Plan{
		Seed: seed, Scope: fmt.Sprint("run-", seed), Keys: max(8, ops/25), Window: 8,
		Ops: ops, Clients: 16, Lose: 0.02,
	}
}

// Each of these stores is wrong in one way, which the tests of this repository's
// stores must not have: it is found within enough calls, by whatever seed.
func TestWrongStoresAreCaught(t *testing.T) {
	const enough, seeds = 4000, 3
	for _, f := range []fault{
		checksThenSets, takeOverChecks, releasesByKey, completesByKey, forgetsItsToken,
		ignoresTheLease, loseConfirmed, extendsAnyway, secondOverwrites, leasesAreTooShort,
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			for i := range seeds {
				plan := small(enough)
				plan.Seed += uint64(i)
				if v := judge(t, run(t, plan, newPlain(f))); len(v.Wrong) == 0 {
					t.Errorf("ONCEWARD_SEED=%d: %d calls, and nothing was found", plan.Seed, v.Ops)
				} else {
					t.Logf("%d of %d keys tell of it", len(v.Wrong), v.Keys)
				}
			}
		})
	}
}

// The same code without a fault is called right.
func TestTheRightStoreIsNotCalledWrong(t *testing.T) {
	for i := range 3 {
		plan := small(4000)
		plan.Seed += uint64(i)
		linearizable(t, run(t, plan, newPlain("")))
	}
}
