// Command npm puts the browser's half together as a package that npm installs:
// the files that outbox.Handler serves, byte for byte, declarations that tsc makes
// from their comments, and the classic worker and the pages that Go makes of them.
//
//	go run ./internal/integration/cmd/npm                 writes onceward-outbox-VERSION.tgz here
//	go run ./internal/integration/cmd/npm -version 1.2.0
//
// It needs npm, and tsc as internal/integration has it (make install). What it
// makes may be published; the folder outbox itself may not (it says "private"),
// for there the declarations are missing.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onceward/onceward/outbox"

	"github.com/onceward/onceward/internal/integration/repository"
)

func main() {
	version := flag.String("version", "", "the package's version, which is the modules' tag; by default what outbox/package.json says")
	to := flag.String("o", ".", "write the package into this `folder`")
	flag.Parse()
	file, err := run(context.Background(), *version, *to)
	if err != nil {
		fmt.Fprintln(os.Stderr, "npm:", err)
		os.Exit(1)
	}
	fmt.Println(file)
}

// run makes the package and returns its file.
func run(ctx context.Context, version, to string) (string, error) {
	root, err := repository.Root()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "onceward-npm-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := assemble(ctx, root, dir, version); err != nil {
		return "", err
	}
	out, err := output(ctx, dir, "npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", absolute(to))
	if err != nil {
		return "", err
	}
	return filepath.Join(to, strings.TrimSpace(out)), nil
}

// assemble writes the package's files into dir.
func assemble(ctx context.Context, root, dir, version string) error {
	source := filepath.Join(root, "outbox")
	scripts, err := served(source)
	if err != nil {
		return err
	}
	h := outbox.Handler(outbox.Config{})
	for name, from := range scripts {
		body, err := get(h, from.path, from.language)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
			return err
		}
	}
	for name, from := range map[string]string{
		"README.md":  filepath.Join(source, "README.md"),
		"types.d.ts": filepath.Join(source, "types.d.ts"),
		"LICENSE":    filepath.Join(root, "LICENSE"),
	} {
		body, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
			return err
		}
	}
	if err := declare(ctx, root, source, dir, scripts); err != nil {
		return err
	}
	return manifest(source, dir, version)
}

// from is where the handler serves a file of the package.
type from struct{ path, language string }

// served lists what the handler has: scripts and stylesheets that lie in source, the
// classic worker, and the page for forms that wait, once for each language.
func served(source string) (map[string]from, error) {
	files := map[string]from{
		"classic.js":     {path: "classic.js"},
		"queued.en.html": {"queued", "en"},
		"queued.ru.html": {"queued", "ru"},
	}
	h := outbox.Handler(outbox.Config{})
	entries, err := os.ReadDir(source)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if ext := path.Ext(e.Name()); ext != ".js" && ext != ".css" {
			continue
		}
		if _, err := get(h, e.Name(), ""); err == nil {
			files[e.Name()] = from{path: e.Name()}
		}
	}
	if len(files) < 10 {
		return nil, fmt.Errorf("only %d files of %s are served", len(files), source)
	}
	return files, nil
}

func get(h http.Handler, name, language string) ([]byte, error) {
	r := httptest.NewRequest(http.MethodGet, "/outbox/"+name, nil)
	r.Header.Set("Accept-Language", language)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("/outbox/%s is answered %d", name, w.Code)
	}
	return io.ReadAll(w.Body)
}

// declare has tsc write a declaration beside each module.
func declare(ctx context.Context, root, source, dir string, scripts map[string]from) error {
	var modules []string
	for name := range scripts {
		if path.Ext(name) == ".js" && name != "classic.js" && name != "queued.js" {
			modules = append(modules, filepath.Join(source, name))
		}
	}
	slices.Sort(modules)
	config, err := json.Marshal(map[string]any{
		"compilerOptions": map[string]any{
			"target": "es2022", "module": "nodenext", "strict": true, "skipLibCheck": true,
			"allowJs": true, "checkJs": true, "declaration": true, "emitDeclarationOnly": true,
			"lib": []string{"es2022", "dom", "dom.iterable", "dom.asynciterable"}, "types": []string{},
			"rootDir": source, "outDir": dir,
		},
		"files": modules,
	})
	if err != nil {
		return err
	}
	project := filepath.Join(dir, "tsconfig.json")
	if err := os.WriteFile(project, config, 0o644); err != nil {
		return err
	}
	defer os.Remove(project)
	_, err = output(ctx, dir, filepath.Join(root, "internal", "integration", "node_modules", ".bin", "tsc"), "--project", project)
	return err
}

// manifest writes package.json without what keeps the source from being published.
func manifest(source, dir, version string) error {
	text, err := os.ReadFile(filepath.Join(source, "package.json"))
	if err != nil {
		return err
	}
	m := map[string]any{}
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	delete(m, "private")
	if version != "" {
		m["version"] = version
	}
	text, err = json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "package.json"), append(text, '\n'), 0o644)
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out), nil
}

func absolute(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil {
		return name // npm says what is wrong with it
	}
	return abs
}
