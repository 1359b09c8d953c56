package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/fault"
	"github.com/onceward/onceward/memstore"
)

// A network that loses the first two answers, and a client that does not notice.
func ExampleTransport() {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Close(context.Background())
	orders := 0
	server := httptest.NewServer(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders++
		fmt.Fprintf(w, "order %d", orders)
	})))
	defer server.Close()
	network, err := fault.NewTransport(nil, fault.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := network.SetScript("POST /create-order -> cut-after-forward*2"); err != nil {
		log.Fatal(err)
	}

	transport, err := onceward.NewTransport(network, onceward.TransportConfig{
		Hosts:   []string{"127.0.0.1"}, // it honours keys
		Backoff: time.Millisecond,
		Observe: func(a onceward.TransportAttempt) { fmt.Println("attempt", a.Number, a.Status, a.Why) },
	})
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	res, err := client.Post(server.URL+"/create-order", "application/json", strings.NewReader(`{"item":"tea"}`))
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	fmt.Println(string(text), orders, onceward.Acknowledged(res))
	// Output:
	// attempt 1 0 there was no answer
	// attempt 2 0 there was no answer
	// attempt 3 200 answered
	// order 1 1 true
}

// One key for one intent, also over the death of the program: it is written down
// before the first try.
func ExampleContextWithKey() {
	transport, err := onceward.NewTransport(lossy{}, onceward.TransportConfig{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := onceward.ContextWithKey(context.Background(), "transfer-2026-117")
	req, err := http.NewRequestWithContext(ctx, "POST", "http://bank.example/transfers", strings.NewReader("12.50"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = (&http.Client{Transport: transport}).Do(req)
	var lost *onceward.SendError
	if errors.As(err, &lost) {
		fmt.Println("under", lost.Key, "again later; certainly not sent:", onceward.SafeToRetry(err))
	}
	// Output:
	// under transfer-2026-117 again later; certainly not sent: false
}

// lossy is a network that loses everything.
type lossy struct{}

func (lossy) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection reset by peer")
}
