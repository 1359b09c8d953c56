package main

import "testing"

func TestAStrangersPathDoesNothingToTheTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"/create-order": "/create-order", "/заказ": "/заказ",
		"/\x1b[2J\r\nFAKE\trow": `"/\x1b[2J\r\nFAKE\trow"`,
	} {
		if got := legible(in); got != want {
			t.Errorf("%q is printed as %s, want %s", in, got, want)
		}
	}
}
