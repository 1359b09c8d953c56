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

// The answer is stored only when it has been written: whoever did not get it has
// it all done again.
func ExampleConfig_AssertCrash() {
	done, answers := 0, map[string]string{}
	shop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if answers[key] == "" {
			done++
			fmt.Fprint(w, "order ", done)
			answers[key] = fmt.Sprint("order ", done)
			return
		}
		fmt.Fprint(w, answers[key])
	})

	r := httptest.NewRequest("POST", "/orders", strings.NewReader("tea"))
	r.Header.Set("Idempotency-Key", oncetest.NewKey())
	oncetest.Config{Effects: func() int { return done }}.AssertCrash(printer{}, shop, r)
	// Output:
	// POST /orders: sent again after a crash at the answer, a request was done twice
	// 	this answer:  200 "order 2"
	// 	effects:      0 before, 2 now
	// 	what to do:   store the answer before its first byte goes out, and free the key of a run that died
}

// A guard that keeps keys without their owners shows one person another's answer.
func ExampleAssertOtherPerson() {
	answers := map[string]string{}
	shop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if answers[key] == "" {
			answers[key] = "a notebook for " + r.Header.Get("X-User")
		}
		fmt.Fprint(w, answers[key])
	})

	r := httptest.NewRequest("POST", "/orders", strings.NewReader("notebook"))
	r.Header.Set("X-User", "anna")
	r.Header.Set("Idempotency-Key", oncetest.NewKey())
	oncetest.AssertOtherPerson(printer{}, shop, r, func(r *http.Request) { r.Header.Set("X-User", "boris") })
	// Output:
	// POST /orders: another person who used the same key got the first one's answer
	// 	first answer: 200 "a notebook for anna"
	// 	this answer:  200 "a notebook for anna"
	// 	what to do:   store keys by account and key together, and ask authentication for the account
}
