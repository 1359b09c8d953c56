package onceward

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEqualJSONHasOneForm(t *testing.T) {
	for _, pair := range [][2]string{
		{`{"a":1,"b":2}`, ` { "b" : 2.0 , "a" : 10e-1 } `},
		{`{"a":"\u0041\/"}`, `{"a":"A/"}`},
		{`[0, -0, 0.0, 0e9]`, `[0,0,0,0]`},
		{`1e400`, `10e399`},
		{`{"a":{"y":[1,{"t":5}],"x":null}}`, `{"a":{"x":null,"y":[1,{"t":6}]}}`},
	} {
		a, ok1 := canonicalJSON([]byte(pair[0]), map[string]bool{"a.y.t": true})
		b, ok2 := canonicalJSON([]byte(pair[1]), map[string]bool{"a.y.t": true})
		if !ok1 || !ok2 || !bytes.Equal(a, b) {
			t.Errorf("%s and %s: %v %q, %v %q", pair[0], pair[1], ok1, a, ok2, b)
		}
	}
}

func TestDifferentJSONHasDifferentForms(t *testing.T) {
	texts := []string{
		`1`, `"1"`, `true`, `null`, `[]`, `{}`, `[null]`, `[[]]`, `{"a":null}`, `{"a":[]}`, `10`, `-1`, `0.1`,
		`0.1000000000000000055511151231257827`, // the same double as 0.1
		`9007199254740993`, `9007199254740992`, // the same double
		`["a","b"]`, `["ab"]`, `{"a":"b","c":"d"}`, `{"a":"d","c":"b"}`, `["n"]`, `[1,2]`, `[2,1]`, `[[1],2]`, `[[1,2]]`,
	}
	seen := map[string]string{}
	for _, text := range texts {
		form, ok := canonicalJSON([]byte(text), nil)
		if !ok {
			t.Errorf("%s has no form", text)
		}
		if other, twice := seen[string(form)]; twice {
			t.Errorf("%s and %s have one form", text, other)
		}
		seen[string(form)] = text
	}
}

// A name of 125 bytes begins with the byte of a closing brace as its length.
func TestANameCannotBeReadAsTheEndOfItsObject(t *testing.T) {
	text := strings.Repeat("x", 123)
	a, ok1 := canonicalJSON([]byte(`[{},"`+text+`n}"]`), nil)
	b, ok2 := canonicalJSON([]byte(`[{"s}`+text+`":null}]`), nil)
	if !ok1 || !ok2 || bytes.Equal(a, b) {
		t.Errorf("%v %q, %v %q", ok1, a, ok2, b)
	}
}

func TestWhatReadersUnderstandDifferentlyCountsByItsBytes(t *testing.T) {
	for _, text := range []string{
		``, `{`, `{"a":1}{"a":1}`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":1}}`, `"\ud800"`, `"\uDFFF"`, "\"\xff\"", "\"\ufffd\"", `[1`, `nul`, `1e99999999999`,
		string(bytes.Repeat([]byte("["), 2000)) + string(bytes.Repeat([]byte("]"), 2000)),
	} {
		if form, ok := canonicalJSON([]byte(text), nil); ok {
			t.Errorf("%.20s has the form %q", text, form)
		}
	}
}

// Whatever has a form has the same one after it was decoded and encoded.
func FuzzCanonicalJSON(f *testing.F) {
	for _, text := range []string{`{"a":[1.50,"x"],"b":{"c":null}}`, `[1e3,-0.0]`, `"\u00e9"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		form, ok := canonicalJSON(text, nil)
		if !ok {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q is no JSON and has a form", text)
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		other, ok := canonicalJSON(again, nil)
		if !ok || !bytes.Equal(form, other) {
			t.Fatalf("%q: %q, and anew %q: %v %q", text, form, again, ok, other)
		}
	})
}

func TestTheJSONTypeIsPartOfTheRequest(t *testing.T) {
	g := &Config{CanonicalJSON: true}
	print := func(contentType string) Fingerprint {
		r := httptest.NewRequest("PATCH", "/x", nil)
		r.Header.Set("Content-Type", contentType)
		body := []byte(`{"a":null}`)
		fp, err := g.fingerprint(r, NewKey("ann", "k"), &buffer{mem: body, size: int64(len(body))})
		if err != nil {
			t.Fatal(err)
		}
		return fp
	}
	if print("application/json") != print("Application/JSON; charset=utf-8") {
		t.Error("a parameter makes another request")
	}
	if print("application/json") == print("application/merge-patch+json") {
		t.Error("a merge patch is taken for the document itself")
	}
}

func TestAVolatilePathIsNoNameWithADot(t *testing.T) {
	for _, c := range []struct {
		path, a, b string
		same       bool
	}{
		{`client.sent_at`, `{"client":{"sent_at":1}}`, `{"client":{"sent_at":2}}`, true},
		{`client.sent_at`, `{"client.sent_at":1}`, `{"client.sent_at":2}`, false},
		{`client\.sent_at`, `{"client.sent_at":1}`, `{"client.sent_at":2}`, true},
		{`a\\.b`, `{"a\\":{"b":1}}`, `{"a\\":{"b":2}}`, true},
		{`a\\.b`, `{"a\\.b":1}`, `{"a\\.b":2}`, false},
		{`.b`, `{"":{"b":1}}`, `{"":{"b":2}}`, true},
		{`.b`, `{"b":1}`, `{"b":2}`, false},
	} {
		a, ok1 := canonicalJSON([]byte(c.a), map[string]bool{c.path: true})
		b, ok2 := canonicalJSON([]byte(c.b), map[string]bool{c.path: true})
		if !ok1 || !ok2 || bytes.Equal(a, b) != c.same {
			t.Errorf("%s leaves out what tells %s from %s: %v, want %v", c.path, c.a, c.b, bytes.Equal(a, b), c.same)
		}
	}
}
