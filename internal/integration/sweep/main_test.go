//go:build linux

package sweep

import (
	"flag"
	"os"
	"testing"
)

// TestMain is the victim's main function if the environment says so.
func TestMain(m *testing.M) {
	if spec := os.Getenv(victimPlan); spec != "" {
		os.Exit(runVictim(spec))
	}
	// The groups of points wait for leases, not for a processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
