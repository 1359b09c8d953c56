// Package shop is what the examples beside it serve, each through its framework:
// a shop whose functions return what they made, or an error. It knows no
// framework; how an answer is written, and an error, is theirs to show.
package shop

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/onceward/onceward/sqlitestore"
)

// Order is what was really ordered.
type Order struct {
	ID         string `json:"id"`
	User       string `json:"user"`
	ExternalID string `json:"external_id"` // the client's own name for it; one of a kind for each user, or empty
	Item       string `json:"item"`
	Qty        int    `json:"qty"`
	Status     string `json:"status"` // placed, cancelled
	FileSHA256 string `json:"file_sha256,omitempty"`
}

// Error is a refusal, or a failure, that says how it is to be answered.
type Error struct {
	Status   int
	Text     string
	Location string // where Status wants one
}

func (e *Error) Error() string { return e.Text }

// StatusCode is what echo asks an error for.
func (e *Error) StatusCode() int { return e.Status }

var errNoOrder = &Error{Status: http.StatusNotFound, Text: "there is no such order"}

// AsError says how err is to be answered. Work that was cut off answers 503: an
// answer there must be, for some frameworks make a 200 of none.
func AsError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Error{Status: http.StatusServiceUnavailable, Text: "the work was cut off"}
	case errors.As(err, new(*http.MaxBytesError)):
		return &Error{Status: http.StatusRequestEntityTooLarge, Text: "the request is too large"}
	}
	return &Error{Status: http.StatusInternalServerError, Text: "internal error"}
}

// Shop keeps the orders in a table. A user meets only their own.
type Shop struct {
	db      *sql.DB
	turn    chan struct{} // the pool has one connection, and the keys' store needs it too
	running atomic.Int64
}

const (
	schema = `CREATE TABLE IF NOT EXISTS orders (
	seq         INTEGER PRIMARY KEY,
	id          TEXT NOT NULL UNIQUE,
	user        TEXT NOT NULL,
	external_id TEXT NOT NULL DEFAULT '',
	item        TEXT NOT NULL,
	qty         INTEGER NOT NULL,
	status      TEXT NOT NULL,
	file_sha256 TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS orders_external_id ON orders (user, external_id) WHERE external_id <> '';`

	columns = `id, user, external_id, item, qty, status, file_sha256`
)

func openShop(ctx context.Context, db *sql.DB) (*Shop, error) {
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, fmt.Errorf("shop: %w", err)
	}
	return &Shop{db: db, turn: make(chan struct{}, 1)}, nil
}

// Create takes an order. Sent twice under one key it is one order, by the guard.
// Sent twice under one external id it is one order too, by the unique index;
// then placed is false, and o the order that exists.
func (s *Shop) Create(ctx context.Context, user string, wish Order) (o Order, placed bool, err error) {
	if err := wish.valid(); err != nil {
		return o, false, err
	}
	err = s.work(ctx, func() error {
		o, err = s.row(ctx,
			`INSERT INTO orders (`+columns+`) VALUES (?, ?, ?, ?, ?, 'placed', ?)
			ON CONFLICT (user, external_id) WHERE external_id <> '' DO NOTHING RETURNING `+columns,
			rand.Text(), user, wish.ExternalID, wish.Item, wish.Qty, wish.FileSHA256)
		placed = err == nil
		if err == errNoOrder {
			o, err = s.row(ctx, `SELECT `+columns+` FROM orders WHERE user = ? AND external_id = ?`, user, wish.ExternalID)
		}
		return err
	})
	return o, placed, err
}

