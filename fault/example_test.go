package fault_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/onceward/onceward/fault"
)

// The worst moment: the work is done, and the answer is lost.
func Example() {
	var done atomic.Int32
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	defer app.Close()

	proxy, err := fault.New(app.URL, fault.Config{})
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go proxy.Serve(l)
	defer proxy.Close()

	// The next POST to /orders; everything else passes.
	if err := proxy.SetScript("POST /orders -> cut-after-forward"); err != nil {
		panic(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, err = client.Post("http://"+l.Addr().String()+"/orders", "text/plain", strings.NewReader("milk"))
	fmt.Println("the client knows nothing:", errors.Is(err, syscall.ECONNRESET))
	fmt.Println("orders made:", done.Load())
	for _, e := range proxy.Log() {
		fmt.Println(e.Method, e.Path, e.Mode, e.Fate, "forwarded", e.Forwarded, "upstream", e.Upstream)
	}
	// Output:
	// the client knows nothing: true
	// orders made: 1
	// POST /orders cut-after-forward reset forwarded 1 upstream [201]
}

func ExampleParsePlan() {
	plan, err := fault.ParsePlan("cut-after-forward=0.3,502=0.1,slow=2s; * /ping -> 503:ra=3")
	fmt.Println(plan, err)

	// The same seed, rule and number: the same fault, always.
	for i := range uint64(4) {
		fmt.Println(plan.Rules[0].Pick(42, i))
	}

	_, err = fault.ParsePlan("cut-after-forward=30%")
	fmt.Println(err)
	// Output:
	// cut-after-forward=0.3,502=0.1,slow=1:2s; * /ping -> 503=1:ra=3 <nil>
	// slow:2s+cut-after-forward
	// slow:2s+cut-after-forward
	// slow:2s
	// slow:2s
	// fault: "cut-after-forward=30%": the probability is a number from 0 to 1, such as 0.3
}

func ExampleTransport() {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "done")
	}))
	defer app.Close()

	network, err := fault.NewTransport(nil, fault.Config{Seed: 7})
	if err != nil {
		panic(err)
	}
	if err := network.SetScript("502-after, refuse, pass"); err != nil {
		panic(err)
	}
	client := &http.Client{Transport: network}
	for range 3 {
		res, err := client.Post(app.URL, "text/plain", strings.NewReader("milk"))
		if err != nil {
			fmt.Println("no answer; reset:", errors.Is(err, syscall.ECONNRESET))
			continue
		}
		fmt.Println(res.StatusCode)
		res.Body.Close()
	}
	// Output:
	// 502
	// no answer; reset: true
	// 200
}
