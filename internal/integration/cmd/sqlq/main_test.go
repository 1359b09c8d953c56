package main

import (
	"bytes"
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

func TestRowsComeAsJSONWhileSomebodyWrites(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a b?.db")
	db, err := sql.Open("sqlite", "file:"+strings.ReplaceAll(strings.ReplaceAll(file, " ", "%20"), "?", "%3f")+"?_pragma=journal_mode(wal)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{
		"create table tasks(title text, done int, note text)",
		"insert into tasks values('Физика: задачи 12–15', 1, null), ('Русский', 0, 'x')",
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("delete from tasks"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(context.Background(), []string{file, "select * from tasks where done = ?", "1"}, &out); err != nil {
		t.Fatal(err)
	}
	if want := `[{"done":1,"note":null,"title":"Физика: задачи 12–15"}]` + "\n"; out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}

func TestTheFileIsNeverChangedOrMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("create table t(a)"); err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), []string{file, "insert into t values(1)"}, &bytes.Buffer{}); err == nil {
		t.Error("it wrote")
	}
	if err := run(context.Background(), []string{file + ".none", "select 1"}, &bytes.Buffer{}); err == nil {
		t.Error("a file that is not there was made")
	}
}
