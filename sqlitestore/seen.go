package sqlitestore

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/onceward/onceward"
)

// seen remembers keys that had a record lately. It is a hint about which claims
// are worth a look before they go to the writer; a wrong one costs a read and
// changes no answer. Its size is fixed: a new key may push out an old one.
type seen struct{ slots [1 << 13]atomic.Uint64 }

func (s *seen) at(key onceward.Key) (*atomic.Uint64, uint64) {
	tag := binary.LittleEndian.Uint64(key.ID[:8]) ^ binary.LittleEndian.Uint64(key.Scope[:8])
	return &s.slots[tag%uint64(len(s.slots))], tag
}

func (s *seen) add(key onceward.Key) {
	if slot, tag := s.at(key); slot.Load() != tag {
		slot.Store(tag)
	}
}

func (s *seen) has(key onceward.Key) bool {
	slot, tag := s.at(key)
	return slot.Load() == tag
}
