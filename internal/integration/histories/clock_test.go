package histories

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The tests of this file are about sqlitestore, the only store that measures with
// the clock of the process: the others measure with the server's, whatever the
// process thinks that time it is.

// B095, on the store whose clock is the process: the wall clock is set while a handler is at work. By the clock its
// lease is over, or has nearly begun; a repeat in the same process starts no
// second copy, and gets the first one's answer in the end.
func TestAStepOfTheWallClockStartsNoSecondCopy(t *testing.T) {
	for _, c := range []struct{ step, retention string }{{"10m", "24h"}, {"-10m", "24h"}, {"23h", "24h"}, {"10m", "5m"}} {
		step := c.step
		t.Run(step+" with a retention of "+c.retention, func(t *testing.T) {
			t.Parallel()
			address, effects := sqliteFile(t), filepath.Join(t.TempDir(), "effects")
			s := serve(t, address, effects, "-retention", c.retention)
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			var first string
			var wg sync.WaitGroup
			wg.Go(func() {
				status, body, outcome, err := post(t.Context(), client, s.url, "slow", "sleep=1500ms")
				if err != nil || status != http.StatusCreated || outcome != "executed" {
					t.Errorf("the first: %d, %s, %v: %s", status, outcome, err, body)
				}
				first = body
			})
			time.Sleep(300 * time.Millisecond) // now it is at work
			s.obey("clock " + step)
			for range 20 {
				status, body, outcome, err := post(t.Context(), client, s.url, "slow", "sleep=1500ms")
				if err != nil || status != http.StatusConflict || outcome != "in-progress" {
					t.Errorf("a repeat while it runs: %d, %s, %v: %s", status, outcome, err, body)
				}
			}
			wg.Wait()
			if status, body, outcome, err := post(t.Context(), client, s.url, "slow", "sleep=1500ms"); err != nil || outcome != "replayed" || body != first {
				t.Errorf("a repeat after it: %d, %s, %v: %q, want %q", status, outcome, err, body, first)
			}
			if n := effectsIn(t, effects)["slow"]; n != 1 {
				t.Errorf("it was run %d times", n)
			}
			nothingLeft(t, address, 1, s)
		})
	}
}

// All processes of a machine have its clock. It is set by ten minutes to and fro
// under 200 clients whose requests for a key go to one process: no process starts
// a second copy of what it runs, and no key is lost.
func TestTheWallClockIsSetUnderTwoHundredClients(t *testing.T) {
	address, effects := sqliteFile(t), filepath.Join(t.TempDir(), "effects")
	servers := []*server{serve(t, address, effects), serve(t, address, effects)}
	pick := anyOf(servers...)
	c := &crowd{t: t, turns: 12, pick: func(rng *rand.Rand, client, turn int) (string, *server) {
		key, _ := pick(rng, client, turn)
		h := fnv.New32()
		h.Write([]byte(key))
		return key, servers[h.Sum32()%2]
	}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(150 * time.Millisecond):
			}
			for _, s := range servers {
				s.obey([]string{"clock 10m", "clock 0s", "clock -10m", "clock 0s"}[i%4])
			}
		}
	}()
	c.run()
	close(stop)
	<-stopped
	ran := effectsIn(t, effects)
	c.exactlyOnce(ran)
	// A day later all that is left can be deleted.
	servers[0].obey("clock 25h")
	if told, want := servers[0].obey("sweep"), fmt.Sprint("swept ", len(ran)); told != want {
		t.Errorf("ONCEWARD_SEED=%d: a day later: %s, want %s", seed, told, want)
	}
	nothingLeft(t, address, 0, servers...)
}

// Two processes whose clocks differ by twenty minutes, as two machines' might,
// agree as long as the lease is longer than that: nothing else in the store
// compares one's clock with the other's.
func TestTwoClocksTwentyMinutesApartAgreeUnderALongLease(t *testing.T) {
	address, effects := sqliteFile(t), filepath.Join(t.TempDir(), "effects")
	servers := []*server{serve(t, address, effects, "-lease", "30m"), serve(t, address, effects, "-lease", "30m")}
	servers[0].obey("clock 10m")
	servers[1].obey("clock -10m")
	c := &crowd{t: t, pick: anyOf(servers...), turns: 12}
	c.run()
	ran := effectsIn(t, effects)
	c.exactlyOnce(ran)
	nothingLeft(t, address, len(ran), servers...)
}
