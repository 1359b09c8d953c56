package stores_test

import (
	"context"
	"testing"
	"time"

	"github.com/onceward/onceward"
)

// The same claim is on its way twice, as after a lost connection whose backend still
// works, and both have seen the abandoned record before either displaces it: it is
// taken over once, though a lease of nothing leaves it as easy to displace as before.
func TestATakeOverThatIsOnItsWayTwiceCountsOnce(t *testing.T) {
	s := newPGShop(t)
	old := pgClaim("k")
	old.Lease = 0
	if _, claimed, err := s.store.Claim(t.Context(), old); err != nil || !claimed {
		t.Fatalf("claimed %v, %v", claimed, err)
	}
	lock, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback(context.Background())
	if _, err := lock.Exec(t.Context(), "SELECT 1 FROM idempotency_keys FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	c := pgClaim("k")
	c.Lease, c.TakeOver = 0, true
	type answer struct {
		rec     onceward.Record
		claimed bool
		err     error
	}
	answers := make(chan answer, 2)
	for range 2 {
		go func() {
			var a answer
			a.rec, a.claimed, a.err = s.store.Claim(t.Context(), c)
			answers <- a
		}()
	}
	for deadline := time.Now().Add(30 * time.Second); s.count(`SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'UPDATE idempotency_keys%'`) < 2; {
		if time.Now().After(deadline) {
			t.Fatal("the two take-overs do not wait for the record")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if a := <-answers; a.err != nil || !a.claimed || a.rec.Token != c.Token || a.rec.Attempt != 2 {
			t.Errorf("claimed %v, token %x, attempt %d, %v; want it claimed, attempt 2", a.claimed, a.rec.Token, a.rec.Attempt, a.err)
		}
	}
}
