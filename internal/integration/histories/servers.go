package histories

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/redisstore"
)

func openPostgres(ctx context.Context, address string) (*Opened, error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, err
	}
	store, err := pgxstore.New(ctx, pool, pgxstore.Config{})
	if err != nil {
		pool.Close()
		return nil, err
	}
	// Two processes that create one table at a time meet a conflict of the catalogue.
	if _, err := pool.Exec(ctx, "SELECT pg_advisory_xact_lock(7); "+effectsTable); err != nil {
		pool.Close()
		return nil, err
	}
	return &Opened{
		Store: store,
		Close: func(ctx context.Context) error {
			err := store.Close(ctx)
			if used := pool.Stat().AcquiredConns(); err == nil && used > 0 {
				err = fmt.Errorf("histories: the closed store still uses %d connections", used)
			}
			pool.Close()
			return err
		},
		Rows: func(ctx context.Context) (all, running int, err error) {
			err = pool.QueryRow(ctx, "SELECT count(*), count(*) - count(completed_at) FROM idempotency_keys").Scan(&all, &running)
			return all, running, err
		},
		Effect: func(ctx context.Context, key string) error {
			_, err := pgxstore.Tx(ctx).Exec(ctx, "INSERT INTO effects VALUES ($1)", key)
			return err
		},
		Effects: func(ctx context.Context) (map[string]int, error) {
			rows, err := pool.Query(ctx, "SELECT key, count(*) FROM effects GROUP BY key")
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			return counted(rows)
		},
	}, nil
}

func openRedis(ctx context.Context, address string) (*Opened, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	store, err := redisstore.New(ctx, client, redisstore.Config{})
	if err != nil {
		client.Close()
		return nil, err
	}
	return &Opened{
		Store: store,
		Close: func(context.Context) error {
			stats := client.PoolStats()
			err := client.Close()
			if used := stats.TotalConns - stats.IdleConns; err == nil && used > 0 {
				err = fmt.Errorf("histories: the store still uses %d connections", used)
			}
			return err
		},
		Rows: func(ctx context.Context) (all, running int, err error) {
			keys, err := client.DBSize(ctx).Result()
			if err != nil {
				return 0, 0, err
			}
			open, err := store.List(ctx, onceward.Query{State: onceward.InProgress, Limit: 1 << 20})
			return int(keys), len(open), err
		},
	}, nil
}
