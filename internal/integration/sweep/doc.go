// Package sweep kills a process that serves guarded requests at every point where
// it could die, stops it past its lease at every such point and wakes it again, and
// compares what is left with docs/semantics.md. All of it is tests, for Linux.
//
// `make sweep` goes through every point of every store and mode and prints a table;
// `make test` takes a sample.
package sweep
