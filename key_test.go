package onceward_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/onceward/onceward"
)

func TestOneKeyHasTwoSpellings(t *testing.T) { // B067, B068, R11
	for value, want := range map[string]string{
		"k1": "k1", `"k1"`: "k1", "  k1\t": "k1", ` "k1" `: "k1", `"a b"`: "a b", `"a\"b\\c"`: `a"b\c`,
		"abc": "abc", "ABC": "ABC", "key-abc-123": "key-abc-123", `"a,b"`: "a,b",
		strings.Repeat("x", 255): strings.Repeat("x", 255),
	} {
		if got, err := onceward.ParseKey(value); err != nil || got != want {
			t.Errorf("ParseKey(%q) = %q, %v; want %q", value, got, err, want)
		}
	}
	for _, value := range []string{
		"", "  ", `""`, `"  "`, "a,b", "a b", `a"b`, `"open`, `"a"b`, `"a" , "b"`, `"\x"`, `"a\`, "ключ", `"ключ"`,
		"a\x00b", "\"a\x00b\"", "a\x7f", strings.Repeat("x", 256), `"` + strings.Repeat("x", 256) + `"`,
	} {
		if got, err := onceward.ParseKey(value); !errors.Is(err, onceward.ErrKeyInvalid) {
			t.Errorf("ParseKey(%q) = %q, %v; want ErrKeyInvalid", value, got, err)
		}
	}
}

func TestKeyVectorsAgreeWithTheBrowsersHalf(t *testing.T) {
	data, err := os.ReadFile("vectors/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Cases []struct {
			Value string
			Key   *string
		}
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors.Cases) == 0 {
		t.Fatal("vectors/keys.json has no cases")
	}
	for _, v := range vectors.Cases {
		got, err := onceward.ParseKey(v.Value)
		if (err == nil) != (v.Key != nil) || err == nil && got != *v.Key {
			t.Errorf("ParseKey(%q) = %q, %v", v.Value, got, err)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"k1", `"k1"`, `"a\"b"`, "", `"`, "a,b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := onceward.ParseKey(value)
		if err != nil {
			if !errors.Is(err, onceward.ErrKeyInvalid) {
				t.Fatalf("%q: %v is no ErrKeyInvalid", value, err)
			}
			return
		}
		if key == "" || len(key) > onceward.MaxKeyLength {
			t.Fatalf("%q gave a key of %d bytes", value, len(key))
		}
		for i := 0; i < len(key); i++ {
			if key[i] < ' ' || key[i] > '~' {
				t.Fatalf("%q gave the byte %#x", value, key[i])
			}
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := onceward.ParseKey(quoted); err != nil || again != key {
			t.Fatalf("%q quoted as %q gave %q, %v", key, quoted, again, err)
		}
	})
}

func TestTheRecordIDIsTheKeysHashAndTellsNothingOfTheScope(t *testing.T) {
	a, b := onceward.NewKey("ann", "k"), onceward.NewKey("bob", "k")
	if a.RecordID() != b.RecordID() || len(a.RecordID()) != 16 || a == b || a.ScopeID() == b.ScopeID() {
		t.Errorf("%s %s, %s %s", a.RecordID(), a.ScopeID(), b.RecordID(), b.ScopeID())
	}
}
