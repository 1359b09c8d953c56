package fault

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Match says which requests a rule is for. The zero value takes every changing
// request: POST, PUT, PATCH and DELETE on any path.
type Match struct {
	// Methods: nil means POST, PUT, PATCH and DELETE; a single "*" means all.
	Methods []string
	// Path is compared with the request's path (never with its query). A star
	// stands for any run of characters, slashes too: "/tasks*", "/tasks/*/state".
	// Empty means any path.
	Path string
}

var changing = []string{"POST", "PUT", "PATCH", "DELETE"}

// ParseMatch reads a match: an optional list of methods and a path.
//
//	/tasks*            changing requests on these paths
//	POST /tasks        this method only
//	POST,PUT /tasks*   one of several
//	* /*               every request, GET too
func ParseMatch(s string) (Match, error) {
	fields := strings.Fields(s)
	var m Match
	switch len(fields) {
	case 1:
		m.Path = fields[0]
	case 2:
		m.Path = fields[1]
		for name := range strings.SplitSeq(fields[0], ",") {
			if name != "*" && !isToken(name) {
				return Match{}, fmt.Errorf("fault: match %q: %q is no method", s, name)
			}
			m.Methods = append(m.Methods, strings.ToUpper(name))
		}
		if slices.Contains(m.Methods, "*") {
			m.Methods = []string{"*"}
		}
	default:
		return Match{}, fmt.Errorf(`fault: match %q: write methods and a path, such as "POST /tasks*" or "* /*"`, s)
	}
	if c := m.Path[0]; c != '/' && c != '*' {
		return Match{}, fmt.Errorf(`fault: match %q: the path begins with / or *, as in "POST /tasks*"`, s)
	}
	if i := strings.IndexFunc(m.Path, func(r rune) bool { return strings.ContainsRune(`;,=?#`, r) || r < ' ' || r == 0x7f }); i >= 0 {
		return Match{}, fmt.Errorf("fault: match %q: %q cannot stand in a path here; use a star in its place", s, m.Path[i])
	}
	if m.Path == "*" || m.Path == "/*" {
		m.Path = ""
	}
	return m, nil
}

// String returns the text form, which [ParseMatch] reads back.
func (m Match) String() string {
	path := m.Path
	if path == "" {
		path = "/*"
	}
	methods := m.Methods
	if methods == nil {
		methods = changing
	}
	return strings.Join(methods, ",") + " " + path
}

func (m Match) isZero() bool { return m.Methods == nil && m.Path == "" }

func (m Match) takes(method, path string) bool {
	switch {
	case m.Methods == nil:
		if !slices.Contains(changing, method) {
			return false
		}
	case m.Methods[0] != "*" && !slices.Contains(m.Methods, method):
		return false
	}
	return m.Path == "" || glob(m.Path, path)
}

