package transactions

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lockingTables are those that the code of this file works on, on both databases.
const lockingTables = `CREATE TABLE named (id text PRIMARY KEY, external_id text NOT NULL UNIQUE, asked text NOT NULL, item text NOT NULL, qty integer NOT NULL);
CREATE TABLE sales (id text PRIMARY KEY, revision text NOT NULL, status text NOT NULL, item text NOT NULL, qty integer NOT NULL);
CREATE TABLE refunds (sale text PRIMARY KEY REFERENCES sales (id), qty integer NOT NULL);
CREATE TABLE shelves (id text PRIMARY KEY, "left" integer NOT NULL)`

// docs: taken
var errTaken = errors.New("this external_id names another order")

// placeNamed keeps beside the name what it was first used for. A repeat finds its
// order, whatever that has become since; another order under the same name is
// refused (409, with the Location of the one that is there) and not swallowed.
func placeNamed(ctx context.Context, db *sql.DB, o order) (id string, made bool, err error) {
	digest := sha256.New()
	fmt.Fprintf(digest, "%q %d", o.Item, o.Qty)
	asked := hex.EncodeToString(digest.Sum(nil))
	err = db.QueryRowContext(ctx,
		`INSERT INTO named (id, external_id, asked, item, qty) VALUES (?, ?, ?, ?, ?)
		 ON CONFLICT (external_id) DO NOTHING RETURNING id`,
		rand.Text(), o.ExternalID, asked, o.Item, o.Qty).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, true, err
	}
	var was string
	err = db.QueryRowContext(ctx, `SELECT id, asked FROM named WHERE external_id = ?`, o.ExternalID).Scan(&id, &was)
	if err == nil && was != asked {
		err = errTaken
	}
	return id, false, err
}

// docs: end

// docs: if-match
// replaceSale writes only if the sale is still as its editor has read it. The
// condition is part of the UPDATE: a look before it would leave room for another.
func replaceSale(w http.ResponseWriter, r *http.Request, db *sql.DB) {
	o, ok := read(w, r)
	if !ok {
		return
	}
	tag := r.Header.Get("If-Match")
	if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		http.Error(w, "If-Match, please: the ETag that you have read", http.StatusPreconditionRequired)
		return
	}
	next := rand.Text() // random: a number could come again after a restore
	done, err := db.ExecContext(r.Context(),
		`UPDATE sales SET item = ?, qty = ?, revision = ? WHERE id = ? AND revision = ?`,
		o.Item, o.Qty, next, r.PathValue("id"), tag[1:len(tag)-1])
	if err != nil {
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	}
	if n, _ := done.RowsAffected(); n == 0 {
		http.Error(w, "it has changed since you read it", http.StatusPreconditionFailed)
		return
	}
	w.Header().Set("ETag", `"`+next+`"`)
}

// docs: end

// docs: for update
var errSoldOut = errors.New("not so many are left")

// reserve takes n off a shelf, if there are so many. Whoever comes meanwhile waits
// at FOR UPDATE, and then reads what is left.
func reserve(ctx context.Context, pool *pgxpool.Pool, shelf string, n int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { // under Atomic: pgxstore.Tx(ctx)
		var left int
		if err := tx.QueryRow(ctx, `SELECT "left" FROM shelves WHERE id = $1 FOR UPDATE`, shelf).Scan(&left); err != nil {
			return err
		}
		if left < n {
			return errSoldOut
		}
		_, err := tx.Exec(ctx, `UPDATE shelves SET "left" = $1 WHERE id = $2`, left-n, shelf)
		return err
	})
}

// docs: end

// docs: in order
// move takes n from one shelf to another. Two that move in opposite directions
// would each hold what the other wants; so everybody locks in the same order.
func move(ctx context.Context, pool *pgxpool.Pool, from, to string, n int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, "left" FROM shelves WHERE id IN ($1, $2) ORDER BY id FOR UPDATE`, from, to)
		if err != nil {
			return err
		}
		left := map[string]int{}
		var id string
		var there int
		if _, err := pgx.ForEachRow(rows, []any{&id, &there}, func() error { left[id] = there; return nil }); err != nil {
			return err
		}
		if left[from] < n {
			return errSoldOut
		}
		_, err = tx.Exec(ctx, `UPDATE shelves SET "left" = "left" + CASE id WHEN $1 THEN -$3::int ELSE $3::int END WHERE id IN ($1, $2)`, from, to, n)
		return err
	})
}

// docs: end

// docs: compensate
// cancelSale takes a sale back. It names the state that is wanted, and whoever
// brings it about, and nobody else, does what belongs to it: the second call
// finds a sale that is cancelled, and that is success.
func cancelSale(ctx context.Context, tx *sql.Tx, id string) error {
	var item string
	var qty int
	err := tx.QueryRowContext(ctx,
		`UPDATE sales SET status = 'cancelled', revision = ? WHERE id = ? AND status <> 'cancelled' RETURNING item, qty`,
		rand.Text(), id).Scan(&item, &qty)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // or there is no such sale: whoever wants to say 404 looks before
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE shelves SET "left" = "left" + ? WHERE id = ?`, qty, item)
	}
	if err == nil { // the money is another system's: write down that it is owed, once
		_, err = tx.ExecContext(ctx, `INSERT INTO refunds (sale, qty) VALUES (?, ?) ON CONFLICT DO NOTHING`, id, qty)
	}
	return err
}

// docs: end
