// Package keys holds the tests of `onceward keys` on every store that outlives its
// processes: the real binary beside the real guard.
package keys
