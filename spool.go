package onceward

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
)

// errSpoolFull means that MaxSpool is in use by other requests.
var errSpoolFull = fmt.Errorf("%w: the spool is full", ErrUnavailable)

// spool is the room on disk that one guard's requests share.
type spool struct {
	dir  string
	max  int64
	used atomic.Int64
}

// buffer holds one body: its start in memory and, past the limit, all of it in
// a file. It is written by one goroutine, then read.
type buffer struct {
	spool  *spool
	memory int64 // how much may stay in mem
	mem    []byte
	file   *os.File
	size   int64
	booked int64
	view   bytes.Reader // the one that body gives out
	small  [256]byte    // mem, as long as it fits
}

func (b *buffer) Write(p []byte) (int, error) {
	if b.file == nil {
		if b.size+int64(len(p)) <= b.memory {
			b.mem = append(b.mem, p...)
			b.size += int64(len(p))
			return len(p), nil
		}
		if err := b.toDisk(); err != nil {
			return 0, err
		}
	}
	if err := b.book(int64(len(p))); err != nil {
		return 0, err
	}
	n, err := b.file.Write(p)
	b.size += int64(n)
	if err != nil {
		return n, spoolError(err)
	}
	return n, nil
}

// spoolError is a disk that fails: no fault of the client's, who may try again.
func spoolError(err error) error { return fmt.Errorf("%w: spool: %w", ErrUnavailable, err) }

func (b *buffer) book(n int64) error {
	if b.spool.used.Add(n) > b.spool.max {
		b.spool.used.Add(-n)
		return errSpoolFull
	}
	b.booked += n
	return nil
}

// toDisk moves what is in memory to a file. The file's name is removed at once
// where the system allows it, so that a killed process leaves nothing behind.
func (b *buffer) toDisk() error {
	if err := b.book(b.size); err != nil {
		return err
	}
	f, err := os.CreateTemp(b.spool.dir, "onceward-*")
	if err != nil {
		return spoolError(err)
	}
	_ = os.Remove(f.Name())
	if _, err := f.Write(b.mem); err != nil {
		_ = f.Close()
		return spoolError(err)
	}
	b.file, b.mem = f, nil
	return nil
}

// reader reads the whole body from its start; any number may read at once.
func (b *buffer) reader() io.Reader {
	if b.file != nil {
		return io.NewSectionReader(b.file, 0, b.size)
	}
	return bytes.NewReader(b.mem)
}

// body is reader in the shape of an http.Request.Body.
func (b *buffer) body() io.ReadCloser {
	switch {
	case b.size == 0:
		return http.NoBody
	case b.file == nil:
		b.view.Reset(b.mem)
		return (*memoryBody)(&b.view)
	}
	return io.NopCloser(b.reader())
}

// memoryBody is a bytes.Reader that can be closed.
type memoryBody bytes.Reader

func (m *memoryBody) Read(p []byte) (int, error)         { return (*bytes.Reader)(m).Read(p) }
func (m *memoryBody) WriteTo(w io.Writer) (int64, error) { return (*bytes.Reader)(m).WriteTo(w) }
func (m *memoryBody) Close() error                       { return nil }

// free gives the room back.
func (b *buffer) free() {
	if b == nil {
		return
	}
	if b.file != nil {
		_ = b.file.Close()
		_ = os.Remove(b.file.Name()) // where an open file could not be removed
		b.file = nil
	}
	b.spool.used.Add(-b.booked)
	b.booked, b.mem = 0, nil
}

// fill reads r's body to a clean end. It fails with ErrTooLarge, with
// ErrUnavailable when there is no room to keep it, or with errBody: a body cut
// short never takes a key. What was read so far stays in b.
func (b *buffer) fill(r *http.Request, limit int64) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > limit {
		return fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, limit)
	}
	if n := r.ContentLength; n > 0 && n <= min(b.memory, 64<<10) {
		// The common body: of a known, small size. A large one gets its memory as
		// it comes: to promise a megabyte costs a client nothing.
		b.mem = b.small[:min(n, int64(len(b.small)))]
		if n > int64(len(b.small)) {
			b.mem = make([]byte, n)
		}
		got, err := io.ReadFull(r.Body, b.mem)
		b.mem, b.size = b.mem[:got], int64(got)
		if err != nil {
			return bodyError(err)
		}
		var end [1]byte
		if n, err := r.Body.Read(end[:]); n > 0 || err != io.EOF {
			return bodyError(err)
		}
		return nil
	}
	n, err := io.Copy(b, io.LimitReader(r.Body, limit+1))
	switch {
	case errors.Is(err, ErrUnavailable):
		return err
	case err != nil:
		return bodyError(err)
	case n > limit:
		return fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, limit)
	}
	return nil
}

func bodyError(err error) error {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, tooLarge.Limit)
	}
	if err == nil {
		return errBody
	}
	return fmt.Errorf("%w: %w", errBody, err)
}
