package fault

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// framing finds the end of a message body in the bytes of a connection, so that
// they can be carried as they are ([RFC 9112 section 6]).
//
// [RFC 9112 section 6]: https://www.rfc-editor.org/rfc/rfc9112#section-6
type framing struct {
	kind framingKind
	left int64 // bytes left, of the body or of the chunk
	// chunked only
	part    chunkPart
	line    []byte
	trailer int           // bytes of trailer seen
	decoded *bytes.Buffer // the body without its chunk framing; nil: not kept
}

type framingKind int

const (
	noBody framingKind = iota
	byLength
	byChunks
	byClose // the body ends with the connection
)

type chunkPart int

const (
	chunkSize chunkPart = iota
	chunkData
	chunkEnd // the CRLF after the data
	chunkTrailer
)

const (
	maxChunkLine = 1 << 10
	maxTrailer   = 16 << 10
)

// feed takes the bytes of p that belong to the body and says whether the body
// ends with them.
func (f *framing) feed(p []byte) (n int, done bool, err error) {
	switch f.kind {
	case noBody:
		return 0, true, nil
	case byClose:
		return len(p), false, nil
	case byLength:
		n = int(min(f.left, int64(len(p))))
		f.left -= int64(n)
		return n, f.left == 0, nil
	}
	for n < len(p) {
		if f.part == chunkData {
			m := int(min(f.left, int64(len(p)-n)))
			if f.decoded != nil {
				f.decoded.Write(p[n : n+m])
			}
			n += m
			if f.left -= int64(m); f.left == 0 {
				f.part = chunkEnd
			}
			continue
		}
		b := p[n]
		n++
		f.line = append(f.line, b)
		if b != '\n' {
			if len(f.line) > maxChunkLine {
				return n, false, errors.New("a chunk's line is too long")
			}
			continue
		}
		line, ok := bytes.CutSuffix(f.line, []byte("\r\n"))
		if !ok {
			return n, false, errors.New("a chunk's line does not end in CRLF")
		}
		if done, err = f.endLine(line); done || err != nil {
			return n, done, err
		}
		f.line = f.line[:0]
	}
	return n, false, nil
}

func (f *framing) endLine(line []byte) (done bool, err error) {
	switch f.part {
	case chunkSize:
		size, _, _ := strings.Cut(string(line), ";")
		size = strings.TrimRight(size, " \t")
		if size == "" || len(size) > 15 || strings.Trim(size, "0123456789abcdefABCDEF") != "" {
			return false, fmt.Errorf("a chunk's size is %q", size)
		}
		// At most 15 hexadecimal digits: always an int64.
		f.left, _ = strconv.ParseInt(size, 16, 64)
		if f.part = chunkData; f.left == 0 {
			f.part = chunkTrailer
		}
	case chunkEnd:
		if len(line) != 0 {
			return false, errors.New("a chunk is longer than its size")
		}
		f.part = chunkSize
	case chunkTrailer:
		if len(line) == 0 {
			return true, nil
		}
		if f.trailer += len(line); f.trailer > maxTrailer {
			return false, errors.New("the trailer is too long")
		}
	}
	return false, nil
}

// relay carries a body from br to write, each piece as soon as it is there.
// The last piece, or the end of a body without bytes left, is announced to last
// before it is written. max bounds the body; negative: it does not.
func (f *framing) relay(br *bufio.Reader, max int64, write func(piece []byte, last bool) error) error {
	if f.kind == noBody || f.kind == byLength && f.left == 0 {
		return write(nil, true)
	}
	for total := int64(0); ; {
		_, err := br.Peek(1)
		if err == io.EOF && f.kind == byClose {
			return write(nil, true)
		}
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		piece, _ := br.Peek(br.Buffered())
		n, done, err := f.feed(piece)
		if err != nil {
			return fmt.Errorf("%w: %w", errFraming, err)
		}
		if total += int64(n); max >= 0 && total > max {
			return errBodyTooLarge
		}
		if err := write(piece[:n], done); err != nil {
			return err
		}
		br.Discard(n)
		if done {
			return nil
		}
	}
}

// gather reads a body whole. What came before an error is returned with it.
func (f *framing) gather(br *bufio.Reader, max int64) ([]byte, error) {
	var body []byte
	err := f.relay(br, max, func(piece []byte, _ bool) error {
		body = append(body, piece...)
		return nil
	})
	return body, err
}

// bodyFraming reads a head's Content-Length and Transfer-Encoding. A message
// with neither has no body here; an answer's caller turns that into byClose.
func bodyFraming(h http.Header, minor int) (framing, error) {
	codings, lengths := h["Transfer-Encoding"], h["Content-Length"]
	if len(codings) > 0 {
		switch {
		case len(lengths) > 0:
			return framing{}, errors.New("both Transfer-Encoding and Content-Length")
		case minor == 0:
			return framing{}, errors.New("Transfer-Encoding in HTTP/1.0")
		case len(codings) > 1 || !strings.EqualFold(codings[0], "chunked"):
			return framing{}, fmt.Errorf("%w: Transfer-Encoding %q", errUnsupported, strings.Join(codings, ", "))
		}
		return framing{kind: byChunks}, nil
	}
	if len(lengths) == 0 {
		return framing{}, nil
	}
	for _, l := range lengths {
		if l != lengths[0] || l == "" || len(l) > 18 || strings.Trim(l, "0123456789") != "" {
			return framing{}, fmt.Errorf("Content-Length %q", strings.Join(lengths, ", "))
		}
	}
	n, _ := strconv.ParseInt(lengths[0], 10, 64)
	return framing{kind: byLength, left: n}, nil
}

var (
	errHeadTooLarge = errors.New("the head is too large")
	errBodyTooLarge = errors.New("the body is too large")
	errFraming      = errors.New("the body's framing is wrong")
	errUnsupported  = errors.New("not supported")
	errMalformed    = errors.New("not an HTTP/1.1 message")
)
