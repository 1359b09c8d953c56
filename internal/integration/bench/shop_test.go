package bench

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/sqlitestore"
)

// shop answers orders; insert does the one write that an order is.
func shop(insert func(ctx context.Context, item string, qty int) (id int64, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o struct {
			Item string `json:"item"`
			Qty  int    `json:"qty"`
		}
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id, err := insert(r.Context(), o.Item, o.Qty)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/orders/"+strconv.FormatInt(id, 10))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":`+strconv.FormatInt(id, 10)+`,"item":"notebook","qty":1}`+"\n")
	})
}

// openSQLite opens a durable file (write-ahead log, synchronous=FULL) of which
// transactions begin with the write lock, as those that write should.
func openSQLite(b *testing.B, conns int) *sql.DB {
	b.Helper()
	return openSQLiteFile(b, filepath.Join(b.TempDir(), "shop.db"), conns)
}

func openSQLiteFile(b *testing.B, file string, conns int) *sql.DB {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

func sqliteStore(b *testing.B, db *sql.DB) *sqlitestore.Store {
	b.Helper()
	store, err := sqlitestore.New(context.Background(), db, sqlitestore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return store
}

// postgresDSN is an empty database on a server that keeps what it commits.
func postgresDSN(b *testing.B) string {
	b.Helper()
	return servers.DurablePostgres(b)
}

// pgPool opens a pool that has all its connections from the start.
func pgPool(b *testing.B, dsn string, conns int, change func(*pgxpool.Config)) *pgxpool.Pool {
	b.Helper()
	n := url.QueryEscape(strconv.Itoa(conns))
	cfg, err := pgxpool.ParseConfig(dsn + "&pool_max_conns=" + n + "&pool_min_conns=" + n)
	if err != nil {
		b.Fatal(err)
	}
	if change != nil {
		change(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return pool
}

func pgStore(b *testing.B, pool *pgxpool.Pool) *pgxstore.Store {
	b.Helper()
	store, err := pgxstore.New(context.Background(), pool, pgxstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return store
}

const (
	createOrdersSQLite   = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, qty INTEGER NOT NULL) STRICT"
	createOrdersPostgres = "CREATE TABLE orders (id bigserial PRIMARY KEY, item text NOT NULL, qty integer NOT NULL, created_at timestamptz NOT NULL DEFAULT now())"
	insertSQLite         = "INSERT INTO orders (item, qty) VALUES (?, ?)"
	insertPostgres       = "INSERT INTO orders (item, qty) VALUES ($1, $2) RETURNING id"
)
