// Package tiny holds one small to-do list four times, before and after each of the
// three steps of docs/guide.md:
//
//	0-toggle   as everybody writes it first: a repeated tap undoes itself
//	1-state    the button says what is wanted: a repeated tap changes nothing
//	2-key      what is created has a name: a repeated "Add" adds once
//	3-outbox   the browser keeps each request until it is proven delivered
//
// Start one with go run ./examples/tiny/0-toggle, and read what a step takes:
//
//	diff examples/tiny/0-toggle/main.go examples/tiny/1-state/main.go
//
// They keep their list in memory, so that nothing distracts: examples/orders is
// how a real service does it.
package tiny
