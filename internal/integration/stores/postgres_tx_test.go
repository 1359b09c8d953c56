package stores_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/pgxstore"
)

// The handle that work gets: what it can do, and what it refuses.

func TestPostgresTxNestsBySavepoints(t *testing.T) {
	s := newPGShop(t)
	s.do(s.store, "k", func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		tx := pgxstore.Tx(ctx)
		// What libraries do with a transaction that they are given.
		kept := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO orders (key) VALUES ('kept')"); err != nil {
				return err
			}
			gone := errors.New("gone")
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO orders (key) VALUES ('gone')")
				return errors.Join(err, gone)
			})
			if !errors.Is(err, gone) {
				t.Errorf("the inner function's error came out as %v", err)
			}
			return nil
		})
		// A failed statement is repaired by its savepoint.
		repaired := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT 1/0")
			return err
		})
		if repaired == nil {
			t.Error("1/0 is a number")
		}
		point, err := tx.Begin(ctx)
		if err != nil {
			return onceward.Abort, nil, err
		}
		if err := point.Rollback(ctx); err != nil {
			t.Errorf("Rollback of a savepoint: %v", err)
		}
		for what, err := range map[string]error{"Rollback": point.Rollback(ctx), "Commit": point.Commit(ctx)} {
			if !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%s of a closed savepoint: %v", what, err)
			}
		}
		if _, err := point.Exec(ctx, "SELECT 1"); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("Exec in a closed savepoint: %v", err)
		}
		return onceward.Commit, &onceward.Response{Status: 200}, kept
	})
	if s.orders("kept") != 1 || s.orders("gone") != 0 {
		t.Errorf("kept %d, gone %d", s.orders("kept"), s.orders("gone"))
	}
	s.mustReplay("k", 200)
}

// Nobody can end the transaction by habit, and whoever tries is told.
func TestPostgresTxCannotBeEndedByItsHandler(t *testing.T) {
	s := newPGShop(t)
	s.do(s.store, "k", func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		tx := pgxstore.Tx(ctx)
		err := pgInsertOrder(ctx, "k")
		for _, sql := range []string{
			"COMMIT", " commit;", "\nROLLBACK", "Rollback Work", "END", "abort", "COMMIT AND CHAIN", "commit--", "ROLLBACK/* */",
			"PREPARE TRANSACTION 'x'", "rollback and chain",
		} {
			batch := &pgx.Batch{}
			batch.Queue(sql)
			_, execErr := tx.Exec(ctx, sql)
			_, queryErr := tx.Query(ctx, sql)
			for _, err := range []error{execErr, queryErr, tx.QueryRow(ctx, sql).Scan(), tx.SendBatch(ctx, batch).Close()} {
				if !errors.Is(err, pgxstore.ErrTxNotYours) {
					t.Errorf("%q: %v", sql, err)
				}
			}
		}
		for what, err := range map[string]error{"Commit": tx.Commit(ctx), "Rollback": tx.Rollback(ctx)} {
			if !errors.Is(err, pgxstore.ErrTxNotYours) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, sql := range []string{"SAVEPOINT a", "ROLLBACK TO a", "ROLLBACK WORK TO SAVEPOINT a", "RELEASE a"} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				t.Errorf("%q: %v", sql, err)
			}
		}
		return onceward.Commit, &onceward.Response{Status: 200}, err
	})
	if n := s.orders("k"); n != 1 {
		t.Errorf("%d orders", n)
	}
	s.mustReplay("k", 200)
}

// Who ends it past the handle is found out: also if he begins another one, and
// whatever verdict he comes back with.
func TestPostgresTxThatWasEndedIsFoundOut(t *testing.T) {
	s := newPGShop(t)
	for name, sql := range map[string]string{
		"hidden": "/* */ COMMIT", "and another": "SELECT 1; COMMIT; BEGIN", "chained": "SELECT 1; ROLLBACK AND CHAIN",
	} {
		for _, verdict := range []onceward.Verdict{onceward.Commit, onceward.Undo, onceward.Abort} {
			runs := 0
			rec, ran, err := s.store.Transact(t.Context(), pgClaim(name), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
				runs++
				tx := pgxstore.Tx(ctx)
				_, err := tx.Exec(ctx, sql)
				if name == "hidden" {
					if _, err := tx.Exec(ctx, "INSERT INTO orders (key) VALUES ('after')"); !errors.Is(err, pgxstore.ErrTxEnded) {
						t.Errorf("a statement after the end: %v", err)
					}
				}
				return verdict, &onceward.Response{Status: 200}, err
			})
			if !errors.Is(err, pgxstore.ErrTxEnded) || ran || runs != 1 {
				t.Errorf("%s, %v: ran %v, %d runs, error %v, %+v", name, verdict, ran, runs, err, rec)
			}
			s.mustBeFree(name)
		}
	}
	if n := s.orders("after"); n != 0 {
		t.Errorf("%d orders were made outside the transaction", n)
	}
}

