package outbox

import (
	"fmt"
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

func TestACommentThatEndsAFileLeavesNothingOfItself(t *testing.T) {
	for _, end := range []string{"// the end", "/* the end */", "/* the\n end */"} {
		if got := strings.TrimSpace(string(withoutComments([]byte("f();\n" + end)))); got != "f();" {
			t.Errorf("%q", got)
		}
	}
}

func TestWhatLooksLikeACommentAndIsNoneIsDoubted(t *testing.T) {
	const script = "const a = `one\n// two`;\n/**\n * Doc.\n */ f();\nconst b = `${a}`; // `\n"
	if got := doubts([]byte(script)); len(got) != 2 {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if got := doubts([]byte("// `\n/** `a */\nconst b = `${a}`;\n")); got != nil {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// doubts names the lines of a script that [withoutComments] may take for what they
// are not.
func doubts(script []byte) (found []string) {
	for i, line := range strings.Split(string(script), "\n") {
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "*") && strings.Contains(text, "*/") && !strings.HasSuffix(text, "*/") {
			found = append(found, fmt.Sprintf("line %d: code behind the end of a comment: %s", i+1, line))
		}
	}
	for i, line := range strings.Split(string(withoutComments(script)), "\n") {
		if code, _, _ := strings.Cut(line, " // "); strings.Count(code, "`")%2 != 0 {
			found = append(found, fmt.Sprintf("line %d: a text over several lines: %s", i+1, line))
		}
	}
	return found
}
