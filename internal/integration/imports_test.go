package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/onceward/onceward"

// These tests keep the shape of the repository. A failure names the two packages
// and the reason; the remedy is nearly never to change the test.

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath, Dir, Name, Doc, ForTest string
	Standard                            bool
	Module                              *struct {
		Path string
		Main bool
	}
	GoFiles, Imports, TestImports, XTestImports, Deps []string
}

// ours reports whether the package belongs to this repository.
func (p goPackage) ours() bool { return p.Module != nil && p.Module.Main }

// within reports whether an import path is the package or lies below it.
func within(path, above string) bool {
	return path == above || strings.HasPrefix(path, above+"/")
}

// listPackages asks the go command for every package of the workspace and for
// all that they and their tests need.
var listPackages = sync.OnceValues(func() (map[string]goPackage, error) {
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,Name,Doc,ForTest,Standard,Module,GoFiles,Imports,TestImports,XTestImports,Deps", "work")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, &listError{err, stderr.String()}
	}
	packages := map[string]goPackage{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		// A package rebuilt for somebody's test, and the test's main program,
		// stand beside the package itself.
		if p.ForTest == "" && !strings.HasSuffix(p.ImportPath, ".test") {
			packages[p.ImportPath] = p
		}
	}
})

type listError struct {
	err  error
	said string
}

func (e *listError) Error() string { return "go list: " + e.err.Error() + "\n" + e.said }

func packages(t *testing.T) map[string]goPackage {
	t.Helper()
	all, err := listPackages()
	if err != nil {
		t.Fatal(err)
	}
	if !all[module].ours() {
		t.Fatal("the root package is not in the workspace")
	}
	return all
}

// ourPackages is packages of this repository alone, in order.
func ourPackages(t *testing.T) []goPackage {
	t.Helper()
	var ours []goPackage
	all := packages(t)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if p := all[path]; p.ours() {
			ours = append(ours, p)
		}
	}
	return ours
}

func tests(p goPackage) []string { return slices.Concat(p.TestImports, p.XTestImports) }

func TestTheRootModuleNeedsTheStandardLibraryOnly(t *testing.T) {
	all := packages(t)
	for _, p := range ourPackages(t) {
		if p.Module.Path != module {
			continue
		}
		for _, path := range slices.Concat(p.Imports, tests(p)) {
			q := all[path]
			if q.Standard || path == "C" || q.Module != nil && q.Module.Path == module {
				continue
			}
			t.Errorf("%s imports %s: whoever imports the module would inherit it; put the code or the test into a module of its own", p.ImportPath, path)
		}
	}
}

func TestTheRootPackageImportsNoPackageOfItsUsers(t *testing.T) {
	for _, path := range packages(t)[module].Imports {
		if within(path, module) && !within(path, module+"/internal") {
			t.Errorf("the root package imports %s: stores, outbox and tools build on it, never the other way", path)
		}
	}
}

// stores and, for each, the client library that it may import besides the
// standard library and the root.
var stores = map[string]string{
	module + "/memstore":    "",
	module + "/sqlitestore": "",
	module + "/pgxstore":    "github.com/jackc/pgx/v5",
	module + "/redisstore":  "github.com/redis/go-redis/v9",
}

func TestStoresImportTheRootAndTheirClientOnly(t *testing.T) {
	all := packages(t)
	for path, client := range stores {
		p, ok := all[path]
		if !ok {
			t.Errorf("there is no store %s", path)
			continue
		}
		for _, imported := range p.Imports {
			fine := all[imported].Standard || imported == module || within(imported, module+"/internal") || within(imported, path) || client != "" && within(imported, client)
			if !fine {
				t.Errorf("%s imports %s: a store is the root's contract over one client library", path, imported)
			}
		}
		for other := range stores {
			if other != path && (slices.Contains(p.Deps, other) || slices.Contains(tests(p), other)) {
				t.Errorf("%s reaches %s: stores never import each other, so that none drags in another's client", path, other)
			}
		}
	}
}

func TestTheGatewayTakesAStoreAndMakesNone(t *testing.T) {
	all := packages(t)
	p, ok := all[module+"/gateway"]
	if !ok {
		t.Fatal("there is no gateway")
	}
	for _, imported := range p.Imports {
		if !all[imported].Standard && imported != module {
			t.Errorf("%s imports %s: it is the root's guard and net/http; whoever runs it brings the store", p.ImportPath, imported)
		}
	}
}

// riveroperation has one package for each database for this reason alone.
func TestLongWorkOnOneDatabaseLinksNoOther(t *testing.T) {
	all := packages(t)
	for path, other := range map[string]string{
		module + "/riveroperation":          "github.com/jackc/pgx/v5",
		module + "/riveroperation/onsqlite": "github.com/jackc/pgx/v5",
		module + "/riveroperation/onpgx":    module + "/sqlitestore",
		module + "/planner":                 "github.com/jackc/pgx/v5",
		module + "/operation":               "github.com/riverqueue/river",
	} {
		if p, ok := all[path]; !ok || slices.ContainsFunc(p.Deps, func(dep string) bool { return within(dep, other) }) {
			t.Errorf("%s is missing, or reaches %s: whoever imports it would link that too", path, other)
		}
	}
}

