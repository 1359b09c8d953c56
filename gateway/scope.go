package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/onceward/onceward"
)

// ErrAnonymous is what the scopes of this package return for a request that does
// not say whose it is. An error of theirs is also a [*onceward.ProblemError], so
// that the guard answers 401: a key without an owner protects nothing, and all
// anonymous callers must not share one space of keys. Sign-in and registration
// bear no key, or stand in [Config].Except.
var ErrAnonymous = errors.New("gateway: the request does not say whose it is")

// anonymousError is the refusal that goes with ErrAnonymous.
type anonymousError struct{ problem *onceward.ProblemError }

func (e *anonymousError) Error() string   { return ErrAnonymous.Error() }
func (e *anonymousError) Unwrap() []error { return []error{ErrAnonymous, e.problem} }

func anonymous(r *http.Request) error {
	detail := "A key belongs to somebody, and this request does not say to whom: sign in first, or send it without a key."
	switch {
	case russian(r):
		detail = "Войдите ещё раз: неизвестно, чьё это действие. Ничего не изменено."
	case forPerson(r):
		detail = "Please sign in again: it is not known whose action this is. Nothing was changed."
	}
	return &anonymousError{&onceward.ProblemError{Status: http.StatusUnauthorized, Type: "urn:onceward:problem:anonymous", Detail: detail}}
}

// Source reads a credential from where a request carries it, in every place it
// has there: a cookie of one name may come twice.
type Source func(*http.Request) []string

// FromCookie reads the cookies of one name, byte for byte.
func FromCookie(name string) Source {
	return func(r *http.Request) []string {
		var values []string
		for _, line := range r.Header["Cookie"] {
			for pair := range strings.SplitSeq(line, ";") {
				if n, value, ok := strings.Cut(strings.Trim(pair, " \t"), "="); ok && n == name && value != "" {
					values = append(values, value)
				}
			}
		}
		return values
	}
}

// FromHeader reads the lines of a header field.
func FromHeader(name string) Source {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) []string {
		var values []string
		for _, line := range r.Header[name] {
			if line != "" {
				values = append(values, line)
			}
		}
		return values
	}
}

// Cookie scopes keys by a cookie's value, which has to be a secret that the
// application gave out, such as a session's id: who knows it is the caller.
//
// The value has to last as long as a request may be repeated. Django's sessionid
// does: it changes at login and lasts until logout. Flask's session cookie does
// not: it is the session itself, and another one after every change; let the
// application set a cookie of its own that names the account and cannot be
// guessed (see docs/python.md).
func Cookie(name string) onceward.ScopeFunc { return scopeOf(FromCookie(name)) }

// Header scopes keys by a header field's value: a credential such as
// Authorization or an API key, or an account's name that a proxy in front sets
// and clients cannot. Whoever can write another's name into it can read that
// one's kept answers.
func Header(name string) onceward.ScopeFunc { return scopeOf(FromHeader(name)) }

// scopeOf takes all values together: whichever of them the application goes by,
// two callers with the same values are the same to it.
func scopeOf(from Source) onceward.ScopeFunc {
	return func(r *http.Request) (string, error) {
		switch values := from(r); len(values) {
		case 0:
			return "", anonymous(r)
		case 1:
			return values[0], nil
		default:
			var b strings.Builder
			for _, v := range values {
				b.WriteString(strconv.Quote(v))
			}
			return b.String(), nil
		}
	}
}
