package stores_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain runs the part of another process if the environment asks for it, and
// otherwise fails if a store has left a goroutine behind.
func TestMain(m *testing.M) {
	if part := os.Getenv(childPart); part != "" {
		os.Exit(runChild(part))
	}
	// The contract's cases wait for leases and for the disk, not for a processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	code := m.Run()
	if left := storeGoroutines(5 * time.Second); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "a closed store left goroutines behind:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// storeGoroutines waits until no goroutine is inside sqlitestore, and says which
// still are when the wait is over.
func storeGoroutines(wait time.Duration) string {
	for deadline := time.Now().Add(wait); ; time.Sleep(10 * time.Millisecond) {
		buf := make([]byte, 1<<20)
		var left []string
		for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "onceward/sqlitestore.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}
