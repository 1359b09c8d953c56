// Package webapps holds docs/outbox.md, by which somebody adds the outbox to an app
// of their own, to the examples that the browser tests drive, to the vectors, and to
// the scripts' own numbers.
package webapps

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/integration/pages"
)

const root = "../../../"

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A page in HTML has no comments for the page of docs: its head is shown whole.
func TestThePageShowsTheCodeThatRuns(t *testing.T) {
	before, _, _ := strings.Cut(read(t, "examples/outbox/fetch/index.html"), "<link")
	_, head, ok := strings.Cut(before, "<title>Notes</title>\n")
	if !ok {
		t.Fatal("index.html has another head")
	}
	scripts := regexp.MustCompile(`(?m)^<(link|script) .*\n`).FindAllString(read(t, "examples/outbox/fetch/index.html"), -1)
	shown := strings.TrimSpace(head + strings.Join(scripts, ""))
	if os.Getenv("UPDATE") == "1" {
		page := strings.ReplaceAll(read(t, "docs/outbox.md"), "{{index.html}}", shown)
		if err := os.WriteFile(root+"docs/outbox.md", []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pages.Hold(t, "outbox.md",
		root+"examples/outbox/start/main.go", root+"examples/outbox/forms/main.go", root+"examples/outbox/worker/main.go",
		root+"examples/outbox/worker/sw.js", root+"examples/outbox/fetch/server.js", root+"examples/outbox/fetch/app.js")
	page := read(t, "docs/outbox.md")
	if blocks := strings.Count(page, "```html\n"); blocks != 1 || !strings.Contains(page, "```html\n"+shown+"\n```") {
		t.Errorf("docs/outbox.md has %d blocks of HTML, and should have one:\n%s", blocks, shown)
	}
	for _, m := range regexp.MustCompile("(?m)^```(\\w+)$").FindAllStringSubmatch(page, -1) {
		if !slices.Contains([]string{"go", "js", "html"}, m[1]) {
			t.Errorf("nothing runs a block of %q", m[1])
		}
	}
	if m := regexp.MustCompile(`{{[a-z]+: [^}]*}}`).FindString(page); m != "" {
		t.Errorf("docs/outbox.md still says %s", m)
	}
}

// rows is the table behind a heading of the page, cell by cell, without its head.
func rows(t *testing.T, heading string) (all [][]string) {
	t.Helper()
	_, section, ok := strings.Cut(read(t, "docs/outbox.md"), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/outbox.md has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), " |") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			all = append(all, cells)
		}
	}
	if len(all) < 3 {
		t.Fatalf("%q has no table", heading)
	}
	return all[2:]
}

var quoted = regexp.MustCompile("`([^`]+)`")

