package quickadd

import "strings"

// markContent finds the numbers that belong to the homework: the one after a
// marker ("упр 5.12", "№ 345", "p. 12") and those listed after it ("упр 5.11,
// 5.12 и 6.1"). A list is of one shape: in "№345, 15.12" the second is a date.
func (p *parser) markContent() {
	p.content = make([]bool, len(p.toks))
	var marked, listed, dotted bool // what the next token follows
	for i, t := range p.toks {
		w := p.word(i)
		switch {
		case t.punctuation():
			// A dash or a comma continues what it stands in.
		case attachedMarker(w):
			p.content[i] = true
			marked, listed, dotted = false, continues(t.trail), strings.Contains(afterMarker(w), ".")
		case startsWithDigit(w):
			isDotted := strings.Contains(w, ".")
			p.content[i] = marked || listed && dotted == isDotted && !strings.Contains(w, ":")
			marked, listed, dotted = false, p.content[i] && (continues(t.trail) || p.goesOn(i+1)), isDotted
		case markers[w]:
			marked, listed = true, false
		case joints[w]:
			marked = false
		default:
			marked, listed = false, false
		}
	}
}

// continues reports whether punctuation after a number announces another.
func continues(trail string) bool { return strings.ContainsAny(trail, ",;–—-") }

// goesOn reports whether token i joins the number before it to one after it.
func (p *parser) goesOn(i int) bool {
	return joints[p.word(i)] || i < len(p.toks) && p.toks[i].punctuation() && continues(p.toks[i].lead+p.toks[i].trail)
}

// attachedMarker reports whether w is a marker and its number in one: №345,
// §15, стр.5, p.12.
func attachedMarker(w string) bool {
	number := afterMarker(w)
	return number != "" && number != w && markers[strings.TrimSuffix(w[:len(w)-len(number)], ".")]
}

// afterMarker is w from its first digit on.
func afterMarker(w string) string {
	if i := strings.IndexAny(w, "0123456789"); i >= 0 {
		return w[i:]
	}
	return ""
}
