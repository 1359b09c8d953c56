// Package shop is what the examples beside it serve, each through its framework:
// a shop whose functions return what they made, or an error. It knows no
// framework; how an answer is written, and an error, is theirs to show.
package shop

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/onceward/onceward/examples/orders/ledger"
)

// Order is what was really ordered.
type Order = ledger.Order

// Conditions are what If-Match and If-None-Match demand of an order.
type Conditions = ledger.Conditions

// Error is a refusal, or a failure, that says how it is to be answered.
type Error struct {
	Status   int
	Text     string
	Location string // where Status wants one
	Order    *Order // what the order is, for which the request is refused
}

func (e *Error) Error() string { return e.Text }

// Header is what an answer that is this error says beside its status.
func (e *Error) Header() map[string]string {
	h := map[string]string{}
	if e.Location != "" {
		h["Location"] = e.Location
	}
	if e.Order != nil {
		h["Etag"] = e.Order.ETag()
	}
	return h
}

// Body is its JSON; none where a status has none.
func (e *Error) Body() any {
	switch {
	case e.Status == http.StatusNoContent || e.Status == http.StatusNotModified:
		return nil
	case e.Order != nil:
		return map[string]any{"error": e.Text, "order": e.Order}
	}
	return map[string]any{"error": e.Text}
}

const maxQty = 1000

var (
	errTaken     = errors.New("this external_id names another order")
	errNotPlaced = errors.New("only a placed order can grow")
	errTooMany   = fmt.Errorf("an order has at most %d of an item", maxQty)
)

func bad(text string) error { return &Error{Status: http.StatusBadRequest, Text: text} }

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
	case errors.Is(err, ledger.ErrNoOrder):
		return &Error{Status: http.StatusNotFound, Text: ledger.ErrNoOrder.Error()}
	}
	return &Error{Status: http.StatusInternalServerError, Text: "internal error"}
}

// refused says why a request cannot be carried out for what o is.
func refused(err error, o Order) error {
	e := &Error{Status: http.StatusConflict, Text: err.Error(), Order: &o}
	switch {
	case o.ID == "":
		return err
	case errors.Is(err, ledger.ErrStale):
		e.Status = http.StatusPreconditionFailed
	case errors.Is(err, errTaken):
		e.Location = "/orders/" + o.ID
	case errors.Is(err, errNotPlaced), errors.Is(err, errTooMany):
	default:
		return err
	}
	return e
}

// Shop does what examples/orders does, with errors for refusals. A user meets only
// their own orders.
type Shop struct {
	orders  ledger.Ledger
	running atomic.Int64
}

// ConditionsOf reads what a request's header demands.
func ConditionsOf(h http.Header) (Conditions, error) {
	when, err := ledger.ConditionsOf(h)
	if err != nil {
		return when, bad(err.Error())
	}
	return when, nil
}

// IfRevision demands that an order has still this revision; "" demands nothing.
func IfRevision(revision string) Conditions {
	if revision == "" {
		return Conditions{}
	}
	when, err := ledger.ConditionsOf(http.Header{"If-Match": {Order{Revision: revision}.ETag()}})
	if err != nil { // it is none that an order could have
		when, _ = ledger.ConditionsOf(http.Header{"If-Match": {`""`}})
	}
	return when
}

// Create takes an order. Sent twice under one key it is one order, by the guard.
// Sent twice under one external id it is one order too, by the ledger; then placed
// is false, and o the order that exists.
func (s *Shop) Create(ctx context.Context, user string, wish Order) (o Order, placed bool, err error) {
	wish.ID, wish.User = rand.Text(), user
	if o, placed, err = s.place(ctx, wish); err == nil && !placed && o.PlacedAs != wish.Content() {
		err = refused(errTaken, o)
	}
	return o, placed, err
}

// createAs takes an order under an id of the client's own, unless there is one.
func (s *Shop) createAs(ctx context.Context, user, id string, wish Order) (Order, error) {
	if !ownID.MatchString(id) {
		return Order{}, bad("an order's id has 1 to 64 letters, digits, - and _")
	}
	wish.ID, wish.User = id, user
	o, placed, err := s.place(ctx, wish)
	switch {
	case err != nil || placed:
		return o, err
	case o.ID == id:
		return o, refused(ledger.ErrStale, o)
	}
	return o, refused(errTaken, o)
}

var ownID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (s *Shop) place(ctx context.Context, wish Order) (o Order, placed bool, err error) {
	if err := valid(wish); err != nil {
		return o, false, err
	}
	wish.Status, wish.Revision, wish.PlacedAs = "placed", rand.Text(), wish.Content()
	err = s.work(ctx, func() error {
		o, placed, err = s.orders.Place(ctx, wish)
		return err
	})
	return o, placed, err
}

