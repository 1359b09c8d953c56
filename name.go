package onceward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

// findKey reads the request's key: from the header, else from the form field,
// else by KeyFrom. It reads the body only where no header has told the key and
// the body can have one. found is false for a request without a name; then
// q.r.Body still gives every byte.
func (q *request) findKey() (found bool, err error) {
	lines := q.r.Header[q.g.cfg.Header]
	switch len(lines) {
	case 1:
		if q.key, err = ParseKey(lines[0]); err != nil {
			return false, err
		}
	case 0:
	default:
		return false, fmt.Errorf("%w: %d lines of the header were sent", ErrKeyInvalid, len(lines))
	}
	if q.key != "" {
		return true, nil
	}
	if kind := formKind(q.r); kind != "" && q.g.cfg.FormField != "-" {
		found, err := q.keyFromForm(kind)
		if found || err != nil {
			return found, err
		}
	}
	if q.g.cfg.KeyFrom != nil {
		return q.keyFromFunc()
	}
	return false, nil
}

// keyInBody is the context's place for [KeyInBody].
type keyInBody struct{}

// KeyInBody is the key of the request that a [ScopeFunc] is asked about, where the
// form field or Config.KeyFrom has told it. It is "" where the header has, which
// the ScopeFunc can read, and everywhere outside a ScopeFunc.
func KeyInBody(ctx context.Context) string {
	key, _ := ctx.Value(keyInBody{}).(string)
	return key
}

// checkField holds the form field against the header: two names for one
// request are a mistake of the page. It runs when the body is read.
func (q *request) checkField() error {
	kind := formKind(q.r)
	if kind == "" || q.g.cfg.FormField == "-" || len(q.r.Header[q.g.cfg.Header]) == 0 {
		return nil
	}
	values, err := q.fieldValues(kind, q.body.reader())
	if err != nil {
		return err
	}
	for _, v := range values {
		if key, err := ParseKey(v); err != nil || key != q.key {
			return fmt.Errorf("%w: the header and the form field %s differ", ErrKeyInvalid, q.g.cfg.FormField)
		}
	}
	return nil
}

// formKind returns the boundary-free kind of an HTML form's body, or "".
func formKind(r *http.Request) string {
	ct := r.Header.Get("Content-Type")
	if ct == "" {
		return ""
	}
	kind, _, _ := strings.Cut(ct, ";")
	switch kind = strings.ToLower(strings.TrimSpace(kind)); kind {
	case "application/x-www-form-urlencoded", "multipart/form-data":
		return kind
	}
	return ""
}

func (q *request) keyFromForm(kind string) (found bool, err error) {
	if kind == "multipart/form-data" {
		// Only the first part is looked at, so an upload without a name is never
		// held up.
		found, err := q.peekFirstPart()
		if !found || err != nil {
			return false, err
		}
		if err := q.readBody(); err != nil {
			return false, err
		}
	} else if err := q.readForm(); err != nil {
		values, _ := q.fieldValues(kind, q.body.reader())
		if len(values) > 0 || errors.Is(err, ErrUnavailable) {
			return false, err
		}
		// No name was found in what could be read: the request is none of ours,
		// and its handler meets the same body and the same error.
		q.r.Body = &prefixed{io.MultiReader(q.body.reader(), failing{q.r.Body, err}), q.r.Body}
		return false, nil
	}
	values, err := q.fieldValues(kind, q.body.reader())
	if err != nil || len(values) == 0 {
		q.r.Body = q.body.body()
		return false, err
	}
	for i, v := range values {
		key, err := ParseKey(v)
		if err != nil {
			return false, err
		}
		if i > 0 && key != q.key {
			return false, fmt.Errorf("%w: the form field %s came twice with two values", ErrKeyInvalid, q.g.cfg.FormField)
		}
		q.key = key
	}
	return true, nil
}

// failing reads on from a body whose reading failed: what is left of one that
// was too large for us, or the same error again.
type failing struct {
	io.Reader
	err error
}

func (f failing) Read(p []byte) (int, error) {
	if errors.Is(f.err, errBody) {
		return 0, io.ErrUnexpectedEOF
	}
	return f.Reader.Read(p)
}

type prefixed struct {
	io.Reader
	io.Closer
}

