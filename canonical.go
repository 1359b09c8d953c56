package onceward

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// isJSON reports whether a content type is JSON's, or built on it (RFC 6839).
func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// canonicalJSON writes what a JSON text says in one way only: members sorted, no
// white space, strings unescaped, numbers as exact decimals (RFC 8785 would round
// them to doubles, and two sums of money would be one). volatile members are left
// out. ok is false for what is not one JSON value that can be told apart from
// every other: then its bytes must count.
func canonicalJSON(text []byte, volatile map[string]bool) (out []byte, ok bool) {
	// A lone surrogate decodes to U+FFFD, as the real character does.
	if !utf8.Valid(text) || bytes.Contains(bytes.ToLower(text), []byte(`\ud`)) || bytes.ContainsRune(text, utf8.RuneError) {
		return nil, false
	}
	c := canonical{dec: json.NewDecoder(bytes.NewReader(text)), volatile: volatile}
	c.dec.UseNumber()
	token, err := c.dec.Token()
	if err != nil {
		return nil, false
	}
	out, err = c.value(make([]byte, 0, len(text)), token, "", 0)
	if err != nil {
		return nil, false
	}
	if _, err := c.dec.Token(); err != io.EOF {
		return nil, false
	}
	return out, true
}

type canonical struct {
	dec      *json.Decoder
	volatile map[string]bool
}

var errNotCanonical = errors.New("no canonical form")

const maxJSONDepth = 1000

// value appends the value that begins with token. Every part is tagged and has
// its length before it, so that no two values read alike. prefix is the path of the
// members that the value may have, without their names.
func (c *canonical) value(b []byte, token json.Token, prefix string, depth int) ([]byte, error) {
	if depth > maxJSONDepth {
		return nil, errNotCanonical
	}
	switch t := token.(type) {
	case nil:
		return append(b, 'n'), nil
	case bool:
		return strconv.AppendBool(append(b, 'b'), t), nil
	case string:
		return appendString(append(b, 's'), t), nil
	case json.Number:
		d, err := decimal(string(t))
		if err != nil {
			return nil, err
		}
		return appendString(append(b, 'd'), d), nil
	case json.Delim:
		if t == '[' {
			return c.array(append(b, '['), prefix, depth)
		}
		return c.object(append(b, '{'), prefix, depth)
	}
	return nil, errNotCanonical
}

func (c *canonical) array(b []byte, prefix string, depth int) ([]byte, error) {
	for {
		token, err := c.dec.Token()
		if err != nil {
			return nil, err
		}
		if token == json.Delim(']') {
			return append(b, ']'), nil
		}
		if b, err = c.value(b, token, prefix, depth+1); err != nil {
			return nil, err
		}
	}
}

func (c *canonical) object(b []byte, prefix string, depth int) ([]byte, error) {
	type member struct {
		name, path string
		text       []byte
	}
	var members []member
	for {
		token, err := c.dec.Token()
		if err != nil {
			return nil, err
		}
		if token == json.Delim('}') {
			break
		}
		name, ok := token.(string)
		if !ok {
			return nil, errNotCanonical
		}
		if token, err = c.dec.Token(); err != nil {
			return nil, err
		}
		at := prefix + dots.Replace(name)
		text, err := c.value(nil, token, at+".", depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, at, text})
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for i, m := range members {
		// Of two members with one name, some readers take the first, others the last.
		if i > 0 && members[i-1].name == m.name {
			return nil, errNotCanonical
		}
		if c.volatile[m.path] {
			continue
		}
		// Tagged, or the length of a name could be read as the closing brace.
		b = appendString(append(b, 'm'), m.name)
		b = append(b, m.text...)
	}
	return append(b, '}'), nil
}

// dots keeps a member whose own name has a dot apart from a path.
var dots = strings.NewReplacer(`\`, `\\`, `.`, `\.`)

// decimal writes a JSON number as sign, digits without zeros at either end, and
// the power of ten: 1.50, 15e-1 and 0.15E1 are 15e-1. -0 is 0.
func decimal(number string) (string, error) {
	sign := ""
	if number[0] == '-' {
		sign, number = "-", number[1:]
	}
	mantissa, exponent := number, 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		e, err := strconv.Atoi(number[i+1:])
		if err != nil || e > 1<<30 || e < -1<<30 {
			return "", errNotCanonical
		}
		mantissa, exponent = number[:i], e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if trimmed == "" {
		return "0", nil
	}
	return sign + trimmed + "e" + strconv.Itoa(exponent), nil
}
