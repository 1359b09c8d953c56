package onceward

import "fmt"

// Fingerprint says which request a key named: a versioned hash. Two requests
// under one key with different fingerprints are a client's mistake (422). A
// record whose Version this process does not know is neither equal nor
// different: the guard answers 503.
type Fingerprint struct {
	Version uint8
	Sum     [32]byte
}

// AppendBinary appends the 33 bytes that a store keeps.
func (f Fingerprint) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, f.Version)
	return append(b, f.Sum[:]...), nil
}

// MarshalBinary returns the 33 bytes that a store keeps.
func (f Fingerprint) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// UnmarshalBinary reads what MarshalBinary made.
func (f *Fingerprint) UnmarshalBinary(data []byte) error {
	if len(data) != 33 {
		return fmt.Errorf("onceward: a fingerprint has 33 bytes, not %d", len(data))
	}
	f.Version = data[0]
	copy(f.Sum[:], data[1:])
	return nil
}
