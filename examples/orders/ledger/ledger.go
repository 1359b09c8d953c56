// Package ledger keeps the orders of the example shops in a file, in SQLite or in
// Postgres, opens the store of the keys that goes with it, and reads the
// preconditions of a change.
package ledger

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// Order is what was really ordered.
type Order struct {
	ID         string `json:"id"`
	User       string `json:"user"`
	ExternalID string `json:"external_id"` // the client's own name for it; one of a kind for each user, or empty
	Item       string `json:"item"`
	Qty        int    `json:"qty"`
	Status     string `json:"status"`   // placed, cancelled
	Revision   string `json:"revision"` // another one after each change; random, so that no two ever agree by chance
	FileSHA256 string `json:"file_sha256,omitempty"`
	PlacedAs   string `json:"-"` // what it was when it was placed, as [Order.Content] tells
}

// ETag is the revision as RFC 9110 writes it.
func (o Order) ETag() string { return `"` + o.Revision + `"` }

// Content tells two orders apart by what is ordered.
func (o Order) Content() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %s", o.Item, o.Qty, o.FileSHA256))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// ErrNoOrder: 404.
var ErrNoOrder = errors.New("there is no such order")

// Ledger keeps the orders. A user meets only their own; every change is durable
// when its method returns.
type Ledger interface {
	// Place keeps o, unless its user has an order with that ID or ExternalID:
	// then it returns that one, and false.
	Place(ctx context.Context, o Order) (kept Order, placed bool, err error)
	All(ctx context.Context) ([]Order, error) // in the order of their placing
	Find(ctx context.Context, user, id string) (Order, error)
	// Change lets how change the order, so that nobody else changes it between
	// what how sees and what is kept; how may be called again. The order gets
	// another revision, unless how leaves it as it was. If how sets the status
	// Removed the order is gone. An error of how is returned, with the order
	// unchanged.
	Change(ctx context.Context, user, id string, how func(*Order) error) (Order, error)
}

// Removed is the status of an order that is to go.
const Removed = "removed"

// changed asks how what becomes of an order.
func (o Order) changed(how func(*Order) error) (Order, error) {
	is := o
	if err := how(&is); err != nil {
		return o, err
	}
	if is != o {
		is.Revision = rand.Text()
	}
	return is, nil
}

// fileLedger keeps the orders in memory and, if it has one, in a file to which
// it only appends: each line is an order after a change.
type fileLedger struct {
	mu     sync.Mutex
	orders []Order
	file   *os.File // nil: memory only
	size   int64    // the file's, up to its last whole line
}

// line is an order in the file.
type line struct {
	Order
	PlacedAs string `json:"placed_as,omitempty"`
}

func openFile(name string) (*fileLedger, error) {
	l := &fileLedger{}
	if name == "" {
		return l, nil
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	l.file = file
	lines := bufio.NewReader(file)
	for {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			// What is left is half a line: its process died before it answered.
			return l, file.Truncate(l.size)
		}
		var read line
		if err == nil {
			err = json.Unmarshal(text, &read)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s at byte %d: %w", name, l.size, err), file.Close())
		}
		read.Order.PlacedAs = read.PlacedAs
		l.apply(read.Order)
		l.size += int64(len(text))
	}
}

func (l *fileLedger) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// keep makes a change durable, then visible. l.mu is held.
func (l *fileLedger) keep(o Order) error {
	if l.file != nil {
		text, err := json.Marshal(line{o, o.PlacedAs})
		if err != nil {
			return err
		}
		text = append(text, '\n')
		if _, err = l.file.WriteAt(text, l.size); err == nil {
			err = l.file.Sync()
		}
		if err != nil {
			return errors.Join(err, l.file.Truncate(l.size))
		}
		l.size += int64(len(text))
	}
	l.apply(o)
	return nil
}

func (l *fileLedger) apply(o Order) {
	i := slices.IndexFunc(l.orders, func(was Order) bool { return was.ID == o.ID && was.User == o.User })
	switch {
	case o.Status == Removed && i >= 0:
		l.orders = slices.Delete(l.orders, i, i+1)
	case o.Status == Removed:
	case i >= 0:
		l.orders[i] = o
	default:
		l.orders = append(l.orders, o)
	}
}

func (l *fileLedger) Place(_ context.Context, o Order) (Order, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, err := l.get(o.User, o.ID); err == nil {
		return was, false, nil
	}
	for _, was := range l.orders {
		if was.User == o.User && o.ExternalID != "" && was.ExternalID == o.ExternalID {
			return was, false, nil
		}
	}
	return o, true, l.keep(o)
}

func (l *fileLedger) All(context.Context) ([]Order, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Order{}, l.orders...), nil
}

func (l *fileLedger) Find(_ context.Context, user, id string) (Order, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.get(user, id)
}

func (l *fileLedger) get(user, id string) (Order, error) {
	for _, o := range l.orders {
		if o.ID == id && o.User == user {
			return o, nil
		}
	}
	return Order{}, ErrNoOrder
}

func (l *fileLedger) Change(_ context.Context, user, id string, how func(*Order) error) (Order, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, err := l.get(user, id)
	if err != nil {
		return was, err
	}
	o, err := was.changed(how)
	if err != nil || o == was {
		return o, err
	}
	return o, l.keep(o)
}
