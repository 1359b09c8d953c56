package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/pgxstore"
)

// withHeader lets insert see the key, by which DBOS names a workflow.
type withHeader struct{}

func keyed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), withHeader{}, r.Header.Get("Idempotency-Key"))))
	})
}

type wanted struct {
	Item string
	Qty  int
}

// dbosShop is the shop as DBOS does it at its fastest: the key is the workflow's
// id, the workflow is one transaction with one insert, and DBOS keeps its own
// tables in the same database through the same pool, so that the insert and the
// step's record commit together.
func dbosShop(b *testing.B, pool *pgxpool.Pool) http.Handler {
	b.Helper()
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{
		AppName: "bench", SystemDBPool: pool, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		ApplicationVersion: "1", ExecutorID: "bench",
	})
	if err != nil {
		b.Fatal(err)
	}
	source, err := dbos.NewDataSource(ctx, pool)
	if err != nil {
		b.Fatal(err)
	}
	place := func(ctx dbos.Context, o wanted) (int64, error) {
		return dbos.RunAsTransaction(ctx, source, func(ctx context.Context, tx dbos.Tx) (id int64, err error) {
			err = tx.QueryRow(ctx, insertPostgres, o.Item, o.Qty).Scan(&id)
			return id, err
		})
	}
	dbos.RegisterWorkflow(ctx, place, dbos.WithWorkflowName("place"))
	if err := dbos.Launch(ctx); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := dbos.Shutdown(ctx, 10*time.Second); err != nil {
			b.Error(err)
		}
	})
	return keyed(shop(func(asked context.Context, item string, qty int) (int64, error) {
		handle, err := dbos.RunWorkflow(ctx, place, wanted{item, qty}, dbos.WithWorkflowID(asked.Value(withHeader{}).(string)))
		if err != nil {
			return 0, err
		}
		return handle.GetResult()
	}))
}

// An order under Atomic, as a DBOS workflow, and in the handler's own transaction;
// then each answered again. All three write to one database.
func BenchmarkBesideDBOS(b *testing.B) {
	const clients = 8
	count := func(b *testing.B, pool *pgxpool.Pool) (n int) {
		b.Helper()
		if err := pool.QueryRow(context.Background(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	open := func(b *testing.B) (pool *pgxpool.Pool, atomic, rival http.Handler) {
		b.Helper()
		dsn := postgresDSN(b)
		pool = pgPool(b, dsn, clients, nil)
		if _, err := pool.Exec(context.Background(), createOrdersPostgres); err != nil {
			b.Fatal(err)
		}
		atomic = guardOf(b, pgStore(b, pool)).Atomic(shop(func(ctx context.Context, item string, qty int) (id int64, err error) {
			err = pgxstore.Tx(ctx).QueryRow(ctx, insertPostgres, item, qty).Scan(&id)
			return id, err
		}))
		// It needs some connections for its own goroutines.
		return pool, atomic, dbosShop(b, pgPool(b, dsn, clients+4, nil))
	}
	b.Run("first", func(b *testing.B) {
		pool, atomic, rival := open(b)
		bare := shop(func(ctx context.Context, item string, qty int) (int64, error) {
			return insertAlonePostgres(ctx, pool, item, qty)
		})
		sides := []*side{
			{name: "atomic", request: ordering(atomic)},
			{name: "dbos", request: ordering(rival)},
			{name: "bare", request: ordering(bare)},
		}
		before := ids.Load()
		inTurn(b, clients, sides...)
		if made, asked := count(b, pool), int(ids.Load()-before); made != asked {
			b.Errorf("%d orders were made of %d requests", made, asked)
		}
		reportRates(b, sides...)
	})
	b.Run("replay", func(b *testing.B) {
		pool, atomic, rival := open(b)
		var sides []*side
		for name, h := range map[string]http.Handler{"atomic": atomic, "dbos": rival} {
			sides = append(sides, &side{name: name, request: func(id uint64) error {
				return order(h, fmt.Sprintf("%036d", id%64))
			}})
		}
		// The keys are used before anything is measured; those of both are apart.
		for _, s := range sides {
			for id := range uint64(64) {
				if err := s.request(id); err != nil {
					b.Fatal(err)
				}
			}
		}
		inTurn(b, clients, sides...)
		if made := count(b, pool); made != 128 {
			b.Errorf("%d orders were made of 64 keys on two sides", made)
		}
		for _, s := range sides {
			b.ReportMetric(s.rate(), s.name+"/s")
		}
	})
}
