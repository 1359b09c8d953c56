package stores_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// An account is deleted under a key of its own, in the transaction that keeps the
// answer: the account's other records go with it, a failed deletion leaves them, and
// a repeat of the request that deleted is answered, not run.
func TestAnAccountIsForgottenInTheTransactionThatDeletesIt(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) interface {
		onceward.Store
		onceward.Lister
	}{
		"sqlite": func(t *testing.T) interface {
			onceward.Store
			onceward.Lister
		} {
			return openStore(t, openPool(t, filepath.Join(t.TempDir(), "keys.db")), sqlitestore.Config{})
		},
		"postgres": func(t *testing.T) interface {
			onceward.Store
			onceward.Lister
		} {
			return newPGShop(t).store
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			scope := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
			guard, err := onceward.New(store, scope, onceward.Config{SweepEvery: -1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { guard.Close(context.Background()) })
			deletions := 0
			mux := http.NewServeMux()
			mux.HandleFunc("POST /orders", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) })
			mux.HandleFunc("POST /delete", func(w http.ResponseWriter, r *http.Request) {
				deletions++
				if err := guard.Forget(r.Context(), r.Header.Get("X-User")); err != nil {
					http.Error(w, err.Error(), 500)
					return
				}
				if r.URL.Query().Has("fail") {
					w.WriteHeader(500) // everything is rolled back, the forgetting too
					return
				}
				w.WriteHeader(204)
			})
			h := guard.Atomic(mux)
			post := func(user, key, path string) *httptest.ResponseRecorder {
				r := httptest.NewRequest("POST", path, strings.NewReader("x"))
				r.Header.Set("X-User", user)
				r.Header.Set("Idempotency-Key", key)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			records := func(user string) int {
				t.Helper()
				s := onceward.NewKey(user, "").Scope
				list, err := store.List(t.Context(), onceward.Query{Scope: &s})
				if err != nil {
					t.Fatal(err)
				}
				return len(list)
			}
			for _, user := range []string{"anna", "boris"} {
				for _, key := range []string{"1", "2", "3"} {
					if w := post(user, key, "/orders"); w.Code != 201 {
						t.Fatalf("%d %s", w.Code, w.Body)
					}
				}
			}
			if w := post("anna", "failed", "/delete?fail"); w.Code != 500 || records("anna") != 3 {
				t.Errorf("%d; %d records after a deletion that failed, want 3", w.Code, records("anna"))
			}
			if w := post("anna", "delete", "/delete"); w.Code != 204 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if n := records("anna"); n != 1 {
				t.Errorf("%d records are left, want the deletion's own answer alone", n)
			}
			if w := post("anna", "delete", "/delete"); w.Code != 204 || w.Header().Get("Idempotency-Replayed") == "" {
				t.Errorf("the repeat: %d %v", w.Code, w.Header())
			}
			if n := records("boris"); n != 3 || deletions != 2 {
				t.Errorf("%d records of boris's, %d deletions; want 3, and 2 with the one that failed", n, deletions)
			}
		})
	}
}
