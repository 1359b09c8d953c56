package orders_test

import (
	"net/http"
	"os"
	"strings"
)

// Another program can be tested in place of examples/orders if it serves the same.
// internal/integration/frameworks does so; these are its wishes, from the
// environment.
var another = struct {
	program  string   // a built one
	flags    []string // more of its flags
	stores   string   // the only stores to test it on, each between commas
	recovers bool     // something outside of its guard answers a panic with a 500
}{
	program:  os.Getenv("ORDERS_PROGRAM"),
	flags:    strings.Fields(os.Getenv("ORDERS_FLAGS")),
	stores:   os.Getenv("ORDERS_STORES"),
	recovers: os.Getenv("ORDERS_RECOVERS") == "1",
}

// testedOn reports whether a store is among those to test on.
func testedOn(store string) bool {
	return another.stores == "" || strings.Contains(another.stores, ","+store+",")
}

// wantPanic sends a request whose handler panics. Nobody answers that, or something
// that is not the guard does; the key is free.
func (s *server) wantPanic(r request) {
	s.t.Helper()
	a, err := s.try(r)
	if another.recovers && err == nil {
		a.want(s.t, http.StatusInternalServerError, "released")
	} else if another.recovers != (err == nil) {
		s.t.Errorf("a handler that panicked was answered %v, %v", a, err)
	}
}
