package onceward_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// An application's mistake in Resolve costs the request in which it happens, and no
// key.
func TestAPanicInResolveLeavesNoDeadKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := memstore.New(memstore.Config{}), 0
		r := newRig(t, store, onceward.Config{Unknown: onceward.Resolve, Resolve: func(*http.Request, onceward.Record) (*onceward.Response, error) {
			if calls++; calls == 1 {
				panic("a nil map")
			}
			return nil, nil // nothing was done: run it
		}}, func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("X-Fail") != "" {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			created(w, req)
		})
		want(t, r.post("k", "x", "X-Fail", "1"), 500, "outcome-unknown")
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is swallowed")
				}
			}()
			r.post("k", "x")
		}()
		time.Sleep(time.Minute)
		want(t, r.post("k", "x"), 201, "executed")
	})
}
