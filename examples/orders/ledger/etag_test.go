package ledger

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// RFC 9110 sections 8.8.3, 13.1.1 and 13.1.2.
func TestEntityTagsAreReadAsTheyAreWritten(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  []tag
		any   bool
		bad   bool
	}{
		{lines: nil},
		{lines: []string{`"a"`}, want: []tag{{false, "a"}}},
		{lines: []string{` W/"a" `}, want: []tag{{true, "a"}}},
		{lines: []string{`"a", W/"b" ,"c"`}, want: []tag{{false, "a"}, {true, "b"}, {false, "c"}}},
		{lines: []string{`"a"`, `"b"`}, want: []tag{{false, "a"}, {false, "b"}}},
		{lines: []string{`, "a",,"b",`}, want: []tag{{false, "a"}, {false, "b"}}},
		{lines: []string{`"a,b", "c"`}, want: []tag{{false, "a,b"}, {false, "c"}}},
		{lines: []string{`""`}, want: []tag{{false, ""}}},
		{lines: []string{"\"\u00e9\""}, want: []tag{{false, "\u00e9"}}},
		{lines: []string{`*`}, any: true},
		{lines: []string{"\t* "}, any: true},
		{lines: []string{`*, "a"`}, bad: true},
		{lines: []string{`*`, `*`}, bad: true},
		{lines: []string{`a`}, bad: true},
		{lines: []string{`5`}, bad: true},
		{lines: []string{`"a`}, bad: true},
		{lines: []string{`w/"a"`}, bad: true},
		{lines: []string{`W/ "a"`}, bad: true},
		{lines: []string{`"a" "b"`}, bad: true},
		{lines: []string{`"a"b`}, bad: true},
		{lines: []string{`"a b"`}, bad: true},
		{lines: []string{``}, bad: true},
		{lines: []string{`,`}, bad: true},
	} {
		got, err := parseTags(c.lines)
		if (err != nil) != c.bad || got.any != c.any || !slices.Equal(got.list, c.want) || got.given != (len(c.lines) > 0 && !c.bad) {
			t.Errorf("%q is read as %+v, %v", c.lines, got, err)
		}
	}
}

func TestIfMatchComparesStronglyIfNoneMatchWeakly(t *testing.T) {
	for _, c := range []struct {
		match, noneMatch string
		stale            bool
	}{
		{},
		{match: `"r"`},
		{match: `"q", "r"`},
		{match: `*`},
		{match: `"q"`, stale: true},
		{match: `W/"r"`, stale: true},
		{noneMatch: `"q"`},
		{noneMatch: `"r"`, stale: true},
		{noneMatch: `W/"r"`, stale: true},
		{noneMatch: `*`, stale: true},
		{match: `"r"`, noneMatch: `"q"`},
		{match: `"r"`, noneMatch: `"r"`, stale: true},
	} {
		h := http.Header{}
		if c.match != "" {
			h.Set("If-Match", c.match)
		}
		if c.noneMatch != "" {
			h.Set("If-None-Match", c.noneMatch)
		}
		when, err := ConditionsOf(h)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if err := when.Check("r"); errors.Is(err, ErrStale) != c.stale {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What is read can be written and read again as the same; nothing is read that
// has a character which no tag may have.
func FuzzParseTags(f *testing.F) {
	for _, s := range []string{`"a"`, `W/"a", "b"`, `*`, `, "a,b",`, `"`, `W/`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseTags([]string{s})
		if err != nil || got.any {
			return
		}
		if len(got.list) == 0 {
			t.Fatalf("%q is an empty list", s)
		}
		var again []string
		for _, one := range got.list {
			if strings.ContainsAny(one.opaque, "\" \t\r\n\x00\x7f") {
				t.Fatalf("%q has the tag %q", s, one.opaque)
			}
			text := `"` + one.opaque + `"`
			if one.weak {
				text = "W/" + text
			}
			again = append(again, text)
		}
		if back, err := parseTags(again); err != nil || !slices.Equal(back.list, got.list) {
			t.Fatalf("%q: %+v, then %+v, %v", s, got, back, err)
		}
	})
}
