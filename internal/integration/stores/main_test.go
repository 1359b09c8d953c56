package stores_test

import (
	"flag"
	"os"
	"testing"

	"github.com/onceward/onceward/internal/assert"
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
	assert.Main(m, "onceward/sqlitestore.")
}
