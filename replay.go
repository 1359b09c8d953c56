package onceward

import (
	"net/http"
	"slices"
	"strings"
)

// neverStored are the headers of a moment, a connection or a session, not of
// the answer.
var neverStored = map[string]bool{
	"Set-Cookie": true, "Set-Cookie2": true,
	"Www-Authenticate": true, "Proxy-Authenticate": true, "Authentication-Info": true, "Proxy-Authentication-Info": true,
	"Date": true, "Age": true, "Server-Timing": true,
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Alt-Svc": true,
	"Request-Id": true, "X-Request-Id": true, "X-Correlation-Id": true, "Traceparent": true, "Tracestate": true, "Traceresponse": true,
	"Ratelimit": true, "Ratelimit-Policy": true, "Ratelimit-Limit": true, "Ratelimit-Remaining": true, "Ratelimit-Reset": true,
	"Idempotency-Status": true, "Idempotency-Replayed": true,
}

// storedHeader is what the handler itself set, less neverStored. What stood
// there before the guard was reached will stand there again at the replay.
func (c *capture) storedHeader() http.Header {
	sent := c.w.Header()
	connection := sent["Connection"]
	drop := func(name string, values []string) bool {
		if neverStored[name] || strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "X-Rate-Limit-") ||
			strings.HasPrefix(name, http.TrailerPrefix) || len(connection) > 0 && hasToken(connection, name) {
			return true
		}
		was, ok := c.outer[name]
		return ok && slices.Equal(was, values)
	}
	dropped := 0
	for name, values := range sent {
		if drop(name, values) {
			dropped++
		}
	}
	if dropped == 0 {
		return sent // the store keeps no reference to it
	}
	kept := make(http.Header, len(sent)-dropped)
	for name, values := range sent {
		if !drop(name, values) {
			kept[name] = values
		}
	}
	return kept
}

// replay answers with the stored response.
func (q *request) replay(rec Record) {
	resp, h := rec.Response, q.w.Header()
	foreign := !sameOrigin(resp.Header, q.r.Header.Get("Origin"))
	for name, values := range resp.Header {
		if foreign && strings.HasPrefix(name, "Access-Control-") {
			continue
		}
		h[name] = slices.Clone(values)
	}
	token := statusReplayed
	if resp.BodyOmitted {
		token += ";body=omitted"
		for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Accept-Ranges", "Content-Range"} {
			h.Del(name)
		}
		// An empty body must not wipe the element that asked for it.
		h.Set("Hx-Reswap", "none")
	}
	h.Set(StatusHeader, statusValue(token, q.key))
	if q.g.cfg.ReplayedHeader == "Idempotency-Replayed" {
		h.Set(q.g.cfg.ReplayedHeader, "1")
	} else {
		h.Set(q.g.cfg.ReplayedHeader, "true")
	}
	exposeHeaders(h)
	q.w.WriteHeader(resp.Status)
	if bodyAllowed(resp.Status) && len(resp.Body) > 0 {
		_, _ = q.w.Write(resp.Body)
	}
	q.attempt = rec.Attempt
	q.log(statusReplayed, resp.Status, nil)
}

// sameOrigin reports whether stored CORS headers may go to this origin: they
// named the first caller's.
func sameOrigin(stored http.Header, origin string) bool {
	allowed := stored.Get("Access-Control-Allow-Origin")
	return allowed == "" || allowed == "*" || allowed == origin
}
