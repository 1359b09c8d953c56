package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
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
		when, err := conditionsOf(h)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if err := when.check("r"); errors.Is(err, errStale) != c.stale {
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

// ask sends a request to a shop that nothing guards.
func ask(t *testing.T, h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Requirement 68. What holds on every store is tested from outside; here are the
// headers.
func TestAnOrdersETagIsItsRevision(t *testing.T) {
	orders, err := openFileLedger("")
	if err != nil {
		t.Fatal(err)
	}
	h := routes(&shop{orders, func(*http.Request) (string, error) { return "", nil }})
	created := ask(t, h, "POST", "/create-order", `{"item":"tea","qty":1}`)
	tag, at := created.Header().Get("ETag"), created.Header().Get("Location")
	if got := ask(t, h, "GET", at, ""); got.Code != 200 || got.Header().Get("ETag") != tag || len(tag) < 10 {
		t.Errorf("created with %s, read as %d with %s", tag, got.Code, got.Header().Get("ETag"))
	}
	for _, c := range []struct {
		name, value string
		want        int
	}{
		{"If-None-Match", tag, 304},
		{"If-None-Match", "W/" + tag, 304},
		{"If-None-Match", "*", 304},
		{"If-None-Match", `"another"`, 200},
		{"If-None-Match", `not a tag`, 200}, // reading does no harm
		{"If-Match", tag, 200},
		{"If-Match", "W/" + tag, 412},
		{"If-Match", `"another"`, 412},
	} {
		got := ask(t, h, "GET", at, "", c.name, c.value)
		if got.Code != c.want || got.Header().Get("ETag") != tag || c.want == 304 && got.Body.Len() > 0 {
			t.Errorf("GET with %s: %s is %d %v %s", c.name, c.value, got.Code, got.Header(), got.Body)
		}
	}
	for _, c := range []struct{ method, path string }{{"PUT", at}, {"DELETE", at}, {"POST", at + "/cancel"}, {"POST", at + "/add"}} {
		got := ask(t, h, c.method, c.path, `{"item":"jam","qty":2}`, "If-Match", "5")
		if got.Code != 400 || !strings.Contains(got.Body.String(), "If-Match") {
			t.Errorf("%s with a condition that is none: %d %s", c.method, got.Code, got.Body)
		}
	}
	changed := ask(t, h, "PUT", at, `{"item":"tea","qty":2}`, "If-Match", tag)
	if now := changed.Header().Get("ETag"); changed.Code != 200 || now == tag || now == "" {
		t.Errorf("changed: %d %s", changed.Code, now)
	}
}
