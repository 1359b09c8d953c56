package storetest_test

import (
	"os"
	"strings"
	"testing"
)

// TestTheDocumentShowsTheStoreThatPasses holds docs/writing-a-store.md to
// example_store_test.go. UPDATE=1 writes the code into the document.
func TestTheDocumentShowsTheStoreThatPasses(t *testing.T) {
	source, err := os.ReadFile("example_store_test.go")
	if err != nil {
		t.Fatal(err)
	}
	const name = "../docs/writing-a-store.md"
	doc, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(doc)
	for _, title := range []string{"store", "test", "faulty"} {
		_, code, ok := strings.Cut(string(source), "\n// docs: "+title+"\n")
		code, _, ok2 := strings.Cut(code, "\n// docs: end")
		if !ok || !ok2 {
			t.Fatalf("example_store_test.go has no part %q", title)
		}
		code = strings.TrimSpace(code)
		if os.Getenv("UPDATE") == "1" {
			text = strings.ReplaceAll(text, "{{"+title+"}}", code)
		}
		if !strings.Contains(text, "```go\n"+code+"\n```") {
			t.Errorf("docs/writing-a-store.md does not show %q as it stands in example_store_test.go", title)
		}
	}
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
