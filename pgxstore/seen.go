package pgxstore

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/onceward/onceward"
)

// seen remembers keys that have been answered lately. It is a hint about which
// requests are worth a plain look before more is done for them; a wrong one costs a
// read and changes no answer. A new key may push out an old one.
type seen struct{ slots [1 << 13]atomic.Uint64 }

func (s *seen) at(key onceward.Key) (*atomic.Uint64, uint64) {
	name := uint64(lockID(0, key))
	return &s.slots[binary.BigEndian.Uint64(key.ID[8:])%uint64(len(s.slots))], name
}

func (s *seen) add(key onceward.Key) {
	if slot, name := s.at(key); slot.Load() != name {
		slot.Store(name)
	}
}

func (s *seen) has(key onceward.Key) bool {
	slot, name := s.at(key)
	return slot.Load() == name
}
