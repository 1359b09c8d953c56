package histories

import (
	"net"
	"os"
	"runtime"
	"time"
)

// Left is what a process has: at its end as much as at its beginning.
type Left struct {
	Goroutines int
	Files      int    // open files and connections
	Stacks     string `json:",omitempty"` // of the goroutines, if there are more than before
}

// Beginning is what a process has now.
func Beginning() Left {
	// The runtime keeps two files for itself from the first connection on.
	if listener, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		listener.Close()
	}
	return Left{Goroutines: runtime.NumGoroutine(), Files: openFiles()}
}

// openFiles counts the process's open files, which connections are too.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// WhatIsLeft waits a while for what was begun after before to end, and says what
// has not.
func WhatIsLeft(before Left) Left {
	var now Left
	for range 500 {
		now = Left{Goroutines: runtime.NumGoroutine() - before.Goroutines, Files: openFiles() - before.Files}
		if now == (Left{}) {
			return now
		}
		time.Sleep(10 * time.Millisecond)
	}
	buffer := make([]byte, 1<<20)
	now.Stacks = string(buffer[:runtime.Stack(buffer, true)])
	return now
}
