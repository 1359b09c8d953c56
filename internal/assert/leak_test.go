package assert

import (
	"strings"
	"testing"
	"time"
)

func TestAGoroutineThatStaysIsFoundAndOneThatEndsIsNot(t *testing.T) {
	stay := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		time.Sleep(50 * time.Millisecond)
		close(ended)
	}()
	go func() { <-stay }()
	const here = "assert.TestAGoroutineThatStays"
	if left := LeftBehind(here, 300*time.Millisecond); strings.Count(left, "[chan receive") != 1 {
		t.Errorf("found %q", left)
	}
	<-ended
	close(stay)
	if left := LeftBehind(here, 5*time.Second); left != "" {
		t.Errorf("found %q though all have ended", left)
	}
}
