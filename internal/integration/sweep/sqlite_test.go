//go:build linux

package sweep

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/onceward/onceward/sqlitestore"
)

// sqliteDSN makes every transaction take the write lock at once, as an
// application with one file and several writers has to.
func sqliteDSN(file string) string {
	return "file:" + file + "?_pragma=busy_timeout(3000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
}

func victimOnSQLite(ctx context.Context, v *victim) (closeAll func(), err error) {
	db, err := openAimed(sqliteDSN(v.plan.Place), &v.aim)
	if err != nil {
		return nil, err
	}
	store, err := sqlitestore.New(ctx, db, sqlitestore.Config{})
	if err != nil {
		return nil, err
	}
	v.store, v.ledger = makeWrong(store, db, v.plan.Wrong), sqliteLedger{db, v.plan.Mode == atomic}
	return func() { store.Close(context.Background()); db.Close() }, nil
}

const (
	sqliteTable = `CREATE TABLE effects (id INTEGER PRIMARY KEY, key TEXT NOT NULL, by TEXT NOT NULL)`
	sqliteFind  = `SELECT coalesce(min(id), 0), count(*) FROM effects WHERE key = ?1`
)

// sqliteLedger is a table in a SQLite file, which may be the store's own.
type sqliteLedger struct {
	db     *sql.DB
	within bool // writes belong into the store's transaction
}

func (l sqliteLedger) write(ctx context.Context, key, by string) (id int64, err error) {
	var tx *sql.Tx
	if l.within {
		if tx = sqlitestore.Tx(ctx); tx == nil {
			if tx, _ = ctx.Value(partingKey{}).(*sql.Tx); tx == nil {
				return 0, errors.New("there is no transaction")
			}
		}
	} else {
		if tx, err = l.db.BeginTx(ctx, nil); err != nil {
			return 0, err
		}
		defer tx.Rollback()
	}
	res, err := tx.ExecContext(ctx, `INSERT INTO effects (key, by) VALUES (?1, ?2)`, key, by)
	if err != nil {
		return 0, err
	}
	if id, err = res.LastInsertId(); err != nil || l.within {
		return id, err
	}
	return id, tx.Commit()
}

func (l sqliteLedger) find(ctx context.Context, key string) (id int64, err error) {
	err = l.db.QueryRowContext(ctx, sqliteFind, key).Scan(&id, new(int))
	return id, err
}

// sqliteSite is one file for store and ledger.
type sqliteSite struct {
	name  string
	db    *sql.DB
	store *sqlitestore.Store
}

func openSQLite(t *testing.T) site {
	name := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", sqliteDSN(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec(sqliteTable); err != nil {
		t.Fatal(err)
	}
	store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := store.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return sqliteSite{name, db, store}
}

func (s sqliteSite) plan(string) plan                           { return plan{Place: s.name} }
func (s sqliteSite) upstream() (string, wire)                   { return "", nil }
func (s sqliteSite) settle(context.Context, string, bool) error { return nil }

func (s sqliteSite) record(ctx context.Context, key string) (state, error) {
	return look(ctx, s.store, key)
}

func (s sqliteSite) lapsed(ctx context.Context, key string) (bool, error) {
	return lapsed(ctx, s.store, key)
}

func (s sqliteSite) effects(ctx context.Context, key string) (n int, err error) {
	err = s.db.QueryRowContext(ctx, sqliteFind, key).Scan(new(int), &n)
	return n, err
}

// locked asks for the write lock without patience.
func (s sqliteSite) locked(ctx context.Context) (bool, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "PRAGMA busy_timeout=0"); err != nil {
		return false, err
	}
	defer conn.ExecContext(ctx, "PRAGMA busy_timeout=3000")
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); isBusy(err) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	_, err = conn.ExecContext(ctx, "ROLLBACK")
	return false, err
}

func isBusy(err error) bool {
	var coded interface{ Code() int }
	const busy = 5
	return errors.As(err, &coded) && coded.Code()&0xff == busy
}
