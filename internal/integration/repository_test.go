package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the repository, seen from this package's folder.
const root = "../.."

// repositoryFiles lists the files that are, or would be, in the repository,
// relative to root.
func repositoryFiles(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var files []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name == "" {
			continue
		}
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	if len(files) < 20 {
		t.Fatalf("found %d files only", len(files))
	}
	return files
}

// What only one machine has does not belong into a file that everybody gets.
// The words are put together here so that this file is not found itself.
var privateToAMachine = map[string]*regexp.Regexp{
	"a registry's address": regexp.MustCompile(strings.Join([]string{
		`registry\.npmjs` + `\.org`, `registry\.yarnpkg` + `\.com`, `proxy\.golang` + `\.org`, `sum\.golang` + `\.org`, `deb\.debian` + `\.org`,
	}, "|")),
	"a machine's folder": regexp.MustCompile(`(^|[\s"'=(:])/(work|root|home/[a-z]+|Users/[A-Za-z]+)/`),
}

func TestNoFileNamesOneMachine(t *testing.T) {
	for _, name := range repositoryFiles(t) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(text, 0) >= 0 {
			if ext := filepath.Ext(name); ext != ".png" {
				t.Errorf("%s is no text and no image: was something built there?", name)
			}
			continue
		}
		for what, pattern := range privateToAMachine {
			if at := pattern.FindIndex(text); at != nil {
				line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
				t.Errorf("%s:%d holds %s: %q", name, line, what, text[at[0]:at[1]])
			}
		}
	}
}

func TestNoFileIsTooLongToRead(t *testing.T) {
	const limit = 700
	for _, name := range repositoryFiles(t) {
		switch ext := filepath.Ext(name); {
		case ext != ".go" && ext != ".js" && ext != ".mjs":
			continue
		case strings.Contains(name, ".min."):
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > limit {
			t.Errorf("%s has %d lines: divide it by subject", name, n)
		}
	}
}
