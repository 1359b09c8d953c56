package stores_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// A sweep rests between its steps, so its time can be over in the midst of it: it
// says so, and how much it knows to be deleted.
func TestASweepWhoseTimeIsOverSaysHowFarItCame(t *testing.T) {
	db := openPool(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	const all = 400
	for i := range all {
		c := onceward.Claim{Key: onceward.NewKey("mila", strconv.Itoa(i)), Token: onceward.Token{1}, Lease: time.Nanosecond, Keep: time.Nanosecond}
		if _, claimed, err := store.Claim(t.Context(), c); err != nil || !claimed {
			t.Fatal(claimed, err)
		}
	}
	time.Sleep(5 * time.Millisecond) // the store's clock counts milliseconds
	first, unsure := 0, false
	for begun := time.Now(); first == 0 && time.Since(begun) < 20*time.Second; {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		n, err := store.Sweep(ctx, all)
		cancel()
		// A step that commits while its time ends is not known to have.
		if n < all && !errors.Is(err, context.DeadlineExceeded) && !(unsure && err == nil) {
			t.Fatalf("a sweep of 15 ms has deleted %d of %d and says %v", n, all, err)
		}
		first += n
		if err == nil {
			break
		}
		unsure = true
	}
	rest, err := store.Sweep(t.Context(), all)
	if err != nil || first+rest > all || first+rest < all && !unsure {
		t.Errorf("%d and %d of %d records were deleted, %v", first, rest, all, err)
	}
	var left int
	if err := db.QueryRow("SELECT count(*) FROM idempotency_keys").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d records are left, %v", left, err)
	}
}
