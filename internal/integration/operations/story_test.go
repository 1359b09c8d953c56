package operations

import (
	"bytes"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
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
