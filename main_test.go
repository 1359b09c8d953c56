package onceward_test

import (
	"testing"

	"github.com/onceward/onceward/internal/assert"
)

// TestMain fails the package when a goroutine of ours outlives the tests: every
// waiter, sweeper and late completion must end.
func TestMain(m *testing.M) { assert.Main(m, "onceward") }
