package web

import (
	"io/fs"
	"path"
	"strings"
	"testing"
)

func TestOnlyCommentsDoNotTravel(t *testing.T) {
	const script = "// @ts-check\nimport { a } from './a.js'; // kept\n\n/** @type {number} */\nlet n = 1;\n  /** @type {any} */ (n).f();\n/**\n * Doc.\n */\nexport const f = () => `//${n}`; /* kept */\n"
	const want = "\nimport { a } from './a.js'; // kept\n\n\nlet n = 1;\n  /** @type {any} */ (n).f();\n\n\n\nexport const f = () => `//${n}`; /* kept */\n"
	if got := string(withoutComments([]byte(script))); got != want {
		t.Errorf("%q", got)
	}
	const style = "/* Paper. */\n\n:root { --a: 1px; } /* kept */\n/* Of two\n   lines. */\n*, ::before { margin: 0; }\n  /* Here too. */\n"
	if got, want := string(withoutComments([]byte(style))), "\n\n:root { --a: 1px; } /* kept */\n\n\n*, ::before { margin: 0; }\n\n"; got != want {
		t.Errorf("%q", got)
	}
}

// A text over several lines could have a line that looks like a comment.
func TestNoScriptHasATextOverSeveralLines(t *testing.T) {
	err := fs.WalkDir(staticFiles, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".js" || strings.HasSuffix(name, ".min.js") {
			return err
		}
		script, err := fs.ReadFile(staticFiles, name)
		for i, line := range strings.Split(string(script), "\n") {
			if text := strings.TrimSpace(line); strings.HasPrefix(text, "*") && strings.Contains(text, "*/") && !strings.HasSuffix(text, "*/") {
				t.Errorf("%s:%d: code behind the end of a comment: %s", name, i+1, line)
			}
		}
		for i, line := range strings.Split(string(withoutComments(script)), "\n") {
			code, _, _ := strings.Cut(line, " // ")
			if strings.Count(code, "`")%2 != 0 {
				t.Errorf("%s:%d: %s", name, i+1, line)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
