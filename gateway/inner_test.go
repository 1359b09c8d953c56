package gateway_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/onceward/onceward/gateway"
)

// R: what the guard of an application behind the gateway says of a request that it has
// not carried out is not kept as its answer: the client hears it, and its repeat is the
// application's to answer.
func TestAnApplicationWithAGuardOfItsOwnIsAskedAgain(t *testing.T) {
	for _, word := range []string{"in-progress", "unavailable", "released", "outcome-unknown"} {
		t.Run(word, func(t *testing.T) {
			app := serve(t, true, func(a *arrival) bool {
				switch a.n {
				case 1:
					a.say("HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\nRetry-After: 1\r\nIdempotency-Status: " + word + ";key=\"k\"\r\n\r\n")
				case 2:
					a.say("HTTP/1.1 201 Created\r\nContent-Length: 4\r\nIdempotency-Status: replayed;key=\"k\"\r\n\r\nmilk")
				}
				return false
			})
			addr := front(t, app.url(), gateway.Config{})
			first := send(t, addr, "POST", "/orders", "tea", key, "k")
			if first.want(t, http.StatusConflict, word); first.header.Get("Retry-After") != "1" || len(first.header["Idempotency-Status"]) != 1 {
				t.Errorf("answered %v", first.header)
			}
			send(t, addr, "POST", "/orders", "tea", key, "k").want(t, http.StatusCreated, "executed")
			send(t, addr, "POST", "/orders", "tea", key, "k").want(t, http.StatusCreated, "replayed")
			app.wantArrivals(2)
		})
	}
}

// R: so it is with one gateway behind another, while the first try still runs.
func TestAGatewayBehindAGatewayIsAskedAgain(t *testing.T) {
	held := make(chan bool)
	app := serve(t, true, func(a *arrival) bool {
		<-held
		a.say(created)
		return false
	})
	inner := front(t, app.url(), gateway.Config{})
	outer := front(t, "http://"+inner, gateway.Config{})
	direct := make(chan answer, 1)
	go func() { direct <- send(t, inner, "POST", "/orders", "tea", key, "k") }()
	for end := time.Now().Add(20 * time.Second); len(app.arrivals()) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	send(t, outer, "POST", "/orders", "tea", key, "k").want(t, http.StatusConflict, "in-progress")
	close(held)
	(<-direct).want(t, http.StatusCreated, "executed")
	send(t, outer, "POST", "/orders", "tea", key, "k").want(t, http.StatusCreated, "executed")
	app.wantArrivals(1)
}
