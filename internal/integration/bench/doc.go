// Package bench measures what a single store's own benchmarks do not: the guard
// around a handler that writes to a database, tables of millions of keys, and the
// same work done by others. `make bench` runs it together with the benchmarks of
// the stores and judges them all.
//
// Whatever is compared runs in turn, in slices of a fraction of a second, on the
// same server or file, so that a machine that is busy for a while is busy for
// every side.
package bench
