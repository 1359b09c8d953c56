package stores_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// Who watches asks again and again what is in progress; that must not read the records
// that are answered.
func TestWhatIsInProgressIsListedByAnIndexOfItsOwn(t *testing.T) {
	db, spy := openSpied(t, filepath.Join(t.TempDir(), "keys.db"))
	store := openStore(t, db, sqlitestore.Config{})
	for _, q := range []onceward.Query{
		{State: onceward.InProgress, Limit: 10},
		{Stuck: true, Limit: 10},
		{State: onceward.InProgress, Stuck: true, After: onceward.NewKey("a", "b"), Limit: 10},
		{State: onceward.Completed, Stuck: true, Limit: 10}, // nothing is both
	} {
		spy.forget()
		if found, err := store.List(t.Context(), q); err != nil || len(found) != 0 {
			t.Fatalf("%+v: %v, %v", q, found, err)
		}
		spy.mu.Lock()
		statements := spy.statements
		spy.mu.Unlock()
		plan := ""
		for _, statement := range statements {
			if !strings.HasPrefix(statement, "SELECT") {
				continue
			}
			args := make([]any, strings.Count(statement, "?"))
			for i := range args {
				args[i] = 1
			}
			rows, err := db.Query("EXPLAIN QUERY PLAN "+statement, args...)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				var id, parent, unused int
				var detail string
				if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
					t.Fatal(err)
				}
				plan += detail + "\n"
			}
			rows.Close()
		}
		if !strings.Contains(plan, "USING INDEX idempotency_keys_open") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("the plan of %+v:\n%s", q, plan)
		}
	}
}
