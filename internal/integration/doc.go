// Package integration holds the tests that need third-party code, servers or
// browsers, and those that look at the repository as a whole. It is never
// tagged and nobody imports it; what it needs reaches no user.
//
//	browser/    the outbox and the planner in Chromium, Firefox and WebKit
//	deploys/    the planner restarted and killed under people who tap
//	histories/  what many processes saw of a store, and whether it could be so
//	cmd/suite   runs every check of the repository
//	cmd/bench   measures what is promised about speed
//	cmd/sqlq    asks an SQLite file one question; the browser tests use it
//	cmd/naive   a planner as everybody writes it first; the demo taps on it
//	cmd/parcels takes files over the outbox and says what arrived; the browser tests use it
package integration
