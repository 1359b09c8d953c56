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

// openStore opens a store by its name: sqlite:FILE, postgres://…, redis://… or,
// with may.memory, memory:. It is the only place where this command meets a
// client library.
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
		store, err := pgxstore.New(ctx, pool, pgxstore.Config{})
		if err != nil {
			pool.Close()
			return nil, nil, err
		}
		return store, func() { _ = store.Close(context.Background()); pool.Close() }, nil
	case scheme == "redis" || scheme == "rediss":
		options, err := redis.ParseURL(name)
		if err != nil {
			return nil, nil, err
		}
		options.ContextTimeoutEnabled = true // a call ends in time when Redis hangs
		client := redis.NewClient(options)
		store, err := redisstore.New(ctx, client, redisstore.Config{Logger: may.log})
		if err != nil {
			return nil, nil, errors.Join(err, client.Close())
		}
		return store, func() { _ = client.Close() }, nil
	}
	if may.memory {
		return nil, nil, errors.New("it is neither memory:, sqlite:FILE, postgres://… nor redis://HOST")
	}
	return nil, nil, errors.New("--store is neither sqlite:FILE, postgres://… nor redis://HOST")
}

// storeUse is what a subcommand does with its store.
type storeUse struct {
	memory bool // it may be one that ends with the process
	create bool // it may be a new file
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
	store, err := sqlitestore.New(ctx, db, sqlitestore.Config{})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), db.Close())
	}
	return store, func() { _ = store.Close(context.Background()); _ = db.Close() }, nil
}
