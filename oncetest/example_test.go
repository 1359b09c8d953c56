package oncetest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward/oncetest"
)

// printer is a testing.T for an example: it prints what a test would.
type printer struct{ testing.TB }

func (printer) Helper()           {}
func (printer) Error(args ...any) { fmt.Println(args...) }

// A creation without a name is done again when it is sent again.
func ExampleConfig_AssertRepeatable() {
	var orders []string
	shop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders = append(orders, r.FormValue("item"))
		w.WriteHeader(http.StatusCreated)
	})

	r := httptest.NewRequest("POST", "/orders?item=tea", nil)
	oncetest.Config{Effects: func() int { return len(orders) }}.AssertRepeatable(printer{}, shop, r)
	// Output:
	// POST /orders?item=tea: sent again, a request was done again: twice in all
	// 	first answer: 201 ""
	// 	this answer:  201 ""
	// 	effects:      0 before, 2 now
	// 	what to do:   give the request a name (Idempotency-Key) and do named work once; or let a unique key of the business find what is there
}

// A toggle undoes itself, whatever it answers.
func ExampleGet() {
	done := false
	task := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			done = !done
		} else {
			fmt.Fprint(w, "done: ", done)
		}
	})

	cfg := oncetest.Config{State: oncetest.Get(task, "/tasks/7", nil)}
	cfg.AssertRepeatable(printer{}, task, httptest.NewRequest("POST", "/tasks/7/toggle", strings.NewReader("")))
	// Output:
	// POST /tasks/7/toggle: sent again, a request undid what it had done: the state is what it was at first
	// 	first answer: 200 ""
	// 	this answer:  200 ""
	// 	what to do:   let the request say the state that it wants, instead of turning it over
}