// fieldValues returns the values of the key's form field. A body that cannot
// be parsed has none.
func (q *request) fieldValues(kind string, body io.Reader) ([]string, error) {
	field := q.g.cfg.FormField
	if kind == "multipart/form-data" {
		_, params, err := mime.ParseMediaType(q.r.Header.Get("Content-Type"))
		if err != nil || params["boundary"] == "" {
			return nil, nil
		}
		part, err := multipart.NewReader(body, params["boundary"]).NextPart()
		if err != nil || part.FormName() != field || part.FileName() != "" {
			return nil, nil
		}
		value, err := io.ReadAll(io.LimitReader(part, 4*MaxKeyLength))
		if err != nil {
			return nil, nil
		}
		return []string{string(value)}, nil
	}
	if q.body.file == nil {
		return formValues(string(q.body.mem), field), nil
	}
	return spooledValues(body, field)
}

// spooledValues is formValues for a body that is too large for memory: it holds
// one pair at a time, and of a long one the start.
func spooledValues(body io.Reader, field string) (values []string, err error) {
	r := bufio.NewReaderSize(body, 4<<10)
	for {
		slice, err := r.ReadSlice('&')
		pair := strings.TrimSuffix(string(slice), "&")
		if err == bufio.ErrBufferFull {
			// Far longer than a key: if it is the key's field at all, no valid one.
			name, _, _ := strings.Cut(pair, "=")
			pair = name + "=%00"
		}
		for err == bufio.ErrBufferFull {
			_, err = r.ReadSlice('&')
		}
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("%w: spool: %w", ErrUnavailable, err)
		}
		values = append(values, formValues(pair, field)...)
		if err == io.EOF {
			return values, nil
		}
	}
}

// formValues picks one field out of a urlencoded body without parsing the rest.
func formValues(body, field string) (values []string) {
	for body != "" {
		var pair string
		pair, body, _ = strings.Cut(body, "&")
		name, value, _ := strings.Cut(pair, "=")
		if name != field && !strings.ContainsAny(name, "%+") {
			continue
		}
		if n, err := url.QueryUnescape(name); err != nil || n != field {
			continue
		}
		v, err := url.QueryUnescape(value)
		if err != nil {
			v = "\x00" // no valid key, and no valid escape either
		}
		values = append(values, v)
	}
	return values
}

// peekFirstPart looks whether a multipart body begins with the key's field and
// puts back what it read.
func (q *request) peekFirstPart() (found bool, err error) {
	const enough = 4 << 10
	head, err := io.ReadAll(io.LimitReader(q.r.Body, enough))
	rest := q.r.Body
	if err != nil {
		q.r.Body = &prefixed{io.MultiReader(strings.NewReader(string(head)), failing{nil, errBody}), rest}
	} else {
		q.r.Body = &prefixed{io.MultiReader(strings.NewReader(string(head)), rest), rest}
	}
	values, _ := q.fieldValues("multipart/form-data", strings.NewReader(string(head)))
	return len(values) > 0, nil
}

func (q *request) keyFromFunc() (found bool, err error) {
	rest, tried := q.r.Body, q.body != nil
	if err := q.readBody(); err != nil {
		if errors.Is(err, ErrTooLarge) && !q.g.cfg.Require {
			// Where the key is cannot be read, so the request has none; its handler
			// gets every byte.
			if !tried { // else it is put together already
				q.r.Body = &prefixed{io.MultiReader(q.body.reader(), failing{rest, err}), rest}
			}
			return false, nil
		}
		return false, err
	}
	peek := *q.r
	peek.Body = q.body.body()
	value, err := q.g.cfg.KeyFrom(&peek)
	q.r.Body = q.body.body()
	if err != nil {
		return false, fmt.Errorf("%w: %w: %w", ErrKeyInvalid, errKeyFrom, err)
	}
	if value == "" {
		return false, nil
	}
	q.key, err = ParseKey(value)
	return err == nil, err
}

// readForm is readBody for one whose name may stand in it: that it says to be too large
// does not spare us the look, for a request with a name must not run unguarded.
func (q *request) readForm() error {
	if q.body == nil && q.r.ContentLength > q.g.cfg.MaxRequest {
		whole := q.r
		some := *whole
		some.ContentLength = -1
		q.r = &some
		defer func() { q.r = whole }()
	}
	return q.readBody()
}

// readBody takes the whole body into q.body, once. When that failed it fails
// again: what came of such a body names nothing.
func (q *request) readBody() error {
	if q.body != nil {
		return q.bodyErr
	}
	q.store.spool, q.store.memory = &q.g.spool, q.g.cfg.MaxMemory
	q.store.mem = q.store.small[:0]
	q.body = &q.store
	q.bodyErr = q.body.fill(q.r, q.g.cfg.MaxRequest)
	return q.bodyErr
}