func words(cell string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

// An answer of vectors/answers.json.
type answer struct {
	Name, Type, IdempotencyStatus, OutboxStatus, Verdict string
	Status                                               int
	Redirected                                           bool
}

func (a answer) says(cell string) bool {
	if strings.HasPrefix(cell, "a redirect") {
		return a.Redirected || a.Type == "opaqueredirect"
	}
	if strings.HasPrefix(cell, "none") {
		return true // the rows before have had their turn
	}
	for _, said := range []string{a.IdempotencyStatus, a.OutboxStatus} {
		word, _, _ := strings.Cut(said, ";")
		if slices.Contains(words(cell), strings.TrimSpace(word)) {
			return true
		}
	}
	return false
}

func (a answer) has(t *testing.T, status string) bool {
	for part := range strings.SplitSeq(status, ", ") {
		switch part {
		case "any", "any other":
			return true
		case "below 400":
			if a.Status < 400 {
				return true
			}
		case "no answer":
			if a.Status == 0 {
				return true
			}
		case "5xx":
			if a.Status/100 == 5 {
				return true
			}
		default:
			n, err := strconv.Atoi(part)
			if err != nil {
				t.Fatalf("what is a status of %q?", part)
			}
			if a.Status == n {
				return true
			}
		}
	}
	return false
}

// The table is read as a program and run over the vectors, which Go and JavaScript
// are held to as well.
func TestTheTableOfAnswersIsThatOfTheVectors(t *testing.T) {
	var vectors struct {
		Verdicts []string
		Cases    []answer
	}
	if err := json.Unmarshal([]byte(read(t, "vectors/answers.json")), &vectors); err != nil {
		t.Fatal(err)
	}
	table := rows(t, "What an answer means")
	used := make([]bool, len(table))
	for _, a := range vectors.Cases {
		for i, row := range table {
			if !a.says(row[0]) || !a.has(t, row[1]) {
				continue
			}
			used[i] = true
			if !strings.HasPrefix(row[2], "**"+a.Verdict+"**") {
				t.Errorf("%s: the page says %q, the vectors %q", a.Name, row[2], a.Verdict)
			}
			break
		}
	}
	for i, row := range table {
		if !used[i] {
			t.Errorf("no answer of the vectors meets the row %q", row)
		}
		for _, word := range words(row[0]) {
			if !slices.ContainsFunc(vectors.Cases, func(a answer) bool { return a.says("`" + word + "`") }) {
				t.Errorf("no answer of the vectors says %q", word)
			}
		}
	}
	for _, v := range vectors.Verdicts {
		if !slices.ContainsFunc(table, func(row []string) bool { return strings.HasPrefix(row[2], "**"+v+"**") }) {
			t.Errorf("the page does not tell of %q", v)
		}
	}
}

// What a server of another kind is told to answer does what the page says.
func TestTheAnswersOfAnyServerMeanWhatThePageSays(t *testing.T) {
	node(t, `
import { verdict } from '`+script(t, "answer.js")+`';
import assert from 'node:assert/strict';
const ack = { header: 'X-Saved', values: ['yes'] };
const say = (status, headers) => verdict({ status, headers: new Headers(headers) }, ack);
assert.equal(say(201, { 'X-Saved': 'yes' }), 'done');
assert.equal(say(422, { 'X-Saved': 'yes' }), 'refused');
assert.equal(say(200, { 'X-Saved': 'yes', 'Outbox-Location': '/there' }), 'done');
assert.equal(say(401, { 'Outbox-Status': 'auth' }), 'login');
assert.equal(say(412, { 'Outbox-Status': 'owner' }), 'parked');
assert.equal(say(410, { 'Outbox-Status': 'expired' }), 'ask');
for (const status of [200, 403, 404, 500]) assert.equal(say(status, {}), 'odd');
assert.equal(say(200, { 'X-Saved': 'no' }), 'odd');
assert.equal(say(502, {}), 'down');
`)
}

// A refusal is shown in the words that the page says, and in no others.
func TestARefusalIsShownAsThePageSays(t *testing.T) {
	if !strings.Contains(strings.Join(strings.Fields(read(t, "docs/outbox.md")), " "), "up to 200 characters") {
		t.Error("the page has another limit")
	}
	node(t, `
import { said } from '`+script(t, "body.js")+`';
import { reason } from '`+script(t, "kit-view.js")+`';
import assert from 'node:assert/strict';
const shown = (type, text) => reason({ lastStatus: 409, lastText: said({ headers: new Headers({ 'Content-Type': type }), body: new TextEncoder().encode(text).buffer }) });
assert.deepEqual(shown('text/plain', 'It is gone.'), { text: 'It is gone.' });
assert.deepEqual(shown('text/html', '<title>409</title><p>It is <b>gone.</b>'), { text: 'It is gone.' });
assert.deepEqual(shown('application/json', '{"title": "Conflict", "detail": "It is gone."}'), { text: 'It is gone.' });
assert.deepEqual(shown('application/problem+json', '{"title": "It is gone."}'), { text: 'It is gone.' });
assert.deepEqual(shown('application/json', '{"error": "It is gone."}'), { text: 'It is gone.' });
assert.deepEqual(shown('application/json', '{"error": {"message": "It is gone."}, "title": "Conflict"}'), { text: 'It is gone.' });
assert.deepEqual(shown('application/json', '{"why": "It is gone."}'), { name: 'why.status', n: 409 });
assert.equal(shown('text/plain', 'x'.repeat(300)).text.length, 200);
`)
}

// script is a module's address for another one.
func script(t *testing.T, name string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join(root, "outbox", name))
	if err != nil {
		t.Fatal(err)
	}
	return "file://" + abs
}

