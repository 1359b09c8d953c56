package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// stage is one kind of check.
type stage struct {
	name, what string
	needs      []need
	run        func(context.Context, *workplace) (counts, error)
}

// stages in the order in which they run: the quick ones tell first.
var stages = []stage{
	{"format", "gofmt -l finds nothing", nil, runFormat},
	{"vet", "go vet, every module of the workspace", []need{compiler}, runVet},
	{"types", "tsc --checkJs, every script", []need{node, npm}, runTypes},
	{"js", "node --test, the scripts without a browser", []need{node}, runScripts},
	{"go", "go test -race, every module of the workspace", []need{compiler, node, npm, postgres, pooler, redis, watcher, curl, flask, django, gunicorn}, runGo},
	{"staticcheck", "staticcheck, every module of the workspace", []need{compiler}, runStaticcheck},
	{"browsers", "Chromium, Firefox and WebKit", []need{compiler, node, npm, chromium, firefox, webkit, xvfb, fonts}, runBrowsers},
}

const integration = "internal/integration"

func runFormat(ctx context.Context, w *workplace) (counts, error) {
	out, err := w.output(ctx, "", "gofmt", "-l", ".")
	if err != nil {
		return counts{}, fmt.Errorf("%w\n%s", err, indent(out))
	}
	var ours []string
	for name := range strings.Lines(out) {
		if !strings.Contains(name, "node_modules/") {
			ours = append(ours, name)
		}
	}
	if len(ours) > 0 {
		return counts{}, fmt.Errorf("not formatted; run gofmt -w on\n%s", indent(strings.Join(ours, "")))
	}
	return counts{passed: 1}, nil
}

func runVet(ctx context.Context, w *workplace) (counts, error) {
	return check(ctx, w, "go", "vet", "work")
}

func runStaticcheck(ctx context.Context, w *workplace) (counts, error) {
	return check(ctx, w, "go", "tool", "staticcheck", "work")
}

// check runs one command whose silence is success.
func check(ctx context.Context, w *workplace, name string, args ...string) (counts, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	out, err := w.output(ctx, "", name, args...)
	if err != nil {
		return counts{}, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, indent(out))
	}
	return counts{passed: 1}, nil
}

// runTypes checks each tsconfig.*.json of the integration folder apart: what a
// worker may name and what a page may name are two different worlds.
func runTypes(ctx context.Context, w *workplace) (counts, error) {
	var c counts
	projects, err := filepath.Glob(filepath.Join(w.root, integration, "tsconfig.*.json"))
	if err != nil || len(projects) == 0 {
		return c, fmt.Errorf("no tsconfig.*.json in %s: %w", integration, fs.ErrNotExist)
	}
	var bad []string
	for _, p := range projects {
		out, err := w.output(ctx, integration, "node_modules/.bin/tsc", "--noEmit", "--project", filepath.Base(p))
		if err != nil {
			c.failed++
			bad = append(bad, fmt.Sprintf("tsc --project %s: %v\n%s", filepath.Base(p), err, indent(out)))
			continue
		}
		c.passed++
	}
	fmt.Fprint(w.out, strings.Join(bad, ""))
	return c, nil
}

func runScripts(ctx context.Context, w *workplace) (counts, error) {
	files, err := testScripts(w.root, func(dir string) bool { return dir != filepath.Join(integration, "browser") })
	if err != nil {
		return counts{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	n, err := runNode(ctx, w, 2*time.Minute, files)
	w.failures = append(w.failures, n.failures...)
	return n.counts, err
}

func runBrowsers(ctx context.Context, w *workplace) (counts, error) {
	files, err := testScripts(w.root, func(dir string) bool { return dir == filepath.Join(integration, "browser") })
	if err != nil {
		return counts{}, err
	}
	file, whole := 10*time.Minute, 50*time.Minute
	if os.Getenv("ONCEWARD_BROWSERS") == "all" {
		file, whole = time.Hour, 3*time.Hour // hundreds of random schedules
	}
	ctx, cancel := context.WithTimeout(ctx, whole)
	defer cancel()
	n, err := runNode(ctx, w, file, files)
	return w.again(ctx, n.counts, n.failures, fileAgain(w, file)), err
}

// testScripts lists the *.test.js files of the repository whose folder is
// wanted, relative to the root. The long-running *.soak.js are not among them.
func testScripts(root string, wanted func(dir string) bool) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if !d.IsDir() && strings.HasSuffix(path, ".test.js") && wanted(filepath.Dir(rel)) {
			files = append(files, rel)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no *.test.js found: %w", os.ErrNotExist)
	}
	slices.Sort(files)
	return files, err
}
