package onceward

import "errors"

// Sentinels for errors.Is. What each becomes over HTTP stands in one place,
// problem.go.
var (
	ErrKeyMissing     = errors.New("onceward: the idempotency key is missing")                 // 400
	ErrKeyInvalid     = errors.New("onceward: the idempotency key is not valid")               // 400
	ErrInProgress     = errors.New("onceward: a request with this key is still running")       // 409
	ErrKeyReused      = errors.New("onceward: this key named another request")                 // 422
	ErrKeyExpired     = errors.New("onceward: this key's answer is no longer kept")            // 422
	ErrOutcomeUnknown = errors.New("onceward: nobody knows what became of the first request")  // 409
	ErrTooLarge       = errors.New("onceward: the request body is too large")                  // 413
	ErrUnavailable    = errors.New("onceward: nobody could decide about this key")             // 503
	ErrResultOmitted  = errors.New("onceward: the work was done, but its result was not kept") // of Do
	ErrClaimLost      = errors.New("onceward: the claim is no longer ours")                    // a store's answer; logged
)
