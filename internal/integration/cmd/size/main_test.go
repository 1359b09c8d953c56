package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/onceward/onceward/outbox"
)

// The targets are missed where the table says so; until they are met the scripts
// are held near where they are, so that they do not grow unseen.
func TestTheScriptsStayAsSmallAsTheyAre(t *testing.T) {
	h := outbox.Handler(outbox.Config{})
	for _, p := range parts {
		w, err := measure(h, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes, as served %d: %v", p.name, w.bare, w.sent, w.files)
		if w.bare > p.hold {
			t.Errorf("the %s has %d bytes, %d are allowed", p.name, w.bare, p.hold)
		}
		if most := 1.4 * float64(w.bare); float64(w.sent) > most {
			t.Errorf("the %s is served as %d bytes, %.0f are allowed", p.name, w.sent, most)
		}
		if len(w.files) < 3 {
			t.Errorf("the %s is %v only: its imports were not found", p.name, w.files)
		}
	}
}

func TestTheTableSaysForEachPartWhatIsMissed(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	rows := strings.Count(out.String(), " | met |\n") + strings.Count(out.String(), " | **missed** |\n")
	if want := 2*len(parts) + 1; rows != want {
		t.Errorf("%d rows are judged, want %d:\n%s", rows, want, out.String())
	}
	if !strings.Contains(out.String(), "local.js") {
		t.Errorf("what a page loads later is not told:\n%s", out.String())
	}
}

// The page must not fall behind; UPDATE=1 writes it.
func TestThePageOnSpeedSaysWhatTheScriptsWeigh(t *testing.T) {
	const file = "../../../../docs/speed.md"
	var out bytes.Buffer
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(page), "(`make size`):\n\n")
	table := strings.TrimSpace(out.String()) + "\n"
	if strings.Trim(after, "\n")+"\n" == table {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("%s says something else; UPDATE=1 go test writes it\n%s", file, table)
	}
	if err := os.WriteFile(file, []byte(before+"(`make size`):\n\n"+table), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyCommentsAreTakenOut(t *testing.T) {
	const text = "// @ts-check\n/** A function.\n * @param {string} a */\nconst f = (/** @type {string} */ a) => a + 'https://x'; // why\n\n  // alone\n  g();\n"
	if got, want := strip(text), "const f = (a) => a + 'https://x';\n  g();\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
