package stores_test

import (
	"os"
	"testing"
)

// killServerProcess is kill -9 of one of the server's processes.
func killServerProcess(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}
