package onceward_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheReadmesExampleIsTheTestedOne holds the first screen of the README to
// the code that Example runs.
func TestTheReadmesExampleIsTheTestedOne(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "// README begins.\n")
	code, _, ok := strings.Cut(code, "\t// README ends.")
	if !ok {
		t.Fatal("example_test.go has no part for the README")
	}
	var want strings.Builder
	for line := range strings.Lines(code) {
		want.WriteString(strings.TrimPrefix(line, "\t"))
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+want.String()+"```\n") {
		t.Errorf("README.md does not have the example as it is tested:\n%s", want.String())
	}
}

// TestTheReadmeNamesTestsThatExist holds the table of promises to the tree.
func TestTheReadmeNamesTestsThatExist(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "internal/integration/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(source)
		}
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+|[a-z/.-]+\\.(?:test\\.js|json))`").FindAllStringSubmatch(string(readme), -1)
	if len(names) < 5 {
		t.Fatalf("the README names %d tests", len(names))
	}
	for _, name := range names {
		if strings.HasPrefix(name[1], "Test") {
			if !strings.Contains(tests.String(), "func "+name[1]+"(") {
				t.Errorf("the README names %s, which is no test", name[1])
			}
		} else if _, err := os.Stat(name[1]); err != nil {
			t.Errorf("the README names %s: %v", name[1], err)
		}
	}
}
