package gateway_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/memstore"
)

// An application that adds an order with every POST, in whatever language, and
// the gateway before it.
func Example() {
	orders := 0
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d", orders)
	}))
	defer app.Close()

	store := memstore.New(memstore.Config{}) // a store that lasts is for real use
	g, err := gateway.New(app.URL, store, gateway.Cookie("sessionid"), gateway.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close(context.Background())
	front := httptest.NewServer(g)
	defer front.Close()

	for range 2 { // the answer was lost, so it is sent again
		req, _ := http.NewRequest("POST", front.URL+"/orders", strings.NewReader("tea"))
		req.Header.Set("Cookie", "sessionid=c2VjcmV0")
		req.Header.Set("Idempotency-Key", "k1")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		fmt.Println(res.StatusCode, string(body), res.Header.Get("Idempotency-Status"))
	}
	fmt.Println(orders, "order")
	// Output:
	// 201 order 1 executed;key="k1"
	// 201 order 1 replayed;key="k1"
	// 1 order
}
