package onceward_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

func Example() {
	orders := 0
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders++
		fmt.Fprintf(w, "order %d", orders)
	})
	user := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	guard, err := onceward.New(memstore.New(memstore.Config{}), user, onceward.Config{})
	if err != nil {
		panic(err)
	}
	defer guard.Close(context.Background())
	h := guard.Handler(app)

	for range 2 { // the answer to the first was lost
		r := httptest.NewRequest("POST", "/create-order", strings.NewReader(`{"item":"book"}`))
		r.Header.Set("X-User", "ann")
		r.Header.Set("Idempotency-Key", "4b7c")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Body, w.Header().Get("Idempotency-Status"))
	}
	// Output:
	// order 1 executed;key="4b7c"
	// order 1 replayed;key="4b7c"
}
