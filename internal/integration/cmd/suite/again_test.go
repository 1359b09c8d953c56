package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// goStage runs the tests of one file as the go stage runs all.
func goStage(t *testing.T, file string) (*workplace, *bytes.Buffer, counts, error) {
	t.Helper()
	t.Setenv("GOWORK", "off")
	out := new(bytes.Buffer)
	w, err := newWorkplace(module(t, map[string]string{"a_test.go": file}), out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.close() })
	got, err := goTests(context.Background(), w, []string{"test", "-count=1", "-json"}, "./...")
	return w, out, got, err
}

func TestWhatFailsOnceAndPassesAloneIsFlakyAndTold(t *testing.T) {
	w, out, got, err := goStage(t, `package a
import ("os"; "testing")
func TestOnce(t *testing.T) {
	t.Run("the first time, (only)", func(t *testing.T) {
		if _, err := os.Stat("met"); err != nil { os.WriteFile("met", nil, 0o644); t.Fatal("it came too late") }
	})
	t.Run("always", func(t *testing.T) { t.Fatal("it never came") })
	t.Run("doubled", func(t *testing.T) {
		if _, err := os.Stat("met2"); err != nil { os.WriteFile("met2", nil, 0o644); t.Fatal("lost=0 doubled=1") }
	})
}`)
	if want := (counts{failed: 2, flaky: 1}); got != want || err != nil {
		t.Errorf("got %v, %v; want %v\n%s", got, err, want, out.String())
	}
	out.Reset()
	tellFailures(out, w.failures)
	for _, want := range []string{
		"FLAKY (it failed, and passed when it ran alone): example.test/m.TestOnce/the_first_time,_(only)\n",
		"it came too late", "FAILED: example.test/m.TestOnce/always\n", "FAILED: example.test/m.TestOnce/doubled\n", "lost=0 doubled=1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the end does not say %q:\n%s", want, out.String())
		}
	}
}

func TestAStageWhoseOnlyFailureIsFlakyHasNone(t *testing.T) {
	_, out, got, err := goStage(t, `package a
import ("os"; "testing")
func TestOnce(t *testing.T) {
	if _, err := os.Stat("met"); err != nil { os.WriteFile("met", nil, 0o644); t.Fatal("it came too late") }
}`)
	if want := (counts{flaky: 1}); got != want || err != nil {
		t.Errorf("got %v, %v; want %v and no error\n%s", got, err, want, out.String())
	}
}

func TestAFlakyScriptIsRunAgainWithItsFile(t *testing.T) {
	_, _, w := readNodeAt(t, 10*time.Second, map[string]string{"a.test.mjs": `
import { describe, test } from 'node:test';
import { existsSync, writeFileSync } from 'node:fs';
import assert from 'node:assert';
const met = new URL('met', import.meta.url), first = !existsSync(met);
writeFileSync(met, '');
describe('suite', () => {
  test('the first time', () => assert.ok(!first));
  test('always', () => assert.ok(false));
});`, "b.test.mjs": `
import { test } from 'node:test';
import { existsSync, writeFileSync } from 'node:fs';
const met = new URL('met-b', import.meta.url), first = !existsSync(met);
writeFileSync(met, '');
if (first) throw new Error('the file itself');
test('fine', () => {});`})
	defer w.close()
	n := w.failures
	w.failures = nil
	got := w.again(context.Background(), counts{failed: len(n)}, n, fileAgain(w, 10*time.Second))
	if want := (counts{failed: 1, flaky: 2}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestManyFailuresAreNotTheMachines(t *testing.T) {
	var out bytes.Buffer
	w := &workplace{out: &out}
	many := make([]failure, mostAgain+1)
	for i := range many {
		many[i].rerun = []string{"x"}
	}
	c := w.again(context.Background(), counts{failed: len(many)}, many, func(context.Context, failure) bool {
		t.Error("run again")
		return true
	})
	if c.failed != len(many) || len(w.failures) != len(many) {
		t.Errorf("%v, %d told", c, len(w.failures))
	}
}

func TestWhatIsSaidOfEffectsIsNeverRunAgain(t *testing.T) {
	for text, want := range map[string]bool{
		"WARNING: DATA RACE":                    true,
		"lost=0 doubled=0 reordered=2":          true,
		"the order was made twice":              true,
		"+   'done Физика',":                    true,
		"effects = 2, want 1":                   true,
		"/tasks was done twice under k":         true,
		"the repeat runs the handler again":     true,
		"lost=0 doubled=0 foreign=0":            false,
		"556 requests were answered, want 1000": false,
		"Timeout 30000ms exceeded":              false,
		"want 503, got 500":                     false,
	} {
		if got := effects.MatchString(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
