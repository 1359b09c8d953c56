package histories

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver of sqlite: addresses

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/sqlitestore"
)

// Opened is a store and what belongs to it.
type Opened struct {
	onceward.Store
	// Close ends the store and its pool. The error says what was left open.
	Close func(context.Context) error
	// Rows counts the records that the store has, absent ones too, and those of
	// them that are in progress.
	Rows func(context.Context) (all, running int, err error)
	// Effect writes a row with key in the transaction of the work whose context this
	// is, and Effects counts the rows of each key. Both are nil for a store that is no
	// onceward.Transactor.
	Effect  func(ctx context.Context, key string) error
	Effects func(context.Context) (map[string]int, error)
}

// effectsTable is where Effect writes.
const effectsTable = "CREATE TABLE IF NOT EXISTS effects (key text NOT NULL)"

// counted reads the rows of effects.
func counted(rows interface {
	Next() bool
	Scan(...any) error
	Err() error
}) (map[string]int, error) {
	effects := map[string]int{}
	for rows.Next() {
		var key string
		var n int
		if err := rows.Scan(&key, &n); err != nil {
			return nil, err
		}
		effects[key] = n
	}
	return effects, rows.Err()
}

// openers make a store from what follows the scheme of an address.
var openers = map[string]func(ctx context.Context, address string) (*Opened, error){
	"memory":   openMemory,
	"sqlite":   openSQLite,
	"postgres": openPostgres,
	"redis":    openRedis,
}

// Open opens the store at an address: memory:, sqlite:FILE, postgres://… or
// redis://….
func Open(ctx context.Context, address string) (*Opened, error) {
	scheme, _, _ := strings.Cut(address, ":")
	open := openers[scheme]
	if open == nil {
		return nil, fmt.Errorf("histories: no store has the address %q", address)
	}
	return open(ctx, address)
}

func openMemory(context.Context, string) (*Opened, error) {
	store := memstore.New(memstore.Config{})
	return &Opened{
		Store: store,
		Close: func(context.Context) error { return nil },
	}, nil
}

func openSQLite(ctx context.Context, address string) (*Opened, error) {
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(address, "sqlite:"))
	if err != nil {
		return nil, err
	}
	store, err := sqlitestore.New(ctx, db, sqlitestore.Config{Patience: 20 * time.Second})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if _, err := db.ExecContext(ctx, effectsTable); err != nil {
		return nil, errors.Join(err, store.Close(ctx), db.Close())
	}
	return &Opened{
		Store: store,
		Close: func(ctx context.Context) error {
			err := store.Close(ctx)
			if used := db.Stats().InUse; err == nil && used > 0 {
				err = fmt.Errorf("histories: the closed store still uses %d connections", used)
			}
			return errors.Join(err, db.Close())
		},
		Rows: func(ctx context.Context) (all, running int, err error) {
			err = db.QueryRowContext(ctx, "SELECT count(*), count(*) - count(completed_at) FROM idempotency_keys").Scan(&all, &running)
			return all, running, err
		},
		Effect: func(ctx context.Context, key string) error {
			_, err := sqlitestore.Tx(ctx).ExecContext(ctx, "INSERT INTO effects VALUES (?)", key)
			return err
		},
		Effects: func(ctx context.Context) (map[string]int, error) {
			rows, err := db.QueryContext(ctx, "SELECT key, count(*) FROM effects GROUP BY key")
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			return counted(rows)
		},
	}, nil
}
