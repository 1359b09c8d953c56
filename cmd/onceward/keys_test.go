package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// overtaken is a store where something happens to a claim right before an operator
// releases it.
type overtaken struct {
	*sqlitestore.Store
	before func()
}

func (s overtaken) Release(ctx context.Context, key onceward.Key, tok onceward.Token) error {
	s.before()
	return s.Store.Release(ctx, key, tok)
}

func TestReleaseSaysWhetherItWasItThatEndedTheClaim(t *testing.T) {
	claim := onceward.Claim{Key: onceward.NewKey("mila", "k"), Token: onceward.Token{1}, Method: "POST", Path: "/orders", Lease: time.Nanosecond, Keep: time.Hour}
	again := claim
	again.Token, again.TakeOver, again.Lease = onceward.Token{2}, true, time.Hour
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		before func(*sqlitestore.Store) error
		lost   bool
	}{
		{"nothing happens", func(*sqlitestore.Store) error { return nil }, false},
		{"its owner completes it", func(s *sqlitestore.Store) error {
			return s.Complete(ctx, claim.Key, claim.Token, &onceward.Response{Status: 201}, time.Hour)
		}, true},
		{"another takes it over", func(s *sqlitestore.Store) error { _, _, err := s.Claim(ctx, again); return err }, true},
		{"its owner releases it and another begins", func(s *sqlitestore.Store) error {
			released := s.Release(ctx, claim.Key, claim.Token)
			_, _, err := s.Claim(ctx, again)
			return errors.Join(released, err)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "keys.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			store, err := sqlitestore.New(ctx, db, sqlitestore.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close(ctx)
			if _, claimed, err := store.Claim(ctx, claim); err != nil || !claimed {
				t.Fatal(claimed, err)
			}
			time.Sleep(5 * time.Millisecond) // its lease is over
			var out bytes.Buffer
			k := keys{store: overtaken{store, func() {
				if err := c.before(store); err != nil {
					t.Error(err)
				}
			}}, f: keysFlags{reason: "a test", who: "nobody"}, out: &out}
			err = k.change(ctx, "release", "k")
			if lost := err != nil && strings.Contains(err.Error(), "nothing was changed"); lost != c.lost || err != nil != c.lost {
				t.Errorf("it says %q and %v", out.String(), err)
			}
			if said := strings.Contains(out.String(), "released"); said == c.lost {
				t.Errorf("it says %q", out.String())
			}
		})
	}
}