func TestToolsThatMeetTheGuardOnTheWireDoNotImportIt(t *testing.T) {
	for _, p := range ourPackages(t) {
		for _, tool := range []string{module + "/fault", module + "/check"} {
			if within(p.ImportPath, tool) && (slices.Contains(p.Deps, module) || slices.Contains(tests(p), module)) {
				t.Errorf("%s reaches the root package: it may not share the guard's bugs", p.ImportPath)
			}
		}
	}
}

func TestOncetestJudgesAnybodysGuard(t *testing.T) {
	for _, p := range ourPackages(t) {
		if within(p.ImportPath, module+"/oncetest") && (slices.Contains(p.Deps, module) || slices.Contains(tests(p), module)) {
			t.Errorf("%s reaches the root package: it may not share the guard's bugs, nor know more of it than of others", p.ImportPath)
		}
	}
}

func TestNothingImportsCommands(t *testing.T) {
	for _, p := range ourPackages(t) {
		for _, path := range slices.Concat(p.Imports, tests(p)) {
			if within(path, module+"/cmd") && !within(p.ImportPath, module+"/cmd") {
				t.Errorf("%s imports %s: the command wires packages together and offers none", p.ImportPath, path)
			}
		}
	}
}

func TestOnlyTestHelpersImportTesting(t *testing.T) {
	helpers := []string{module + "/storetest", module + "/oncetest", module + "/internal/assert"}
	for _, p := range ourPackages(t) {
		if slices.Contains(helpers, p.ImportPath) {
			continue
		}
		for _, path := range p.Imports {
			if within(path, "testing") {
				t.Errorf("%s imports %s outside its tests: it would register test flags in its users' programs", p.ImportPath, path)
			}
		}
		for _, helper := range helpers {
			if slices.Contains(p.Imports, helper) {
				t.Errorf("%s imports %s outside its tests, and so the testing package", p.ImportPath, helper)
			}
		}
	}
}

func TestThePlannerAndTheExamplesUsePublicPackagesOnly(t *testing.T) {
	for _, p := range ourPackages(t) {
		if !within(p.ImportPath, module+"/planner") && !within(p.ImportPath, module+"/examples") {
			continue
		}
		for _, path := range slices.Concat(p.Imports, tests(p)) {
			if within(path, module+"/internal") {
				t.Errorf("%s imports %s: it shows what everybody can build, and nobody else has that", p.ImportPath, path)
			}
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	for _, p := range ourPackages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		} else if p.Name != "main" && !strings.HasPrefix(p.Doc, "Package "+p.Name+" ") {
			t.Errorf("the comment of %s begins %q, not %q", p.ImportPath, p.Doc, "Package "+p.Name)
		}
	}
}

// goMod is what `go mod edit -json` says.
type goMod struct {
	Module  struct{ Path string }
	Require []struct{ Path string }
	Replace []struct{ Old struct{ Path string } }
	Tool    []struct{ Path string }
}

func TestModulesOfTheRepositoryMeetInTheWorkspaceOnly(t *testing.T) {
	files := modFiles(t)
	if len(files) < 5 {
		t.Fatalf("found %d go.mod files only: %v", len(files), files)
	}
	for _, file := range files {
		out, err := exec.Command("go", "mod", "edit", "-json", file).Output()
		if err != nil {
			t.Fatal(err)
		}
		var m goMod
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatal(err)
		}
		for _, r := range m.Require {
			if within(r.Path, module) {
				t.Errorf("%s requires %s: until the first tag there is no version to name; go.work joins them", file, r.Path)
			}
		}
		for _, r := range m.Replace {
			t.Errorf("%s replaces %s: who installs the module would not get that", file, r.Old.Path)
		}
		if m.Module.Path == module && len(m.Require)+len(m.Tool) > 0 {
			t.Errorf("%s has requirements: the root module is the standard library only", file)
		}
		if len(m.Tool) > 0 && m.Module.Path != module+"/internal/integration" {
			t.Errorf("%s has tools: they belong into internal/integration, which nobody imports", file)
		}
	}
}

func modFiles(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, name := range repositoryFiles(t) {
		if filepath.Base(name) == "go.mod" {
			found = append(found, filepath.Join(root, name))
		}
	}
	return found
}

func TestEveryThirdPartyDependencyHasItsReason(t *testing.T) {
	decisions, err := os.ReadFile(filepath.Join(root, "docs", "decisions.md"))
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]string{}
	all := packages(t)
	for _, p := range ourPackages(t) {
		for _, path := range slices.Concat(p.Imports, tests(p)) {
			if q := all[path]; q.Module != nil && !q.Module.Main {
				wanted[q.Module.Path] = p.ImportPath
			}
		}
	}
	var npm struct {
		Dependencies, DevDependencies map[string]string
	}
	text, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &npm); err != nil {
		t.Fatal(err)
	}
	for name := range npm.DevDependencies {
		wanted[name] = "internal/integration/package.json"
	}
	if len(npm.Dependencies) > 0 {
		t.Error("package.json has dependencies: what ships has none, tests use devDependencies")
	}
	for name, user := range wanted {
		if !bytes.Contains(decisions, []byte(strings.TrimPrefix(name, "github.com/"))) {
			t.Errorf("%s uses %s, of which docs/decisions.md says nothing", user, name)
		}
	}
}