func TestPostgresTxSendsBatchesAndCopies(t *testing.T) {
	s := newPGShop(t)
	s.do(s.store, "k", func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
		tx := pgxstore.Tx(ctx)
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO orders (key) VALUES ('batch')")
		batch.Queue("SELECT generate_series(1, 3)")
		batch.Queue("SELECT 4")
		results := tx.SendBatch(ctx, batch)
		if tag, err := results.Exec(); err != nil || tag.RowsAffected() != 1 {
			t.Errorf("the batch's insert: %v, %v", tag, err)
		}
		rows, err := results.Query()
		if err != nil {
			return onceward.Abort, nil, err
		}
		if numbers, err := pgx.CollectRows(rows, pgx.RowTo[int]); err != nil || len(numbers) != 3 {
			t.Errorf("the batch's rows: %v, %v", numbers, err)
		}
		var four int
		if err := results.QueryRow().Scan(&four); err != nil || four != 4 {
			t.Errorf("the batch's row: %v, %v", four, err)
		}
		if err := results.Close(); err != nil {
			t.Errorf("the batch's end: %v", err)
		}
		if n, err := tx.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"key"}, pgx.CopyFromRows([][]any{{"copy"}, {"copy"}})); err != nil || n != 2 {
			t.Errorf("CopyFrom: %d, %v", n, err)
		}
		if _, err := tx.Prepare(ctx, "two", "SELECT 2"); err != nil {
			t.Errorf("Prepare: %v", err)
		}
		var two int
		if err := tx.QueryRow(ctx, "two").Scan(&two); err != nil || two != 2 {
			t.Errorf("the prepared statement: %v, %v", two, err)
		}
		if err := tx.QueryRow(ctx, "SELECT 1 WHERE false").Scan(&two); !errors.Is(err, pgx.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
		// A callback that uses the transaction while its batch is read is told so.
		batch = &pgx.Batch{}
		batch.Queue("SELECT 1").Query(func(pgx.Rows) error {
			_, err := tx.Exec(ctx, "SELECT 1")
			return err
		})
		if err := tx.SendBatch(ctx, batch).Close(); err == nil {
			t.Error("a statement ran within another")
		}
		return onceward.Commit, &onceward.Response{Status: 200}, nil
	})
	if s.orders("batch") != 1 || s.orders("copy") != 2 {
		t.Errorf("batch %d, copy %d", s.orders("batch"), s.orders("copy"))
	}
}

// A key under a claim that was made apart: what runs is waited for, what is over
// is taken over if that is asked for, and its old owner learns of it.
func TestPostgresTransactMeetsAClaim(t *testing.T) {
	s := newPGShop(t)
	ctx := t.Context()
	live, over := pgClaim("live"), pgClaim("over")
	over.Lease = 0
	for _, c := range []onceward.Claim{live, over} {
		if _, claimed, err := s.store.Claim(ctx, c); err != nil || !claimed {
			t.Fatal(claimed, err)
		}
	}
	take := func(key string, takeOver bool) (onceward.Record, bool) {
		c := pgClaim(key)
		c.TakeOver = takeOver
		rec, ran, err := s.store.Transact(ctx, c, order(key))
		if err != nil {
			t.Fatal(err)
		}
		return rec, ran
	}
	if rec, ran := take("live", true); ran || rec.Token != live.Token || rec.LeaseLeft <= 0 {
		t.Errorf("a live claim: ran %v, %+v", ran, rec)
	}
	if rec, ran := take("over", false); ran || rec.Token != over.Token || rec.LeaseLeft > 0 {
		t.Errorf("a claim whose lease is over, not to be taken over: ran %v, %+v", ran, rec)
	}
	if rec, ran := take("over", true); !ran || rec.Attempt != 2 || rec.State != onceward.Completed {
		t.Errorf("a claim whose lease is over: ran %v, %+v", ran, rec)
	}
	if err := s.store.Complete(ctx, over.Key, over.Token, testAnswer("late"), time.Hour); !errors.Is(err, onceward.ErrClaimLost) {
		t.Errorf("the displaced owner's Complete: %v", err)
	}
	s.mustReplay("over", 201)

	// Its own claim, made apart before.
	own := pgClaim("own")
	if _, claimed, err := s.store.Claim(ctx, own); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	if rec, ran, err := s.store.Transact(ctx, own, order("own")); err != nil || !ran || rec.Attempt != 1 {
		t.Errorf("its own claim: ran %v, %+v, %v", ran, rec, err)
	}

	// A record that counts as absent.
	old := pgClaim("old")
	old.Keep = 0
	if _, ran, err := s.store.Transact(ctx, old, order("old")); err != nil || !ran {
		t.Fatal(ran, err)
	}
	old = pgClaim("old")
	old.Fingerprint.Version = 7
	if rec, ran, err := s.store.Transact(ctx, old, order("old")); err != nil || !ran || rec.Attempt != 1 {
		t.Errorf("an expired record: ran %v, %+v, %v", ran, rec, err)
	}
	if n := s.orders("old"); n != 2 {
		t.Errorf("%d orders under an expired record, want 2", n)
	}

	// A mismatch changes nothing.
	wrong := pgClaim("over")
	wrong.Fingerprint.Version = 7
	if rec, ran, err := s.store.Transact(ctx, wrong, order("over")); err != nil || ran || rec.Fingerprint == wrong.Fingerprint {
		t.Errorf("a mismatch: ran %v, %+v, %v", ran, rec, err)
	}
}

