package outbox

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"
)

// classicEntry is the module that the classic script stands for.
const classicEntry = "worker.js"

// classicAsset is the worker's modules as one classic script: inside it, each
// module is a function of its own, so that their private names cannot meet, and
// the entry's exports are found in self.onceward.
var classicAsset = sync.OnceValue(func() asset {
	script, err := classic(files, classicEntry)
	if err != nil {
		panic(err) // a test builds it from the very same files
	}
	return newAsset(withoutComments([]byte(script)), contentTypes[".js"], scriptPolicy)
})

// Statements that make a file a module. They begin a line in our files (a test
// holds them to it), and JSDoc's import types never do.
var (
	importStatement = regexp.MustCompile(`(?m)^import\s+(?:([^'"]*?)\s*from\s*)?['"]([^'"]+)['"];?[ \t]*$`)
	exportList      = regexp.MustCompile(`(?m)^export\s*\{([^}]*)\};?[ \t]*$`)
	exportFrom      = regexp.MustCompile(`(?m)^export\s*(?:\{[^}]*\}|\*(?:\s+as\s+\w+)?)\s*from\b`)
	exportDefined   = regexp.MustCompile(`(?m)^export\s+((?:async\s+)?function\s*\*?|class|const)\s+([A-Za-z_$][\w$]*)`)
	exportLeft      = regexp.MustCompile(`(?m)^export\b.*$`)
	importLeft      = regexp.MustCompile(`(?m)^import\b.*$|\bimport\.meta\b`)
)

type classicBuild struct {
	files fs.FS
	out   strings.Builder
	done  map[string]bool // false while its imports are being written
}

// classic joins entry and all that it imports. It understands the forms that our
// files use and refuses the others by name, rather than write a script that is
// nearly right.
func classic(files fs.FS, entry string) (string, error) {
	b := &classicBuild{files: files, done: map[string]bool{}}
	b.out.WriteString("'use strict';\nself.onceward = (() => {\nconst modules = {};\n")
	if err := b.module(entry); err != nil {
		return "", fmt.Errorf("onceward: outbox: the classic script: %w", err)
	}
	fmt.Fprintf(&b.out, "return modules[%q];\n})();\n", entry)
	return b.out.String(), nil
}

func (b *classicBuild) module(name string) error {
	if done, seen := b.done[name]; seen {
		if !done {
			return fmt.Errorf("%s imports itself in a circle", name)
		}
		return nil
	}
	b.done[name] = false
	src, err := fs.ReadFile(b.files, name)
	if err != nil {
		return err
	}
	body := string(src)
	var head strings.Builder
	for _, m := range importStatement.FindAllStringSubmatch(body, -1) {
		from := path.Join(path.Dir(name), m[2])
		if !strings.HasPrefix(m[2], "./") {
			return fmt.Errorf("%s imports %q, which is not beside it", name, m[2])
		}
		if err := b.module(from); err != nil {
			return err
		}
		line, err := bindings(m[1], from)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		head.WriteString(line)
	}
	body = importStatement.ReplaceAllString(body, "")

	if m := exportFrom.FindString(body); m != "" {
		return fmt.Errorf("%s: %q is not supported", name, m)
	}
	var exports []string
	for _, m := range exportList.FindAllStringSubmatch(body, -1) {
		for _, p := range pairs(m[1]) {
			exports = append(exports, p[1]+": "+p[0])
		}
	}
	body = exportList.ReplaceAllString(body, "")
	for _, m := range exportDefined.FindAllStringSubmatch(body, -1) {
		exports = append(exports, m[2])
	}
	body = exportDefined.ReplaceAllString(body, "$1 $2")
	for _, left := range []*regexp.Regexp{exportLeft, importLeft} {
		if m := left.FindString(body); m != "" {
			return fmt.Errorf("%s: %q is not supported", name, m)
		}
	}
	fmt.Fprintf(&b.out, "\n// %s\nmodules[%q] = (() => {\n%s%s\nreturn { %s };\n})();\n",
		name, name, head.String(), strings.TrimSpace(body), strings.Join(exports, ", "))
	b.done[name] = true
	return nil
}

// bindings writes an import's left side as a declaration.
func bindings(clause, from string) (string, error) {
	clause = strings.TrimSpace(clause)
	switch {
	case clause == "":
		return "", nil
	case strings.HasPrefix(clause, "{") && strings.HasSuffix(clause, "}"):
		var names []string
		for _, p := range pairs(clause[1 : len(clause)-1]) {
			if p[0] == p[1] {
				names = append(names, p[0])
			} else {
				names = append(names, p[0]+": "+p[1])
			}
		}
		return fmt.Sprintf("const { %s } = modules[%q];\n", strings.Join(names, ", "), from), nil
	case strings.HasPrefix(clause, "* as "):
		return fmt.Sprintf("const %s = modules[%q];\n", strings.TrimSpace(clause[len("* as "):]), from), nil
	}
	return "", fmt.Errorf("import %s from %q is not supported", clause, from)
}

// pairs reads "a, b as c" as {a a} {b c}.
func pairs(list string) [][2]string {
	var out [][2]string
	for item := range strings.SplitSeq(list, ",") {
		f := strings.Fields(item)
		switch {
		case len(f) == 1:
			out = append(out, [2]string{f[0], f[0]})
		case len(f) == 3 && f[1] == "as":
			out = append(out, [2]string{f[0], f[2]})
		}
	}
	return out
}
