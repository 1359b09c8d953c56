// Package histories asks whether a store is linearizable: whether everything
// that many clients in several processes saw of a key could have been seen if
// each call had happened at one moment between its beginning and its end.
//
// Clients are goroutines that claim, extend, complete and release under keys that
// they fight for, with leases that run out, tokens of the displaced, answers that
// are lost, and processes that are killed with -9 in the middle. Each process
// writes down what it is about to ask before it asks, and what it was told
// afterwards, in a file that outlives it ([Recorder]). [Judge] then has Porcupine
// look for an order of the calls that the contract of onceward.Store allows
// (model.go).
//
// A call whose answer nobody heard may have happened at any time after it was
// made, or never; the client repeats it under the same token, as the guard does.
// One that was under way when a connection was cut may have happened twice, for
// stores and their clients repeat by themselves what a cut has made doubtful.
//
// go test ./internal/integration/histories makes some 24,000 calls to every store
// that processes can share, and `make sweep` 100,000, in processes built without the race
// detector; and some thousands more in the test's own process, with it if the test has
// it. More of it:
//
//	ONCEWARD_HISTORIES=1000000 go test -count=1 -timeout=60m -run Linearizable ./internal/integration/histories
//	ONCEWARD_SEED=42 go test -count=1 ./internal/integration/histories
//
// A seed gives the clients the same decisions again; how their calls meet is the
// machine's.
package histories
