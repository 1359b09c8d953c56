package outbox

import "bytes"

// withoutComments empties the lines that are nothing but comment: a phone in the
// underground does not read them, and line numbers stay. It knows no strings, so
// a text over several lines must have no such line, and code must not stand
// behind the end of a comment of several lines; a test looks for both.
func withoutComments(text []byte) []byte {
	var b bytes.Buffer
	block := false
	for line := range bytes.Lines(text) {
		text := bytes.TrimSpace(line)
		end := bytes.Index(text, []byte("*/"))
		switch {
		case block:
			block = end < 0
		case bytes.HasPrefix(text, []byte("/*")) && end < 0:
			block = true
		case bytes.HasPrefix(text, []byte("/*")) && end == len(text)-2, bytes.HasPrefix(text, []byte("//")):
		default: // code, maybe behind a comment
			b.Write(line)
			continue
		}
		b.Write(line[len(bytes.TrimRight(line, "\r\n")):])
	}
	return b.Bytes()
}
