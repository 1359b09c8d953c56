package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/examples/orders/ledger"
	"github.com/onceward/onceward/oncetest"
)

// docs: once_test.go
func TestAnOrderCountsOnce(t *testing.T) {
	app, orders := startShop(t)
	oncetest.Run(t, app, func() *http.Request {
		r := httptest.NewRequest("POST", "/create-order", strings.NewReader(`{"item":"tea","qty":1}`))
		r.Header.Set("X-User", "anna")
		r.Header.Set("Idempotency-Key", oncetest.NewKey())
		return r
	}, oncetest.Config{
		Effects:     orders.count,                                              // what was really done
		OtherBody:   `{"item":"jam","qty":1}`,                                  // under the same key: refused
		OtherPerson: func(r *http.Request) { r.Header.Set("X-User", "boris") }, // never sees anna's
		Break:       orders.breakDown,                                          // a 5xx; then mended
		Restart:     orders.restart,                                            // a new process on the same data
	})
}

// docs: end

// shopUnderTest is the whole program but its listener, on SQLite.
type shopUnderTest struct {
	t      *testing.T
	file   string
	atomic bool

	ledger ledger.Ledger
	close  func()
	broken bool
}

func startShop(t *testing.T) (http.Handler, *shopUnderTest) {
	s := &shopUnderTest{t: t, file: filepath.Join(t.TempDir(), "orders.db")}
	return s.start(), s
}

func (s *shopUnderTest) start() http.Handler {
	store, orders, closeStore, err := ledger.Open(context.Background(), "sqlite:"+s.file, "", slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	user := fromHeader("X-User")
	app := routes(&shop{orders, user})
	guards, handler, err := guard(store, user, onceward.Config{}, s.atomic, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.broken {
			http.Error(w, "the disk is full", http.StatusInternalServerError)
			return
		}
		app.ServeHTTP(w, r)
	}), false)
	if err != nil {
		s.t.Fatal(err)
	}
	s.ledger = orders
	closed := false
	s.close = func() {
		if closed {
			return
		}
		closed = true
		for _, g := range guards {
			if err := g.Close(context.Background()); err != nil {
				s.t.Error(err)
			}
		}
		if err := closeStore(); err != nil {
			s.t.Error(err)
		}
	}
	s.t.Cleanup(s.close)
	return handler
}

func (s *shopUnderTest) restart(testing.TB) http.Handler {
	s.close()
	return s.start()
}

func (s *shopUnderTest) count() int {
	list, err := s.ledger.All(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list)
}

func (s *shopUnderTest) breakDown() (mend func()) {
	s.broken = true
	return func() { s.broken = false }
}

// The same with claim, order and answer in one transaction.
func TestAnOrderCountsOnceInOneTransaction(t *testing.T) {
	s := &shopUnderTest{t: t, file: filepath.Join(t.TempDir(), "orders.db"), atomic: true}
	oncetest.Run(t, s.start(), func() *http.Request { return keyed("POST", "/create-order", `{"item":"tea","qty":1}`) }, oncetest.Config{
		Effects: s.count, OtherBody: `{"item":"jam","qty":1}`, Break: s.breakDown, Restart: s.restart,
		OtherPerson: func(r *http.Request) { r.Header.Set("X-User", "boris") },
	})
}

func keyed(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-User", "anna")
	r.Header.Set("Idempotency-Key", oncetest.NewKey())
	return r
}

// Each route that changes an order, on one order that is made for it.
func TestEveryChangeOfAnOrderCountsOnce(t *testing.T) {
	for _, c := range []struct{ name, method, path, body, other string }{
		{"replace", "PUT", "", `{"item":"jam","qty":3}`, `{"item":"jam","qty":4}`},
		{"cancel", "POST", "/cancel", ``, `{}`},
		{"remove", "DELETE", "", ``, `{}`},
		{"add", "POST", "/add", `{"qty":2}`, `{"qty":3}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			app, shop := startShop(t)
			place := func(name string) (path string) {
				r := keyed("PUT", "/orders/"+name, `{"item":"tea","qty":1}`)
				r.Header.Set("If-None-Match", "*")
				w := httptest.NewRecorder()
				app.ServeHTTP(w, r)
				if w.Code != http.StatusCreated {
					t.Fatalf("placing: %d %s", w.Code, w.Body)
				}
				return "/orders/" + name
			}
			n := 0
			oncetest.Run(t, app, func() *http.Request {
				n++
				return keyed(c.method, place(fmt.Sprint("order-", n))+c.path, c.body)
			}, oncetest.Config{
				State: func() string {
					list, err := shop.ledger.All(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					return fmt.Sprint(list)
				},
				OtherBody: c.other, Break: shop.breakDown,
				OtherPerson: func(r *http.Request) { r.Header.Set("X-User", "boris") },
			})
		})
	}
}

// Requirement 64, without any key: an order's own name, 201 and then 200.
func TestAnExternalIDCountsOnceWithoutAKey(t *testing.T) {
	_, s := startShop(t)
	n := 0
	oncetest.Run(t, routes(&shop{s.ledger, fromHeader("X-User")}), func() *http.Request {
		n++
		r := keyed("POST", "/create-order", fmt.Sprintf(`{"item":"tea","qty":1,"external_id":"basket-%d"}`, n))
		r.Header.Del("Idempotency-Key")
		return r
	}, oncetest.Config{Effects: s.count, Same: oncetest.CreatedThenOK, NoKey: true, NoBreak: true})
}
