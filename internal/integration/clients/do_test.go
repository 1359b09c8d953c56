package clients

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// A worker is killed with its call; the queue delivers the message to another.
func TestAMessageWhoseWorkerWasKilledIsDeliveredAgain(t *testing.T) { // B030, B033
	type want struct {
		said    string // by the second worker, when it is settled
		effects int
	}
	const (
		again    = "result false" // it ran
		replayed = "result true"
	)
	for _, c := range []struct {
		mode, strike string
		want         want
	}{
		{"do", "before work", want{again, 1}},
		{"do", "after work", want{again, 2}}, // what Do cannot know, and DoAtomic can
		{"do", "after completion", want{replayed, 1}},
		{"hold", "before work", want{"unknown", 0}},
		{"hold", "after work", want{"unknown", 1}},
		{"hold", "after completion", want{replayed, 1}},
		{"atomic", "before work", want{again, 1}},
		{"atomic", "after work", want{again, 1}},
		{"atomic", "after completion", want{replayed, 1}},
	} {
		t.Run(c.mode+" killed "+c.strike, func(t *testing.T) {
			onEach(t, func(t *testing.T, where string, db *database) {
				first, second := startWorker(t, workerConfig{where, c.mode, c.strike}), startWorker(t, workerConfig{where, c.mode, ""})
				began := time.Now()
				if said := first.call("m1"); said != "" {
					t.Fatalf("the first worker lives, and says %q", said)
				}
				said, waited := second.settled(t, "m1", began)
				if kind := short(said); kind != c.want.said {
					t.Errorf("the second worker says %q, want %q", said, c.want.said)
				}
				if wait := c.mode == "do" && c.strike != "after completion"; wait && !waited {
					t.Error("it did not wait for the dead worker's lease")
				}
				if c.want.said == again {
					if said := second.call("m1"); short(said) != replayed {
						t.Errorf("a third delivery: %q", said)
					}
				}
				if n, err := db.count("m1"); n != c.want.effects || err != nil {
					t.Errorf("%d effects, want %d: %v", n, c.want.effects, err)
				}
			})
		})
	}
}

// short leaves out the process.
func short(said string) string {
	if f := strings.Fields(said); len(f) == 3 && f[0] == "result" {
		return f[0] + " " + f[2]
	}
	return said
}

// Two workers get every message, at the same time.
func TestTwoWorkersThatGetEveryMessageDoEachOnce(t *testing.T) { // B017
	const messages = 40
	for _, mode := range []string{"do", "atomic"} {
		t.Run(mode, func(t *testing.T) {
			onEach(t, func(t *testing.T, where string, db *database) {
				var all sync.WaitGroup
				said := [2][messages]string{}
				for i := range said {
					w := startWorker(t, workerConfig{where, mode, ""})
					all.Go(func() {
						for m := range messages {
							said[i][m], _ = w.settled(t, fmt.Sprint("m", m), time.Now())
						}
					})
				}
				all.Wait()
				ran := [2]int{}
				for m := range messages {
					if n, err := db.count(fmt.Sprint("m", m)); n != 1 || err != nil {
						t.Errorf("message %d: %d effects, %v", m, n, err)
					}
					a, b := strings.Fields(said[0][m]), strings.Fields(said[1][m])
					if len(a) != 3 || len(b) != 3 || a[1] != b[1] || a[2] == b[2] {
						t.Errorf("message %d: the workers say %q and %q", m, said[0][m], said[1][m])
						continue
					}
					for i, f := range [2][]string{a, b} {
						if f[2] == "false" {
							ran[i]++
						}
					}
				}
				t.Logf("the workers ran %d and %d of them", ran[0], ran[1])
			})
		})
	}
}
