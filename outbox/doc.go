// Package outbox is the server's side of the browser's half: it serves the
// scripts that keep each announced request until it is proven delivered, and
// gives their requests answers that they can read.
//
// Four things know of the outbox; the guard does not:
//
//	guard, err := onceward.New(store, outbox.Owned(scope, secret), onceward.Config{})
//	mux.Handle("/outbox/", outbox.Handler(outbox.Config{}))
//	mux.Handle("/", outbox.Edge(auth(guard.Handler(app)), outbox.EdgeConfig{Login: "/login"}))
//	// and in the page's head: {{.Outbox}}, made by
//	outbox.Script(outbox.ScriptConfig{Owner: outbox.Tag(secret, account)})
//
// [Edge] is outermost. [Handler] stands outside authentication, since a browser
// refuses a worker script that was redirected to a login page. [Owned] wraps the
// function that tells the guard whose key it is.
//
// Browsers run a service worker in a secure context only: https, or localhost and
// 127.0.0.1. A phone that opens the app by plain http at an address of the local
// network has no outbox: its changes have their keys, and none is kept.
//
// Do not use it for what only makes sense now (signing in, paying, codes from a
// text message): such requests are not announced and behave as ever. It merges
// nothing: of two changes of one thing, the one that arrives last stays.
package outbox
