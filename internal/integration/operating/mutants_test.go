package operating

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ruleCases are the cases of testdata/alerts.test.yaml, by the alarm that they are about.
func ruleCases(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "alerts.test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string][]string{}
	for _, block := range strings.Split(string(text), "\n  - interval: ")[1:] {
		about := map[string]bool{}
		for _, m := range regexp.MustCompile(`alertname(?:: |=")(\w+)`).FindAllStringSubmatch(block, -1) {
			about[m[1]] = true
		}
		if len(about) != 1 {
			t.Fatalf("a case of testdata/alerts.test.yaml is about %v", about)
		}
		for name := range about {
			cases[name] = append(cases[name], "\n  - interval: "+block)
		}
	}
	return cases
}

var (
	ruleNumber  = regexp.MustCompile(`\b\d+(\.\d+)?\b`)
	ruleMatcher = regexp.MustCompile(`(\w+)(=~|!=|=)("[^"]*")`)
	ruleBy      = regexp.MustCompile(`by \(([\w, ]+)\)`)
)

// mutants are a rule's text with one thing changed: a number halved or doubled, a comparison
// turned, a matcher or one of its words gone, a label no longer kept apart, an aggregation
// that takes the other end, another severity, no patience.
func mutants(rule string) map[string]string {
	all := map[string]string{}
	replace := func(at []int, with string) {
		mutant := rule[:at[0]] + with + rule[at[1]:]
		from := strings.LastIndexByte(rule[:at[0]], '\n') + 1
		all[fmt.Sprintf("%s\n\t%q becomes %q at column %d", strings.TrimSpace(lineAt(rule, from)), rule[at[0]:at[1]], with, at[0]-from)] = mutant
	}
	start := strings.Index(rule, "expr:") + len("expr:")
	end := strings.Index(rule, "labels:")
	within := func(re *regexp.Regexp) (found [][]int) {
		for _, at := range re.FindAllStringSubmatchIndex(rule[:end], -1) {
			if at[0] >= start {
				found = append(found, at)
			}
		}
		return found
	}
	quoted := within(quotedText)
	inQuotes := func(i int) bool {
		for _, q := range quoted {
			if i >= q[0] && i < q[1] {
				return true
			}
		}
		return false
	}
	for _, at := range within(regexp.MustCompile(`\b\d+[smh]\b`)) { // ranges and waits
		d, err := time.ParseDuration(rule[at[0]:at[1]])
		if err != nil {
			panic(err)
		}
		for _, other := range []time.Duration{d / 2, 2 * d} {
			replace(at[:2], fmt.Sprintf("%ds", int(other.Seconds())))
		}
	}
	for _, at := range within(ruleNumber) {
		number, err := strconv.ParseFloat(rule[at[0]:at[1]], 64)
		if err != nil || inQuotes(at[0]) || strings.ContainsRune("smh", rune((rule + " ")[at[1]])) {
			continue
		}
		others := []float64{number / 2, 2 * number}
		if number == 0 {
			others = []float64{-1, 1.5} // increase() makes a little more than 1 of one event
			if strings.Contains(rule, "onceward_claims_open") {
				others[1] = 1
			} else if strings.Contains(rule, "rate(") {
				others[1] = 1. / 15
			}
		}
		for _, other := range others {
			replace(at[:2], strconv.FormatFloat(other, 'g', -1, 64))
		}
	}
	for _, at := range within(regexp.MustCompile(` > `)) {
		replace(at, " < ")
		// Whether a quotient of rates is exactly a hundredth is the computer's business.
		if rest := rule[at[1]:]; !strings.HasPrefix(rest, "0.") && !strings.HasPrefix(rest, "2.") {
			replace(at, " >= ")
		}
	}
	for _, at := range within(ruleMatcher) {
		// With the comma after it, or before it.
		cut := []int{at[0], at[1]}
		if rule[cut[1]] == ',' {
			cut[1]++
		} else if rule[cut[0]-1] == ',' {
			cut[0]--
		}
		replace(cut, "")
		words := strings.Split(strings.Trim(rule[at[6]:at[7]], `"`), "|")
		for i := range words {
			if len(words) > 1 {
				rest := append(append([]string{}, words[:i]...), words[i+1:]...)
				replace(at[6:8], strconv.Quote(strings.Join(rest, "|")))
			}
		}
	}
	for _, at := range within(ruleBy) {
		labels := strings.Split(rule[at[2]:at[3]], ", ")
		for i := range labels {
			rest := append(append([]string{}, labels[:i]...), labels[i+1:]...)
			replace(at[2:4], strings.Join(rest, ", "))
		}
	}
	for _, at := range within(regexp.MustCompile(`\bmax by\b`)) {
		replace(at, "min by")
		replace(at, "sum by")
	}
	if at := regexp.MustCompile(`\n +for: \w+`).FindStringIndex(rule); at != nil {
		replace(at, "")
	}
	if at := regexp.MustCompile(`severity: (\w+)`).FindStringSubmatchIndex(rule); at != nil {
		replace(at[2:4], map[string]string{"page": "ticket", "ticket": "page"}[rule[at[2]:at[3]]])
	}
	return all
}

func lineAt(text string, from int) string {
	line, _, _ := strings.Cut(text[from:], "\n")
	return line
}

// A change of any number, comparison, matcher or label of any rule makes a case of
// testdata/alerts.test.yaml fail: what wakes somebody is what the cases say.
func TestNoRuleCanBeChangedUnseen(t *testing.T) {
	t.Parallel()
	tool, dir := find(t, "promtool"), t.TempDir()
	rules, cases := read(t, "docs/alerts.yaml"), ruleCases(t)
	head, _, _ := strings.Cut(rules, "      - alert: ")
	what := map[string]string{}
	args := []string{"test", "rules"}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for i, rule := range strings.Split(rules, "      - alert: ")[1:] {
		name, _, _ := strings.Cut(rule, "\n")
		if len(cases[name]) == 0 {
			t.Fatalf("there is no case of %q", name)
		}
		n := 0
		for how, mutant := range mutants(rule) {
			n++
			id := fmt.Sprintf("%d-%d", i, n)
			write("rules-"+id+".yaml", head+"      - alert: "+mutant)
			file := write("cases-"+id+".yaml", "rule_files: [rules-"+id+".yaml]\nevaluation_interval: 30s\ntests:"+strings.Join(cases[name], ""))
			what[file] = name + ": " + how
			args = append(args, file)
		}
		if n < 5 {
			t.Errorf("%s has %d mutants", name, n)
		}
	}
	out, err := exec.Command(tool, args...).CombinedOutput()
	if err == nil {
		t.Fatalf("promtool finds nothing wrong with %d wrong rules", len(what))
	}
	reports := strings.Split(string(out), "Unit Testing:  ")[1:]
	if len(reports) != len(what) {
		t.Fatalf("promtool reports %d of %d:\n%.2000s", len(reports), len(what), out)
	}
	for _, report := range reports {
		file, said, _ := strings.Cut(report, "\n")
		switch {
		case strings.Contains(said, "SUCCESS"):
			t.Errorf("nobody sees that in %s", what[file])
		case !strings.Contains(said, "exp:") && !strings.Contains(said, "expr:"):
			t.Errorf("%s is no rule:\n%s", what[file], said)
		}
	}
	t.Logf("%d mutants", len(what))
}
