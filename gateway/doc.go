// Package gateway is a reverse proxy that makes a tap count once for a web
// application that stays as it is, in whatever language it is written:
//
//	g, err := gateway.New("http://127.0.0.1:8000", store, gateway.Cookie("sessionid"), gateway.Config{})
//	http.ListenAndServe("127.0.0.1:8080", g)
//
// A POST, PUT, PATCH or DELETE that bears a key (the header Idempotency-Key, or
// the form field _key) reaches the application once; its repeats get the same
// answer, as package onceward has it. Everything else passes: method, target,
// header lines and body as they came, streams as they flow, uploads without
// being stored, websockets too.
//
// # What the gateway knows, and what not
//
// It sees the wire and nothing else, so the outcome of a request is unknown more
// often than inside the application. Three things are told apart:
//
//   - Nothing was written to the application (it is down, it does not take the
//     connection): the key is free, 503 and Retry-After. The same request may be
//     sent again.
//   - The first byte was written, and no whole answer came back: nobody knows.
//     The client gets 502 or 504, the key is held ([onceward.Hold]) and every
//     repeat is 409 outcome-unknown, until somebody looks and ends it
//     (`onceward keys release|complete`). It is never sent a second time.
//   - An answer came. A 5xx is the application's own word that it failed, be the
//     rest of it whole or not, and frees the key ([Config].OnServerError), except 502
//     and 504: these are what a proxy between here and the application says when it
//     does not know either. An application that has a guard of its own may say in
//     [onceward.StatusHeader] that it has not carried the request out: that goes on to
//     the client and is not kept.
//
// A gateway that is killed leaves claims whose lease runs out; they are unknown
// from then on, never stuck in progress. That includes a request of which nothing
// had been sent yet: the record does not say how far its gateway came, for that
// would cost every request a second durable write before its first byte.
//
// A key names a request to one host. Where the gateway stands before several, or
// before one application under several names, the same key under another name is
// 422 key-reused: nothing runs twice, and no host's answer goes to another.
//
// # What is not the same byte for byte
//
// net/http reads a request and writes it anew: names of header fields are
// written Like-This, in alphabetical order with Host first, blanks around values
// are gone; lines of one name keep their order and their bytes. Hop-by-hop fields
// end here (RFC 9110 section 7.6.1), X-Forwarded-For, -Host and -Proto are written
// by the gateway (and their likes with underscores, which WSGI takes for the same,
// dropped), an answer without Date gets one, a reason phrase is the standard one. A
// DELETE with "Content-Length: 0" loses that line. A path that begins with two slashes
// and has characters that no URI may have is percent-encoded; one with a percent sign
// that encodes nothing ("/100%") is 400. An application that begins to answer before
// the request has ended gets the rest of it, and the client's connection ends with that
// answer. A body that is urlencoded is read before it is passed on (up to
// Guard.MaxRequest), since its key may stand in it; every other body without a key is
// streamed. What is read here has to keep coming, and the answer to a request with a
// key has to be taken (Config.BodyTimeout).
//
// # When not to use it
//
// Inside a Go program: there [onceward.Guard] knows more. It is no load balancer
// and no TLS terminator: it has one application behind it, over plain HTTP/1.1.
// It makes no key; pages and clients do.
package gateway
