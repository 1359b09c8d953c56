package stores_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/sqlitestore"
	"github.com/onceward/onceward/storetest"
)

// withEffects is a store on a file that has business data beside the records.
type withEffects struct {
	powers
	db *sql.DB
}

// powers is everything that sqlitestore can do.
type powers interface {
	onceward.Store
	onceward.Transactor
	onceward.Looker
	onceward.Lister
	onceward.Forgetter
	onceward.Sweeper
}

func newEffects(t testing.TB, store powers, db *sql.DB) *withEffects {
	t.Helper()
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS effects (id INTEGER PRIMARY KEY, name TEXT)"); err != nil {
		t.Fatal(err)
	}
	return &withEffects{store, db}
}

func addEffect(ctx context.Context) error {
	_, err := sqlitestore.Tx(ctx).ExecContext(ctx, "INSERT INTO effects (name) VALUES ('row')")
	return err
}

func countEffects(t testing.TB, store onceward.Store) (n int) {
	t.Helper()
	if err := store.(*withEffects).db.QueryRow("SELECT count(*) FROM effects").Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// sqliteContract holds a store to the contract; the cases of a lost connection open a
// plain store of their own, so one test has them.
func sqliteContract(t *testing.T, noFaults bool, open func(t testing.TB, file string) (powers, *sql.DB)) {
	storetest.Run(t, storetest.Config{
		NoFaults: noFaults,
		Unit:     20 * time.Millisecond,
		Work:     addEffect,
		Effects:  countEffects,
		New: func(t testing.TB) onceward.Store {
			store, db := open(t, filepath.Join(t.TempDir(), "keys.db"))
			return newEffects(t, store, db)
		},
		Faulty: func(t testing.TB, store onceward.Store) (onceward.Store, storetest.Lose) {
			db, spy := openSpied(t, fileOf(t, store.(*withEffects).db))
			return openStore(t, db, sqlitestore.Config{}), spy.loseOne
		},
	})
}

func TestSQLiteKeepsTheContract(t *testing.T) {
	sqliteContract(t, false, func(t testing.TB, file string) (powers, *sql.DB) {
		db := openPool(t, file)
		return openStore(t, db, sqlitestore.Config{}), db
	})
}

func TestSQLiteKeepsTheContractOnOneConnection(t *testing.T) {
	sqliteContract(t, true, func(t testing.TB, file string) (powers, *sql.DB) {
		db := openPool(t, file)
		db.SetMaxOpenConns(1)
		return openStore(t, db, sqlitestore.Config{MaxBatch: -1}), db
	})
}

// Two stores on one file, each with a reading pool of its own, are asked in
// turn: what one has written the other must see, whatever it remembers. On a busy
// machine, with the race detector, a batch of one takes longer than the other is
// patient for; how long that is, is not what is asked here.
func TestSQLiteKeepsTheContractAcrossStores(t *testing.T) {
	sqliteContract(t, true, func(t testing.TB, file string) (powers, *sql.DB) {
		pair := &inTurn{}
		for i := range pair.stores {
			pair.stores[i] = openStore(t, openPool(t, file), sqlitestore.Config{Read: openPool(t, file), Patience: time.Minute})
		}
		return pair, openPool(t, file)
	})
}

// inTurn gives each call to the next of its stores.
type inTurn struct {
	stores [2]*sqlitestore.Store
	calls  atomic.Uint32
}

type turnOwner struct{}

func (s *inTurn) next() *sqlitestore.Store { return s.stores[s.calls.Add(1)%2] }

func (s *inTurn) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	return s.next().Claim(ctx, c)
}

func (s *inTurn) Extend(ctx context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	return s.next().Extend(ctx, key, tok, lease, hold)
}

func (s *inTurn) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	return s.next().Complete(ctx, key, tok, resp, retain)
}

func (s *inTurn) Release(ctx context.Context, key onceward.Key, tok onceward.Token) error {
	return s.next().Release(ctx, key, tok)
}

