package main

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/onceward/onceward"
)

type shop struct {
	orders ledger
	user   onceward.ScopeFunc
}

// routes has no "add one more" and no "toggle": every route but the first says
// what is wanted, so that a repeat changes nothing even without a key.
func routes(s *shop) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /create-order", s.as(s.create))
	mux.HandleFunc("GET /orders", s.list)
	mux.HandleFunc("GET /orders/{id}", s.as(s.show))
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
// guard. Sent twice under one external_id it is one order too, by the ledger;
// then the second answer is 200 and the order that exists.
func (s *shop) create(w http.ResponseWriter, r *http.Request, user string) {
	o, err := readOrder(r)
	if err != nil {
		fail(w, r, err)
		return
	}
	o.ID, o.User, o.Status = rand.Text(), user, "placed"
	o, placed, err := s.orders.place(r.Context(), o)
	if err != nil {
		fail(w, r, err)
		return
	}
	status := http.StatusOK
	if placed {
		status = http.StatusCreated
	}
	w.Header().Set("Location", "/orders/"+o.ID)
	answer(w, status, o)
}

// list shows what was really done, for every user: it is how this example and
// the tests that drive it prove what they say. A real shop would not.
func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	orders, err := s.orders.all(r.Context())
	if err != nil {
		fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, orders)
}

func (s *shop) show(w http.ResponseWriter, r *http.Request, user string) {
	o, err := s.orders.find(r.Context(), user, r.PathValue("id"))
	if err != nil {
		fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, o)
}

// replace says what is ordered.
func (s *shop) replace(w http.ResponseWriter, r *http.Request, user string) {
	wish, err := readOrder(r)
	if err != nil {
		fail(w, r, err)
		return
	}
	wish.ID, wish.User = r.PathValue("id"), user
	o, err := s.orders.replace(r.Context(), wish)
	if err != nil {
		fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, o)
}

// cancel takes an order back by naming the state that it is to have.
func (s *shop) cancel(w http.ResponseWriter, r *http.Request, user string) {
	o, err := s.orders.cancel(r.Context(), user, r.PathValue("id"))
	if err != nil {
		fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, o)
}

// remove wants the order gone, so gone already is success.
func (s *shop) remove(w http.ResponseWriter, r *http.Request, user string) {
	if err := s.orders.remove(r.Context(), user, r.PathValue("id")); err != nil {
		fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// badOrder is a request that cannot be an order.
type badOrder struct{ error }

func (b badOrder) Unwrap() error { return b.error }

// readOrder reads JSON {"item","qty","external_id"}, or a form with these
// fields, or a multipart form that also has a file, of which the order keeps the
// SHA-256. JSON is known by its brace: curl -d calls everything a form.
func readOrder(r *http.Request) (o order, err error) {
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
		o = order{Item: wish.Item, Qty: wish.Qty, ExternalID: wish.ExternalID}
	} else {
		o, err = readForm(r)
	}
	if err == nil && (strings.TrimSpace(o.Item) == "" || o.Qty < 1) {
		err = errors.New("an order has an item and a qty of 1 or more")
	}
	if err != nil {
		return o, badOrder{err}
	}
	return o, nil
}

func readForm(r *http.Request) (o order, err error) {
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
	case errors.Is(err, errNoOrder):
		status, text = http.StatusNotFound, err.Error()
	default:
		slog.Error("orders", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	answer(w, status, map[string]string{"error": text})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone is the guard's business
}
