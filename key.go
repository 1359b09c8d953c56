package onceward

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Key is a record's identity: whose key, and which. Both halves are SHA-256
// sums and stay apart, so that a store can list, count and forget by scope and
// no raw key or account name is ever at rest. Method, path, query and body are
// not identity; they are in the [Fingerprint].
type Key struct{ Scope, ID [32]byte }

// NewKey hashes a scope (an account's stable name) and an idempotency key.
func NewKey(scope, key string) Key {
	return Key{Scope: sha256.Sum256([]byte(scope)), ID: sha256.Sum256([]byte(key))}
}

// Compare orders keys by scope, then by ID.
func (k Key) Compare(other Key) int {
	return cmp.Or(bytes.Compare(k.Scope[:], other.Scope[:]), bytes.Compare(k.ID[:], other.ID[:]))
}

// RecordID is the name of the record in logs: the first 16 hex digits of the
// key's hash. It tells nothing about the key to somebody who does not have it.
func (k Key) RecordID() string { return hex.EncodeToString(k.ID[:8]) }

// ScopeID is the scope's name in logs, made like RecordID.
func (k Key) ScopeID() string { return hex.EncodeToString(k.Scope[:8]) }

// MaxKeyLength is the longest idempotency key, in bytes, that is accepted.
const MaxKeyLength = 255

// validKey says why a key that came in no header is none.
func validKey(key string) error {
	if _, err := checkLength(key); err != nil {
		return err
	}
	if err := printable(key); err != nil {
		return fmt.Errorf("%w: %w", ErrKeyInvalid, err)
	}
	return nil
}

// ParseKey reads one header line's value. A quoted value is a structured field
// string (RFC 9651 section 3.3.3; draft-ietf-httpapi-idempotency-key-header-07
// section 2.1), in which spaces are allowed and backslash escapes a quote or a
// backslash; a bare value is what clients in the field send. "k1" and k1 are
// one key. Blanks around the value are trimmed. A key has 1 to MaxKeyLength
// bytes of visible ASCII; a bare one has no comma, quote or space.
//
// Every error wraps [ErrKeyInvalid].
func ParseKey(value string) (string, error) {
	v := strings.Trim(value, " \t")
	if v == "" {
		return "", fmt.Errorf("%w: it is empty", ErrKeyInvalid)
	}
	if v[0] == '"' {
		key, err := parseQuoted(v)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrKeyInvalid, err)
		}
		return checkLength(key)
	}
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c <= ' ' || c >= 0x7f:
			return "", fmt.Errorf("%w: a bare key has visible ASCII characters only", ErrKeyInvalid)
		case c == ',' || c == '"':
			return "", fmt.Errorf("%w: a bare key has no comma and no double quote", ErrKeyInvalid)
		}
	}
	return checkLength(v)
}

func checkLength(key string) (string, error) {
	if strings.Trim(key, " ") == "" {
		return "", fmt.Errorf("%w: it is blank", ErrKeyInvalid)
	}
	if len(key) > MaxKeyLength {
		return "", fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrKeyInvalid, len(key), MaxKeyLength)
	}
	return key, nil
}

func parseQuoted(v string) (string, error) {
	if strings.IndexByte(v[1:], '\\') < 0 {
		if end := strings.IndexByte(v[1:], '"'); end >= 0 {
			if end+2 != len(v) {
				return "", errors.New("something follows the closing quote")
			}
			return v[1 : end+1], printable(v[1 : end+1])
		}
	}
	var b strings.Builder
	for i := 1; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			if i+1 != len(v) {
				return "", errors.New("something follows the closing quote")
			}
			return b.String(), nil
		case c == '\\':
			i++
			if i == len(v) || v[i] != '"' && v[i] != '\\' {
				return "", errors.New("a backslash stands before something that is no quote and no backslash")
			}
			b.WriteByte(v[i])
		case c < ' ' || c >= 0x7f:
			return "", errors.New("a quoted key has printable ASCII characters only")
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("the closing quote is missing")
}

func printable(s string) error {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7f {
			return errors.New("a quoted key has printable ASCII characters only")
		}
	}
	return nil
}