// All are the orders of every user, in the order of their placing: what was
// really done, for whoever tests it. A real shop would not show them.
func (s *Shop) All(ctx context.Context) (_ []Order, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+columns+` FROM orders ORDER BY seq`)
	if err != nil {
		return nil, fmt.Errorf("shop: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	orders := []Order{}
	for rows.Next() {
		o, err := scan(rows)
		if err != nil {
			return nil, err
		}
		orders = append(orders, o)
	}
	return orders, rows.Err()
}

// Find shows one order.
func (s *Shop) Find(ctx context.Context, user, id string) (Order, error) {
	return s.row(ctx, `SELECT `+columns+` FROM orders WHERE user = ? AND id = ?`, user, id)
}

// Replace says what is ordered.
func (s *Shop) Replace(ctx context.Context, user, id string, wish Order) (o Order, err error) {
	if err := wish.valid(); err != nil {
		return o, err
	}
	err = s.work(ctx, func() error {
		o, err = s.row(ctx, `UPDATE orders SET item = ?, qty = ? WHERE user = ? AND id = ? RETURNING `+columns, wish.Item, wish.Qty, user, id)
		return err
	})
	return o, err
}

// Cancel takes an order back by naming the state that it is to have.
func (s *Shop) Cancel(ctx context.Context, user, id string) (o Order, err error) {
	err = s.work(ctx, func() error {
		o, err = s.row(ctx, `UPDATE orders SET status = 'cancelled' WHERE user = ? AND id = ? RETURNING `+columns, user, id)
		return err
	})
	return o, err
}

// Remove wants the order gone, so gone already is success.
func (s *Shop) Remove(ctx context.Context, user, id string) error {
	return s.work(ctx, func() error {
		_, err := s.row(ctx, `DELETE FROM orders WHERE user = ? AND id = ? RETURNING `+columns, user, id)
		if err == errNoOrder {
			return nil
		}
		return err
	})
}

// row is one statement, so there is nothing between looking and acting.
func (s *Shop) row(ctx context.Context, query string, args ...any) (Order, error) {
	// Under guard.Atomic the order is written in the transaction that commits its
	// answer too. It is in the request's context: a framework has to pass that on.
	if tx := sqlitestore.Tx(ctx); tx != nil {
		return scan(tx.QueryRowContext(ctx, query, args...))
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return Order{}, fmt.Errorf("shop: %w", context.Cause(ctx))
	}
	defer func() { <-s.turn }()
	return scan(s.db.QueryRowContext(ctx, query, args...))
}

func scan(row interface{ Scan(...any) error }) (o Order, err error) {
	err = row.Scan(&o.ID, &o.User, &o.ExternalID, &o.Item, &o.Qty, &o.Status, &o.FileSHA256)
	if errors.Is(err, sql.ErrNoRows) {
		return o, errNoOrder
	}
	if err != nil {
		err = fmt.Errorf("shop: %w", err)
	}
	return o, err
}

func (o Order) valid() error {
	if strings.TrimSpace(o.Item) == "" || o.Qty < 1 {
		return &Error{Status: http.StatusBadRequest, Text: "an order has an item and a qty of 1 or more"}
	}
	return nil
}

// ParseOrder reads a body: JSON {"item","qty","external_id"}, or else a form
// with these fields, which form and file get. JSON is known by its brace: curl -d
// calls everything a form.
func ParseOrder(body []byte, form func(field string) string, file func() (io.ReadCloser, error)) (o Order, err error) {
	if len(body) > 0 && body[0] == '{' {
		if err := json.Unmarshal(body, &o); err != nil {
			return o, &Error{Status: http.StatusBadRequest, Text: err.Error()}
		}
		return Order{Item: o.Item, Qty: o.Qty, ExternalID: o.ExternalID}, nil
	}
	o = Order{Item: form("item"), ExternalID: form("external_id")}
	_, _ = fmt.Sscan(form("qty"), &o.Qty)
	f, err := file()
	if err != nil {
		return o, nil // an order needs none
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return o, fmt.Errorf("shop: %w", err)
	}
	o.FileSHA256 = hex.EncodeToString(sum.Sum(nil))
	return o, nil
}

// Code is the error's code in remote procedure calls, where Connect and gRPC have
// the same numbers.
func (e *Error) Code() uint32 {
	code, ok := map[int]uint32{
		400: 3, 401: 16, 403: 7, 404: 5, 409: 10, 412: 9, 413: 8, 416: 11, 422: 6, 429: 8, 499: 1, 500: 13, 501: 12, 503: 14, 504: 4, 599: 15,
	}[e.Status]
	if !ok {
		return 2 // unknown
	}
	return code
}