// glob matches with * for any run of characters. It backs up to the last star
// only, so that no pattern costs more than len(pattern) × len(s).
func glob(pattern, s string) bool {
	star, from := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Term is one line of a rule: a fault and how often it strikes.
type Term struct {
	P     float64 // from 0 to 1
	Fault Fault
}

// Rule gives the requests that it matches their faults. Its terms fall into
// three lots, drawn apart from each other: the delays before the request, the
// delays before the answer, and everything else. Within a lot at most one term
// strikes, so its probabilities add up to 1 at most; what is left passes.
type Rule struct {
	Match Match
	Terms []Term
}

// Plan is a list of rules; the first that matches a request decides. The zero
// value passes everything. A Plan is not changed after it was made.
type Plan struct{ Rules []Rule }

// ParsePlan reads a plan.
//
//	plan  = rule { ";" rule }
//	rule  = [ match "->" ] term { "," term }
//	term  = fault [ "=" ( probability | probability ":" argument | argument ) ]
//
// A rule without a match is for changing requests (POST, PUT, PATCH, DELETE) on
// any path; [ParseMatch] says how to write another. A term without a
// probability strikes always, so these are all terms: "502", "502=0.1",
// "slow=2s", "slow=0.2:2s", "503:ra=3", "503=0.1:ra=3". An empty text is a plan
// that passes everything.
func ParsePlan(s string) (Plan, error) {
	var plan Plan
	err := eachRule(s, func(m Match, body string) error {
		r := Rule{Match: m}
		for text := range strings.SplitSeq(body, ",") {
			t, err := parseTerm(strings.TrimSpace(text))
			if err != nil {
				return err
			}
			r.Terms = append(r.Terms, t)
		}
		for _, before := range plan.Rules {
			if before.Match.String() == m.String() {
				return fmt.Errorf("fault: two rules for %q; put their terms into one", m)
			}
		}
		plan.Rules = append(plan.Rules, r)
		return r.check()
	})
	if err != nil {
		return Plan{}, err
	}
	return plan, nil
}

// eachRule splits a plan or a script into its rules.
func eachRule(s string, each func(m Match, body string) error) error {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	for text := range strings.SplitSeq(s, ";") {
		if strings.TrimSpace(text) == "" {
			return fmt.Errorf("fault: an empty rule in %q", s)
		}
		var m Match
		before, body, has := strings.Cut(text, "->")
		if !has {
			body = text
		} else {
			var err error
			if m, err = ParseMatch(before); err != nil {
				return err
			}
		}
		if err := each(m, body); err != nil {
			return err
		}
	}
	return nil
}

func parseTerm(s string) (Term, error) {
	if s == "" {
		return Term{}, errors.New("fault: an empty term; write, for example, cut-after-forward=0.3,502=0.1")
	}
	// The mode's name ends at the first colon or equals sign: in "503:ra=3" the
	// equals sign belongs to the argument.
	i := strings.IndexAny(s, ":=")
	t, name, arg, hasArg := Term{P: 1}, s, "", false
	switch {
	case i < 0:
	case s[i] == ':':
		name, arg, hasArg = s[:i], s[i+1:], true
	default:
		name = s[:i]
		first, rest, more := strings.Cut(strings.TrimSpace(s[i+1:]), ":")
		first = strings.TrimSpace(first)
		p, err := strconv.ParseFloat(first, 64)
		switch {
		case err == nil && (p >= 0 && p <= 1):
			t.P, arg, hasArg = p, rest, more
		case err == nil || more || strings.HasSuffix(first, "%"):
			return Term{}, fmt.Errorf("fault: %q: the probability is a number from 0 to 1, such as 0.3", s)
		default:
			arg, hasArg = first, true
		}
	}
	if strings.Contains(name, "+") || strings.Contains(arg, "+") {
		return Term{}, fmt.Errorf("fault: %q: in a plan each mode is a term of its own, and delays are drawn apart from the rest", s)
	}
	f, err := parseMode(strings.TrimSpace(name), strings.TrimSpace(arg), hasArg)
	if err != nil {
		return Term{}, err
	}
	t.Fault = f
	return t, nil
}

// lot says which of a rule's three draws the fault belongs to.
func (f Fault) lot() uint64 {
	switch {
	case f.Mode != "":
		return 0
	case f.Slow > 0:
		return 1
	}
	return 2
}

// check finds what a plan made by hand may have wrong, and what ParsePlan cannot
// see term by term.
func (r Rule) check() error {
	var sum [3]float64
	for _, t := range r.Terms {
		if !(t.P >= 0 && t.P <= 1) {
			return fmt.Errorf("fault: rule %q: %v is no probability from 0 to 1", r.Match, t.P)
		}
		if _, err := ParseFault(t.Fault.String()); err != nil {
			return fmt.Errorf("fault: rule %q: a term's %w", r.Match, err)
		}
		if t.Fault == (Fault{}) || len(t.Fault.names()) != 1 {
			return fmt.Errorf("fault: rule %q: a term is one mode or one delay, not %q", r.Match, t.Fault)
		}
		sum[t.Fault.lot()] += t.P
	}
	for lot, s := range sum {
		if s > 1+1e-9 {
			what := [...]string{"modes", "slow terms", "slow-after terms"}[lot]
			return fmt.Errorf("fault: rule %q: the probabilities of its %s add up to %.4g, more than 1", r.Match, what, s)
		}
	}
	return nil
}

// String returns the text form, which [ParsePlan] reads back.
func (p Plan) String() string {
	var b strings.Builder
	for i, r := range p.Rules {
		if i > 0 {
			b.WriteString("; ")
		}
		if !r.Match.isZero() {
			b.WriteString(r.Match.String() + " -> ")
		}
		for j, t := range r.Terms {
			if j > 0 {
				b.WriteByte(',')
			}
			name, arg, has := strings.Cut(t.Fault.String(), ":")
			b.WriteString(name + "=" + strconv.FormatFloat(t.P, 'g', -1, 64))
			if has {
				b.WriteString(":" + arg)
			}
		}
	}
	return b.String()
}

// For returns the plan with m in every rule that names no match of its own.
func (p Plan) For(m Match) Plan {
	out := Plan{Rules: slices.Clone(p.Rules)}
	for i := range out.Rules {
		if out.Rules[i].Match.isZero() {
			out.Rules[i].Match = m
		}
	}
	return out
}

// find returns the index of the first rule that takes the request, or -1.
func (p Plan) find(method, path string) int {
	return slices.IndexFunc(p.Rules, func(r Rule) bool { return r.Match.takes(method, path) })
}

// Pick returns the fault of the request number index, counted from 0, among
// those that this rule matched. It depends on nothing but the seed, the rule
// and the index.
func (r Rule) Pick(seed, index uint64) Fault {
	var out Fault
	name := r.Match.String()
	var at, u [3]float64
	for lot := range u {
		u[lot] = draw(seed, index, uint64(lot), name)
	}
	for _, t := range r.Terms {
		lot := t.Fault.lot()
		if u[lot] >= at[lot] && u[lot] < at[lot]+t.P {
			// The lots are disjoint, so that there is nothing to contradict.
			out, _ = out.with(t.Fault)
		}
		at[lot] += t.P
	}
	return out
}

// draw is a number in [0, 1). A hash and not a generator's stream: a request's
// draw then depends on no other request, and no Go release changes it.
func draw(seed, index, lot uint64, rule string) float64 {
	b := make([]byte, 0, 64)
	b = binary.BigEndian.AppendUint64(b, seed)
	b = binary.BigEndian.AppendUint64(b, index)
	b = binary.BigEndian.AppendUint64(b, lot)
	sum := sha256.Sum256(append(b, rule...))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
}
