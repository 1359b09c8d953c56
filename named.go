package onceward

import "context"

// Named tells under which name the guard runs the request that ctx belongs to:
// the record's key, and the fingerprint of the request. ok is false outside a
// guard and for a request without a key. A handler that hands its work to somebody
// else gives this name along, so that the repeat of the request finds that work
// instead of beginning it again. See package operation.
func Named(ctx context.Context) (key Key, fp Fingerprint, ok bool) {
	if u, is := ctx.Value(marked{}).(*lease); is {
		return u.id, u.print, true
	}
	return Key{}, Fingerprint{}, false
}
