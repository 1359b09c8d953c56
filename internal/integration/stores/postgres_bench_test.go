package stores_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
)

func benchShop(b *testing.B, conns int) (*pgxpool.Pool, *pgxstore.Store) {
	b.Helper()
	pool := openPgPool(b, servers.DurablePostgres(b), "pool_max_conns", fmt.Sprint(conns), "pool_min_conns", fmt.Sprint(conns))
	if _, err := pool.Exec(context.Background(), "CREATE TABLE orders (id bigserial PRIMARY KEY, item text NOT NULL, qty integer NOT NULL, created_at timestamptz NOT NULL DEFAULT now())"); err != nil {
		b.Fatal(err)
	}
	return pool, openPgStore(b, pool, pgxstore.Config{})
}

const benchInsert = "INSERT INTO orders (item, qty) VALUES ($1, $2)"

// Work with one insert, the claim and its answer in the same transaction, against
// the same insert in the handler's own transaction.
func BenchmarkPostgresAtomic(b *testing.B) {
	ctx := context.Background()
	for _, clients := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("clients-%d", clients), func(b *testing.B) {
			pool, store := benchShop(b, clients)
			atomic := func(i uint64) error {
				_, ran, err := store.Transact(ctx, benchClaim(i), func(ctx context.Context) (onceward.Verdict, *onceward.Response, error) {
					_, err := pgxstore.Tx(ctx).Exec(ctx, benchInsert, "notebook", 1)
					return onceward.Commit, benchAnswer, err
				})
				if err == nil && !ran {
					err = fmt.Errorf("request %d did not run", i)
				}
				return err
			}
			bare := func(uint64) error {
				tx, err := pool.Begin(ctx)
				if err != nil {
					return err
				}
				defer tx.Rollback(ctx)
				if _, err := tx.Exec(ctx, benchInsert, "notebook", 1); err != nil {
					return err
				}
				return tx.Commit(ctx)
			}
			compare(b, clients, "x-bare", atomic, bare)
		})
	}
}

// A first request whose claim and answer are committed apart, against two
// transactions of one insert each.
func BenchmarkPostgresClaimComplete(b *testing.B) {
	ctx := context.Background()
	for _, clients := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("clients-%d", clients), func(b *testing.B) {
			pool, store := benchShop(b, clients)
			compare(b, clients, "x-two-inserts",
				func(i uint64) error { return benchRequest(ctx, store, i) },
				func(uint64) error {
					for range 2 {
						if _, err := pool.Exec(ctx, benchInsert, "notebook", 1); err != nil {
							return err
						}
					}
					return nil
				})
		})
	}
}

// A key that everybody asks for, replayed to 64 clients by Claim and by Transact,
// against reading its row.
func BenchmarkPostgresHotReplay(b *testing.B) {
	ctx := context.Background()
	pool, store := benchShop(b, 16)
	if err := benchRequest(ctx, store, 0); err != nil {
		b.Fatal(err)
	}
	hot := benchClaim(0)
	read := func(uint64) error {
		var (
			fp, token, response              []byte
			method, path                     string
			attempt, status                  int
			held                             bool
			created, lease, done, expires, n time.Time
		)
		return pool.QueryRow(ctx, `SELECT clock_timestamp(), fingerprint, method, path, token, attempt, held, created_at, lease_until, completed_at, status, expires_at, response
			FROM idempotency_keys WHERE scope = $1 AND key = $2`, hot.Key.Scope[:], hot.Key.ID[:]).
			Scan(&n, &fp, &method, &path, &token, &attempt, &held, &created, &lease, &done, &status, &expires, &response)
	}
	b.Run("claim", func(b *testing.B) {
		compare(b, 64, "x-plain-read", func(i uint64) error {
			c := hot
			binary.BigEndian.PutUint64(c.Token[:], i+1000)
			rec, _, err := store.Claim(ctx, c)
			if err == nil && rec.State != onceward.Completed {
				err = fmt.Errorf("a replay is %v", rec.State)
			}
			return err
		}, read)
	})
	b.Run("transact", func(b *testing.B) {
		compare(b, 64, "x-plain-read", func(i uint64) error {
			c := hot
			binary.BigEndian.PutUint64(c.Token[:], i+1000)
			rec, ran, err := store.Transact(ctx, c, nil)
			if err == nil && (ran || rec.State != onceward.Completed) {
				err = fmt.Errorf("a replay is %v", rec.State)
			}
			return err
		}, read)
	})
}
