package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
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

// schemas print what the stores' tables are made with.
var schemas = map[string]func() string{"sqlite": sqlitestore.Schema, "postgres": pgxstore.Schema}

// storeNames is what a store can be called.
const storeNames = "sqlite:FILE, postgres://…, redis://HOST, redis+sentinel://HOST:PORT/0?master_name=NAME, redis+cluster://HOST:PORT?addr=HOST:PORT"

// openStore opens a store by its name: one of [storeNames] or, with may.memory,
// memory:. It is the only place where this command meets a client library.
func openStore(ctx context.Context, name string, may storeUse) (onceward.Store, func(), error) {
	scheme, rest, _ := strings.Cut(name, ":")
	switch {
	case name == "memory:" && may.memory:
		return memstore.New(memstore.Config{}), func() {}, nil
	case scheme == "sqlite" && rest != "":
		return openSQLite(ctx, rest, may.create)
	case scheme == "postgres" || scheme == "postgresql":
		pool, err := pgxpool.New(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if !may.create {
			err = hasTable(func(there *bool) error {
				return pool.QueryRow(ctx, "SELECT to_regclass('idempotency_keys') IS NOT NULL").Scan(there)
			})
		}
		var store *pgxstore.Store
		if err == nil {
			store, err = pgxstore.New(ctx, pool, pgxstore.Config{})
		}
		if err != nil {
			pool.Close()
			return nil, nil, err
		}
		return store, func() { _ = store.Close(context.Background()); pool.Close() }, nil
	case strings.HasPrefix(scheme, "redis"):
		client, err := redisClient(name)
		if err != nil {
			return nil, nil, err
		}
		store, err := redisstore.New(ctx, client, redisstore.Config{Logger: may.log})
		if err != nil {
			return nil, nil, errors.Join(err, client.Close())
		}
		return store, func() { _ = client.Close() }, nil
	}
	if may.memory {
		return nil, nil, errors.New("it is none of memory:, " + storeNames)
	}
	return nil, nil, errors.New("--store is none of " + storeNames)
}

// redisClient opens one server, the master that sentinels name, or a Cluster. A
// call ends in time when Redis hangs.
func redisClient(name string) (redis.UniversalClient, error) {
	for _, scheme := range []string{"redis", "rediss"} {
		if rest, ok := strings.CutPrefix(name, scheme+"+sentinel:"); ok {
			options, err := redis.ParseFailoverURL(scheme + ":" + rest)
			if err != nil {
				return nil, err
			}
			if options.MasterName == "" {
				return nil, errors.New("which master? Add ?master_name=NAME, as the sentinels call it")
			}
			options.ContextTimeoutEnabled = true
			return redis.NewFailoverClient(options), nil
		}
		if rest, ok := strings.CutPrefix(name, scheme+"+cluster:"); ok {
			options, err := redis.ParseClusterURL(scheme + ":" + rest)
			if err != nil {
				return nil, err
			}
			options.ContextTimeoutEnabled = true
			return redis.NewClusterClient(options), nil
		}
	}
	options, err := redis.ParseURL(name)
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled = true
	return redis.NewClient(options), nil
}

// errNoTable keeps who only looks from making a table in whatever they point at.
var errNoTable = errors.New("there are no keys: it has no table idempotency_keys; is it another database?")

func hasTable(ask func(there *bool) error) error {
	there := false
	if err := ask(&there); err != nil {
		return err
	}
	if !there {
		return errNoTable
	}
	return nil
}

// storeUse is what a subcommand does with its store.
type storeUse struct {
	memory bool // it may be one that ends with the process
	create bool // it may be a new file, or a database without the table
	log    *slog.Logger
}

// storeName is what --store says, or the environment: a password does not
// belong into a process list.
func storeName(flag string, env []string) string {
	if flag == "" {
		for _, line := range env {
			if value, ok := strings.CutPrefix(line, "ONCEWARD_STORE="); ok {
				flag = value
			}
		}
	}
	return flag
}

// openSQLite opens a file. Where it should be there already, none is made: that
// would only hide a name that was mistyped.
func openSQLite(ctx context.Context, name string, create bool) (onceward.Store, func(), error) {
	if _, err := os.Stat(name); err != nil && !(create && errors.Is(err, fs.ErrNotExist)) {
		return nil, nil, err
	} else if err != nil {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600) // people's answers stand in it
		if err != nil {
			return nil, nil, err
		}
		if err := f.Close(); err != nil {
			return nil, nil, err
		}
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
	if !create {
		err = hasTable(func(there *bool) error {
			return db.QueryRowContext(ctx, "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'idempotency_keys'").Scan(there)
		})
	}
	var store *sqlitestore.Store
	if err == nil {
		store, err = sqlitestore.New(ctx, db, sqlitestore.Config{})
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), db.Close())
	}
	return store, func() { _ = store.Close(context.Background()); _ = db.Close() }, nil
}
