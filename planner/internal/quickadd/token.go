package quickadd

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is what stands between blanks: "(завтра)," has the core "завтра".
type token struct {
	start, end         int // the token in the text
	coreStart, coreEnd int // without the punctuation around it
	lead, trail        string
	fold               string // the core as it is compared; "" if it is empty or too long for a word of ours
	quoted             bool
}

func (t token) punctuation() bool { return t.coreStart == t.coreEnd }

// longestWord bounds what is folded, in bytes: nothing in the vocabulary is longer.
const longestWord = 64

func tokenize(text string) []token {
	var toks []token
	quoted := quotedParts(text)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if unicode.IsSpace(r) {
			i += n
			continue
		}
		end := strings.IndexFunc(text[i:], unicode.IsSpace)
		if end < 0 {
			end = len(text) - i
		}
		t := newToken(text, i, i+end)
		for len(quoted) > 0 && quoted[0].end <= t.start {
			quoted = quoted[1:]
		}
		t.quoted = len(quoted) > 0 && quoted[0].start < t.end
		toks = append(toks, t)
		i = t.end
	}
	return toks
}

func newToken(text string, start, end int) token {
	raw := text[start:end]
	core := strings.TrimRightFunc(raw, around)
	trail := raw[len(core):]
	core = strings.TrimLeftFunc(core, around)
	lead := raw[:len(raw)-len(trail)-len(core)]
	// A minus belongs to its number.
	if strings.HasSuffix(lead, "-") && core != "" && core[0] >= '0' && core[0] <= '9' {
		lead, core = lead[:len(lead)-1], "-"+core
	}
	t := token{
		start: start, end: end,
		coreStart: start + len(lead), coreEnd: start + len(lead) + len(core),
		lead: strip(lead), trail: strip(trail),
	}
	if len(core) <= longestWord {
		t.fold = fold(core)
	}
	return t
}

// around tells which characters may stand around a word without being part of
// it. Signs that change a meaning are missing: § № # @ % + = / and quotes.
func around(r rune) bool {
	return strings.ContainsRune(".,;:!?…()[]{}<>—–-|*~", r) || invisible(r)
}

// invisible characters come along with pasted text; they separate no words.
func invisible(r rune) bool {
	switch r {
	case '\u00AD', '\u034F', '\u200B', '\u200C', '\u200D', '\u200E', '\u200F', '\u2060', '\uFEFF':
		return true
	}
	return r >= '\u202A' && r <= '\u202E' || r >= '\u2066' && r <= '\u2069'
}

func strip(s string) string {
	return strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, s)
}

// composed joins what some systems write as a letter and a mark.
var composed = strings.NewReplacer("и\u0306", "й", "е\u0308", "е", "ё", "е", "’", "'")

func fold(s string) string { return composed.Replace(strings.ToLower(strip(s))) }

type part struct{ start, end int }

// closing has the mark that ends what an opening mark begins.
var closing = map[rune]rune{'"': '"', '«': '»', '“': '”', '„': '“'}

// quotedParts finds what stands in quotation marks, marks included. A mark that
// has no partner is a character like any other, and so is a straight one that
// does not begin a word: an inch, for one.
func quotedParts(text string) []part {
	var parts []part
	last := map[rune]int{}
	for _, shut := range closing {
		last[shut] = strings.LastIndex(text, string(shut))
	}
	var start int
	var until rune // zero outside quotation marks
	before := ' '
	for i, r := range text {
		switch shut, opens := closing[r]; {
		case until != 0 && r == until:
			parts = append(parts, part{start, i + utf8.RuneLen(r)})
			until = 0
		case until == 0 && opens && i < last[shut] && (r != '"' || unicode.IsSpace(before) || around(before)):
			start, until = i, shut
		}
		before = r
	}
	return parts
}

// word is token i as it is compared, or "" where there is none, it is
// punctuation, or it is quoted.
func (p *parser) word(i int) string {
	if i < 0 || i >= len(p.toks) || p.toks[i].quoted {
		return ""
	}
	return p.toks[i].fold
}

// phrase reports whether tokens i and i+1 can be parts of one expression: no
// punctuation is between them but the full stop of an abbreviation.
func (p *parser) phrase(i int) bool {
	if p.word(i) == "" || p.word(i+1) == "" || p.toks[i+1].lead != "" {
		return false
	}
	trail := p.toks[i].trail
	return trail == "" || trail == "." && abbreviated(p.toks[i].fold)
}

// next is the word after i if the two can be parts of one expression.
func (p *parser) next(i int) string {
	if !p.phrase(i) {
		return ""
	}
	return p.word(i + 1)
}

// previous is the word before i, whatever stands between them.
func (p *parser) previous(i int) string { return p.word(i - 1) }
