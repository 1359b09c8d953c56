package outbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/onceward/onceward/outbox"
)

// node runs a program that belongs to the test. Where it is missing the test is
// skipped on somebody's desk and fails in CI.
func node(t *testing.T, args ...string) string {
	t.Helper()
	bin, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("node is not installed")
		}
		t.Skip("node is not installed")
	}
	out, err := exec.CommandContext(t.Context(), bin, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("node %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func modules(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// Modules that use every form our files use, and names that would meet if they
// were simply put one after another.
func TestModulesBecomeOneScriptThatDoesTheSame(t *testing.T) {
	script, err := outbox.Classic(modules(map[string]string{
		"a.js": `// @ts-check
/** @typedef {import('./b.js').Thing} Thing */
import { double, word as said } from './b.js';
import * as all from './c.js';
import './d.js';
import {
  many,
  more,
} from './c.js';

const secret = 'of a';
export const answer = () => [double(2), said, all.many, many, more(), secret, self.loaded].join(' ');
function hidden() { return "import { x } from './nowhere.js';"; }
export { hidden as shown };
`,
		"b.js": `import { many } from './c.js';
const secret = 'of b';
export function double(n) { return n * many; }
export const word = secret;
`,
		"c.js": `const secret = 'of c';
export const many = 2;
export async function later() { return secret; }
export class Thing {}
const more = () => secret;
export { more, secret as third };
`,
		"d.js": "self.loaded = (self.loaded ?? 0) + 1;\n",
	}), "a.js")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "classic.js")
	run := "globalThis.self = globalThis;\n" + script + "console.log(self.onceward.answer(), '|', self.onceward.shown(), '|', Object.keys(self.onceward).join());\n"
	if err := os.WriteFile(file, []byte(run), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "4 of b 2 2 of c of a 1 | import { x } from './nowhere.js'; | shown,answer\n"
	if got := node(t, file); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestWhatCannotBeJoinedIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a circle":          {map[string]string{"a.js": "import { b } from './b.js';\nexport const a = 1;\n", "b.js": "import { a } from './a.js';\nexport const b = 1;\n"}, "circle"},
		"a missing file":    {map[string]string{"a.js": "import './b.js';\n"}, "b.js"},
		"a stranger's":      {map[string]string{"a.js": "import { b } from 'b';\n"}, "not beside it"},
		"a default import":  {map[string]string{"a.js": "import b from './b.js';\n", "b.js": "export const b = 1;\n"}, "import b"},
		"a default export":  {map[string]string{"a.js": "export default 1;\n"}, "export default"},
		"an export from":    {map[string]string{"a.js": "export { b } from './b.js';\n"}, "export { b } from"},
		"an export of all":  {map[string]string{"a.js": "export * from './b.js';\n"}, "export * from"},
		"a moving export":   {map[string]string{"a.js": "export let b = 1;\n"}, "export let"},
		"a module's own":    {map[string]string{"a.js": "export const a = import.meta.url;\n"}, "import.meta"},
		"a joined import":   {map[string]string{"a.js": "import './b.js'; import './c.js';\n"}, "import"},
		"a missing entry":   {map[string]string{"b.js": ""}, "a.js"},
		"an awaited import": {map[string]string{"a.js": "import('./b.js');\n"}, "import("},
	} {
		_, err := outbox.Classic(modules(c.files), "a.js")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something about %q", name, err, c.want)
		}
	}
}

// The shipped script is run in a context that has only what a classic worker has.
func TestTheClassicScriptBringsTheWorker(t *testing.T) {
	res := get(outbox.Handler(outbox.Config{}), "/outbox/classic.js")
	if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/javascript") {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	file := filepath.Join(t.TempDir(), "classic.js")
	if err := os.WriteFile(file, read(t, res), 0o600); err != nil {
		t.Fatal(err)
	}
	program := `
const { readFileSync } = require("node:fs");
const { runInNewContext } = require("node:vm");
const listens = [];
const self = { location: { href: "https://example.com/sw.js" }, navigator: { locks: {} }, addEventListener: (type) => listens.push(type) };
runInNewContext(readFileSync(process.argv[1], "utf8"), { self, URL, indexedDB: {} });
const before = listens.length;
self.onceward.attach(self);
console.log(before, listens.sort().join());`
	want := "0 activate,fetch,install,message,sync\n"
	if got := node(t, "-e", program, file); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
