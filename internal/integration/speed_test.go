package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The first rows of docs/speed.md stand in README too; they are the same rows.
func TestTheReadmesFiguresAreThoseOfTheSpeedPage(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "speed.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, speed, _ := strings.Cut(string(readme), "\n## Speed\n")
	rows := 0
	for line := range strings.Lines(speed) {
		if strings.HasPrefix(line, "|") {
			rows++
			if !strings.Contains(string(page), line) {
				t.Errorf("docs/speed.md has no row %s", line)
			}
		}
	}
	if rows < 5 {
		t.Errorf("README has %d rows of figures", rows)
	}
}
