package onceward

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// Two texts that mean different things have different forms, because what a text
// means can be read back from its form alone: a reader who looks at one byte at a
// time never has two ways to go on.
func FuzzACanonicalFormCanBeReadBack(f *testing.F) {
	for _, text := range []string{
		`{"a":[1.50,"x"],"b":{"c":null}}`, `[1e3,-0.0,true,false,null,""]`, `{"":{"":[{}]}}`, `"\u00e9"`,
		`[{"s}` + strings.Repeat("x", 123) + `":null}]`, `[{},"` + strings.Repeat("x", 123) + `n}"]`,
		`{"` + strings.Repeat("m", 109) + `":["` + strings.Repeat("]", 93) + `"]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		form, ok := canonicalJSON(text, nil)
		if !ok {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		r := &formReader{form: form}
		got, err := r.value()
		if err != nil || len(r.form) > 0 {
			t.Fatalf("%q has the form %q, of which %q cannot be read: %v", text, form, r.form, err)
		}
		if want := exact(want); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q has the form %q, which reads %#v, want %#v", text, form, got, want)
		}
	})
}

// TestNoLengthOfANameOrStringIsReadAsSomethingElse tries every length whose bytes
// could stand for a tag or a bracket, at each place where one is read.
func TestNoLengthOfANameOrStringIsReadAsSomethingElse(t *testing.T) {
	seen := map[string]string{}
	for n := range 300 {
		s := strings.Repeat("}", n)
		for _, text := range []string{
			fmt.Sprintf(`"%s"`, s), fmt.Sprintf(`["%s"]`, s), fmt.Sprintf(`{"%s":{}}`, s), fmt.Sprintf(`{"%s":[]}`, s),
			fmt.Sprintf(`{"a":"%s","b":1}`, s), fmt.Sprintf(`[{},"%s"]`, s), fmt.Sprintf(`[{"%s":null}]`, s), fmt.Sprintf(`[1%s]`, strings.Repeat("1", n)),
		} {
			form, ok := canonicalJSON([]byte(text), nil)
			if !ok {
				t.Fatalf("%s has no form", text)
			}
			if other, twice := seen[string(form)]; twice {
				t.Errorf("%s and %s have one form", text, other)
			}
			seen[string(form)] = text
			if err := (&formReader{form: form}).whole(); err != nil {
				t.Errorf("the form of %s cannot be read: %v", text, err)
			}
		}
	}
}

// number is a decimal without zeros at either end.
type number struct{ digits, exponent string }

// exact is v with its numbers as exact decimals, by arithmetic rather than by text.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		mantissa, power, _ := strings.Cut(strings.ToLower(string(v)), "e")
		exponent := new(big.Int)
		if power != "" {
			exponent.SetString(strings.TrimPrefix(power, "+"), 10)
		}
		if whole, fraction, ok := strings.Cut(mantissa, "."); ok {
			mantissa = whole + fraction
			exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
		}
		n, _ := new(big.Int).SetString(mantissa, 10)
		if n.Sign() == 0 {
			return number{"0", ""}
		}
		ten, rest := big.NewInt(10), new(big.Int)
		for {
			quotient, _ := new(big.Int).QuoRem(n, ten, rest)
			if rest.Sign() != 0 {
				return number{n.String(), exponent.String()}
			}
			n = quotient
			exponent.Add(exponent, big.NewInt(1))
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = exact(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name := range v {
			out[name] = exact(v[name])
		}
		return out
	}
	return v
}

// formReader reads a canonical form, a byte at a time.
type formReader struct{ form []byte }

var errForm = errors.New("no canonical form")

func (r *formReader) whole() error {
	if _, err := r.value(); err != nil || len(r.form) > 0 {
		return fmt.Errorf("%w, %q is left", errors.Join(errForm, err), r.form)
	}
	return nil
}

func (r *formReader) next() (byte, error) {
	if len(r.form) == 0 {
		return 0, errForm
	}
	b := r.form[0]
	r.form = r.form[1:]
	return b, nil
}

func (r *formReader) text() (string, error) {
	n, size := binary.Uvarint(r.form)
	if size <= 0 || n > uint64(len(r.form)-size) {
		return "", errForm
	}
	s := string(r.form[size : size+int(n)])
	r.form = r.form[size+int(n):]
	return s, nil
}

func (r *formReader) value() (any, error) {
	tag, err := r.next()
	if err != nil {
		return nil, err
	}
	switch tag {
	case 'n':
		return nil, nil
	case 'b':
		for _, v := range []bool{true, false} {
			if rest, ok := bytes.CutPrefix(r.form, []byte(strconv.FormatBool(v))); ok {
				r.form = rest
				return v, nil
			}
		}
	case 's':
		return r.text()
	case 'd':
		s, err := r.text()
		digits, exponent, _ := strings.Cut(s, "e")
		return number{digits, exponent}, err
	case '[':
		all := []any{}
		for len(r.form) > 0 && r.form[0] != ']' {
			v, err := r.value()
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		_, err := r.next()
		return all, err
	case '{':
		all := map[string]any{}
		for len(r.form) > 0 && r.form[0] == 'm' {
			r.form = r.form[1:]
			name, err := r.text()
			if err != nil {
				return nil, err
			}
			if all[name], err = r.value(); err != nil {
				return nil, err
			}
		}
		if end, err := r.next(); err != nil || end != '}' {
			return nil, errForm
		}
		return all, nil
	}
	return nil, errForm
}
