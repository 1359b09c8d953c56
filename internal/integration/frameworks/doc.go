// Package frameworks tests the programs of examples/frameworks from outside: those
// over HTTP by the tests of internal/integration/orders, those that speak in remote
// procedure calls by tests that say the same. It holds docs/frameworks.md to the
// code of the programs and to what has been run.
package frameworks
