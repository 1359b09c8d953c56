package ledger

import (
	"errors"
	"net/http"
	"strings"
)

// ErrStale is a precondition that does not hold: 412.
var ErrStale = errors.New("the order is not as your request expects it: read it again, and decide anew")

// Conditions are what a request demands of the order that it is about to
// change, RFC 9110 section 13.1. The zero value demands nothing.
type Conditions struct {
	match     tags // If-Match
	noneMatch tags // If-None-Match
}

// ConditionsOf reads them. What is no list of entity tags is an error, the
// client's: an unquoted revision would be a condition that silently never holds, or
// always.
func ConditionsOf(h http.Header) (c Conditions, err error) {
	for name, to := range map[string]*tags{"If-Match": &c.match, "If-None-Match": &c.noneMatch} {
		if *to, err = parseTags(h.Values(name)); err != nil {
			return c, errors.New(name + err.Error())
		}
	}
	return c, nil
}

// WantsNone says that the request wants to create, and only that. An order that is
// to be there as well cannot be: ErrStale.
func (c Conditions) WantsNone() (bool, error) {
	if c.noneMatch.any && c.match.given {
		return true, ErrStale
	}
	return c.noneMatch.any, nil
}

// Known says, of a request that only reads, whether its client has this revision
// already: 304. It returns ErrStale if that is not the one it asks for.
func (c Conditions) Known(revision string) (bool, error) {
	if c.match.given && !c.match.has(revision, false) {
		return false, ErrStale
	}
	return c.noneMatch.given && c.noneMatch.has(revision, true), nil
}

// Check returns ErrStale unless an order with this revision is as demanded.
// If-Match compares strongly, so that a weak tag never matches; If-None-Match
// weakly.
func (c Conditions) Check(revision string) error {
	if c.match.given && !c.match.has(revision, false) || c.noneMatch.given && c.noneMatch.has(revision, true) {
		return ErrStale
	}
	return nil
}

// tags is the value of If-Match or If-None-Match.
type tags struct {
	given bool // the header is there
	any   bool // it is *
	list  []tag
}

type tag struct {
	weak   bool
	opaque string
}

func (t tags) has(revision string, weakly bool) bool {
	for _, one := range t.list {
		if one.opaque == revision && (weakly || !one.weak) {
			return true
		}
	}
	return t.any
}

// parseTags reads * or a list of entity tags. Lines of one header are one list,
// in which elements may be empty.
func parseTags(lines []string) (t tags, err error) {
	if len(lines) == 0 {
		return t, nil
	}
	rest := strings.Trim(strings.Join(lines, ","), " \t")
	t.given = true
	if rest == "*" {
		t.any = true
		return t, nil
	}
	for {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			break
		}
		var one tag
		rest, one.weak = strings.CutPrefix(rest, "W/")
		inner, ok := strings.CutPrefix(rest, `"`)
		end := strings.IndexByte(inner, '"')
		if !ok || end < 0 {
			return tags{}, errNoTags
		}
		one.opaque, rest = inner[:end], strings.TrimLeft(inner[end+1:], " \t")
		if strings.IndexFunc(one.opaque, func(r rune) bool { return r <= ' ' || r == 0x7f }) >= 0 || rest != "" && rest[0] != ',' {
			return tags{}, errNoTags
		}
		t.list = append(t.list, one)
	}
	if t.list == nil {
		return tags{}, errNoTags
	}
	return t, nil
}

var errNoTags = errors.New(` is * or a list of entity tags in double quotes, as ETag gave them`)
