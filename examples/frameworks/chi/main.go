// Command chi is the shop of examples/orders on chi. Its handlers return errors.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/onceward/onceward/examples/frameworks/internal/shop"
)

func main() {
	shop.Main("chi", shop.Mount{Name: "router", Handler: app}, shop.Mount{Name: "middleware", Handler: appOfOne})
}

// docs: chi
// app puts the guard around the router, behind what recovers and authenticates.
func app(p *shop.Program, guard func(http.Handler) http.Handler) http.Handler {
	return chi.Chain(middleware.Recoverer, authenticate(p.UserHeader), guard).Handler(routes(p))
}

// docs: end

// docs: chi middleware
// appOfOne has all of it in one router. The guard comes last of what is used.
func appOfOne(p *shop.Program, guard func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, authenticate(p.UserHeader), own, guard)
	r.Mount("/", routes(p))
	return r
}

// own gives what the guard runs a routing context that is not taken away: chi
// puts its own back into a pool when the router is done, and that may be before a
// handler is that runs longer than MaxRuntime.
func own(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rctx := chi.RouteContext(r.Context()).Clone()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, rctx)))
	})
}

// docs: end

// authenticate trusts a header, where a real service looks at a session.
func authenticate(header string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(shop.WithUser(r.Context(), r.Header.Get(header))))
		})
	}
}

// docs: chi handlers
// handler is a handler that returns its error, and ServeHTTP the one place where
// an error becomes an answer. It is inside of the guard, so the guard sees it. An
// error behind half of an answer is none: that half is not to be kept for a whole.
type handler func(w http.ResponseWriter, r *http.Request) error

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seen := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
	if err := h(seen, r); err != nil {
		if seen.Status() != 0 {
			panic(http.ErrAbortHandler)
		}
		e := shop.AsError(err)
		for name, value := range e.Header() {
			w.Header().Set(name, value)
		}
		_ = answer(w, r, e.Status, e.Body())
	}
}

// docs: end

func routes(p *shop.Program) http.Handler {
	r := chi.NewRouter()
	r.Method(http.MethodPost, "/create-order", handler(func(w http.ResponseWriter, r *http.Request) error {
		user, err := p.User(r.Context())
		if err != nil {
			return err
		}
		wish, err := order(r)
		if err != nil {
			return err
		}
		o, placed, err := p.Create(r.Context(), user, wish)
		if err != nil {
			return err
		}
		return showAt(w, r, placed, o)
	}))
	r.Method(http.MethodGet, "/orders", handler(func(w http.ResponseWriter, r *http.Request) error {
		orders, err := p.All(r.Context())
		if err != nil {
			return err
		}
		return answer(w, r, http.StatusOK, orders)
	}))
	// on is a handler for one order, whose id is in the path.
	on := func(do func(w http.ResponseWriter, r *http.Request, user, id string, when shop.Conditions) error) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			user, err := p.User(r.Context())
			if err != nil {
				return err
			}
			when, err := shop.ConditionsOf(r.Header)
			if err != nil && r.Method != http.MethodGet {
				return err
			}
			return do(w, r, user, chi.URLParam(r, "id"), when)
		}
	}
	r.Method(http.MethodGet, "/orders/{id}", on(func(w http.ResponseWriter, r *http.Request, user, id string, when shop.Conditions) error {
		o, err := p.Find(r.Context(), user, id, when)
		if err != nil {
			return err
		}
		return show(w, r, http.StatusOK, o)
	}))
	r.Method(http.MethodPut, "/orders/{id}", on(func(w http.ResponseWriter, r *http.Request, user, id string, when shop.Conditions) error {
		wish, err := order(r)
		if err != nil {
			return err
		}
		o, placed, err := p.Replace(r.Context(), user, id, wish, when)
		if err != nil {
			return err
		}
		if placed {
			return showAt(w, r, placed, o)
		}
		return show(w, r, http.StatusOK, o)
	}))
	r.Method(http.MethodDelete, "/orders/{id}", on(func(w http.ResponseWriter, r *http.Request, user, id string, when shop.Conditions) error {
		if err := p.Remove(r.Context(), user, id, when); err != nil {
			return err
		}
		return answer(w, r, http.StatusNoContent, nil)
	}))
	r.Method(http.MethodPost, "/orders/{id}/cancel", on(func(w http.ResponseWriter, r *http.Request, user, id string, when shop.Conditions) error {
		o, err := p.Cancel(r.Context(), user, id, when)
		if err != nil {
			return err
		}
		return show(w, r, http.StatusOK, o)
	}))
	r.Method(http.MethodPost, "/orders/{id}/add", on(func(w http.ResponseWriter, r *http.Request, user, id string, when shop.Conditions) error {
		wish, err := order(r)
		if err != nil {
			return err
		}
		o, err := p.Add(r.Context(), user, id, wish.Qty, when)
		if err != nil {
			return err
		}
		return show(w, r, http.StatusOK, o)
	}))
	return r
}

func order(r *http.Request) (shop.Order, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return shop.Order{}, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return shop.ParseOrder(body, r.FormValue, func() (io.ReadCloser, error) {
		f, _, err := r.FormFile("file")
		return f, err
	})
}

// showAt shows an order, which may be a new one, and says where it is.
func showAt(w http.ResponseWriter, r *http.Request, placed bool, o shop.Order) error {
	w.Header().Set("Location", "/orders/"+o.ID)
	return show(w, r, map[bool]int{true: http.StatusCreated, false: http.StatusOK}[placed], o)
}

func show(w http.ResponseWriter, r *http.Request, status int, o shop.Order) error {
	w.Header().Set("ETag", o.ETag())
	return answer(w, r, status, o)
}

func answer(w http.ResponseWriter, r *http.Request, status int, v any) error {
	if v != nil && status < 300 && shop.Twisted(r.Context()) {
		shop.Write(w, r, status, v)
		return nil
	}
	if v == nil {
		w.WriteHeader(status)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}