func node(t *testing.T, program string) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	out, err := exec.CommandContext(t.Context(), "node", "--input-type=module", "-e", program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// The numbers of the page are the scripts' own.
func TestTheLimitsAreThoseOfTheScripts(t *testing.T) {
	out := node(t, `import { defaults } from '`+script(t, "line.js")+`'; console.log(JSON.stringify(defaults))`)
	var d struct {
		SoftLimit, HardLimit, HardLimitMax, MaxBody, MaxBytes, MaxEntries, BackoffVisible, BackoffHidden, RetryAfterMax, Retention, OddLimit int
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	more := regexp.MustCompile(`>> 16\) \* (\d+)_000`).FindStringSubmatch(read(t, "outbox/engine.js"))
	if more == nil {
		t.Fatal("engine.js does not say how long a large body may take")
	}
	want := []string{
		fmt.Sprintf("%d s", d.SoftLimit/1000),
		fmt.Sprintf("%d s, doubling to %d s, and %s s more for each 64 KiB of its body", d.HardLimit/1000, d.HardLimitMax/1000, more[1]),
		fmt.Sprintf("%d MiB", d.MaxBody>>20),
		fmt.Sprintf("%d MiB", d.MaxBytes>>20),
		fmt.Sprint(d.MaxEntries),
		fmt.Sprintf("%d s while a page is seen, %d min otherwise", d.BackoffVisible/1000, d.BackoffHidden/60_000),
		fmt.Sprintf("%d min", d.RetryAfterMax/60_000),
		fmt.Sprintf("%d h", d.Retention/3_600_000),
	}
	table := rows(t, "Limits")
	if len(table) != len(want) {
		t.Fatalf("%d rows for %d limits", len(table), len(want))
	}
	config := read(t, "outbox/script.go")
	for i, row := range table {
		if row[1] != want[i] {
			t.Errorf("%s: the page says %q, the scripts %q", row[0], row[1], want[i])
		}
		for _, name := range words(row[2]) {
			if !regexp.MustCompile(`(?m)^\t(\w+, )*` + name + `(,| )`).MatchString(config) {
				t.Errorf("ScriptConfig has no %s", name)
			}
		}
	}
	if d.OddLimit != 8 || !strings.Contains(read(t, "docs/outbox.md"), "After eight of them") {
		t.Errorf("the page says eight, the scripts %d", d.OddLimit)
	}
}

// Each path that the page calls built in is denied, and nothing that looks like it.
func TestWhatIsNeverTakenIsWhatTheScriptsDeny(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/outbox.md"), "\n## What is never taken\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var paths []string
	for _, word := range words(section) {
		if strings.HasPrefix(word, "/") {
			paths = append(paths, word)
		}
	}
	if len(paths) < 6 {
		t.Fatalf("the page names %q", paths)
	}
	list, err := json.Marshal(paths)
	if err != nil {
		t.Fatal(err)
	}
	wrong := node(t, `import { deny } from '`+script(t, "paths.js")+`';
console.log(`+string(list)+`.filter((p) => !deny.test(p) || !deny.test(p + '/below') || deny.test(p + 's')).join(' '))`)
	if strings.TrimSpace(wrong) != "" {
		t.Errorf("the scripts do not deny %s as the page says", wrong)
	}
}
