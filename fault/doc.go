// Package fault is a bad network that can be replayed. A [Proxy] stands in
// front of an HTTP/1.1 server and does to requests what networks, proxies and
// portals do: it loses them, answers in the application's place, sends them
// twice, cuts them half-way, and, worst, lets the work be done and loses the
// answer. A [Transport] does the same inside a Go test, without sockets.
//
// It works at the request's boundary: a fault strikes one request at one exact
// point (before it is read, after half of its body, after the whole answer was
// read), which a tool that counts packets or bytes can not promise.
//
// # What happens to a request
//
// A [Plan] says it: rules for methods and paths, with modes and probabilities.
// The default is for changing requests (POST, PUT, PATCH, DELETE) on any path;
// anything else passes.
//
//	cut-after-forward=0.3,502=0.1,slow=2s
//	POST /tasks* -> duplicate=0.5; * /outbox/ping -> 503:ra=3
//
// The first line: of all changing requests, each waits two seconds; three in
// ten are done and never answered; one in ten is answered 502 and never
// forwarded. Delays (slow, slow-after) are drawn apart from the other modes and
// go with any of them; the other modes exclude each other.
//
// The draw for a request depends on the seed, on its rule, and on how many
// requests that rule has matched before it, and on nothing else. So the same
// requests in the same order meet the same faults, whatever other traffic there
// is between them. (With several connections the order of arrival is theirs.)
//
// A [Script] gives the next requests exact faults, a mode rules all requests
// until it is changed: see [Control].
//
// # The modes
//
// See [Mode] for what each does exactly. In short: pass, refuse, blackhole,
// half-request, cut-after-forward, cut-mid-body, a status from 400 to 599
// before or after forwarding (502, 502-after, 503:ra=3), slow, slow-after,
// duplicate, duplicate-concurrent, captive-200, login-302, login-200, waf-403,
// reset-once.
//
// # Clients that re-send by themselves
//
// A reset or a close without an answer on a reused keep-alive connection makes
// browsers, and Go's http.Transport for keyed requests, send the request again
// on their own: Chromium up to three times within milliseconds. That is the
// network as it is, not an error of the plan: each of these is a request of its
// own in the log and draws a fault of its own. Where a test wants one tap to
// fail, a mode or a plan that lasts until it is changed fails all of them; one
// step of a script fails only the first.
//
// # The control API
//
// The proxy answers below /.fault for itself, whatever the mode. Bodies are
// JSON, and bad input is a 400 that says what to send.
//
//	GET    /.fault               the state: plan, seed, mode, script, counts
//	PUT    /.fault               a [Change]: {"mode":"offline"}, {"plan":"…","seed":7},
//	                             {"script":"POST /tasks -> 502*3"}, {"cut":true}
//	GET    /.fault/log?after=N   the entries, a JSON array of [Entry]
//	DELETE /.fault/log           forgets them
//
// POST is taken for PUT. The log holds idempotency keys as they were sent, and
// whoever reaches the port can steer the proxy: listen on a loopback address.
//
// # When not to use it
//
// It is no load balancer, no reverse proxy and no shaper of bandwidth: it reads
// a request whole before it forwards it, opens a connection for each attempt,
// and speaks plain HTTP/1 only.
package fault
