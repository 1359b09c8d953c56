//go:build linux

package sweep

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
)

func victimOnPostgres(ctx context.Context, v *victim) (closeAll func(), err error) {
	cfg, err := pgxpool.ParseConfig(v.plan.Place)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = v.plan.Name
	cfg.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	store, err := pgxstore.New(ctx, pool, pgxstore.Config{})
	if err != nil {
		return nil, err
	}
	v.store, v.ledger = store, postgresLedger{pool, v.plan.Mode == atomic}
	return func() { store.Close(context.Background()); pool.Close() }, nil
}

// postgresLedger is a table in the store's database.
type postgresLedger struct {
	pool   *pgxpool.Pool
	within bool // writes belong into the store's transaction
}

func (l postgresLedger) write(ctx context.Context, key, by string) (id int64, err error) {
	const insert = `INSERT INTO effects (key, by) VALUES ($1, $2) RETURNING id`
	if l.within {
		tx := pgxstore.Tx(ctx)
		if tx == nil {
			return 0, errors.New("there is no transaction")
		}
		err = tx.QueryRow(ctx, insert, key, by).Scan(&id)
		return id, err
	}
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, insert, key, by).Scan(&id)
	})
	return id, err
}

func (l postgresLedger) find(ctx context.Context, key string) (id int64, err error) {
	err = l.pool.QueryRow(ctx, `SELECT coalesce(min(id), 0) FROM effects WHERE key = $1`, key).Scan(&id)
	return id, err
}

// postgresSite is a database of its own for store and ledger.
type postgresSite struct {
	dsn    string // the victims': it leads through a pooler, or asks for an isolation
	pooled bool
	pool   *pgxpool.Pool // direct
	store  *pgxstore.Store
}

func openPostgres(t *testing.T) site { return openPostgresOf(t, servers.Postgres(t), "", false) }

func openPostgresRepeatable(t *testing.T) site {
	return openPostgresOf(t, servers.Postgres(t), "repeatable read", false)
}

func openPostgresSerializable(t *testing.T) site {
	return openPostgresOf(t, servers.Postgres(t), "serializable", false)
}

// openPostgresPooled has the victims go through PgBouncer, which gives a connection
// for the time of one transaction.
func openPostgresPooled(t *testing.T) site {
	return openPostgresOf(t, servers.Postgres(t), "", true)
}

func openPostgresOf(t *testing.T, dsn, isolation string, pooled bool) site {
	pool, err := pgxpool.New(t.Context(), dsn+"&pool_max_conns=4")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := pgxstore.New(t.Context(), pool, pgxstore.Config{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `CREATE TABLE effects (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL, by text NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	site := postgresSite{dsn: dsn, pooled: pooled, pool: pool, store: store}
	if pooled {
		site.dsn = servers.PgBouncer(t, dsn)
	}
	if isolation != "" {
		site.dsn += "&default_transaction_isolation=" + url.PathEscape(isolation)
	}
	return site
}

func (s postgresSite) plan(via string) plan {
	u, err := url.Parse(s.dsn)
	if err != nil {
		panic(err) // it was parsed when the site was opened
	}
	if via != "" {
		u.Host = via
	}
	if s.pooled { // one connection for each transaction has nothing prepared
		query := u.Query()
		query.Set("default_query_exec_mode", "exec")
		u.RawQuery = query.Encode()
	}
	return plan{Place: u.String()}
}

func (s postgresSite) upstream() (string, wire) {
	u, err := url.Parse(s.dsn)
	if err != nil {
		panic(err)
	}
	return u.Host, postgres
}

func (s postgresSite) record(ctx context.Context, key string) (state, error) {
	return look(ctx, s.store, key)
}

func (s postgresSite) lapsed(ctx context.Context, key string) (bool, error) {
	return lapsed(ctx, s.store, key)
}

func (s postgresSite) effects(ctx context.Context, key string) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM effects WHERE key = $1`, key).Scan(&n)
	return n, err
}

// settle waits until the server has nothing more to do for the victim: its
// connections are gone, or each waits to hear from it. A pooler's connections stay,
// and keep the name of whom they were given to last.
func (s postgresSite) settle(ctx context.Context, name string, dead bool) error {
	const busy = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1
		AND ($2 AND NOT ($3 AND state = 'idle') OR wait_event IS DISTINCT FROM 'ClientRead')`
	if !dead || s.pooled {
		time.Sleep(20 * time.Millisecond) // what has arrived has not yet been noticed
	}
	var n int
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err := s.pool.QueryRow(ctx, busy, name, dead, s.pooled).Scan(&n); err != nil || n == 0 {
			return err
		}
	}
	return fmt.Errorf("%d connections of %s are still busy", n, name)
}

// locked: the server ends the transaction of a process that is stopped.
func (s postgresSite) locked(context.Context) (bool, error) { return false, nil }
