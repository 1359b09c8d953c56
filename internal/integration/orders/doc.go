// Package orders tests the guard from outside: over real HTTP, against the real
// program examples/orders, on every store that the program knows. What happened
// is read from GET /orders, never from the answers.
//
// Each test is named after a case of docs/cases.md, or after the requirement
// that it holds the program to.
package orders
