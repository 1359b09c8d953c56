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
// an error becomes an answer. It is inside of the guard, so the guard sees it.
type handler func(w http.ResponseWriter, r *http.Request) error

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		e := shop.AsError(err)
		if e.Location != "" {
			w.Header().Set("Location", e.Location)
		}
		_ = answer(w, r, e.Status, map[string]string{"error": e.Text})
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
		w.Header().Set("Location", "/orders/"+o.ID)
		return answer(w, r, map[bool]int{true: http.StatusCreated, false: http.StatusOK}[placed], o)
	}))
	r.Method(http.MethodGet, "/orders", handler(func(w http.ResponseWriter, r *http.Request) error {
		orders, err := p.All(r.Context())
		if err != nil {
			return err
		}
		return answer(w, r, http.StatusOK, orders)
	}))
	one := func(do func(ctx context.Context, user, id string) (shop.Order, error)) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			user, err := p.User(r.Context())
			if err != nil {
				return err
			}
			o, err := do(r.Context(), user, chi.URLParam(r, "id"))
			if err != nil {
				return err
			}
			return answer(w, r, http.StatusOK, o)
		}
	}
	r.Method(http.MethodGet, "/orders/{id}", one(p.Find))
	r.Method(http.MethodPost, "/orders/{id}/cancel", one(p.Cancel))
	r.Method(http.MethodPut, "/orders/{id}", handler(func(w http.ResponseWriter, r *http.Request) error {
		wish, err := order(r)
		if err != nil {
			return err
		}
		return one(func(ctx context.Context, user, id string) (shop.Order, error) {
			return p.Replace(ctx, user, id, wish)
		})(w, r)
	}))
	r.Method(http.MethodDelete, "/orders/{id}", handler(func(w http.ResponseWriter, r *http.Request) error {
		user, err := p.User(r.Context())
		if err == nil {
			err = p.Remove(r.Context(), user, chi.URLParam(r, "id"))
		}
		if err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
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

func answer(w http.ResponseWriter, r *http.Request, status int, v any) error {
	if status < 300 && shop.Twisted(r.Context()) {
		shop.Write(w, r, status, v)
		return nil
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		w.WriteHeader(status)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}
