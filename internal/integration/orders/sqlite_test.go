package orders_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Also B091: nobody meets "database is locked".
func TestB092TwoHundredOrdersOnTwoProcesses(t *testing.T) {
	onEachStore(t, func(t *testing.T, b backend) {
		two := startTwo(t, b)
		for round, outcome := range []string{"executed", "replayed"} {
			var wg sync.WaitGroup
			for i := range 200 {
				wg.Go(func() {
					a, repeated := two[(i+round)%2].patiently(request{key: fmt.Sprint("key-", i)})
					if repeated && a.outcome() == "replayed" {
						a.want(t, http.StatusCreated, "replayed") // its commit was under way
					} else {
						a.want(t, http.StatusCreated, outcome)
					}
				})
			}
			wg.Wait()
			wantEffectsOfTwo(two, 200)
		}
	})
}

// The claim is a committed row, and no transaction stays open for the handler.
func TestRequirement25WhileAHandlerRunsTheDatabaseIsFree(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		db := s.database()
		s.background(request{key: "slow", chaos: "sleep_ms=60000"}) // the test ends sooner
		s.waitRunning(1)
		if n := ask[int](t, db, `SELECT count(*) FROM idempotency_keys`); n != 1 {
			t.Errorf("%d rows are visible from outside while the handler runs, want 1", n)
		}
		db.SetMaxOpenConns(1)
		for _, statement := range []string{"PRAGMA busy_timeout = 0", "BEGIN IMMEDIATE", "ROLLBACK"} {
			if _, err := db.Exec(statement); err != nil {
				t.Errorf("%s while the handler runs: %v", statement, err)
			}
		}
		for i := range 10 {
			s.send(request{key: fmt.Sprint("other-", i)}).want(t, http.StatusCreated, "executed")
		}
		s.send(request{key: "slow"}).wantBusy(t)
		s.wantEffects(10)
	})
}

// Requirement 20 names the facts that a row keeps; requirement 63 the answer,
// its status and its time.
func TestRequirement20And63ARowTellsWhatWasAskedAndAnswered(t *testing.T) {
	onServer(t, func(t *testing.T, s *server) {
		db := s.database()
		s.send(request{key: "key-abc-123", user: "anna"}).want(t, http.StatusCreated, "executed")
		first := s.background(request{key: "other", user: "anna", chaos: "sleep_ms=3000"})
		s.waitRunning(1)

		const complete = `SELECT count(*) FROM idempotency_keys
			WHERE method = 'POST' AND path = '/create-order' AND created_at IS NOT NULL AND completed_at IS NOT NULL AND status = 201`
		if n := ask[int](t, db, complete); n != 1 {
			t.Errorf("%d completed rows with method, path, times and status, want 1", n)
		}
		const running = `SELECT count(*) FROM idempotency_keys WHERE method = 'POST' AND completed_at IS NULL AND status IS NULL`
		if n := ask[int](t, db, running); n != is(s.b, 1, 0) { // a transaction's is not to be seen
			t.Errorf("%d rows in progress, want %d", n, is(s.b, 1, 0))
		}
		<-first
		// Neither the key nor the account is at rest anywhere in the file.
		for _, secret := range []string{"key-abc-123", "anna"} {
			rows, err := db.Query(`SELECT * FROM idempotency_keys`)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				names, _ := rows.Columns()
				values := make([]any, len(names))
				for i := range values {
					values[i] = new(sql.RawBytes)
				}
				if err := rows.Scan(values...); err != nil {
					t.Fatal(err)
				}
				for i, v := range values {
					// The answer itself tells the user's name, as the handler wrote it.
					if secret != "anna" && strings.Contains(string(*v.(*sql.RawBytes)), secret) {
						t.Errorf("the column %s holds %q", names[i], secret)
					}
				}
			}
		}
	}, "-user-header", "X-User")
}
