package fault

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// request is a client's request with the very bytes it came in.
type request struct {
	method, target string
	path, query    string
	minor          int // HTTP/1.minor
	header         http.Header
	head, body     []byte // as they came; head ends in an empty line
	frame          framing
}

// answer is the upstream's answer, likewise. If it was streamed, body is empty.
type answer struct {
	status int
	minor  int
	header http.Header
	head   []byte
	body   []byte
	frame  framing
}

// readHead reads up to and with the empty line, at most max bytes. Nothing read
// before the connection ended is io.EOF.
func readHead(br *bufio.Reader, max int) ([]byte, error) {
	var head []byte
	for {
		line, err := br.ReadSlice('\n')
		// A peer may send an empty line or two before a request (RFC 9112 2.2).
		if len(head) == 0 && err == nil && string(line) == "\r\n" {
			if max -= 2; max < 0 {
				return nil, errHeadTooLarge
			}
			continue
		}
		head = append(head, line...)
		switch {
		case len(head) > max:
			return head, errHeadTooLarge
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(head) > 0:
			return head, io.ErrUnexpectedEOF
		case err != nil:
			return head, err
		}
		if !bytes.HasSuffix(head, []byte("\r\n")) {
			return head, fmt.Errorf("%w: a line of its head does not end in CRLF", errMalformed)
		}
		if bytes.HasSuffix(head, []byte("\r\n\r\n")) {
			return head, nil
		}
	}
}

// parseHeader reads the lines after the first. It takes what a server takes and
// refuses what two servers might read differently.
func parseHeader(lines string) (http.Header, error) {
	h := http.Header{}
	for line := range strings.SplitSeq(strings.TrimSuffix(lines, "\r\n\r\n"), "\r\n") {
		if line == "" {
			continue // a head without fields
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			return nil, fmt.Errorf("%w: the field %.60q", errMalformed, line)
		}
		value = strings.Trim(value, " \t")
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("%w: a control character in the field %s", errMalformed, name)
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		h[name] = append(h[name], value)
	}
	return h, nil
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// parseRequest reads a request's head, which readHead has delimited.
func parseRequest(head []byte) (*request, error) {
	first, rest, _ := strings.Cut(string(head), "\r\n")
	method, after, ok1 := strings.Cut(first, " ")
	target, proto, ok2 := strings.Cut(after, " ")
	r := &request{method: method, target: target, head: head}
	switch proto {
	case "HTTP/1.1":
		r.minor = 1
	case "HTTP/1.0":
	case "HTTP/2.0":
		return nil, fmt.Errorf("%w: HTTP/2", errUnsupported)
	default:
		return nil, fmt.Errorf("%w: it begins %.60q", errMalformed, first)
	}
	if !ok1 || !ok2 || !isToken(method) || target == "" {
		return nil, fmt.Errorf("%w: it begins %.60q", errMalformed, first)
	}
	if strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return nil, fmt.Errorf("%w: a control character in the target", errMalformed)
	}
	if method == http.MethodConnect {
		return nil, fmt.Errorf("%w: CONNECT", errUnsupported)
	}
	r.path, r.query, _ = strings.Cut(target, "?")
	if !strings.HasPrefix(target, "/") && target != "*" {
		// The absolute form, which a client sends to a proxy. It goes on as it is.
		u, err := url.Parse(target)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("%w: the target %.60q", errMalformed, target)
		}
		if r.path, r.query = u.EscapedPath(), u.RawQuery; r.path == "" {
			r.path = "/"
		}
	}
	var err error
	if r.header, err = parseHeader(rest); err != nil {
		return nil, err
	}
	if r.frame, err = bodyFraming(r.header, r.minor); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return r, nil
}

// readBody reads the request's body whole and returns it without its framing.
func (r *request) readBody(br *bufio.Reader, max int64) (decoded []byte, err error) {
	if r.frame.kind == byChunks {
		r.frame.decoded = new(bytes.Buffer)
	}
	if r.frame.kind == byLength && max >= 0 && r.frame.left > max {
		return nil, errBodyTooLarge
	}
	if r.body, err = r.frame.gather(br, max); err != nil {
		return nil, err
	}
	if r.frame.decoded != nil {
		return r.frame.decoded.Bytes(), nil
	}
	return r.body, nil
}

// bytes returns the whole request.
func (r *request) bytes() []byte {
	return append(append(make([]byte, 0, len(r.head)+len(r.body)), r.head...), r.body...)
}

// half returns what a request lost on its way is worth: the head and half of
// the body, or half of the head.
func half(head, body []byte) []byte {
	if len(body) == 0 {
		return head[:len(head)/2]
	}
	return append(append([]byte(nil), head...), body[:len(body)/2]...)
}

// persists says whether the connection is meant to outlive the message.
func persists(h http.Header, minor int) bool {
	for _, v := range h["Connection"] {
		for option := range strings.SplitSeq(v, ",") {
			switch option = strings.TrimSpace(option); {
			case strings.EqualFold(option, "close"):
				return false
			case minor == 0 && strings.EqualFold(option, "keep-alive"):
				return true
			}
		}
	}
	return minor > 0
}

// readAnswer reads an answer's head and knows how its body will end.
func readAnswer(br *bufio.Reader, max int, method string) (*answer, error) {
	head, err := readHead(br, max)
	if err != nil {
		return nil, err
	}
	first, rest, _ := strings.Cut(string(head), "\r\n")
	proto, after, _ := strings.Cut(first, " ")
	code, _, _ := strings.Cut(after, " ")
	a := &answer{head: head}
	switch proto {
	case "HTTP/1.1":
		a.minor = 1
	case "HTTP/1.0":
	default:
		return nil, fmt.Errorf("%w: the answer begins %.60q", errMalformed, first)
	}
	if a.status, err = strconv.Atoi(code); err != nil || len(code) != 3 || a.status < 100 {
		return nil, fmt.Errorf("%w: the answer begins %.60q", errMalformed, first)
	}
	if a.header, err = parseHeader(rest); err != nil {
		return nil, err
	}
	if method == http.MethodHead || a.status < 200 || a.status == 204 || a.status == 304 {
		return a, nil
	}
	if a.frame, err = bodyFraming(a.header, a.minor); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if a.frame.kind == noBody {
		a.frame.kind = byClose
	}
	return a, nil
}

// interim says whether another answer follows this one.
func (a *answer) interim() bool { return a.status < 200 && a.status != http.StatusSwitchingProtocols }

// keeps says whether the client's connection outlives the answer.
func (a *answer) keeps() bool { return a.frame.kind != byClose && persists(a.header, a.minor) }
