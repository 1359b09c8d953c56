package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// order is what was really ordered.
type order struct {
	ID         string `json:"id"`
	User       string `json:"user"`
	ExternalID string `json:"external_id"` // the client's own name for it; one of a kind for each user, or empty
	Item       string `json:"item"`
	Qty        int    `json:"qty"`
	Status     string `json:"status"` // placed, cancelled
	FileSHA256 string `json:"file_sha256,omitempty"`
}

var errNoOrder = errors.New("there is no such order")

// ledger keeps the orders. A user meets only their own; every change is durable
// when its method returns.
type ledger interface {
	// place keeps o, unless its user has placed one with that ExternalID: then
	// it returns that one, and false.
	place(ctx context.Context, o order) (kept order, placed bool, err error)
	all(ctx context.Context) ([]order, error) // in the order of their placing
	find(ctx context.Context, user, id string) (order, error)
	replace(ctx context.Context, wish order) (order, error) // item and qty of wish.ID
	cancel(ctx context.Context, user, id string) (order, error)
	remove(ctx context.Context, user, id string) error // nil if there is none
}

// fileLedger keeps the orders in memory and, if it has one, in a file to which
// it only appends: each line is an order after a change.
type fileLedger struct {
	mu     sync.Mutex
	orders []order
	file   *os.File // nil: memory only
	size   int64    // the file's, up to its last whole line
}

const removed = "removed" // a Status that stands only in the file

func openFileLedger(name string) (*fileLedger, error) {
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
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			// What is left is half a line: its process died before it answered.
			return l, file.Truncate(l.size)
		}
		var o order
		if err == nil {
			err = json.Unmarshal(line, &o)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s at byte %d: %w", name, l.size, err), file.Close())
		}
		l.apply(o)
		l.size += int64(len(line))
	}
}

func (l *fileLedger) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// keep makes a change durable, then visible. l.mu is held.
func (l *fileLedger) keep(o order) error {
	if l.file != nil {
		line, err := json.Marshal(o)
		if err != nil {
			return err
		}
		line = append(line, '\n')
		if _, err = l.file.WriteAt(line, l.size); err == nil {
			err = l.file.Sync()
		}
		if err != nil {
			return errors.Join(err, l.file.Truncate(l.size))
		}
		l.size += int64(len(line))
	}
	l.apply(o)
	return nil
}

func (l *fileLedger) apply(o order) {
	i := slices.IndexFunc(l.orders, func(was order) bool { return was.ID == o.ID })
	switch {
	case o.Status == removed && i >= 0:
		l.orders = slices.Delete(l.orders, i, i+1)
	case o.Status == removed:
	case i >= 0:
		l.orders[i] = o
	default:
		l.orders = append(l.orders, o)
	}
}

func (l *fileLedger) place(_ context.Context, o order) (order, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.ExternalID != "" {
		for _, was := range l.orders {
			if was.User == o.User && was.ExternalID == o.ExternalID {
				return was, false, nil
			}
		}
	}
	return o, true, l.keep(o)
}

func (l *fileLedger) all(context.Context) ([]order, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]order{}, l.orders...), nil
}

func (l *fileLedger) find(_ context.Context, user, id string) (order, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.get(user, id)
}

func (l *fileLedger) get(user, id string) (order, error) {
	for _, o := range l.orders {
		if o.ID == id && o.User == user {
			return o, nil
		}
	}
	return order{}, errNoOrder
}

func (l *fileLedger) replace(_ context.Context, wish order) (order, error) {
	return l.change(wish.User, wish.ID, func(o *order) { o.Item, o.Qty = wish.Item, wish.Qty })
}

func (l *fileLedger) cancel(_ context.Context, user, id string) (order, error) {
	return l.change(user, id, func(o *order) { o.Status = "cancelled" })
}

func (l *fileLedger) remove(_ context.Context, user, id string) error {
	_, err := l.change(user, id, func(o *order) { o.Status = removed })
	if errors.Is(err, errNoOrder) {
		return nil
	}
	return err
}

func (l *fileLedger) change(user, id string, change func(*order)) (order, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, err := l.get(user, id)
	if err != nil {
		return o, err
	}
	change(&o)
	return o, l.keep(o)
}