// Transact says in the work's context whose work it is.
func (s *inTurn) Transact(ctx context.Context, c onceward.Claim, work func(context.Context) (onceward.Verdict, *onceward.Response, error)) (onceward.Record, bool, error) {
	store := s.next()
	return store.Transact(ctx, c, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		return work(context.WithValue(ctx, turnOwner{}, store))
	})
}

func (s *inTurn) Look(ctx context.Context, key onceward.Key) (onceward.Record, bool, error) {
	return s.next().Look(ctx, key)
}

func (s *inTurn) List(ctx context.Context, q onceward.Query) ([]onceward.Record, error) {
	return s.next().List(ctx, q)
}

// Forget inside a work is for the store whose work it is: the other one has no
// part in that transaction.
func (s *inTurn) Forget(ctx context.Context, scope [32]byte) error {
	if store, ok := ctx.Value(turnOwner{}).(*sqlitestore.Store); ok {
		return store.Forget(ctx, scope)
	}
	return s.next().Forget(ctx, scope)
}

func (s *inTurn) Sweep(ctx context.Context, limit int) (int, error) {
	return s.next().Sweep(ctx, limit)
}

// The map and the file give the same answer to the same calls, whatever the
// calls are. Leases and retentions are nothing or an hour, so that time decides
// nothing between the two.
func TestMemoryAndSQLiteAgree(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	file := openStore(t, openPool(t, filepath.Join(t.TempDir(), "keys.db")), sqlitestore.Config{})
	memory := memstore.New(memstore.Config{})
	pick := func(d ...time.Duration) time.Duration { return d[rng.IntN(len(d))] }
	var script []string
	for i := range 1500 {
		c := processClaim(fmt.Sprint(rng.IntN(4)), 1+rng.IntN(3))
		c.Fingerprint.Version = uint8(1 + rng.IntN(5)/4)
		c.Lease, c.Keep = pick(-time.Second, 0, time.Hour, time.Hour), pick(-1, time.Hour)
		c.TakeOver = rng.IntN(2) == 0
		hold, retain, body := rng.IntN(8) == 0, pick(0, time.Hour, time.Hour), fmt.Sprint(i)
		var call string
		var results [2]string
		kind := rng.IntN(10)
		for n, store := range []onceward.Store{memory, file} {
			switch {
			case kind < 5:
				call = fmt.Sprintf("Claim %x fp %d token %d lease %v keep %v takeover %v", c.Key.ID[:2], c.Fingerprint.Version, c.Token[3], c.Lease, c.Keep, c.TakeOver)
				rec, claimed, err := store.Claim(t.Context(), c)
				got := ""
				if rec.Response != nil {
					got = fmt.Sprint(rec.Response.Status, rec.Response.Header, string(rec.Response.Body))
				}
				results[n] = fmt.Sprint(claimed, err, rec.State, rec.Attempt, rec.Held, rec.Token[3], rec.Fingerprint.Version, rec.LeaseLeft > 0, got)
			case kind < 7:
				call = fmt.Sprintf("Extend %x token %d lease %v hold %v", c.Key.ID[:2], c.Token[3], c.Lease, hold)
				results[n] = outcome(store.Extend(t.Context(), c.Key, c.Token, c.Lease, hold))
			case kind < 9:
				call = fmt.Sprintf("Complete %x token %d retain %v", c.Key.ID[:2], c.Token[3], retain)
				results[n] = outcome(store.Complete(t.Context(), c.Key, c.Token, testAnswer(body), retain))
			default:
				call = fmt.Sprintf("Release %x token %d", c.Key.ID[:2], c.Token[3])
				results[n] = outcome(store.Release(t.Context(), c.Key, c.Token))
			}
		}
		script = append(script, fmt.Sprintf("%s: %s", call, results[0]))
		if results[0] != results[1] {
			t.Fatalf("seed %d, call %d: memory says %s, SQLite says %s\n%s", seed, i, results[0], results[1], script[max(0, len(script)-15):])
		}
	}
}

func outcome(err error) string {
	if errors.Is(err, onceward.ErrClaimLost) {
		return "lost"
	}
	return fmt.Sprint(err)
}
