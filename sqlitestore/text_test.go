package sqlitestore

import (
	"bytes"
	"testing"

	"github.com/onceward/onceward"
)

func TestWhichTextsEndATransaction(t *testing.T) {
	for text, want := range map[string]bool{
		"COMMIT": true, "commit;": true, "End": true, "BEGIN": true, "begin exclusive": true,
		"ROLLBACK": true, "ROLLBACK TRANSACTION": true, "rollback;": true,
		" \t\n;; COMMIT": true, "/* a */ -- b\n/**/COMMIT": true, "-- only a comment": false, "/* not closed COMMIT": false,
		"\ufeffCOMMIT":  true,
		"ROLLBACK TO x": false, "ROLLBACK TRANSACTION TO SAVEPOINT x": false, "rollback/**/to x": false, "ROLLBACK TOX": true,
		"SAVEPOINT commit": false, "RELEASE x": false, "": false, "SELECT 'COMMIT'": false,
		"COMMITTED": false, "BEGINNING": false, "INSERT INTO t VALUES (1)": false, "'": false,
		"CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM u; END": false,
	} {
		if got := endsTransaction(text); got != want {
			t.Errorf("endsTransaction(%q) is %v", text, got)
		}
	}
}

func TestWhichTextsMayBeSeveralStatements(t *testing.T) {
	for text, want := range map[string]bool{
		"SELECT 1": false, "SELECT 1;": false, "SELECT 1 ; \n": false, "": false, ";": false,
		"SELECT 1; COMMIT": true, "SELECT ';x'": true, ";SELECT 1": true,
	} {
		if got := isSeveral(text); got != want {
			t.Errorf("isSeveral(%q) is %v", text, got)
		}
	}
}

// Whatever the text is, looking at it ends; and no text is let through because of
// what stands before its first word.
func FuzzEndsTransaction(f *testing.F) {
	for _, text := range []string{"", "--", "/*", " ;", "\ufeff", "SELECT 1", "/*/ */ x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		endsTransaction(text)
		isSeveral(text)
		if !endsTransaction("/* x */\n-- y\n;\t COMMIT " + text) {
			t.Errorf("a COMMIT before %q was let through", text)
		}
	})
}

func TestTheKeyAfterAPrefix(t *testing.T) {
	for _, c := range []struct{ prefix, want []byte }{
		{[]byte{1}, []byte{2}}, {[]byte{1, 0xff}, []byte{2}}, {[]byte{0xff, 1}, []byte{0xff, 2}}, {[]byte{0xff, 0xff}, nil}, {nil, nil},
	} {
		if got := after(c.prefix); !bytes.Equal(got, c.want) {
			t.Errorf("after(%x) is %x, want %x", c.prefix, got, c.want)
		}
	}
}

func TestAListIsBounded(t *testing.T) {
	for limit, want := range map[int]int{0: 100, -1: 100, 7: 7} {
		if _, args := listQuery(onceward.Query{Limit: limit}, 0); args[len(args)-1] != want {
			t.Errorf("limit %d asks for %v, want %d", limit, args[len(args)-1], want)
		}
	}
}
