package main

import (
	"io"
	"strings"
	"testing"
)

// What cannot be kept is refused before anything is served.
func TestAtomicNeedsADatabaseThatHasTheOrdersToo(t *testing.T) {
	for _, args := range [][]string{
		{"-atomic"},
		{"-atomic", "-store", "memory:"},
	} {
		err := run(t.Context(), append(args, "-addr", "127.0.0.1:0"), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "-atomic needs a database") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
