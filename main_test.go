package onceward_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails the package when a goroutine of ours outlives the tests: every
// waiter, sweeper and late completion must end.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leaked(); left != "" {
			fmt.Fprintln(os.Stderr, "goroutines were left behind:\n"+left)
			code = 1
		}
	}
	os.Exit(code)
}

func leaked() string {
	for wait := time.Millisecond; ; wait *= 2 {
		buf := make([]byte, 1<<20)
		var left []string
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "onceward") && !strings.Contains(g, "TestMain") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return ""
		}
		if wait > time.Second {
			return strings.Join(left, "\n\n")
		}
		time.Sleep(wait)
	}
}
