package quickadd

import (
	"slices"
	"strings"
	"unicode"
)

// title is the line without what was used.
func (p *parser) title() string {
	if whole, ok := unquoted(p.text); ok && len(p.used) == 0 {
		return whole
	}
	var out []string
	i := 0
	for _, c := range p.used {
		out = p.keep(out, i, c.from)
		out = p.remnant(out, c)
		i = c.to
	}
	out = p.keep(out, i, len(p.toks))
	if len(p.used) > 0 {
		out = trimDashes(out)
	}
	title := strings.Join(out, " ")
	named := slices.ContainsFunc(out, func(s string) bool { return dayparts[fold(s)] == "" })
	if says(title) && named {
		return title
	}
	return clean(p.text) // it is only a date, as "завтра вечером" is
}

// keep appends tokens as they were written. An opening bracket that remnant
// left waits at the end of out for its word.
func (p *parser) keep(out []string, from, to int) []string {
	for _, t := range p.toks[from:to] {
		s := clean(p.text[t.start:t.end])
		if n := len(out) - 1; s != "" && n >= 0 && opening(out[n]) {
			out[n] += s
		} else if s != "" {
			out = append(out, s)
		}
	}
	return out
}

func opening(s string) bool { return s == "(" || s == "[" || s == "{" }

// remnant appends the punctuation around c that is still needed: the other
// bracket of a pair, the end of a sentence, the comma of an enumeration.
func (p *parser) remnant(out []string, c candidate) []string {
	lead, trail := p.toks[c.from].lead, strings.TrimPrefix(p.toks[c.to-1].trail, p.open(c))
	for _, pair := range brackets {
		if strings.Contains(lead, pair[:1]) && strings.Contains(trail, pair[1:]) {
			lead, trail = strings.Replace(lead, pair[:1], "", 1), strings.Replace(trail, pair[1:], "", 1)
		}
	}
	if abbreviated(p.toks[c.to-1].fold) {
		trail = strings.TrimPrefix(trail, ".")
	}
	if strings.ContainsAny(lead, "([{") { // the comma of "(завтра, №5)" goes with its word
		trail = strings.TrimLeft(trail, ".,;:")
	}
	last := c.to == len(p.toks)
	if n := len(out) - 1; n >= 0 && !opening(out[n]) {
		for _, r := range trail {
			ended := strings.ContainsAny(out[n][len(out[n])-1:], ".,;:!?-") || strings.HasSuffix(out[n], "—") || strings.HasSuffix(out[n], "–")
			switch {
			case strings.ContainsRune(")]}", r), strings.ContainsRune("!?", r), r == '…' && !ended:
				out[n] += string(r)
			case strings.ContainsRune(".,;:", r) && !last && !ended:
				out[n] += string(r)
			}
		}
		if last && strings.Trim(trail, ".,;:") == "" {
			out[n] = strings.TrimRight(out[n], ",;:")
		}
	}
	for _, r := range lead {
		if opening(string(r)) {
			out = append(out, string(r))
		}
	}
	return out
}

// trimDashes drops the dashes that stood between the title and the date:
// "физика — завтра", and one of two that met.
func trimDashes(out []string) []string {
	dash := func(s string) bool { return strings.Trim(s, "-–—|,;:.") == "" }
	kept := out[:0]
	for _, s := range out {
		if dash(s) && (len(kept) == 0 || dash(kept[len(kept)-1])) {
			continue
		}
		kept = append(kept, s)
	}
	for len(kept) > 0 && dash(kept[len(kept)-1]) {
		kept = kept[:len(kept)-1]
	}
	if n := len(kept) - 1; n >= 0 {
		kept[n] = strings.TrimRight(kept[n], ",;")
	}
	return kept
}

// unquoted is the text inside straight quotation marks around the whole of it:
// the switch that turns everything off.
func unquoted(text string) (string, bool) {
	s := clean(text)
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' || strings.Count(s, `"`) != 2 {
		return "", false
	}
	s = strings.TrimSpace(s[1 : len(s)-1])
	return s, says(s)
}

// clean makes text fit for one line on a page and for a database: valid UTF-8,
// single blanks, no control characters, nothing that turns the direction of
// what follows. It is empty if the text shows nothing.
func clean(text string) string {
	var b strings.Builder
	shows := false
	for _, r := range text { // an invalid byte comes as U+FFFD
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case unicode.IsControl(r), r >= '\u202A' && r <= '\u202E', r >= '\u2066' && r <= '\u2069',
			r == '\uFEFF', r == '\u200B', r == '\u2060', r == '\u00AD':
			continue
		case !unicode.Is(unicode.Cf, r) && !ignorable(r):
			shows = true
		}
		b.WriteRune(r)
	}
	if !shows {
		return ""
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// ignorable characters are no format characters, and show nothing all the same.
func ignorable(r rune) bool {
	switch r {
	case '\u034F', '\u115F', '\u1160', '\u17B4', '\u17B5', '\u2800', '\u3164', '\uFFA0':
		return true
	}
	return r >= '\uFE00' && r <= '\uFE0F'
}

// says reports whether s is more than punctuation.
func says(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsSpace(r) && !unicode.IsPunct(r) && !unicode.Is(unicode.Cf, r) && !ignorable(r)
	})
}
