// Package onceward makes a request count once.
//
// A client that loses an answer cannot know whether its request was carried
// out. Not repeating it loses the action, repeating it doubles it. So the client
// gives the request a name, the Idempotency-Key header, and repeats it under
// that name; a [Guard] around the handler does named work once and gives every
// repeat the same answer:
//
//	guard, err := onceward.New(store, scope, onceward.Config{})
//	mux.Handle("/", auth(guard.Handler(app)))
//
// # The contract
//
// A record's identity is (scope, key): whose key, and which. Method, path, query
// and body are its fingerprint. Under one key
//
//   - the first request runs; the claim is in the store before the handler
//     starts, and the answer is in the store before the client gets its first
//     byte;
//   - a repeat gets the stored answer, byte for byte, with
//     Idempotency-Replayed: 1;
//   - a repeat while the first still runs gets 409 and Retry-After, or waits
//     (Prefer: wait=N; a form navigation by itself);
//   - another request under the same key gets 422 and changes nothing;
//   - a request of another scope is another record;
//   - an answer that speaks of the moment (5xx, 401, 403, 408, 429 and such) is
//     not kept: the key is free and the repeat is a real one;
//   - the handler runs to its end even when its client is gone;
//   - a process that dies leaves a claim whose lease runs out; then the repeat
//     runs.
//
// Every answer that a guard decided or saw through says so in
// [StatusHeader]. Only `executed` and `replayed` acknowledge the request; an
// answer without that header came from something else on the way.
//
// # What is not promised
//
// A process that dies after its work and before its answer is recorded leaves
// an outcome that nobody knows; the repeat runs, and what the first run did
// outside the handler's own safeguards is doubled. The choice behind it: a
// double is seen and can be undone, a loss is not seen. Endpoints that say what
// is wanted ("done = true", a client-made id) do not mind. Other choices:
//
//   - [Guard.Atomic], where the store is in the application's own database:
//     claim, work and answer commit together, and no outcome is unknown;
//   - Config.Unknown: [Hold] never runs it again, [Resolve] asks the
//     application's data.
//
// After Retention a key is unknown again. Work that the handler leaves behind in
// goroutines of its own is outside the guard. The guard resolves no conflicts:
// of two different wishes the later arrival wins.
//
// Do not use it for reads, which need nothing, or for actions that make sense
// only now, such as logging in: those stand outside the guard.
//
// # Beside handlers
//
// [Do] and [DoAtomic] are the same guard for work that is no HTTP request: a
// message of a queue, a nightly run. [Transport] is the client's half, for Go
// programs that call a guarded service.
//
// # Reading order
//
// store.go, guard.go, lease.go, run.go, capture.go, atomic.go, do.go; then storetest and one of the
// stores.
package onceward
