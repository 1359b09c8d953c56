package oncetest

import (
	"net/http"
	"testing"
)

// Step is one assertion of Run, for the tests that have each judge a wrong handler.
type Step struct {
	Name   string
	Assert func(c Config, t testing.TB, h http.Handler, r *http.Request)
}

// Steps lists all.
func Steps() (list []Step) {
	for _, s := range steps {
		list = append(list, Step{s.name, s.assert})
	}
	return list
}
