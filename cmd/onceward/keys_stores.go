package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // the driver, under the name "sqlite"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/redisstore"
	"github.com/onceward/onceward/sqlitestore"
)

// schemas print what the stores' tables are made with.
var schemas = map[string]func() string{"sqlite": sqlitestore.Schema, "postgres": pgxstore.Schema}

// openKeys opens a store that outlives its processes.
func openKeys(ctx context.Context, name string) (onceward.Store, func(), error) {
	scheme, rest, _ := strings.Cut(name, ":")
	switch scheme {
	case "sqlite":
		return openSQLiteKeys(ctx, rest)
	case "postgres", "postgresql":
		pool, err := pgxpool.New(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		store, err := pgxstore.New(ctx, pool, pgxstore.Config{})
		if err != nil {
			pool.Close()
			return nil, nil, err
		}
		return store, func() { _ = store.Close(context.Background()); pool.Close() }, nil
	case "redis", "rediss":
		options, err := redis.ParseURL(name)
		if err != nil {
			return nil, nil, err
		}
		options.ContextTimeoutEnabled = true
		client := redis.NewClient(options)
		store, err := redisstore.New(ctx, client, redisstore.Config{})
		if err != nil {
			return nil, nil, errors.Join(err, client.Close())
		}
		return store, func() { _ = client.Close() }, nil
	}
	return nil, nil, errors.New("--store is neither sqlite:FILE, postgres://… nor redis://…")
}

// openSQLiteKeys opens a file that is there: to make a new one would only hide a
// name that was mistyped.
func openSQLiteKeys(ctx context.Context, name string) (onceward.Store, func(), error) {
	if _, err := os.Stat(name); err != nil {
		return nil, nil, err
	}
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, err
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(name), RawQuery: url.Values{"_pragma": {"busy_timeout(10000)"}}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlitestore.New(ctx, db, sqlitestore.Config{})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), db.Close())
	}
	return store, func() { _ = store.Close(context.Background()); _ = db.Close() }, nil
}