// All are the orders of every user, in the order of their placing: what was
// really done, for whoever tests it. A real shop would not show them.
func (s *Shop) All(ctx context.Context) ([]Order, error) { return s.orders.All(ctx) }

// Find shows one order. If the client has it already that is an error too, 304.
func (s *Shop) Find(ctx context.Context, user, id string, when Conditions) (Order, error) {
	o, err := s.orders.Find(ctx, user, id)
	if err != nil {
		return o, err
	}
	known, err := when.Known(o.Revision)
	switch {
	case err != nil:
		return o, refused(err, o)
	case known:
		return o, &Error{Status: http.StatusNotModified, Order: &o}
	}
	return o, nil
}

// Replace says what is ordered. If there is to be no such order yet, it orders that,
// under the client's own id; then placed is true.
func (s *Shop) Replace(ctx context.Context, user, id string, wish Order, when Conditions) (o Order, placed bool, err error) {
	if err := valid(wish); err != nil {
		return o, false, err
	}
	if wantsNone, cannot := when.WantsNone(); cannot != nil {
		return o, false, &Error{Status: http.StatusPreconditionFailed, Text: cannot.Error()}
	} else if wantsNone {
		o, err = s.createAs(ctx, user, id, wish)
		return o, err == nil, err
	}
	o, err = s.change(ctx, user, id, func(o *Order) error {
		was := *o
		if o.Item, o.Qty = wish.Item, wish.Qty; *o == was {
			return nil // as wished already: the first answer was lost, or somebody else had the same wish
		}
		return when.Check(was.Revision)
	})
	return o, false, err
}

// Cancel takes an order back by naming the state that it is to have: cancelled
// twice it is cancelled once.
func (s *Shop) Cancel(ctx context.Context, user, id string, when Conditions) (Order, error) {
	return s.change(ctx, user, id, func(o *Order) error {
		if o.Status == "cancelled" {
			return nil
		}
		o.Status = "cancelled"
		return when.Check(o.Revision)
	})
}

// Add makes an order larger. That is relative to what it was, so a repeat of it has
// to be known by its key.
func (s *Shop) Add(ctx context.Context, user, id string, qty int, when Conditions) (Order, error) {
	if qty < 1 || qty > maxQty {
		return Order{}, bad(fmt.Sprintf("a qty is 1 to %d", maxQty))
	}
	return s.change(ctx, user, id, func(o *Order) error {
		switch {
		case o.Status != "placed":
			return errNotPlaced
		case o.Qty+qty > maxQty:
			return errTooMany
		}
		o.Qty += qty
		return when.Check(o.Revision)
	})
}

// Remove wants the order gone, so gone already is success, whatever was expected of
// it.
func (s *Shop) Remove(ctx context.Context, user, id string, when Conditions) error {
	_, err := s.change(ctx, user, id, func(o *Order) error {
		o.Status = ledger.Removed
		return when.Check(o.Revision)
	})
	if errors.Is(err, ledger.ErrNoOrder) {
		return nil
	}
	return err
}

func (s *Shop) change(ctx context.Context, user, id string, how func(*Order) error) (o Order, err error) {
	err = s.work(ctx, func() error {
		if o, err = s.orders.Change(ctx, user, id, how); err != nil {
			return refused(err, o)
		}
		return nil
	})
	return o, err
}

func valid(o Order) error {
	if strings.TrimSpace(o.Item) == "" || o.Qty < 1 || o.Qty > maxQty {
		return bad(fmt.Sprintf("an order has an item and a qty of 1 to %d", maxQty))
	}
	return nil
}

// ParseOrder reads a body: JSON {"item","qty","external_id"}, or else a form
// with these fields, which form and file get. JSON is known by its brace: curl -d
// calls everything a form.
func ParseOrder(body []byte, form func(field string) string, file func() (io.ReadCloser, error)) (o Order, err error) {
	if len(body) > 0 && body[0] == '{' {
		if err := json.Unmarshal(body, &o); err != nil {
			return o, bad(err.Error())
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
	if e.Status == http.StatusConflict && e.Order != nil { // final, as HTTP's 409 is not
		return map[bool]uint32{true: 6, false: 9}[e.Location != ""]
	}
	code, ok := map[int]uint32{
		400: 3, 401: 16, 403: 7, 404: 5, 409: 10, 412: 9, 413: 8, 416: 11, 422: 6, 429: 8, 499: 1, 500: 13, 501: 12, 503: 14, 504: 4, 599: 15,
	}[e.Status]
	if !ok {
		return 2 // unknown
	}
	return code
}
