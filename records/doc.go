// Package records shows what a store knows, to the people who run a program: a
// read-only page with each record's state, age, lease and attempt, and what was done
// to it by hand. It is what `onceward keys list` and `onceward keys show` tell.
//
//	page, err := records.Listen("127.0.0.1:9465", store, logger)
//	defer page.Close(ctx)
//
// No key is on it, for no store has one: records go by the first digits of a hash, as
// in the log (`onceward keys hash KEY` says which). Neither are answers: of one that
// is kept the page tells status and size, never a header or a byte of its body. Paths
// are on it, as they are in the log.
//
// # When not to use it
//
// It is not for users, whom [onceward.Guard.Status] tells about their own key, and no
// place to change anything: `onceward keys release|complete` does that, and writes down
// who. There is no password. It belongs on a listener that only operators reach, which
// is why [Listen] takes this machine alone unless its address says otherwise.
package records
