//go:build linux

package sweep

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// Stores that are wrong in one way each, over a SQLite file. The sweep has to find
// every one of them.
const (
	forgetful = "forgetful" // says that an answer is kept, and keeps it a moment later
	usurping  = "usurping"  // lets a displaced owner complete all the same
	parting   = "parting"   // commits the work before the answer
	obstinate = "obstinate" // never lets a claim's lease end
)

func makeWrong(s *sqlitestore.Store, db *sql.DB, how string) onceward.Store {
	switch how {
	case "":
		return s
	case parting:
		return partingStore{s, db}
	}
	return wrongStore{s, db, how}
}

type wrongStore struct {
	onceward.Store
	db  *sql.DB
	how string
}

func (s wrongStore) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	if s.how == obstinate {
		c.TakeOver = false
	}
	return s.Store.Claim(ctx, c)
}

func (s wrongStore) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	if s.how == forgetful {
		go func() {
			time.Sleep(100 * time.Millisecond)
			_ = s.Store.Complete(context.Background(), key, tok, resp, retain)
		}()
		return nil
	}
	err := s.Store.Complete(ctx, key, tok, resp, retain)
	if s.how != usurping || !errors.Is(err, onceward.ErrClaimLost) {
		return err
	}
	encoded, err := resp.MarshalBinary()
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, `UPDATE idempotency_keys SET token = ?3, status = ?4, response = ?5 WHERE scope = ?1 AND key = ?2`,
		key.Scope[:], key.ID[:], tok[:], resp.Status, encoded)
	return err
}

// partingStore runs the work of Transact in one transaction, and keeps its answer
// in another.
type partingStore struct {
	*sqlitestore.Store
	db *sql.DB
}

type partingKey struct{}

func (s partingStore) Transact(ctx context.Context, c onceward.Claim, work func(context.Context) (onceward.Verdict, *onceward.Response, error)) (rec onceward.Record, ran bool, err error) {
	c.TakeOver = true
	if rec, ran, err = s.Claim(ctx, c); err != nil || !ran {
		return rec, ran, err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return rec, false, err
	}
	defer tx.Rollback()
	_, resp, err := work(context.WithValue(ctx, partingKey{}, tx))
	if err == nil {
		err = tx.Commit()
	}
	if err == nil {
		err = s.Complete(ctx, c.Key, c.Token, resp, c.Keep)
	}
	return rec, err == nil, err
}

// What cannot fail proves nothing: each wrong store is found, and for its own
// fault.
func TestTheSweepFindsWrongStores(t *testing.T) {
	for _, c := range []struct {
		how, mode string
		at        point
		want      string // in what is said
	}{
		{forgetful, rerun, point{Fault: kill, Step: afterFirstByte}, "the record was in progress"},
		{usurping, rerun, point{Fault: stop, Step: beforeComplete}, "two answers differ"},
		{parting, atomic, point{Fault: kill, Step: beforeComplete}, "which can never be"},
		{obstinate, rerun, point{Fault: kill, Step: afterWork}, "told nothing final"},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			pl := place{name: "sqlite", victim: victimOnSQLite, open: func(t *testing.T) site {
				return wrongSite{openSQLite(t).(sqliteSite), c.how}
			}}
			r := openLanes(t, pl, c.mode, 1)[0].run(t.Context(), c.at)
			if said := strings.Join(r.faults, "\n"); !strings.Contains(said, c.want) {
				t.Errorf("%v: the sweep says %q, want %q", c.at, said, c.want)
			}
		})
	}
}

type wrongSite struct {
	sqliteSite
	how string
}

func (s wrongSite) plan(via string) plan {
	p := s.sqliteSite.plan(via)
	p.Wrong = s.how
	return p
}
