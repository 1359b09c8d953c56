package onceward_test

import (
	"os"
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
