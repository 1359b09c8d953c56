package onceward_test

import (
	"bytes"
	"errors"
	"net/http"
	"reflect"
	"testing"

	"github.com/onceward/onceward"
)

func TestAStoredResponseComesBackByteForByte(t *testing.T) { // B046, B052
	for _, r := range []onceward.Response{
		{Status: 200, Header: http.Header{}},
		{Status: 201, Header: http.Header{"Link": {"a", "b,c", "\"d\""}, "X": {""}, "Я": {"ю\xff"}}, Body: []byte("\x00\xff")},
		{Status: 303, Header: http.Header{"Location": {"/x"}}, BodyOmitted: true},
	} {
		b, err := r.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var got onceward.Response
		if err := got.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Header, r.Header) || got.Status != r.Status || got.BodyOmitted != r.BodyOmitted || !bytes.Equal(got.Body, r.Body) {
			t.Errorf("%+v came back as %+v", r, got)
		}
		for i := range b {
			if err := new(onceward.Response).UnmarshalBinary(b[:i]); !errors.Is(err, onceward.ErrEncoding) {
				t.Errorf("%d of %d bytes decoded: %v", i, len(b), err)
			}
		}
		b[0]++
		if err := got.UnmarshalBinary(b); !errors.Is(err, onceward.ErrEncoding) {
			t.Errorf("an unknown version decoded: %v", err)
		}
	}
	if _, err := (&onceward.Response{}).MarshalBinary(); err == nil {
		t.Error("a response without a status was encoded")
	}
}

func FuzzResponseUnmarshalBinary(f *testing.F) {
	b, _ := (&onceward.Response{Status: 201, Header: http.Header{"A": {"b", "c"}}, Body: []byte("x")}).MarshalBinary()
	f.Add(b)
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var r onceward.Response
		if err := r.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, onceward.ErrEncoding) {
				t.Fatal(err)
			}
			return
		}
		b, err := r.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var again onceward.Response
		if err := again.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v, then %+v, %v", r, again, err)
		}
	})
}

func TestAFingerprintHas33Bytes(t *testing.T) {
	f := onceward.Fingerprint{Version: 7, Sum: [32]byte{1, 2}}
	b, _ := f.MarshalBinary()
	var got onceward.Fingerprint
	if err := got.UnmarshalBinary(b); err != nil || got != f {
		t.Errorf("%v, %v", got, err)
	}
	if err := got.UnmarshalBinary(b[1:]); err == nil {
		t.Error("32 bytes were taken")
	}
}
