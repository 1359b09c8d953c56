package fault

import (
	"fmt"
	"strconv"
	"strings"
)

// Script gives the next requests that match a set of faults, one each, in
// order; when its steps are used up it is over. It goes before the plan.
type Script struct{ rules []scriptRule }

type scriptRule struct {
	match Match
	steps []Fault
}

const maxSteps = 100_000

// ParseScript reads a script: like a plan, with faults instead of terms, and
// with repetition.
//
//	cut-after-forward, 502*3, pass
//	POST /tasks -> slow:2s+502-after; * /outbox/ping -> refuse*2
func ParseScript(s string) (Script, error) {
	var out Script
	err := eachRule(s, func(m Match, body string) error {
		r := scriptRule{match: m}
		for text := range strings.SplitSeq(body, ",") {
			text = strings.TrimSpace(text)
			times := 1
			if before, after, ok := strings.Cut(text, "*"); ok {
				n, err := strconv.Atoi(strings.TrimSpace(after))
				if err != nil || n < 1 || n+len(r.steps) > maxSteps {
					return fmt.Errorf("fault: %q: the number after * says how many times, from 1 to %d", text, maxSteps)
				}
				text, times = before, n
			}
			f, err := ParseFault(text)
			if err != nil {
				return err
			}
			for range times {
				r.steps = append(r.steps, f)
			}
		}
		out.rules = append(out.rules, r)
		return nil
	})
	if err != nil {
		return Script{}, err
	}
	return out, nil
}

// String returns what is left of the script, in the form that [ParseScript]
// reads back.
func (s Script) String() string {
	var rules []string
	for _, r := range s.rules {
		var steps []string
		for i := 0; i < len(r.steps); {
			n := 1
			for i+n < len(r.steps) && r.steps[i+n] == r.steps[i] {
				n++
			}
			text := r.steps[i].String()
			if n > 1 {
				text += "*" + strconv.Itoa(n)
			}
			steps = append(steps, text)
			i += n
		}
		if len(steps) == 0 {
			continue
		}
		text := strings.Join(steps, ", ")
		if !r.match.isZero() {
			text = r.match.String() + " -> " + text
		}
		rules = append(rules, text)
	}
	return strings.Join(rules, "; ")
}

// next takes the step that is for this request, if there is one.
func (s *Script) next(method, path string, reused bool) (Fault, bool) {
	for i := range s.rules {
		r := &s.rules[i]
		if len(r.steps) == 0 || !r.match.takes(method, path) {
			continue
		}
		f := r.steps[0]
		if f.Mode == ResetOnce && !reused {
			// Nothing to show on a fresh connection: the step waits.
			return Fault{}, true
		}
		r.steps = r.steps[1:]
		return f, true
	}
	return Fault{}, false
}
