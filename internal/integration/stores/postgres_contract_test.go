package stores_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/storetest"
)

// openPgPool opens a pool; params are added to the connection string.
func openPgPool(t testing.TB, dsn string, params ...string) *pgxpool.Pool {
	t.Helper()
	for i := 0; i+1 < len(params); i += 2 {
		dsn += "&" + params[i] + "=" + url.PathEscape(params[i+1])
	}
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// openPgStore opens a store on pool and closes it before pool is closed.
func openPgStore(t testing.TB, pool *pgxpool.Pool, cfg pgxstore.Config) *pgxstore.Store {
	t.Helper()
	s, err := pgxstore.New(context.Background(), pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// pgSchemas returns a function that makes an empty schema in one database and
// returns the connection string for it: many times faster than a database for
// each of many tests.
func pgSchemas(t testing.TB, dsn string) func(testing.TB) string {
	t.Helper()
	admin := openPgPool(t, dsn)
	var count atomic.Int64
	return func(t testing.TB) string {
		t.Helper()
		name := fmt.Sprintf("case_%d", count.Add(1))
		if _, err := admin.Exec(context.Background(), "CREATE SCHEMA "+name); err != nil {
			t.Fatal(err)
		}
		return dsn + "&search_path=" + name
	}
}

// pgEffects is a store beside business data.
type pgEffects struct {
	*pgxstore.Store
	pool *pgxpool.Pool
}

// everything is whether the cases of a lost connection run on every variant of
// Postgres, as in `make sweep`, and not only on the plainest and behind the pooler.
var everything = os.Getenv("ONCEWARD_STORES") == "all"

// pgContract holds a store on each of the pools to the contract.
func pgContract(t *testing.T, noFaults bool, cfg pgxstore.Config, unit time.Duration, open func(t testing.TB) *pgxpool.Pool) {
	t.Helper()
	storetest.Run(t, storetest.Config{
		NoFaults: noFaults,
		Unit:     unit,
		New: func(t testing.TB) onceward.Store {
			pool := open(t)
			if _, err := pool.Exec(context.Background(), "CREATE TABLE effects (id serial)"); err != nil {
				t.Fatal(err)
			}
			return &pgEffects{openPgStore(t, pool, cfg), pool}
		},
		Work: func(ctx context.Context) error {
			_, err := pgxstore.Tx(ctx).Exec(ctx, "INSERT INTO effects DEFAULT VALUES")
			return err
		},
		Effects: func(t testing.TB, store onceward.Store) (n int) {
			if err := store.(*pgEffects).pool.QueryRow(context.Background(), "SELECT count(*) FROM effects").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
		Faulty: func(t testing.TB, store onceward.Store) (onceward.Store, storetest.Lose) {
			pool := store.(*pgEffects).pool.Config()
			c, dsn := newCutter(t, pool.ConnString())
			faulty, err := pgxpool.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			through, err := pgxpool.NewWithConfig(context.Background(), faulty)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(through.Close)
			return openPgStore(t, through, cfg), c.loseOne
		},
	})
}

// B087: the contract holds whatever the isolation of the database's transactions is.
func TestPostgresKeepsTheContract(t *testing.T) {
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			schema := pgSchemas(t, servers.Postgres(t))
			pgContract(t, !everything && isolation != "read committed", pgxstore.Config{}, 0, func(t testing.TB) *pgxpool.Pool {
				return openPgPool(t, schema(t), "default_transaction_isolation", isolation)
			})
		})
	}
}

// Every way of sending statements (exec is TestPostgresKeepsTheContractThroughAPooler), and a
// pool of one connection with no reserve beside it.
func TestPostgresKeepsTheContractInEveryMode(t *testing.T) {
	for _, mode := range []string{"cache_describe", "describe_exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			schema := pgSchemas(t, servers.Postgres(t))
			pgContract(t, !everything, pgxstore.Config{Reserve: -1}, 0, func(t testing.TB) *pgxpool.Pool {
				return openPgPool(t, schema(t), "default_query_exec_mode", mode, "pool_max_conns", "1")
			})
		})
	}
}

// throughPooler leads a connection string through a pooler, which passes on no
// parameters but the usual ones.
func throughPooler(t testing.TB, pooled, dsn string) string {
	t.Helper()
	pooler, err := url.Parse(pooled)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(dsn, direct.Host, pooler.Host, 1)
}

// Through a real pooler in transaction mode, which gives one transaction this
// session and the next one another.
func TestPostgresKeepsTheContractThroughAPooler(t *testing.T) {
	pooled := servers.PgBouncer(t, servers.Postgres(t))
	pgContract(t, false, pgxstore.Config{}, 60*time.Millisecond, func(t testing.TB) *pgxpool.Pool {
		return openPgPool(t, throughPooler(t, pooled, servers.Postgres(t)), "default_query_exec_mode", "exec")
	})
}