// A claim that comes while the work runs wins, for it was told so: the work is
// undone and the claim reported.
func TestPostgresTransactYieldsToAClaimThatWasGranted(t *testing.T) {
	for _, seen := range []bool{false, true} {
		s := newPGShop(t)
		c := pgClaim("k")
		c.TakeOver = true
		if seen {
			old := pgClaim("k")
			old.Lease = 0
			if _, claimed, err := s.store.Claim(t.Context(), old); err != nil || !claimed {
				t.Fatal(claimed, err)
			}
		}
		granted := pgClaim("k")
		granted.TakeOver = true
		rec, ran, err := s.store.Transact(t.Context(), c, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			if _, claimed, err := s.store.Claim(context.Background(), granted); err != nil || !claimed {
				t.Errorf("a claim during the work: %v, %v", claimed, err)
			}
			return onceward.Commit, &onceward.Response{Status: 200}, pgInsertOrder(ctx, "k")
		})
		if err != nil || ran || rec.State != onceward.InProgress || rec.Token != granted.Token {
			t.Errorf("seen %v: ran %v, error %v, %+v", seen, ran, err, rec)
		}
		if n := s.orders("k"); n != 0 {
			t.Errorf("seen %v: %d orders", seen, n)
		}
		s.mustBeIdle()
	}
}

// B086: while one runs, its duplicates are told at once and other keys flow; a
// duplicate in the same process needs no connection at all.
func TestPostgresTransactTellsADuplicateAtOnce(t *testing.T) {
	s := newPGShop(t, "pool_max_conns", "2")
	other := openPgStore(t, openPgPool(t, s.dsn, "pool_max_conns", "2"), pgxstore.Config{})
	in, out := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for _, key := range []string{"slow-1", "slow-2"} { // both connections of the pool
		wg.Go(func() {
			s.do(s.store, key, func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
				in <- struct{}{}
				<-out
				return order(key)(ctx)
			})
		})
	}
	<-in
	<-in
	var dup sync.WaitGroup
	for i := range 40 {
		dup.Go(func() {
			c := pgClaim("slow-1")
			rec, ran, err := []*pgxstore.Store{s.store, other}[i%2].Transact(t.Context(), c, order("slow-1"))
			if err != nil || ran || rec.State != onceward.InProgress || rec.Fingerprint != c.Fingerprint || rec.LeaseLeft <= 0 {
				t.Errorf("a duplicate: ran %v, error %v, %+v", ran, err, rec)
			}
		})
	}
	dup.Wait()
	s.do(other, "quick", order("quick"))

	// The pool is used up; what keeps a claim still gets through.
	apart := pgClaim("apart")
	if _, claimed, err := other.Claim(t.Context(), apart); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	if err := s.store.Extend(t.Context(), apart.Key, apart.Token, time.Hour, false); err != nil {
		t.Errorf("Extend: %v", err)
	}
	if err := s.store.Complete(t.Context(), apart.Key, apart.Token, testAnswer("done"), time.Hour); err != nil {
		t.Errorf("Complete: %v", err)
	}
	close(out)
	wg.Wait()
	if s.orders("slow-1") != 1 || s.orders("slow-2") != 1 {
		t.Errorf("orders: %d and %d", s.orders("slow-1"), s.orders("slow-2"))
	}
	s.mustBeIdle()
}

// Forget within the work is undone with it.
func TestPostgresForgetTakesPartInTheTransaction(t *testing.T) {
	s := newPGShop(t)
	s.do(s.store, "old", order("old"))
	forget := func(verdict onceward.Verdict) func(context.Context) (onceward.Verdict, *onceward.Response, error) {
		return func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
			return verdict, &onceward.Response{Status: 200}, s.store.Forget(ctx, pgClaim("").Key.Scope)
		}
	}
	s.do(s.store, "undone", forget(onceward.Undo))
	s.mustReplay("old", 201)
	s.do(s.store, "done", forget(onceward.Commit))
	s.mustBeFree("old")
	s.mustReplay("done", 200) // the deletion's own record stays
}
