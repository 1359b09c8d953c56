package operations

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
)

// journal is a log that many goroutines write.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *journal) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *journal) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var (
	storyOutcome = regexp.MustCompile(`outcome=(\S+)`)
	storyAttempt = regexp.MustCompile(`attempt=(\d+)`)
)

// story is what grep finds of a record: each line as a word or two.
func (l *journal) story(id string) (words []string) {
	for line := range strings.Lines(l.String()) {
		if !strings.Contains(line, "record="+id+" ") {
			continue
		}
		word := "claimed"
		if m := storyOutcome.FindStringSubmatch(line); m != nil {
			word = m[1]
		}
		if strings.Contains(line, "a try begins") {
			word = "begins"
		}
		if m := storyAttempt.FindStringSubmatch(line); m != nil && strings.Contains(line, "riveroperation") {
			word += " " + m[1]
		}
		words = append(words, word)
	}
	return words
}

// Requirement 70, for work that outlives its request: one grep tells it from the
// claim to the result, each of River's tries included.
func TestRequirement70OneGrepTellsTheStoryOfLongWork(t *testing.T) {
	log := map[string]*journal{"sqlite": {}, "postgres": {}}
	for name, open := range map[string]func(*testing.T, change) *backend{"sqlite": onSQLite, "postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := log[name]
			logger := slog.New(slog.NewTextHandler(log, nil))
			b := open(t, change{logger: logger})
			s := newShop(t, b, false, onceward.Config{Logger: logger})
			b.start(t)
			for _, c := range []struct {
				do   string
				want []string // between the acceptance and the repeat
				says string   // by a try's end
			}{
				{write, []string{"begins 1", "complete 1"}, " ms="},
				{final, []string{"begins 1", "failed 1"}, "There is no paper"},
				{wrong, []string{"begins 1", "to-be-tried-again 1", "begins 2", "to-be-tried-again 2", "begins 3", "failed 3"}, "cannot connect"},
				{panics, []string{"begins 1", "panicked 1", "begins 2", "panicked 2", "begins 3", "panicked 3"}, "level=ERROR"},
				{exits, []string{"begins 1", "to-be-tried-again 1", "begins 2", "to-be-tried-again 2", "begins 3", "failed 3"}, "runtime.Goexit"},
			} {
				accepted := s.post("key-of-"+c.do, c.do)
				if s.until(accepted.header.Get("Location")); accepted.code != 202 {
					t.Fatalf("%s: %v", c.do, accepted)
				}
				id := onceward.NewKey("anna", "key-of-"+c.do).RecordID()
				want := append([]string{"claimed", "executed"}, c.want...)
				var got []string
				for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					if got = log.story(id); len(got) >= len(want) {
						break
					}
				}
				// The worker may begin before the request's own end is logged.
				slices.SortStableFunc(got, func(a, b string) int {
					first := func(s string) int { return slices.Index([]string{"executed", "claimed"}, s) }
					return first(b) - first(a)
				})
				if !slices.Equal(got, want) {
					t.Errorf("%s: the story of %s is\n%q, want\n%q", c.do, id, got, want)
				}
				s.post("key-of-"+c.do, c.do)
				lines := strings.Split(strings.TrimSpace(log.String()), "\n")
				lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, "record="+id) })
				if last := lines[len(lines)-1]; !strings.Contains(last, "outcome=replayed") {
					t.Errorf("%s: the last line is %s", c.do, last)
				}
				for _, line := range lines {
					if strings.Contains(line, "riveroperation") && !regexp.MustCompile(` operation=\S+ job=\d+ kind=work attempt=\d`).MatchString(line) {
						t.Errorf("%s: a try's line lacks something: %s", c.do, line)
					}
				}
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "a try ended") && strings.Contains(line, c.says) }) {
					t.Errorf("%s: no end says %q: %q", c.do, c.says, lines)
				}
			}
		})
	}
}

// Requirement 70, for work that ends otherwise than by its own doing: it is given back,
// cancelled, forgotten, or done by somebody else meanwhile. Each end has its word.
func TestRequirement70TheStoryOfWorkThatEndsElsewhere(t *testing.T) {
	t.Parallel()
	const done = `UPDATE onceward_operations SET state = 'complete', finished_at = created_at`
	id := onceward.NewKey("anna", "k")
	for name, c := range map[string]struct {
		before, meanwhile func(t *testing.T, b *backend) // the runner has started; while the work is at the gate
		want              []string
	}{
		"given back": {nil, func(t *testing.T, b *backend) {
			now, cancel := context.WithCancel(t.Context())
			cancel()
			if err := b.runner.Stop(now); err == nil {
				t.Error("nothing was cut off")
			}
			b.start(t)
			<-b.gate.arrived
		}, []string{"begins 1", "given-back 1", "begins 1", "complete 1"}},
		"done by somebody else": {nil, func(t *testing.T, b *backend) { must(t, b.exec(done)) }, []string{"begins 1", "ended-by-another 1"}},
		"forgotten":             {nil, func(t *testing.T, b *backend) { must(t, b.runner.Forget(t.Context(), id.Scope)) }, []string{"begins 1", "forgotten 1"}},
		"done before it began":  {func(t *testing.T, b *backend) { must(t, b.exec(done)) }, nil, []string{"ended-before 1"}},
		"forgotten before":      {func(t *testing.T, b *backend) { must(t, b.runner.Forget(t.Context(), id.Scope)) }, nil, []string{"forgotten 1"}},
		"cancelled before": {func(t *testing.T, b *backend) {
			must(t, b.cancel(int64(b.count(`SELECT max(id) FROM river_job`))))
			if op, err := b.runner.Look(t.Context(), id); err != nil || op.State != operation.Failed {
				t.Errorf("%v, %v", op, err)
			}
		}, nil, []string{"cancelled"}},
		"given up by River": {func(t *testing.T, b *backend) {
			must(t, b.exec(`UPDATE river_job SET state = 'discarded', finalized_at = created_at`))
			if op, err := b.runner.Submit(t.Context(), jobOf("anna", "k", wait)); err != nil || op.State != operation.Failed {
				t.Errorf("%v, %v", op, err)
			}
		}, nil, []string{"given-up"}},
		"not to be read": {func(t *testing.T, b *backend) {
			must(t, b.exec(`ALTER TABLE onceward_operations RENAME TO elsewhere`))
		}, nil, []string{"not-begun 1", "not-begun 2", "not-begun 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := map[string]*journal{"sqlite": {}, "postgres": {}}
			for db, open := range map[string]func(*testing.T, change) *backend{"sqlite": onSQLite, "postgres": onPostgres} {
				t.Run(db, func(t *testing.T) {
					t.Parallel()
					b := open(t, change{logger: slog.New(slog.NewTextHandler(log[db], nil))})
					if _, err := b.runner.Submit(t.Context(), jobOf("anna", "k", wait)); err != nil {
						t.Fatal(err)
					}
					if c.before != nil {
						c.before(t, b)
					}
					b.start(t)
					if c.meanwhile != nil {
						<-b.gate.arrived
						c.meanwhile(t, b)
						close(b.gate.open)
					}
					var got []string
					for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && len(got) < len(c.want); time.Sleep(10 * time.Millisecond) {
						got = log[db].story(id.RecordID())
					}
					if !slices.Equal(got, c.want) {
						t.Errorf("the story is %q, want %q", got, c.want)
					}
				})
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
