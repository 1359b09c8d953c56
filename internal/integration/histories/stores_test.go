package histories

import (
	"path/filepath"
	"testing"
)

// stores are those that must be linearizable.
var stores = []struct {
	name    string
	alone   bool // it is one process's memory
	address func(t *testing.T) string
}{
	{"memstore", true, func(*testing.T) string { return "memory:" }},
	{"sqlitestore", false, func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "keys.db") }},
}

// onShared runs a test on each store that several processes can share.
func onShared(t *testing.T, test func(t *testing.T, address string)) {
	for _, s := range stores {
		if !s.alone {
			t.Run(s.name, func(t *testing.T) { test(t, s.address(t)) })
		}
	}
}

func open(t *testing.T, address string) *Opened {
	t.Helper()
	s, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// One process, so that the race detector sees what the test has: every store has
// a share of its calls here, memory all of them.
func TestEveryStoreIsLinearizable(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			store := open(t, s.address(t))
			plan := small(10_000)
			if s.alone {
				plan = small(calls(t))
				plan.Clients = 64
			}
			linearizable(t, run(t, plan, store))
			if err := store.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Many clients on few keys.
func TestHotKeysAreLinearizable(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			store := open(t, s.address(t))
			plan := small(5_000)
			plan.Keys, plan.Window, plan.Clients, plan.Lose = 10, 1, 100, 0.003
			linearizable(t, run(t, plan, store))
			if err := store.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
