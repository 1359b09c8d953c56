//go:build linux

package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/memstore"
)

// fileLedger is a file to which each effect adds a line, for stores that have no
// room for the application's data: the other system that no transaction spans. It
// needs no lock, which a stopped process would keep.
type fileLedger struct{ name string }

func (l fileLedger) write(_ context.Context, key, by string) (id int64, err error) {
	f, err := os.OpenFile(l.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	id = 1 + rand.Int64N(1<<40)
	_, err = fmt.Fprintf(f, "%s %d %s\n", key, id, by) // one write, which the system keeps whole
	return id, err
}

func (l fileLedger) find(_ context.Context, key string) (id int64, err error) {
	lines, err := l.read(key)
	if err == nil && len(lines) > 0 {
		_, err = fmt.Sscanf(lines[0], "%d ", &id)
	}
	return id, err
}

// read returns a key's lines, without the key.
func (l fileLedger) read(key string) (lines []string, err error) {
	text, err := os.ReadFile(l.name)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+" "); ok {
			lines = append(lines, rest)
		}
	}
	return lines, err
}

func (l fileLedger) effects(_ context.Context, key string) (int, error) {
	lines, err := l.read(key)
	return len(lines), err
}

func (l fileLedger) locked(context.Context) (bool, error) { return false, nil }

func newFileLedger(t *testing.T) fileLedger {
	return fileLedger{filepath.Join(t.TempDir(), "ledger")}
}

func victimInMemory(_ context.Context, v *victim) (closeAll func(), err error) {
	v.store, v.ledger = memstore.New(memstore.Config{}), fileLedger{v.plan.Ledger}
	return func() {}, nil
}

// memorySite has nothing but the ledger. The records are in the victim and die
// with it.
type memorySite struct{ fileLedger }

func openMemory(t *testing.T) site { return memorySite{newFileLedger(t)} }

func (s memorySite) plan(string) plan                              { return plan{Ledger: s.name} }
func (s memorySite) upstream() (string, wire)                      { return "", nil }
func (s memorySite) settle(context.Context, string, bool) error    { return nil }
func (s memorySite) record(context.Context, string) (state, error) { return absent, nil }

func (s memorySite) lapsed(context.Context, string) (bool, error) { return false, nil }
