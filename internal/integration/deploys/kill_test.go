package deploys_test

import (
	"crypto/sha256"
	"testing"
	"time"

	mrand "math/rand/v2"
)

// Requirements 28 and 48, R1, R3: the process is killed while requests run. Those
// whose work was under way are known by their claims, which nobody has completed.
func TestKillsInsideRequestsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	const (
		victims = 20 // requests that the process has to die within
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

	seen := map[claim]bool{}
	var died, worked int
	var flew int64
	for round := 1; died < victims || round <= kills; round++ {
		if round > 60 {
			t.Fatalf("after %d kills only %d requests were hit", round-1, died)
		}
		time.Sleep(500*time.Millisecond + mrand.N(500*time.Millisecond))
		for end := time.Now().Add(30 * time.Second); c.stats.flying.Load() < 4 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		flying := c.stats.flying.Load()
		p.kill()

		// Which requests it died within, and how far they had come.
		byKey := map[string]wish{}
		for _, l := range c.lines {
			l.mu.Lock()
			for _, w := range l.wishes {
				hash := sha256.Sum256([]byte(w.key))
				byKey[string(hash[:])] = w
			}
			l.mu.Unlock()
		}
		there := map[string]bool{}
		for _, login := range []string{"anna0", "anna1", "anna2"} {
			for _, task := range p.tasks(login) {
				there[task.id] = true
			}
		}
		hit, begun := 0, 0
		for cl := range p.claims() {
			if seen[cl] {
				continue // of an earlier kill; its lease still runs
			}
			seen[cl] = true
			w, ok := byKey[cl.key]
			if !ok {
				t.Fatal("a claim of a key that nobody sent")
			}
			hit++
			if w.title != "" && there[w.id] {
				begun++ // the task is there, and nobody was told
			}
		}
		t.Logf("kill %d: %d requests in flight, %d of them inside their work, of %d the task was made already", round, flying, hit, begun)
		died, worked, flew = died+hit, worked+begun, flew+flying
		p.start()
	}
	close(stop)
	<-stopped
	// A killed claim is taken over when its lease is over.
	c.settle(t, 3*time.Minute)

	v := judge(c.lines)
	t.Logf("%d taps in %d attempts, %d in flight when the process was killed, %d inside their work, %d between work and answer; %d replays: %v",
		c.taps(), c.stats.attempts.Load(), flew, died, worked, c.stats.replayed.Load(), v)
	v.expect(t)
}
