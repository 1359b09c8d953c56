package gateway_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/onceward/onceward/gateway"
)

// hosted sends the same order under the same key and cookie to one of several hosts.
func hosted(t *testing.T, addr, host string, header ...string) answer {
	t.Helper()
	c := dial(t, addr)
	text := "POST /orders HTTP/1.1\r\nHost: " + host + "\r\nCookie: s=ann\r\nIdempotency-Key: k\r\nContent-Length: 3\r\n"
	for i := 0; i < len(header); i += 2 {
		text += header[i] + ": " + header[i+1] + "\r\n"
	}
	c.say(text + "\r\ntea")
	return c.answer("POST")
}

// R: one gateway stands before two hosts, and a cookie or a token is good for both. A
// key names a request to one of them: on the other nothing runs, and above all nobody
// gets the first one's answer. It is not simply another key there, as another caller's
// is: one application often has two names, and the same request under both would be
// done twice.
func TestAKeyNamesARequestToOneHost(t *testing.T) {
	app := serve(t, true, func(a *arrival) bool {
		a.say(fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(a.Host), a.Host))
		return true
	})
	addr := frontScoped(t, app.url(), gateway.Cookie("s"), gateway.Config{})
	hosted(t, addr, "a.test").want(t, 201, "executed")
	for _, host := range []string{"a.test", "A.Test", "a.test:8080"} {
		got := hosted(t, addr, host) // neither the letters' case nor a port makes another host
		got.want(t, 201, "replayed")
		if got.body != "a.test" {
			t.Errorf("%s: answered %v", host, got)
		}
	}
	for _, host := range []string{"b.test", "b.test:80", "www.a.test", ""} {
		hosted(t, addr, host).want(t, 422, "key-reused")
	}
	// The absolute form's host is the one that counts, and that the application is told.
	c := dial(t, addr)
	c.say("POST http://b.test/orders HTTP/1.1\r\nHost: a.test\r\nCookie: s=ann\r\nIdempotency-Key: k\r\nContent-Length: 3\r\n\r\ntea")
	c.answer("POST").want(t, 422, "key-reused")
	app.wantArrivals(1)
}

// R: behind a proxy that is trusted, the host that it names counts too; a client's own
// word for it does not, for the application never hears that.
func TestAHostThatATrustedProxyNamesCounts(t *testing.T) {
	app := serve(t, true, always(created))
	plain := frontScoped(t, app.url(), gateway.Cookie("s"), gateway.Config{})
	hosted(t, plain, "inner", "X-Forwarded-Host", "a.test").want(t, 201, "executed")
	hosted(t, plain, "inner", "X-Forwarded-Host", "b.test").want(t, 201, "replayed")

	behind := frontScoped(t, app.url(), gateway.Cookie("s"), gateway.Config{TrustProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	hosted(t, behind, "inner", "X-Forwarded-Host", "a.test", "Forwarded", "for=1.2.3.4").want(t, 201, "executed")
	// The client has another address now.
	hosted(t, behind, "inner", "X-Forwarded-Host", "A.test", "Forwarded", "for=5.6.7.8").want(t, 201, "replayed")
	hosted(t, behind, "inner", "X-Forwarded-Host", "b.test").want(t, 422, "key-reused")
	app.wantArrivals(2)
}
