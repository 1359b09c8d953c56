package onceward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// State says where a record stands. There is no third state: "unknown outcome"
// is InProgress with its lease over, and needs no writer.
type State uint8

const (
	InProgress State = 1 // claimed, not yet answered
	Completed  State = 2 // answered; Record.Response is set
)

func (s State) String() string {
	switch s {
	case InProgress:
		return "in-progress"
	case Completed:
		return "completed"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Token is a fencing token: whoever shows it owns the claim. A handler that
// outlives its lease and was displaced cannot overwrite its successor, because
// the successor's token is another.
type Token [16]byte

// Record is what a store knows of a key. Durations are on the store's clock at
// the moment of the call.
type Record struct {
	Key          Key
	Fingerprint  Fingerprint
	Method, Path string
	Token        Token
	State        State
	// Attempt counts the claims of this key since it was last absent: 1 for the
	// first, one more for each take-over.
	Attempt int
	// Held: nobody may take the claim over (see Store.Extend).
	Held bool
	// LeaseLeft is how long the claim's lease still runs; zero or less: it is
	// over. Without meaning when Completed.
	LeaseLeft time.Duration
	// Age is the time since completion, or since the first claim while in
	// progress.
	Age time.Duration
	// Response is the stored answer; nil while in progress.
	Response *Response
}

// Response is a stored answer. It is read-only once stored: a replay must not
// change its Header or Body.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// BodyOmitted: the answer was too large or was streamed; its status and
	// headers are kept and a replay says body=omitted.
	BodyOmitted bool
}

// The encoding of a Response: a version byte, a flag byte, then uvarints and
// length-prefixed bytes. Header names are sorted; the values of a name keep
// their order and their bytes.
const (
	responseVersion  = 1
	flagBodyOmitted  = 1
	maxHeaderEntries = 1 << 16
)

// ErrEncoding means that stored bytes are no Response that this version of the
// package can read. The guard answers 503, never a run or a mismatch, so that a
// rolling deploy with a newer version harms nobody.
var ErrEncoding = errors.New("onceward: stored response has an unknown encoding")

// MarshalBinary encodes r for a store.
func (r *Response) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// AppendBinary appends r's encoding to b.
func (r *Response) AppendBinary(b []byte) ([]byte, error) {
	if r.Status < 100 || r.Status > 999 {
		return nil, fmt.Errorf("onceward: response status %d cannot be stored", r.Status)
	}
	var flags byte
	if r.BodyOmitted {
		flags |= flagBodyOmitted
	}
	b = append(b, responseVersion, flags)
	b = binary.AppendUvarint(b, uint64(r.Status))
	names := make([]string, 0, len(r.Header))
	lines := 0
	for name, values := range r.Header {
		names = append(names, name)
		lines += len(values)
	}
	slices.Sort(names)
	b = binary.AppendUvarint(b, uint64(lines))
	for _, name := range names {
		for _, value := range r.Header[name] {
			b = appendString(b, name)
			b = appendString(b, value)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.Body)))
	return append(b, r.Body...), nil
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// UnmarshalBinary decodes what MarshalBinary made. It copies what it keeps.
// Every error wraps [ErrEncoding].
func (r *Response) UnmarshalBinary(data []byte) error {
	d := decoder{data: data}
	if v := d.byte(); v != responseVersion {
		return fmt.Errorf("%w: version %d", ErrEncoding, v)
	}
	flags := d.byte()
	status := d.uvarint()
	lines := d.uvarint()
	if d.failed || flags&^flagBodyOmitted != 0 || status < 100 || status > 999 || lines > maxHeaderEntries {
		return fmt.Errorf("%w: damaged", ErrEncoding)
	}
	header := make(http.Header, min(int(lines), 64))
	for range lines {
		name, value := d.string(), d.string()
		if d.failed {
			return fmt.Errorf("%w: damaged", ErrEncoding)
		}
		header[name] = append(header[name], value)
	}
	body := d.bytes()
	if d.failed || len(d.data) != 0 {
		return fmt.Errorf("%w: damaged", ErrEncoding)
	}
	*r = Response{Status: int(status), Header: header, Body: slices.Clone(body), BodyOmitted: flags&flagBodyOmitted != 0}
	return nil
}

// decoder reads from data and remembers the first failure.
type decoder struct {
	data   []byte
	failed bool
}

func (d *decoder) byte() byte {
	if len(d.data) == 0 {
		d.failed = true
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 {
		d.failed = true
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if d.failed || n > uint64(len(d.data)) {
		d.failed = true
		return nil
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) string() string { return string(d.bytes()) }
