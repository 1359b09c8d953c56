package onceward

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
)

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

// The versions of a fingerprint. One is raised whenever the same request would
// hash differently, so that the two sides of a rolling deploy never call a repeat
// a mismatch.
const (
	versionBytes = 1 // the body by its bytes
	versionJSON  = 2 // Config.CanonicalJSON
	versionOwn   = 3 // Config.Fingerprint

	versionHost = 64 // added to one of the others: Config.Host
)

// fingerprint hashes what makes a request the same request: the key, method,
// host (where it counts), path, raw query, content type and the whole body. A
// multipart body counts by its parts, because browsers make a new boundary for
// every try.
func (c *Config) fingerprint(r *http.Request, key Key, body *buffer) (Fingerprint, error) {
	b := make([]byte, 0, 1024)
	b = append(b, key.ID[:]...)
	if c.Host == nil {
		return c.fingerprintOf(r, b, body)
	}
	fp, err := c.fingerprintOf(r, appendString(b, c.Host(r)), body)
	fp.Version += versionHost
	return fp, err
}

// fingerprintOf hashes the rest of the request after b.
func (c *Config) fingerprintOf(r *http.Request, b []byte, body *buffer) (Fingerprint, error) {
	fp := Fingerprint{Version: versionBytes}
	b = appendString(b, r.Method)
	b = appendString(b, r.URL.EscapedPath())
	b = appendString(b, r.URL.RawQuery)
	contentType := strings.TrimSpace(r.Header.Get("Content-Type"))

	switch {
	case c.Fingerprint != nil:
		fp.Version = versionOwn
		own := r.WithContext(r.Context())
		own.Body = body.body()
		what, err := c.Fingerprint(own)
		if err != nil {
			return fp, fmt.Errorf("%w: fingerprint: %w", ErrUnavailable, err)
		}
		b = append(b, 'f')
		fp.Sum = sha256.Sum256(append(b, what...))
		return fp, nil
	case c.CanonicalJSON || c.Volatile != nil:
		fp.Version = versionJSON
		if isJSON(contentType) && body.file == nil {
			if what, ok := canonicalJSON(body.mem, c.volatile); ok {
				kind, _, _ := strings.Cut(contentType, ";") // a merge patch is another request than a document
				b = appendString(append(b, 'j'), strings.ToLower(strings.TrimSpace(kind)))
				fp.Sum = sha256.Sum256(append(b, what...))
				return fp, nil
			}
		}
	}
	if boundary, rest := multipartBoundary(contentType); boundary != "" {
		parts := sha256.New()
		err := hashParts(parts, multipart.NewReader(body.reader(), boundary))
		if err == nil {
			b = appendString(b, rest)
			fp.Sum = sha256.Sum256(parts.Sum(append(b, 'm')))
			return fp, nil
		}
		if !errors.Is(err, errParts) {
			return fp, err
		}
		// It calls itself multipart and is not: then its bytes count.
	}
	b = appendString(b, contentType)
	b = append(b, 'b')
	b = binary.AppendUvarint(b, uint64(body.size))
	if body.file == nil && len(b)+len(body.mem) <= cap(b) {
		fp.Sum = sha256.Sum256(append(b, body.mem...)) // the common request: no allocation
		return fp, nil
	}
	h := sha256.New()
	h.Write(b)
	if body.file == nil {
		h.Write(body.mem)
	} else if _, err := io.Copy(h, body.reader()); err != nil {
		return fp, fmt.Errorf("%w: spool: %w", ErrUnavailable, err)
	}
	h.Sum(fp.Sum[:0])
	return fp, nil
}

// multipartBoundary splits the boundary off a multipart content type. rest is
// the type with its other parameters in a fixed order.
func multipartBoundary(contentType string) (boundary, rest string) {
	if len(contentType) < 10 || !strings.EqualFold(contentType[:10], "multipart/") {
		return "", ""
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", ""
	}
	boundary = params["boundary"]
	delete(params, "boundary")
	return boundary, mime.FormatMediaType(kind, params)
}

// errParts means that a body is not the multipart that it says it is.
var errParts = errors.New("onceward: malformed multipart body")

func hashParts(h hash.Hash, mr *multipart.Reader) error {
	var b []byte
	for {
		part, err := mr.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errParts, err)
		}
		names := make([]string, 0, len(part.Header))
		for name := range part.Header {
			names = append(names, name)
		}
		slices.Sort(names)
		b = append(b[:0], 'p')
		b = binary.AppendUvarint(b, uint64(len(names)))
		for _, name := range names {
			b = appendString(b, name)
			b = binary.AppendUvarint(b, uint64(len(part.Header[name])))
			for _, v := range part.Header[name] {
				b = appendString(b, v)
			}
		}
		h.Write(b)
		content := sha256.New()
		n, err := io.Copy(content, part)
		if err != nil {
			return fmt.Errorf("%w: %w", errParts, err)
		}
		b = binary.AppendUvarint(b[:0], uint64(n))
		h.Write(content.Sum(b))
	}
}
