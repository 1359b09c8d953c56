package orders_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// Another program can be tested in place of examples/orders if it serves the same.
// internal/integration/frameworks does so; these are its wishes, from the
// environment.
var another = struct {
	program  string          // a built one
	plain    string          // the same without the race detector
	flags    []string        // more of its flags
	only     map[string]bool // the only pairs to run, each a test and a store with a slash between; nil: all
	race     map[string]bool // the only such pairs to run with the race detector; nil: all
	recovers bool            // something outside of its guard answers a panic with a 500
	uncut    bool            // … also where a handler asks for the connection's end, for no byte is out yet
}{
	program:  os.Getenv("ORDERS_PROGRAM"),
	plain:    orElse(os.Getenv("ORDERS_PLAIN"), os.Getenv("ORDERS_PROGRAM")),
	flags:    strings.Fields(os.Getenv("ORDERS_FLAGS")),
	only:     pairs(os.Getenv("ORDERS_ONLY")),
	race:     pairs(os.Getenv("ORDERS_RACE")),
	recovers: os.Getenv("ORDERS_RECOVERS") != "",
	uncut:    os.Getenv("ORDERS_RECOVERS") == "all",
}

func pairs(list string) map[string]bool {
	if list == "" {
		return nil
	}
	only := map[string]bool{}
	for _, pair := range strings.Fields(list) {
		only[pair] = true
	}
	return only
}

// raced reports whether the program is to have the race detector. The guard's races
// show on every store; the detector makes the client libraries of the servers slow,
// and the database that is in the program, whose races are not ours. So the first are
// never raced, and of SQLite's two modes each test has one.
func raced(test, store string) bool {
	switch store {
	case "memory":
		return another.race == nil || another.race[test+"/"+store]
	case "sqlite", "sqlite-atomic":
		return another.program == "" && (len(test)%2 == 0) == (store == "sqlite")
	}
	return false
}

// asked reports whether a test is to be run on a store.
func asked(test, store string) bool {
	return another.only == nil || another.only[test+"/"+store]
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

// wantCutOff checks the answer to a request whose handler was cut off. That is the
// guard's 503, with its reason; or, of another program, whose handlers answer also
// when their context has ended, now and then theirs.
func (a answer) wantCutOff(t *testing.T, outcome string) {
	t.Helper()
	if another.program != "" && a.outcome() == "released" {
		outcome = "released"
	} else if a.header.Get("Retry-After") == "" {
		t.Errorf("503 without Retry-After: %v", a.header)
	}
	a.want(t, http.StatusServiceUnavailable, outcome)
}
