package outbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/onceward/onceward"
)

const tagLength = 22

// Tag is an account's opaque name for the browser: the page carries it, entries
// are stored and sent under it. It is an HMAC of the scope under secret, so it
// tells nothing about the account and nobody can make it up; it is no proof of
// identity and opens nothing. Still it belongs to this site's pages alone: a form
// on another site that announces itself under it would be sent by the worker as
// one of these pages, in Firefox and Safari, whose workers are not told where a
// form comes from. It has 22 characters of A–Z, a–z, 0–9, - and _.
//
// Secret is the application's own; random bytes that stay the same over restarts
// and are the same in all processes.
func Tag(secret []byte, scope string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("onceward outbox owner\x00"))
	mac.Write([]byte(scope))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// Owned wraps a scope function so that an entry is only ever sent as the person
// who made it: a request whose Outbox-Owner is not the tag of the scope that the
// session gives is answered 412 with Outbox-Status: owner and is not executed.
// The answer's Outbox-Owner is the session's own tag, so that a page that is
// behind the times learns who is signed in.
//
// The first secret makes tags; the others are former ones, whose tags stay valid:
// without them, and their tags in ScriptConfig.Former, a rotation would park every
// waiting entry for ever. A request
// with Outbox-Attempt and no Outbox-Owner has lost its owner on the way and gets
// 412 too.
//
// A plain form has no such headers when no worker takes it, and when Firefox sends
// it again by itself because its worker has ended. So the scripts write the owner
// into the form's key, after a tilde, and a request with neither header is judged
// by that. One whose key names no owner (a form that the server has named, a client
// of an API) passes.
//
// Owned panics without a secret or with an empty one. The function is safe for
// concurrent use if scope is.
func Owned(scope onceward.ScopeFunc, secrets ...[]byte) onceward.ScopeFunc {
	if len(secrets) == 0 {
		panic("onceward: outbox: Owned needs a secret")
	}
	own := make([][]byte, len(secrets))
	for i, s := range secrets {
		if len(s) == 0 {
			panic("onceward: outbox: Owned was given an empty secret")
		}
		own[i] = append([]byte(nil), s...)
	}
	return func(r *http.Request) (string, error) {
		s, err := scope(r)
		if err != nil || s == "" {
			return s, err
		}
		tags := r.Header.Values(HeaderOwner)
		if len(tags) == 0 && len(r.Header.Values(HeaderAttempt)) == 0 {
			tag := tagInKey(r)
			if tag == "" {
				return s, nil
			}
			tags = []string{tag}
		}
		if len(tags) == 1 {
			for _, secret := range own {
				if hmac.Equal([]byte(tags[0]), []byte(Tag(secret, s))) {
					return s, nil
				}
			}
		}
		return "", &onceward.ProblemError{
			Status: http.StatusPreconditionFailed,
			Type:   "urn:onceward:outbox:owner",
			Detail: "This change was made under another account. It was not done.",
			Header: http.Header{
				HeaderStatus: {StatusOwner},
				HeaderOwner:  {Tag(own[0], s)},
			},
		}
	}
}

// tagInKey is the owner that the scripts have named in the request's key, "" if
// there is none.
func tagInKey(r *http.Request) string {
	key := onceward.KeyInBody(r.Context())
	if key == "" {
		key = r.Header.Get("Idempotency-Key") // the scripts' own, whatever others are called
	}
	if _, tag, ok := strings.Cut(key, "~"); ok && len(tag) == tagLength {
		return tag
	}
	return ""
}
