package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/examples/orders/ledger"
)

type shop struct {
	orders ledger.Ledger
	user   onceward.ScopeFunc
}

// adding is the one route that nothing but a key makes repeatable.
const adding = "POST /orders/{id}/add"

// routes has no "toggle". Every route but two says what is wanted, so that a
// repeat changes nothing even without a key. Those two are "create", which an
// external_id makes such a route too, and "add", which nothing does: there the
// guard requires a key.
func routes(s *shop) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /create-order", s.as(s.create))
	mux.HandleFunc(adding, s.as(s.add))
	mux.HandleFunc("GET /orders", s.list)
	mux.HandleFunc("GET /orders/{id}", s.as(s.find))
	mux.HandleFunc("PUT /orders/{id}", s.as(s.replace))
	mux.HandleFunc("DELETE /orders/{id}", s.as(s.remove))
	mux.HandleFunc("POST /orders/{id}/cancel", s.as(s.cancel))
	return mux
}

// as runs h for the user that the request names.
func (s *shop) as(h func(w http.ResponseWriter, r *http.Request, user string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, err := s.user(r)
		if err != nil {
			fail(w, r, err)
			return
		}
		h(w, r, user)
	}
}

// create takes an order: 201. Sent twice under one key it is one order, by the
// guard. Sent twice under one external_id it is one order too, by the ledger:
// the second answer is then 200 and the order that exists, as it is by now. An
// external_id that stands for something else already is 409, and says where.
func (s *shop) create(w http.ResponseWriter, r *http.Request, user string) {
	wish, err := readOrder(r)
	if err != nil {
		fail(w, r, err)
		return
	}
	wish.ID, wish.User = rand.Text(), user
	kept, placed, err := s.place(r.Context(), wish)
	switch {
	case err != nil:
		fail(w, r, err)
	case placed:
		showAt(w, http.StatusCreated, kept)
	case kept.PlacedAs == wish.Content():
		showAt(w, http.StatusOK, kept)
	default:
		fail(w, r, refused{errTaken, kept})
	}
}

// createAs takes an order under an id of the client's own, unless there is one.
func (s *shop) createAs(w http.ResponseWriter, r *http.Request, wish ledger.Order) {
	kept, placed, err := s.place(r.Context(), wish)
	switch {
	case err != nil:
		fail(w, r, err)
	case placed:
		showAt(w, http.StatusCreated, kept)
	case kept.ID == wish.ID:
		fail(w, r, refused{ledger.ErrStale, kept})
	default:
		fail(w, r, refused{errTaken, kept})
	}
}

func (s *shop) place(ctx context.Context, wish ledger.Order) (kept ledger.Order, placed bool, err error) {
	wish.Status, wish.Revision, wish.PlacedAs = "placed", rand.Text(), wish.Content()
	return s.orders.Place(ctx, wish)
}

// list shows what was really done, for every user: it is how this example and
// the tests that drive it prove what they say. A real shop would not.
func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	orders, err := s.orders.All(r.Context())
	if err != nil {
		fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, orders)
}

func (s *shop) find(w http.ResponseWriter, r *http.Request, user string) {
	o, err := s.orders.Find(r.Context(), user, r.PathValue("id"))
	if err != nil {
		fail(w, r, err)
		return
	}
	when, err := conditionsOf(r)
	if err != nil {
		show(w, http.StatusOK, o) // reading does no harm
		return
	}
	switch known, err := when.Known(o.Revision); {
	case err != nil:
		fail(w, r, refused{err, o})
	case known:
		w.Header().Set("ETag", o.ETag())
		w.WriteHeader(http.StatusNotModified)
	default:
		show(w, http.StatusOK, o)
	}
}

// replace says what is ordered; with If-None-Match: * it orders that, under an
// id of the client's own, if there is no such order yet.
func (s *shop) replace(w http.ResponseWriter, r *http.Request, user string) {
	wish, err := readOrder(r)
	if err != nil {
		fail(w, r, err)
		return
	}
	when, err := conditionsOf(r)
	if wantsNone, cannot := when.WantsNone(); err == nil && wantsNone {
		wish.ID, wish.User = r.PathValue("id"), user
		switch {
		case cannot != nil:
			fail(w, r, cannot)
		case !ownID.MatchString(wish.ID):
			fail(w, r, badOrder{errors.New("an order's id has 1 to 64 letters, digits, - and _")})
		default:
			s.createAs(w, r, wish)
		}
		return
	}
	s.change(w, r, user, func(o *ledger.Order) { o.Item, o.Qty = wish.Item, wish.Qty })
}

// conditionsOf reads a request's preconditions.
func conditionsOf(r *http.Request) (ledger.Conditions, error) {
	when, err := ledger.ConditionsOf(r.Header)
	if err != nil {
		err = badOrder{err}
	}
	return when, err
}

var ownID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// cancel takes an order back by naming the state that it is to have: cancelled
// twice it is cancelled once.
func (s *shop) cancel(w http.ResponseWriter, r *http.Request, user string) {
	s.change(w, r, user, func(o *ledger.Order) { o.Status = "cancelled" })
}

// change makes an order be as wish says and shows it. Whoever read it before
// says so with If-Match, and is refused if it has changed since, unless it is
// as wished already: then the first answer was lost, or somebody else had the
// same wish.
func (s *shop) change(w http.ResponseWriter, r *http.Request, user string, wish func(*ledger.Order)) {
	when, err := conditionsOf(r)
	var o ledger.Order
	if err == nil {
		o, err = s.orders.Change(r.Context(), user, r.PathValue("id"), func(o *ledger.Order) error {
			was := *o
			if wish(o); *o == was {
				return nil
			}
			return when.Check(was.Revision)
		})
	}
	s.changed(w, r, o, err)
}

