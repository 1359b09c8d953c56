// Package assert is what the tests of several packages check in the same way.
package assert

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Main is a package's TestMain: it runs the tests, and fails the package if a
// goroutine outlives them in whose stack code stands, such as "onceward/fault.".
func Main(m *testing.M, code string) {
	status := m.Run()
	if left := LeftBehind(code, 5*time.Second); status == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines were left behind:\n%s\n", left)
		status = 1
	}
	os.Exit(status)
}

// LeftBehind waits until no goroutine but the caller's has code in its stack, and
// returns the stacks of those that still have when patience is over.
func LeftBehind(code string, patience time.Duration) string {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		buf := make([]byte, 4<<20)
		var left []string
		for i, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if i > 0 && strings.Contains(stack, code) { // the first is the caller's
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}
