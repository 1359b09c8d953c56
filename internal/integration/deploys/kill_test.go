package deploys_test

import (
	"crypto/sha256"
	"testing"
	"time"

	mrand "math/rand/v2"
)

// Requirements 28 and 48, R1, R3: the process is killed while requests run. A
// change and its answer are one transaction, so a request is known to have been
// hit by what its client has: none has an answer, and of some the work is there
// with its record all the same.
func TestKillsInsideRequestsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	const (
		victims = 100 // requests in flight when the process dies
		untold  = 3   // of them those whose work was committed
		kills   = 6
	)
	p := startPlanner(t)
	c := hire(t, p, 48, 3)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			// Everybody always has something to send, and never a pile of it.
			for _, l := range c.lines {
				if l.left() < 2 {
					l.tap()
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()

	var flew int64
	committed := 0
	for round := 1; flew < victims || committed < untold || round <= kills; round++ {
		if round > 60 {
			t.Fatalf("after %d kills only %d requests were hit, %d of them after their commit", round-1, flew, committed)
		}
		time.Sleep(500*time.Millisecond + mrand.N(500*time.Millisecond))
		for end := time.Now().Add(30 * time.Second); c.stats.flying.Load() < 4 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		flying := c.stats.flying.Load()
		p.Kill()

		records := p.answered()
		told := 0
		for _, l := range c.lines {
			if w, ok := l.next(); ok && records[sha256.Sum256([]byte(w.key))] {
				told++
			}
		}
		t.Logf("kill %d: %d requests in flight, of %d the work was committed and nobody was told", round, flying, told)
		flew, committed = flew+flying, committed+told
		p.start()
	}
	close(stop)
	<-stopped
	c.settle(t, 3*time.Minute)

	v := judge(c.lines)
	t.Logf("%d taps in %d attempts, %d in flight when the process was killed, %d between commit and answer; %d replays: %v",
		c.taps(), c.stats.attempts.Load(), flew, committed, c.stats.replayed.Load(), v)
	v.expect(t)
}