// add makes an order larger. That is relative to what it was, so a repeat of it
// has to be known by its key; and it may be too much, so looking and changing
// have to be one.
func (s *shop) add(w http.ResponseWriter, r *http.Request, user string) {
	qty, err := readQty(r)
	var when ledger.Conditions
	if err == nil {
		when, err = conditionsOf(r)
	}
	var o ledger.Order
	if err == nil {
		o, err = s.orders.Change(r.Context(), user, r.PathValue("id"), func(o *ledger.Order) error {
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
	s.changed(w, r, o, err)
}

func (s *shop) changed(w http.ResponseWriter, r *http.Request, o ledger.Order, err error) {
	switch {
	case err == nil:
		show(w, http.StatusOK, o)
	case o.ID != "":
		fail(w, r, refused{err, o})
	default:
		fail(w, r, err)
	}
}

// remove wants the order gone, so gone already is success, whatever was expected
// of it.
func (s *shop) remove(w http.ResponseWriter, r *http.Request, user string) {
	when, err := conditionsOf(r)
	var o ledger.Order
	if err == nil {
		o, err = s.orders.Change(r.Context(), user, r.PathValue("id"), func(o *ledger.Order) error {
			o.Status = ledger.Removed
			return when.Check(o.Revision)
		})
	}
	if err == nil || errors.Is(err, ledger.ErrNoOrder) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.changed(w, r, o, err)
}

// refused is a request that cannot be carried out for what the order is.
type refused struct {
	error
	order ledger.Order
}

func (r refused) Unwrap() error { return r.error }

var (
	errTaken     = errors.New("this external_id names another order")
	errNotPlaced = errors.New("only a placed order can grow")
	errTooMany   = fmt.Errorf("an order has at most %d of an item", maxQty)
)

const maxQty = 1000

// badOrder is a request that cannot be an order.
type badOrder struct{ error }

func (b badOrder) Unwrap() error { return b.error }

// readOrder reads an order that can be one.
func readOrder(r *http.Request) (ledger.Order, error) {
	o, err := readFields(r)
	if err == nil && (strings.TrimSpace(o.Item) == "" || o.Qty < 1 || o.Qty > maxQty) {
		err = badOrder{fmt.Errorf("an order has an item and a qty of 1 to %d", maxQty)}
	}
	return o, err
}

// readQty reads by how much an order is to grow.
func readQty(r *http.Request) (int, error) {
	o, err := readFields(r)
	if err == nil && (o.Qty < 1 || o.Qty > maxQty) {
		err = badOrder{fmt.Errorf("a qty is 1 to %d", maxQty)}
	}
	return o.Qty, err
}

// readFields reads JSON {"item","qty","external_id"}, or a form with these
// fields, or a multipart form that also has a file, of which the order keeps the
// SHA-256. JSON is known by its brace: curl -d calls everything a form.
func readFields(r *http.Request) (o ledger.Order, err error) {
	body := bufio.NewReader(r.Body)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	if first, _ := body.Peek(1); len(first) > 0 && first[0] == '{' {
		var wish struct {
			Item       string `json:"item"`
			Qty        int    `json:"qty"`
			ExternalID string `json:"external_id"`
		}
		err = json.NewDecoder(body).Decode(&wish)
		o = ledger.Order{Item: wish.Item, Qty: wish.Qty, ExternalID: wish.ExternalID}
	} else {
		o, err = readForm(r)
	}
	if err != nil {
		err = badOrder{err}
	}
	return o, err
}

func readForm(r *http.Request) (o ledger.Order, err error) {
	if err := r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return o, err
	}
	o.Item, o.ExternalID = r.PostFormValue("item"), r.PostFormValue("external_id")
	o.Qty, _ = strconv.Atoi(r.PostFormValue("qty"))
	file, _, err := r.FormFile("file")
	if err != nil {
		return o, nil // an order needs none
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return o, err
	}
	o.FileSHA256 = hex.EncodeToString(sum.Sum(nil))
	return o, nil
}

func fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusInternalServerError, "internal error"
	switch {
	case r.Context().Err() != nil:
		return // the work was cut off: nothing is known that an answer could say
	case errors.As(err, new(*http.MaxBytesError)):
		status, text = http.StatusRequestEntityTooLarge, "the request is too large"
	case errors.As(err, new(badOrder)):
		status, text = http.StatusBadRequest, err.Error()
	case errors.Is(err, ledger.ErrNoOrder):
		status, text = http.StatusNotFound, err.Error()
	case errors.Is(err, ledger.ErrStale):
		status, text = http.StatusPreconditionFailed, err.Error()
	case errors.Is(err, errTaken), errors.Is(err, errNotPlaced), errors.Is(err, errTooMany):
		status, text = http.StatusConflict, err.Error()
	default:
		slog.Error("orders", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	body := map[string]any{"error": text}
	// Whoever is refused for what the order is, sees what it is.
	if because := (refused{}); errors.As(err, &because) && status < http.StatusInternalServerError {
		if errors.Is(err, errTaken) {
			w.Header().Set("Location", "/orders/"+because.order.ID)
		}
		w.Header().Set("ETag", because.order.ETag())
		body["order"] = because.order
	}
	answer(w, status, body)
}

// showAt shows an order and says where it is.
func showAt(w http.ResponseWriter, status int, o ledger.Order) {
	w.Header().Set("Location", "/orders/"+o.ID)
	show(w, status, o)
}

func show(w http.ResponseWriter, status int, o ledger.Order) {
	w.Header().Set("ETag", o.ETag())
	answer(w, status, o)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone is the guard's business
}
