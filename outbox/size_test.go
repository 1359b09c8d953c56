package outbox_test

import (
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/outbox"
)

var (
	blockComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	lineComment  = regexp.MustCompile(`(?m)^[ \t]*//.*\n|[ \t]+// .*$`)
	indent       = regexp.MustCompile(`(?m)^\s+`)
)

func gzipped(t *testing.T, text string) int {
	t.Helper()
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Len()
}

// Scripts are read by people and fetched by phones. What each part may weigh is
// its code, without comments and indentation, as one gzip stream; beside it stands
// what it may weigh as served, with comments and file by file. The aim is 8, 6 and
// 6 KB, and as served 1.6 times that; worker and page are over it, and are held
// where they are.
func TestTheScriptsAreSmall(t *testing.T) {
	h := outbox.Handler(outbox.Config{})
	for _, part := range []struct {
		name           string
		roots          []string
		code, asServed int
	}{
		{"worker", []string{"sw.js"}, 11 << 10, 23 << 10},
		{"page", []string{"page.js"}, 9 << 10, 18 << 10},
		{"kit", []string{"kit.js", "words.ru.js"}, 6 << 10, 6 << 10 * 16 / 10},
		// What a page loads only where something was refused, or where one can log out.
		{"kit's rest", []string{"kit-edit.js", "kit-leave.js"}, 3 << 9, 3 << 9 * 16 / 10},
	} {
		var text strings.Builder
		served := 0
		for _, name := range slices.Sorted(maps.Keys(closure(t, part.roots))) {
			switch {
			case part.name == "kit" && closure(t, []string{"page.js"})[name], part.name == "kit's rest" && closure(t, []string{"kit.js"})[name]:
				continue // there already
			}
			body, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString(indent.ReplaceAllString(lineComment.ReplaceAllString(blockComment.ReplaceAllString(string(body), ""), ""), ""))
			served += len(read(t, get(h, "/outbox/"+name, "Accept-Encoding", "gzip")))
		}
		size := gzipped(t, text.String())
		t.Logf("%s: %d bytes, as served %d", part.name, size, served)
		if size > part.code {
			t.Errorf("the %s has %d bytes, %d are allowed", part.name, size, part.code)
		}
		if served > part.asServed {
			t.Errorf("the %s is served as %d bytes, %d are allowed", part.name, served, part.asServed)
		}
	}
	sw, err := os.ReadFile("sw.js")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(sw, []byte("\n")); n > 60 {
		t.Errorf("sw.js has %d lines; it only wires", n)
	}
}
