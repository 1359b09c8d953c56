package stores_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/servers"
	"github.com/onceward/onceward/pgxstore"
)

// Under Atomic a key has no record before the commit; another process sees its lock.
func TestPostgresStatusSeesATransactionOfAnotherProcess(t *testing.T) {
	dsn := servers.Postgres(t)
	came, end := make(chan bool), make(chan int)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- true
		w.WriteHeader(<-end)
	})
	// Two guards that have nothing in common but the database.
	var guards []*onceward.Guard
	for range 2 {
		store, err := pgxstore.New(t.Context(), openPgPool(t, dsn), pgxstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		guard, err := onceward.New(store, onceward.Unscoped, onceward.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := guard.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if err := store.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		guards = append(guards, guard)
	}
	status := func(g *onceward.Guard, key string) string {
		t.Helper()
		w := httptest.NewRecorder()
		g.Status().ServeHTTP(w, httptest.NewRequest("GET", "/idempotency/"+key, nil))
		var report onceward.StatusReport
		if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil || w.Code != 200 {
			t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
		}
		return report.State
	}
	want := func(key, state string) {
		t.Helper()
		for i, g := range guards {
			if got := status(g, key); got != state {
				t.Errorf("process %d says that %s is %s, want %s", i+1, key, got, state)
			}
		}
	}
	// The locks' numbers are hashes: among so many there are some of each sign, and some
	// whose lower half is above 1<<31.
	for i := range 4 {
		done, undone := fmt.Sprintf("done-%d", i), fmt.Sprintf("undone-%d", i)
		for key, code := range map[string]int{done: 201, undone: 500} {
			want(key, "absent")
			over := make(chan bool)
			go func() {
				defer close(over)
				r := httptest.NewRequest("POST", "/orders", nil)
				r.Header.Set("Idempotency-Key", key)
				guards[0].Atomic(handler).ServeHTTP(httptest.NewRecorder(), r)
			}()
			<-came
			want(key, "in-progress")
			want(key+"x", "absent")
			end <- code
			<-over
			if code == 201 {
				want(key, "complete")
			} else {
				want(key, "absent")
			}
		}
	}
}
