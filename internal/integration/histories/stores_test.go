package histories

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/onceward/onceward/internal/integration/servers"
)

// stores are those that must be linearizable.
var stores = []struct {
	name    string
	alone   bool // it is one process's memory
	address func(t *testing.T) string
}{
	{"memstore", true, func(*testing.T) string { return "memory:" }},
	{"sqlitestore", false, sqliteFile},
	{"pgxstore", false, func(t *testing.T) string { return servers.Postgres(t) }},
	{"redisstore", false, func(t *testing.T) string { return servers.Redis(t) }},
}

func sqliteFile(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "keys.db") }

// cutting puts a Cutter between a store and its server, if it has one, and
// returns the address that goes through it.
func cutting(t *testing.T, address string, share float64) (string, *Cutter) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if u.Host == "" {
		return address, nil
	}
	cutter, err := NewCutter(u.Host, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cutter.Close(); err != nil {
			t.Error(err)
		}
	})
	cutter.Cut(share)
	u.Host = cutter.Addr()
	return u.String(), cutter
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
			plan := small(4_000)
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
			plan := small(2_500)
			plan.Keys, plan.Window, plan.Clients, plan.Lose, plan.Calm = 5, 1, 100, 0.003, true
			linearizable(t, run(t, plan, store))
			if err := store.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
