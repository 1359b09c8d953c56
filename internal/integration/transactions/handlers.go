// Package transactions has the code of docs/transactions.md, which its tests run
// on real databases.
package transactions

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/pgxstore"
	"github.com/onceward/onceward/sqlitestore"
)

// order is what a client asks for.
type order struct {
	ExternalID string `json:"external_id"`
	Item       string `json:"item"`
	Qty        int    `json:"qty"`
}

func read(w http.ResponseWriter, r *http.Request) (o order, ok bool) {
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Item == "" || o.Qty < 1 {
		http.Error(w, "item and qty, please", http.StatusBadRequest)
		return o, false
	}
	return o, true
}

// docs: mount
func newGuard(store onceward.Store, scope onceward.ScopeFunc) (*onceward.Guard, error) {
	return onceward.New(store, scope, onceward.Config{Require: true})
}

func routes(guard *onceward.Guard) http.Handler { // inside authentication
	mux := http.NewServeMux()
	mux.Handle("POST /create-order", guard.Atomic(http.HandlerFunc(createOrderSQLite)))
	return mux
}

// docs: sqlite
func createOrderSQLite(w http.ResponseWriter, r *http.Request) {
	o, ok := read(w, r)
	if !ok {
		return // 400: nothing was written; the refusal is kept and replayed
	}
	tx := sqlitestore.Tx(r.Context())
	id := rand.Text()
	_, err := tx.ExecContext(r.Context(), `INSERT INTO orders (id, item, qty) VALUES (?, ?, ?)`, id, o.Item, o.Qty)
	if err == nil {
		_, err = tx.ExecContext(r.Context(), `UPDATE stock SET left = left - ? WHERE item = ?`, o.Qty, o.Item)
	}
	if err != nil {
		http.Error(w, "try again", http.StatusInternalServerError) // both are undone, and the key is free
		return
	}
	w.Header().Set("Location", "/orders/"+id)
	w.WriteHeader(http.StatusCreated)
}

// docs: end

// docs: postgres
func createOrderPostgres(w http.ResponseWriter, r *http.Request) {
	o, ok := read(w, r)
	if !ok {
		return
	}
	tx := pgxstore.Tx(r.Context())
	id := rand.Text()
	_, err := tx.Exec(r.Context(), `INSERT INTO orders (id, item, qty) VALUES ($1, $2, $3)`, id, o.Item, o.Qty)
	if err == nil {
		_, err = tx.Exec(r.Context(), `UPDATE stock SET "left" = "left" - $1 WHERE item = $2`, o.Qty, o.Item)
	}
	if err != nil {
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Location", "/orders/"+id)
	w.WriteHeader(http.StatusCreated)
}

// docs: end

// docs: upsert
// place returns the order of that external id: the one it has just made, or the
// one that was there. The unique index decides, not a look before the insert.
func place(ctx context.Context, db *sql.DB, o order) (id string, made bool, err error) {
	err = db.QueryRowContext(ctx,
		`INSERT INTO orders (id, external_id, item, qty) VALUES (?, ?, ?, ?)
		 ON CONFLICT (external_id) DO NOTHING RETURNING id`,
		rand.Text(), o.ExternalID, o.Item, o.Qty).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) { // it is there
		err = db.QueryRowContext(ctx, `SELECT id FROM orders WHERE external_id = ?`, o.ExternalID).Scan(&id)
		return id, false, err
	}
	return id, true, err
}

// docs: end

// docs: state
// put makes the row be what is wanted, however often it is told to.
func put(ctx context.Context, db *sql.DB, o order) error {
	_, err := db.ExecContext(ctx,
		`INSERT INTO orders (id, external_id, item, qty) VALUES (?, ?, ?, ?)
		 ON CONFLICT (external_id) DO UPDATE SET item = excluded.item, qty = excluded.qty`,
		rand.Text(), o.ExternalID, o.Item, o.Qty)
	return err
}

// docs: end

// docs: upsert postgres
func placePostgres(ctx context.Context, db *pgxpool.Pool, o order) (id string, made bool, err error) {
	for {
		err = db.QueryRow(ctx,
			`INSERT INTO orders (id, external_id, item, qty) VALUES ($1, $2, $3, $4)
			 ON CONFLICT (external_id) DO NOTHING RETURNING id`,
			rand.Text(), o.ExternalID, o.Item, o.Qty).Scan(&id)
		if !errors.Is(err, pgx.ErrNoRows) {
			return id, true, err
		}
		// A statement of its own: in one with the insert it could miss a row that
		// was committed meanwhile.
		err = db.QueryRow(ctx, `SELECT id FROM orders WHERE external_id = $1`, o.ExternalID).Scan(&id)
		if !errors.Is(err, pgx.ErrNoRows) {
			return id, false, err
		}
		// Deleted between the two: then there is room for it.
	}
}

// docs: end
