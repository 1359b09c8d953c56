// Package operation answers for work that takes longer than a request may: the
// request is accepted with 202 and the address of a status resource, the work is
// done behind it, and the status tells what became of it.
//
//	ops, err := operation.New(runner, scope, operation.Config{Records: store})
//	mux.Handle("POST /exports", auth(ops.Repeats(guard.Atomic(http.HandlerFunc(export)))))
//	mux.Handle("GET /operations/{id}", auth(ops))
//
//	func export(w http.ResponseWriter, r *http.Request) {
//		ops.Accept(w, r, "export", input)
//	}
//
// # The contract
//
// An operation's name is the request's: its id is the hash of the idempotency key,
// in the caller's scope. So
//
//   - the same POST again is answered 202 with the same Location and the operation
//     as it stands now, and starts nothing ([Operations.Repeats]);
//   - also where the guard has forgotten the key, or a crash has kept it from
//     learning what was begun: the [Runner] refuses a second operation of one name;
//   - another request under the same key is refused with 422;
//   - nobody sees another's operation: in their scope there is none (404).
//
// The status is pending (with Retry-After), complete (with the result, or a link to
// it), failed (problem+json) or unknown. GET waits for it with ?wait=N.
//
// Unknown is said where nobody can tell: the process that did the work is gone and
// it may have done it. It is no promise that nothing happened, and it may become
// complete later, if somebody finishes after all.
//
// # Runners
//
// What does the work is a [Runner]. Package riveroperation runs it on River, in
// Postgres or SQLite, where operations outlive processes and, under
// onceward.Guard.Atomic, are begun in the one transaction that keeps their 202.
// [Local] runs it in goroutines of this process and says unknown after a restart.
//
// Do not use it for work that ends within a second or two: there the guard alone
// does the same with one request instead of three. And mind what Retention means:
// a runner that forgets an operation earlier than the guard forgets its key can
// answer a repeat only with unknown.
package operation
