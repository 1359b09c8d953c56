// Package operations has the code of docs/long-work.md, and tests long work on real
// databases with workers in processes of their own, which are killed.
package operations
