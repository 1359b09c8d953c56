package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/outbox"

	"github.com/onceward/onceward/internal/integration/repository"
)

// needed skips the test on a desk without npm or tsc; in CI both are there.
func needed(t *testing.T) (root string) {
	t.Helper()
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	_, err = exec.LookPath("npm")
	if err == nil {
		_, err = os.Stat(filepath.Join(root, "internal", "integration", "node_modules", ".bin", "tsc"))
	}
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatal(err)
	case err != nil:
		t.Skip(err, "(make install)")
	}
	return root
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := output(t.Context(), dir, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// One package, made once: it holds what the handler serves, installs by itself,
// type-checks in a strict TypeScript app, and runs under node.
func TestThePackageIsWhatTheHandlerServesAndCanBeUsed(t *testing.T) {
	root := needed(t)
	dir := t.TempDir()
	file, err := run(t.Context(), "1.2.3", dir)
	if err != nil {
		t.Fatal(err)
	}
	app := filepath.Join(dir, "app")
	if err := os.CopyFS(app, os.DirFS("testdata/app")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(app, "package.json"), []byte(`{"private": true, "type": "module"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	command(t, app, "npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", file)
	installed := filepath.Join(app, "node_modules", "@onceward", "outbox")

	t.Run("the same bytes", func(t *testing.T) { sameBytes(t, root, installed) })
	t.Run("its manifest", func(t *testing.T) { checkManifest(t, installed) })
	t.Run("under node", func(t *testing.T) {
		want := "queued\nPOST /notes k1 milk, POST /notes k1 milk 0\nodd 5 изменений ждут сети\n"
		if got := command(t, app, "node", "engine.mjs"); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
	for _, resolution := range []string{"nodenext", "bundler"} {
		t.Run("in TypeScript, "+resolution, func(t *testing.T) {
			options := map[string]any{
				"strict": true, "noEmit": true, "target": "es2022", "types": []string{},
				"lib": []string{"es2022", "dom", "dom.iterable", "dom.asynciterable"}, "module": resolution, "moduleResolution": resolution,
				"paths": map[string][]string{"/outbox/*": {"./node_modules/@onceward/outbox/*"}},
			}
			if resolution == "bundler" {
				options["module"] = "esnext"
			}
			text, err := json.Marshal(map[string]any{"compilerOptions": options, "files": []string{"app.ts"}})
			if err != nil {
				t.Fatal(err)
			}
			project := filepath.Join(app, "tsconfig."+resolution+".json")
			if err := os.WriteFile(project, text, 0o644); err != nil {
				t.Fatal(err)
			}
			command(t, app, filepath.Join(root, "internal", "integration", "node_modules", ".bin", "tsc"), "--project", project)
		})
	}
}

// sameBytes compares each way with the other: nothing of the handler's is missing,
// and nothing else is there but declarations and three texts.
func sameBytes(t *testing.T, root, installed string) {
	scripts, err := served(filepath.Join(root, "outbox"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(installed)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	h := outbox.Handler(outbox.Config{})
	for _, e := range entries {
		there[e.Name()] = true
		at, ok := scripts[e.Name()]
		if !ok {
			if slices.Contains([]string{"README.md", "LICENSE", "package.json", "types.d.ts"}, e.Name()) {
				continue
			}
			if module, ok := strings.CutSuffix(e.Name(), ".d.ts"); !ok || scripts[module+".js"].path == "" {
				t.Errorf("%s is in the package, and the handler has nothing of it", e.Name())
			}
			continue
		}
		got, err := os.ReadFile(filepath.Join(installed, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/outbox/"+at.path, nil)
		r.Header.Set("Accept-Language", at.language)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 || !bytes.Equal(got, w.Body.Bytes()) {
			t.Errorf("%s has other bytes than the handler's", e.Name())
		}
		if strings.HasSuffix(e.Name(), ".js") && at.path != "classic.js" {
			source, err := os.ReadFile(filepath.Join(root, "outbox", e.Name()))
			lines, want := strings.Split(string(got), "\n"), strings.Split(string(source), "\n")
			if err != nil || len(lines) != len(want) {
				t.Fatalf("%s has other lines than the source: %v", e.Name(), err)
			}
			for i := range lines { // a comment's line is empty
				if lines[i] != "" && lines[i] != want[i] {
					t.Errorf("%s:%d: %q, the source has %q", e.Name(), i+1, lines[i], want[i])
				}
			}
		}
	}
	for name := range maps.Keys(scripts) {
		if !there[name] {
			t.Errorf("%s is served and not in the package", name)
		}
	}
	for _, name := range []string{"README.md", "LICENSE", "types.d.ts", "page.d.ts", "classic.js", "queued.ru.html"} {
		if !there[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func checkManifest(t *testing.T, installed string) {
	text, err := os.ReadFile(filepath.Join(installed, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Name, Version, Type string
		Private             bool
		Exports             map[string]any
		Dependencies        map[string]string
		Scripts             map[string]string
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.Name != "@onceward/outbox" || m.Version != "1.2.3" || m.Type != "module" || m.Private || len(m.Dependencies)+len(m.Scripts) > 0 {
		t.Errorf("the manifest is\n%s", text)
	}
	for name, target := range m.Exports {
		if types, ok := target.(map[string]any); ok {
			target = types["types"]
		}
		file := fmt.Sprint(target)
		if _, err := os.Stat(filepath.Join(installed, file)); err != nil || !strings.HasPrefix(file, "./") {
			t.Errorf("%s leads to %s: %v", name, file, err)
		}
	}
	for _, wanted := range []string{".", "./page.js", "./worker.js", "./kit.js", "./kit.css", "./texts.js", "./types"} {
		if m.Exports[wanted] == nil {
			t.Errorf("%s is not exported", path.Join(m.Name, wanted))
		}
	}
	// The source's own folder lacks the declarations: it cannot be published by mistake.
	source, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "outbox", "package.json"))
	if err != nil || !strings.Contains(string(source), `"private": true`) {
		t.Errorf("outbox/package.json is not private: %v", err)
	}
}
