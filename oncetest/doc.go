// Package oncetest asserts that an HTTP handler survives what networks and people
// do to a request: it comes twice, or ten times at once; its answer is lost; its
// client leaves, or the process dies, at the worst moment.
//
//	func TestCreateOrder(t *testing.T) {
//		shop := newShop(t)
//		oncetest.Run(t, shop, func() *http.Request {
//			r := httptest.NewRequest("POST", "/create-order", strings.NewReader(`{"item":"tea"}`))
//			r.Header.Set("Idempotency-Key", oncetest.NewKey())
//			return r
//		}, oncetest.Config{
//			Effects:     shop.countOrders,
//			OtherBody:   `{"item":"jam"}`,
//			OtherPerson: func(r *http.Request) { r.Header.Set("Authorization", "Bearer of-boris") },
//			Break:       shop.fillDisk,
//		})
//	}
//
// Any [http.Handler] will do, whatever makes it repeatable: this package knows
// nothing of the guard that is in the same module, and judges any other as well.
//
// # What is judged
//
// Answers can lie, so "once" is judged by effects where the test tells how to see
// them: [Config.Effects] counts what was done, [Config.State] shows what came of
// it. With neither only answers are compared, which finds the handler that answers
// a repeat otherwise, and misses the one that works again and says the same.
//
// A test that could not fail is a failure here: a first try that was refused, or
// changed nothing that the test can see, or was answered out of an earlier test's
// memory.
//
// # What is not
//
// Requests are given to the handler itself, in this process; there is no socket.
// What only a real connection shows is the business of the package fault. A race
// is looked for, by holding the copies of a request back until all of them are in
// the handler; that none was found does not prove that there is none.
//
// The package imports testing and is for test files only.
package oncetest
