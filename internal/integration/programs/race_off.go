//go:build !race

package programs

// Race tells whether the tests have the race detector; then the programs that they
// run want it too.
const Race = false
