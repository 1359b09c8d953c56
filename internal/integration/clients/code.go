// Package clients has the code of docs/clients.md, which its tests run: work that
// is no HTTP request, and clients of a guard, on real databases, in processes that
// are killed, and over a bad network.
package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// message is what a queue delivers, at least once.
type message struct {
	ID   string
	Body []byte
}

// answer is what the queue is told of a delivery.
type answer int

const (
	acknowledge answer = iota // it is done
	deliverAgain
	putAside // for a person to look at
)

// docs: consumer
// consume handles one delivery. The message's id is the key; a delivery that
// comes twice is charged once.
func consume(ctx context.Context, guard *onceward.Guard, msg message, charge func(context.Context, []byte) (string, error)) (answer, time.Duration) {
	call := onceward.Call{Scope: "billing", Key: msg.ID, Name: "charge", Input: msg.Body}
	_, _, err := onceward.Do(ctx, guard, call, func(ctx context.Context) (string, error) {
		return charge(ctx, msg.Body)
	})
	var refused *onceward.FinalError
	switch {
	case err == nil, errors.As(err, &refused):
		return acknowledge, 0 // done, now or by an earlier delivery; a refusal stays one
	case errors.Is(err, onceward.ErrKeyReused), errors.Is(err, onceward.ErrOutcomeUnknown):
		return putAside, 0 // another message of that id, or nobody knows what became of it
	}
	return deliverAgain, max(time.Second, onceward.RetryAfter(err))
}

// docs: nightly
// nightly may be begun by every machine that has a cron: one of them runs it. A
// run that failed is tried again by the next to come.
func nightly(ctx context.Context, guard *onceward.Guard, day time.Time, report func(context.Context) (int, error)) (sent int, err error) {
	call := onceward.Call{Scope: "cron", Key: day.Format("report-2006-01-02"), Name: "report", Wait: 10 * time.Second}
	sent, _, err = onceward.Do(ctx, guard, call, report)
	return sent, err
}

// docs: atomic
var errSoldOut = &onceward.FinalError{Code: "sold-out", Message: "sold out"}

// reserve takes one from the shelf. The row, the key and the result commit
// together, so that a process killed at any point has done all of it or nothing.
func reserve(ctx context.Context, guard *onceward.Guard, msg message, item string) (left int, err error) {
	call := onceward.Call{Scope: "stock", Key: msg.ID, Name: "reserve", Input: []byte(item)}
	left, _, err = onceward.DoAtomic(ctx, guard, call, func(ctx context.Context) (left int, err error) {
		err = sqlitestore.Tx(ctx).QueryRowContext(ctx,
			`UPDATE stock SET "left" = "left" - 1 WHERE item = ? RETURNING "left"`, item).Scan(&left)
		if err == nil && left < 0 {
			err = errSoldOut // final: the UPDATE is undone, the refusal is kept
		}
		return left, err
	})
	return left, err
}

// docs: client
func newClient() (*http.Client, error) {
	transport, err := onceward.NewTransport(nil, onceward.TransportConfig{
		Hosts:          []string{"api.example.com"}, // they honour keys
		AttemptTimeout: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport}, nil
}

// docs: intent
// placeOrder may be called again for the same order, by this process or by the
// next one: it sends the order's own name.
func placeOrder(ctx context.Context, client *http.Client, url, name, body string) (*http.Response, error) {
	ctx = onceward.ContextWithKey(ctx, name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return nil, err // a *SendError: later again, under the same name
	}
	if !onceward.Acknowledged(res) { // whatever its status: 200 of a portal, 403 of a firewall, 409 of the guard
		res.Body.Close()
		return nil, fmt.Errorf("not delivered: %s, %s %q", res.Status, onceward.StatusHeader, res.Header.Get(onceward.StatusHeader))
	}
	return res, nil
}

// docs: end
