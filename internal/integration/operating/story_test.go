package operating

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/integration/servers"
)

const tea, coffee = `{"item":"tea","qty":1}`, `{"item":"coffee","qty":1}`

var (
	saidOutcome = regexp.MustCompile(`outcome=(\S+)`)
	saidMessage = regexp.MustCompile(`msg="onceward: ([^"]+)"`)
	saidAttempt = regexp.MustCompile(`attempt=(\d+)`)
)

// story is what grep finds of a record: its lines, each as one word, with the attempt
// where it is not the first.
func story(t *testing.T, id, logName string) []string {
	t.Helper()
	var words []string
	for line := range strings.Lines(sh(t, `grep "record=$ID" "$LOG" || true`, "ID="+id, "LOG="+logName)) {
		word := "?"
		if m := saidOutcome.FindStringSubmatch(line); m != nil {
			word = m[1]
		} else if m := saidMessage.FindStringSubmatch(line); m != nil {
			word = m[1]
		}
		if m := saidAttempt.FindStringSubmatch(line); m != nil && m[1] != "1" {
			word += " " + m[1]
		}
		words = append(words, word)
	}
	return words
}

// idOf is what `onceward keys hash` says of a key.
func idOf(t *testing.T, key string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^id +([0-9a-f]{16})$`).FindStringSubmatch(sh(t, `onceward keys hash "$KEY"`, "KEY="+key))
	if m == nil {
		t.Fatal("keys hash prints no id")
	}
	return m[1]
}

func wantStory(t *testing.T, id string, p *program, want ...string) {
	t.Helper()
	var got []string
	eventually(t, "the story's end, "+want[len(want)-1], func() bool {
		got = story(t, id, p.logName)
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		t.Errorf("the story of %s is\n%q, want\n%q", id, got, want)
	}
}

// Requirement 70: grep of one id tells what became of a request, from its claim to its
// end, and has no key in it.
func TestRequirement70OneGrepTellsARecordsStory(t *testing.T) {
	stores := map[string]func(t *testing.T) []string{
		"memory": func(t *testing.T) []string {
			return []string{"-store", "memory:", "-orders", filepath.Join(t.TempDir(), "orders")}
		},
		"sqlite": func(t *testing.T) []string {
			return []string{"-store", "sqlite:" + filepath.Join(t.TempDir(), "shop.db")}
		},
		"postgres": func(t *testing.T) []string { return []string{"-store", servers.Postgres(t)} },
		"redis": func(t *testing.T) []string {
			return []string{"-store", servers.Redis(t), "-orders", filepath.Join(t.TempDir(), "orders")}
		},
	}
	for name, flags := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const key = "a-key-that-no-log-may-have"
			p := start(t, append(flags(t), "-user-header", "X-User", "-retention", "8s", "-sweep", "300ms")...)
			id := idOf(t, key)
			first := make(chan answer, 1)
			go func() { first <- p.post(key, tea, "sleep_ms=3000&status=500") }()
			p.waitLog(id)
			for range 2 {
				p.post(key, tea, "").want(t, 409, "in-progress")
			}
			(<-first).want(t, 500, "released")
			p.post(key, tea, "").want(t, 201, "executed")
			p.post(key, tea, "").want(t, 201, "replayed")
			p.post(key, coffee, "").want(t, 422, "key-reused")
			want := []string{"claimed", "in-progress", "in-progress", "released", "claimed", "executed", "replayed", "key-reused"}
			if name != "redis" { // which deletes by itself and says nothing
				want = append(want, "swept")
			}
			wantStory(t, id, p, want...)
			eventually(t, "it is unknown again", func() bool { return p.post(key, coffee, "").outcome == "executed" })
			log := p.log()
			if strings.Contains(log, key) {
				t.Error("the log has a key")
			}
			for line := range strings.Lines(log) {
				if strings.Contains(line, "outcome=") && !regexp.MustCompile(`record=[0-9a-f]{16} scope=[0-9a-f]{16} outcome=\S+ method=POST path=/create-order status=\d+ ms=[\d.]+`).MatchString(line) {
					t.Errorf("a decision's line lacks something: %s", line)
				}
			}
		})
	}
}

// Requirement 70, where claim, work and answer are one transaction.
func TestRequirement70OneGrepTellsTheStoryUnderAtomic(t *testing.T) {
	t.Parallel()
	p := start(t, "-store", "sqlite:"+filepath.Join(t.TempDir(), "shop.db"), "-atomic", "-retention", "8s", "-sweep", "300ms")
	p.post("k", tea, "status=500").want(t, 500, "released")
	p.post("k", tea, "").want(t, 201, "executed")
	p.post("k", tea, "").want(t, 201, "replayed")
	wantStory(t, idOf(t, "k"), p, "released", "executed", "replayed", "swept")
}

// A process that dies leaves its claim in the log, and the next one says that it took
// over.
func TestRequirement70TheStoryOfARequestWhoseProcessDied(t *testing.T) {
	t.Parallel()
	flags := []string{"-store", "sqlite:" + filepath.Join(t.TempDir(), "shop.db"), "-lease", "2s"}
	p := start(t, flags...)
	id := idOf(t, "k")
	go p.post("k", tea, "sleep_ms=60000")
	p.waitLog(id)
	p.kill()
	next := startLogging(t, p.logName, flags...)
	eventually(t, "the repeat runs", func() bool { return next.post("k", tea, "").outcome == "executed" })
	got := story(t, id, p.logName)
	busy := slices.DeleteFunc(slices.Clone(got), func(word string) bool { return word == "in-progress" })
	if !slices.Equal(busy, []string{"claimed", "claimed 2", "executed 2"}) {
		t.Errorf("the story is %q", got)
	}
	if found := sh(t, grepOf(t, "OncewardTakeover"), "LOG="+p.logName); strings.Count(found, "\n") != 1 || !strings.Contains(found, id) {
		t.Errorf("who looks for take-overs finds %q", found)
	}
	if !strings.Contains(next.scrape(), "\nonceward_takeovers_total 1\n") {
		t.Error("the metrics do not count the take-over")
	}
}

// An answer that goes out before it is recorded, and is recorded then: both lines have
// the id.
func TestRequirement70TheStoryOfAnAnswerThatIsRecordedLate(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.db")
	p := start(t, "-store", "sqlite:"+file)
	id := idOf(t, "k")
	done := make(chan answer, 1)
	go func() { done <- p.post("k", tea, "then_sleep_ms=4000") }()
	eventually(t, "the order is stored", func() bool { return strings.Contains(p.orders(), "tea") })
	unlock := lockFile(t, file)
	a := <-done
	unlock()
	if a.want(t, 201, "executed"); !strings.Contains(a.header.Get("Idempotency-Status"), "unrecorded") {
		t.Fatalf("the answer is %s", a.header.Get("Idempotency-Status"))
	}
	wantStory(t, id, p, "claimed", "executed;unrecorded", "an answer was recorded late")
	p.post("k", tea, "").want(t, 201, "replayed")
	text := p.scrape()
	for _, line := range []string{"onceward_answers_recorded_late_total 1", "onceward_answers_never_recorded_total 0"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the metrics do not say %s", line)
		}
	}
}

// Requirement 70: an answer that the store did not take while its claim lasted. What the
// page of its alarm says to look for finds it.
func TestRequirement70TheStoryOfAnAnswerThatIsNeverRecorded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.db")
	p := start(t, "-store", "sqlite:"+file, "-lease", "2s")
	id := idOf(t, "k")
	done := make(chan answer, 1)
	go func() { done <- p.post("k", tea, "then_sleep_ms=1500") }()
	eventually(t, "the order is stored", func() bool { return strings.Contains(p.orders(), "tea") })
	unlock := lockFile(t, file)
	if a := (<-done).want(t, 201, "executed"); !strings.Contains(a.header.Get("Idempotency-Status"), "unrecorded") {
		t.Fatalf("the answer is %s", a.header.Get("Idempotency-Status"))
	}
	p.waitLog("never recorded")
	unlock()
	if found := sh(t, grepOf(t, "OncewardAnswerNeverRecorded"), "LOG="+p.logName); strings.Count(found, "\n") != 1 || !strings.Contains(found, id) {
		t.Errorf("who looks for answers that are not recorded finds %q", found)
	}
	if text := p.scrape(); !strings.Contains(text, "\nonceward_answers_never_recorded_total 1\n") {
		t.Error("the metrics do not count it")
	}
	// What it waited for may have been done behind its back after all: a repeat runs, or
	// gets the answer.
	eventually(t, "a repeat is served", func() bool { return p.post("k", tea, "").status == 201 })
}
