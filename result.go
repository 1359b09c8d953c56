package onceward

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// FinalError is an error that is a result: [Do] keeps it, and every later call of
// the key gets it again. An error that work returns is final when there is a
// FinalError in its chain; what is kept is the whole error's text under that
// one's Code and Data. A package can declare its own and know them again, also
// after a replay:
//
//	var ErrSoldOut = &onceward.FinalError{Code: "sold-out", Message: "sold out"}
//	…
//	errors.Is(err, ErrSoldOut)
type FinalError struct {
	Code    string `json:"code,omitempty"` // the application's own
	Message string `json:"message"`
	Data    []byte `json:"data,omitempty"` // whatever is to come back with it

	cause error // of the first call, where MarkFinal made err final
}

func (e *FinalError) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return e.Message
}

// Is reports whether target is a FinalError of the same Code. One without a Code
// is only itself.
func (e *FinalError) Is(target error) bool {
	other, ok := target.(*FinalError)
	return ok && (other == e || e.Code != "" && other.Code == e.Code)
}

// Unwrap returns the error that [MarkFinal] made final; nil after a replay.
func (e *FinalError) Unwrap() error { return e.cause }

// ResultResponse is what Config.Resolve returns for a call of [Do] whose result it
// has found in the application's own data. There r.Method is DO, r.URL.Path the
// Call's Name, and r.Body its Input. result is what work would have returned, or
// a [*FinalError].
func ResultResponse(result any) (*Response, error) {
	if final, ok := result.(*FinalError); ok {
		return finalResponse(final), nil
	}
	return encodeResult(result)
}

// outcome is what became of a call: what work returned, or what is kept of it.
type outcome struct {
	value  any
	stored *Response
	err    error
}

func resultOf[T any](o outcome) (result T, replayed bool, err error) {
	switch {
	case o.stored != nil:
		if err = decodeResult(o.stored, &result); err != nil {
			var zero T
			result = zero
		}
		return result, true, err
	case o.err == nil:
		result, _ = o.value.(T) // not ok: T is an interface, and the value nil
	}
	return result, false, o.err
}

// The kinds of a kept result.
const (
	kindJSON  = "application/json"
	kindBytes = "application/octet-stream"
)

// encodeResult is the result as it is kept. A result may panic when it is asked for its
// JSON: its work is done all the same, and its claim has to be ended.
func encodeResult(v any) (_ *Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("onceward: the result has no JSON: a panic: %v", p)
		}
	}()
	if b, ok := v.([]byte); ok {
		return &Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {kindBytes}}, Body: slices.Clone(b)}, nil
	}
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("onceward: the result has no JSON: %w", err)
	}
	return &Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {kindJSON}}, Body: body}, nil
}

func finalResponse(e *FinalError) *Response {
	body, _ := json.Marshal(e) // strings and bytes: cannot fail
	return &Response{Status: http.StatusUnprocessableEntity, Header: http.Header{"Content-Type": {kindJSON}}, Body: body}
}

// textOf is the text of an error, of one too that panics when it is asked for it, as a
// nil pointer may.
func textOf(err error) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("%T, whose text cannot be had: %v", err, p)
		}
	}()
	return err.Error()
}

// trim leaves out a result that is too large to keep.
func (q *request) trim(resp *Response) {
	if int64(len(resp.Body)) > q.g.cfg.MaxResponse {
		resp.Body, resp.BodyOmitted = nil, true
	}
}

// decodeResult reads a kept result into what dst points to, or returns the error
// that it is.
func decodeResult(resp *Response, dst any) error {
	if resp.BodyOmitted {
		return ErrResultOmitted
	}
	final := resp.Status >= http.StatusBadRequest
	if b, ok := dst.(*[]byte); ok && !final && resp.Header.Get("Content-Type") == kindBytes {
		*b = bytes.Clone(resp.Body)
		return nil
	}
	var e FinalError
	if final {
		dst = &e
	}
	if err := json.Unmarshal(resp.Body, dst); err != nil {
		return fmt.Errorf("%w: %w: the kept result is of another type: %w", ErrUnavailable, ErrEncoding, err)
	}
	if final {
		return &e
	}
	return nil
}
