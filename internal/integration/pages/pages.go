// Package pages holds the pages of docs/ to code that runs.
//
// In a source file a piece for a page begins behind a line "// docs: TITLE" and
// reaches to the next such line; what is called "end" is no piece. The page shows it
// in a fenced block of its language, byte for byte but for JavaScript's "export".
package pages

import (
	"os"
	"path/filepath"
	"strings"
)

// T is what a test gives.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Piece is a piece of code for a page.
type Piece struct{ Title, Language, Code string }

// Pieces reads what files have for a page.
func Pieces(t T, files ...string) (all []Piece) {
	t.Helper()
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v", err)
		}
		language := strings.TrimPrefix(filepath.Ext(file), ".")
		for _, part := range strings.Split(string(source), "\n// docs: ")[1:] {
			title, code, _ := strings.Cut(part, "\n")
			if title == "end" {
				continue
			}
			if language == "js" {
				code = strings.ReplaceAll(code, "\nexport ", "\n")
			}
			all = append(all, Piece{title, language, strings.TrimSpace(code)})
		}
	}
	return all
}

// Hold fails t unless docs/page shows each piece of files and no other code in their
// languages, so that nothing on it is not run. With UPDATE=1 in the environment it
// writes a piece where the page says {{TITLE}}.
func Hold(t T, page string, files ...string) {
	t.Helper()
	name := filepath.Join("..", "..", "..", "docs", page)
	doc, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	text, shown := string(doc), map[string]int{}
	update := os.Getenv("UPDATE") == "1"
	for _, p := range Pieces(t, files...) {
		shown[p.Language]++
		if update {
			text = strings.ReplaceAll(text, "{{"+p.Title+"}}", p.Code)
		}
		if !strings.Contains(text, "```"+p.Language+"\n"+p.Code+"\n```") {
			t.Errorf("docs/%s does not show %q as it stands in the code", page, p.Title)
		}
	}
	if len(shown) == 0 {
		t.Errorf("%v have nothing for docs/%s", files, page)
	}
	for language, n := range shown {
		if blocks := strings.Count(text, "```"+language+"\n"); blocks != n {
			t.Errorf("docs/%s has %d blocks of %s, of which %d are run", page, blocks, language, n)
		}
	}
	if update {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatalf("%v", err)
		}
	}
}
