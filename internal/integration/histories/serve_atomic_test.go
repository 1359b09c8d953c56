package histories

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// B005, B017, B091, B092 with claim, work and answer in one transaction: 200 clients,
// hot keys, two processes on one database. One of the two is killed in the middle and
// starts anew, and connections are cut where there are any. Every key has one row,
// everybody gets its answer, and no goroutine, connection or row is left behind.
func TestTwoHundredClientsTwoProcessesOneTransactionEach(t *testing.T) {
	for _, s := range stores {
		if s.name != "sqlitestore" && s.name != "pgxstore" {
			continue // no other store is in the application's database
		}
		t.Run(s.name, func(t *testing.T) {
			address := s.address(t)
			through, cutter := cutting(t, address, 0)
			unused := filepath.Join(t.TempDir(), "effects")
			begin := func() *server { return serve(t, through, unused, "-atomic") }
			victim, other := begin(), begin()
			var heir atomic.Pointer[server]
			heir.Store(victim)
			if cutter != nil {
				cutter.Cut(0.003)
			}
			c := &crowd{t: t, turns: 8, pick: anyOf(victim, other), now: func(s *server) *server {
				if s == victim {
					return heir.Load()
				}
				return s
			}}
			asked := func() int {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.asked
			}
			var before int
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.run()
			}()
			for before < people && !closed(done) {
				time.Sleep(time.Millisecond)
				before = asked()
			}
			_ = victim.Process.Kill()
			_ = victim.Wait()
			if cutter != nil { // nothing is cut while a process starts
				cutter.Cut(0)
			}
			heir.Store(begin())
			if cutter != nil {
				cutter.Cut(0.003)
			}
			meanwhile := asked()
			<-done
			if meanwhile == before || asked() == meanwhile {
				t.Errorf("ONCEWARD_SEED=%d: %d requests before the kill, %d until the new process, %d in all: it was not in the middle", seed, before, meanwhile, asked())
			}
			if cutter != nil {
				cutter.Cut(0)
				t.Logf("%d connections were cut", len(cutter.Cuts()))
				if len(cutter.Cuts()) == 0 {
					t.Errorf("ONCEWARD_SEED=%d: no connection was cut", seed)
				}
			}
			store := open(t, address)
			ran, err := store.Effects(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Close(t.Context()); err != nil {
				t.Error(err)
			}
			c.exactlyOnce(ran)
			nothingLeft(t, address, len(ran), heir.Load(), other)
		})
	}
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
