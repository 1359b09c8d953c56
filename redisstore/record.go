package redisstore

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward"
)

// name is the Redis key of a record: the prefix, then scope and ID apart, so
// that a pattern finds a scope. Base64 because the name is a third of a small
// record. The braces are a Cluster's hash tag: what is added to a record later
// can lie in its slot.
func (s *Store) name(key onceward.Key) string {
	b := make([]byte, 0, len(s.prefix)+nameLength)
	b = append(b, s.prefix...)
	b = append(b, '{')
	b = base64.RawURLEncoding.AppendEncode(b, key.Scope[:])
	b = append(b, '.')
	b = base64.RawURLEncoding.AppendEncode(b, key.ID[:])
	return string(append(b, '}'))
}

const (
	hashLength = 43               // of 32 bytes in base64 without padding
	nameLength = 2*hashLength + 3 // "{", ".", "}"
)

// keyOf is the inverse of name; false for a name that is not a record's.
func (s *Store) keyOf(name string) (key onceward.Key, ok bool) {
	rest, ok := strings.CutPrefix(name, s.prefix)
	if !ok || len(rest) != nameLength || rest[0] != '{' || rest[1+hashLength] != '.' || rest[nameLength-1] != '}' {
		return key, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(key.Scope[:], []byte(rest[1:1+hashLength]))
	m, err2 := base64.RawURLEncoding.Strict().Decode(key.ID[:], []byte(rest[2+hashLength:nameLength-1]))
	return key, err == nil && err2 == nil && n == 32 && m == 32
}

// Redis keeps a hash in one compact piece of memory as long as none of its
// values is longer than hash-max-listpack-value, by default 64 bytes; past it
// each field is an allocation or three of its own. So an answer of usual size is
// cut into pieces of 63 bytes (the 64th would cost one byte more): head, head2,
// head3, … A longer one gains nothing by it and stays whole.
const (
	pieceLength = 63
	maxPieces   = 8
)

func pieceName(name string, i int) string {
	if i == 0 {
		return name
	}
	return name + strconv.Itoa(i+1)
}

// appendPieces appends the fields that hold value, each name followed by its
// value.
func appendPieces(args []any, name string, value []byte) []any {
	if len(value) > pieceLength*maxPieces {
		return append(args, name, value)
	}
	for i := 0; len(value) > 0; i++ {
		n := min(pieceLength, len(value))
		args = append(args, pieceName(name, i), value[:n])
		value = value[n:]
	}
	return args
}

// answerFields are the fields of an answer: its status and headers in the root
// package's versioned encoding, and its body as it is.
func answerFields(args []any, resp *onceward.Response) ([]any, error) {
	head, err := (&onceward.Response{Status: resp.Status, Header: resp.Header, BodyOmitted: resp.BodyOmitted}).MarshalBinary()
	if err != nil {
		return nil, err
	}
	args = appendPieces(args, "hd", head)
	return appendPieces(args, "bd", resp.Body), nil
}

// fields is a record as its hash has it.
type fields map[string]string

func (f fields) joined(name string) []byte {
	var b []byte
	for i := range maxPieces {
		piece, ok := f[pieceName(name, i)]
		if !ok {
			break
		}
		b = append(b, piece...)
	}
	return b
}

// record is what a caller may see of f at the moment now, in milliseconds. The
// error wraps onceward.ErrEncoding.
func (f fields) record(key onceward.Key, now int64) (onceward.Record, error) {
	rec := onceward.Record{Key: key, State: onceward.InProgress, Attempt: 1, Held: f["st"] == "held"}
	damaged := func(what string) (onceward.Record, error) {
		return onceward.Record{}, fmt.Errorf("%w: the record's %s", onceward.ErrEncoding, what)
	}
	if err := rec.Fingerprint.UnmarshalBinary([]byte(f["fp"])); err != nil {
		return damaged("fp")
	}
	if copy(rec.Token[:], f["tk"]) != len(rec.Token) || len(f["tk"]) != len(rec.Token) {
		return damaged("tk")
	}
	var ok bool
	if rec.Method, rec.Path, ok = strings.Cut(f["rq"], " "); !ok {
		return damaged("rq")
	}
	if n, there := f["n"]; there {
		var err error
		if rec.Attempt, err = strconv.Atoi(n); err != nil {
			return damaged("n")
		}
	}
	at, err := strconv.ParseInt(f["at"], 10, 64)
	if err != nil {
		return damaged("at")
	}
	rec.Age = time.Duration(max(0, now-at)) * time.Millisecond
	if lease, ok := f["le"]; ok {
		end, err := strconv.ParseInt(lease, 10, 64)
		if err != nil {
			return damaged("le")
		}
		rec.LeaseLeft = time.Duration(end-now) * time.Millisecond
		return rec, nil
	}
	rec.State = onceward.Completed
	rec.Response = new(onceward.Response)
	if err := rec.Response.UnmarshalBinary(f.joined("hd")); err != nil {
		return onceward.Record{}, err
	}
	rec.Response.Body = f.joined("bd")
	return rec, nil
}

// endless is longer than anybody waits and short enough that Lua, whose numbers
// are exact up to 2^53, adds such times up without error.
const endless = 100 * 365 * 24 * time.Hour

// milli rounds up, so that no lease is shorter than what was asked for.
func milli(d time.Duration) int64 {
	d = max(-endless, min(d, endless))
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// last is the last moment in which the record counts, as in the scripts; false:
// it never ends by itself, or that cannot be read.
func (f fields) last() (int64, bool) {
	number := func(name string) (int64, bool) {
		n, err := strconv.ParseInt(f[name], 10, 64)
		return n, err == nil
	}
	kp, ok := number("kp")
	from := "le"
	switch {
	case !ok || f["st"] == "held":
		return 0, false
	case f["st"] != "in-progress":
		from, kp = "at", kp-1
	case kp < 0:
		return 0, false
	}
	begin, ok := number(from)
	return begin + kp, ok
}

// absent judges expiry as the scripts do.
func (f fields) absent(now int64) bool {
	last, ends := f.last()
	return ends && now > last
}
