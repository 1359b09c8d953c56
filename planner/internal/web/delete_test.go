package web

import (
	"net/http"
	"strings"
	"testing"
)

// Requirement 20: who deletes an account leaves nothing behind, neither tasks nor
// the answers that the guard keeps; other people's stay.
func TestADeletedAccountLeavesNothingBehind(t *testing.T) {
	w := began(t)
	for _, p := range []*person{w.anna, w.boris} {
		if a := p.post("/tasks", "text=training+every+Monday&id=one", named("k")...); a.status >= 400 {
			t.Fatal(a)
		}
		if a := p.post("/tasks/one/state", "completed=true", named("k2")...); a.status >= 400 {
			t.Fatal(a)
		}
	}
	for _, p := range []*person{w.anna, w.boris} {
		if a := p.until(p.post("/exports", "format=json&part=all&id=file").header.Get("Location")); a.status66(t).State != "complete" {
			t.Fatal(a)
		}
	}
	count := func(query string, args ...any) (n int) {
		t.Helper()
		if err := w.db.Read.QueryRow(query, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const keys = "SELECT count(*) FROM idempotency_keys"
	if n := count(keys); n != 4 {
		t.Fatalf("there are %d records, want 4", n)
	}
	if a := w.anna.post("/auth/delete", "password=wrong"); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "Ничего не удалено") {
		t.Fatal(a)
	}
	if a := w.anna.get("/today"); a.status != http.StatusOK {
		t.Fatal(a)
	}
	// Under a key, as an old page's outbox would send it: it takes none.
	if a := w.anna.post("/auth/delete", "password=correct+horse", named("delete")...); a.status != http.StatusSeeOther || a.header.Get("Location") != "/" {
		t.Fatal(a)
	}
	for _, table := range []string{"tasks", "series", "sessions", "exports"} {
		if n := count("SELECT count(*) FROM "+table+" WHERE user_id = ?", w.anna.id); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	if n := count("SELECT count(*) FROM users WHERE login = 'anna'"); n != 0 {
		t.Error("the account is there still")
	}
	if n := count("SELECT count(*) FROM onceward_operations"); n != 1 {
		t.Errorf("there are %d orders, want boris's", n)
	}
	if n := count("SELECT count(*) FROM river_job WHERE CAST(json(args) AS TEXT) LIKE '%' || ? || '%'", w.anna.id); n != 0 {
		t.Error("River knows who she was")
	}
	if n := count(keys); n != 2 {
		t.Errorf("there are %d records, want boris's 2", n)
	}
	if a := w.anna.post("/tasks", "text=x&id=two", named("k3")...); a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/auth/login") {
		t.Errorf("a request that comes late: %v", a)
	}
	if a := w.boris.post("/tasks/one/state", "completed=true", named("k2")...); a.header.Get("Idempotency-Replayed") != "1" {
		t.Error(a)
	}
}
