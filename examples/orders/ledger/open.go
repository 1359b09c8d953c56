package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // the driver, under the name "sqlite"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/redisstore"
	"github.com/onceward/onceward/sqlitestore"
)

// Open opens what store names, memory:, sqlite:FILE, postgres://… or redis://…: the
// store of the keys and, beside them or in ordersFile, the ledger that goes with it.
// The function closes both.
func Open(ctx context.Context, store, ordersFile string, log *slog.Logger) (onceward.Store, Ledger, func() error, error) {
	scheme, name, _ := strings.Cut(store, ":")
	switch {
	case store == "memory:":
		log.Warn("the keys are kept in memory: a restart forgets them, and a second process would not see them")
		orders, err := openFile(ordersFile)
		if err != nil {
			return nil, nil, nil, err
		}
		return memstore.New(memstore.Config{}), orders, orders.Close, nil
	case scheme == "sqlite" && name != "":
		if ordersFile != "" {
			log.Warn("-orders is not used: the orders are kept in the database", "database", name)
		}
		return openSQLite(ctx, name)
	case scheme == "postgres" || scheme == "postgresql":
		if ordersFile != "" {
			log.Warn("-orders is not used: the orders are kept in the database")
		}
		return openPostgres(ctx, store)
	case scheme == "redis" || scheme == "rediss":
		orders, err := openFile(ordersFile)
		if err != nil {
			return nil, nil, nil, err
		}
		keys, closeKeys, err := openRedis(ctx, store, log)
		if err != nil {
			return nil, nil, nil, errors.Join(err, orders.Close())
		}
		return keys, orders, func() error { return errors.Join(closeKeys(), orders.Close()) }, nil
	}
	return nil, nil, nil, fmt.Errorf("-store %q is neither memory:, sqlite:FILE, postgres://… nor redis://…", store)
}

// openPostgres opens one database for the keys and the orders.
func openPostgres(ctx context.Context, url string) (onceward.Store, Ledger, func() error, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, nil, err
	}
	orders, err := newPG(ctx, pool)
	if err != nil {
		pool.Close()
		return nil, nil, nil, err
	}
	keys, err := pgxstore.New(ctx, pool, pgxstore.Config{})
	if err != nil {
		pool.Close()
		return nil, nil, nil, err
	}
	return keys, orders, func() error {
		err := keys.Close(context.Background())
		pool.Close()
		return err
	}, nil
}

// openRedis opens one Redis, or one Valkey, for the keys.
func openRedis(ctx context.Context, url string, log *slog.Logger) (onceward.Store, func() error, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	options.ContextTimeoutEnabled = true // a call ends in time when Redis hangs
	client := redis.NewClient(options)
	keys, err := redisstore.New(ctx, client, redisstore.Config{Logger: log})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return keys, client.Close, nil
}

// openSQLite opens one file for the keys and the orders. SQLite has one writer
// at a time: with one connection those of this process queue for it in memory,
// and those of another process are waited for. Every commit is synced.
func openSQLite(ctx context.Context, name string) (onceward.Store, Ledger, func() error, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, nil, err
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(name), RawQuery: url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, nil, nil, err
	}
	db.SetMaxOpenConns(1)
	orders, err := newSQL(ctx, db)
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	keys, err := sqlitestore.New(ctx, db, sqlitestore.Config{})
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	return keys, orders, func() error {
		return errors.Join(keys.Close(context.Background()), db.Close())
	}, nil
}
