package fault

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// page is the answer of something that is not the application: a proxy, a
// portal, a login wall, a firewall.
func (f Fault) page(login string) (status int, h http.Header, body string) {
	// Nothing of this may outlive the fault in a browser's cache.
	h = http.Header{"Content-Type": {"text/html; charset=utf-8"}, "Cache-Control": {"no-store"}}
	switch f.Mode {
	case Captive200:
		return http.StatusOK, h, html("Welcome to Free Wi-Fi",
			`<p>To use the internet, please accept the terms.</p><form method="post" action="/portal/accept"><button>Accept and connect</button></form>`)
	case Login302:
		if f.Path != "" {
			login = f.Path
		}
		h.Set("Location", login)
		return http.StatusFound, h, html("Found", `<a href="`+strings.ReplaceAll(login, "&", "&amp;")+`">Found</a>`)
	case Login200:
		return http.StatusOK, h, html("Log in",
			`<form method="post" action="`+strings.ReplaceAll(login, "&", "&amp;")+`"><input name="login"><input name="password" type="password"><button>Log in</button></form>`)
	case WAF403:
		return http.StatusForbidden, h, html("Access denied", `<p>Your request was blocked by the web application firewall.</p>`)
	}
	if f.HasRetryAfter {
		h.Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	return f.Status, h, html(strings.TrimSpace(fmt.Sprint(f.Status, " ", http.StatusText(f.Status))), "")
}

func html(title, body string) string {
	return "<!doctype html>\n<html><head><title>" + title + "</title></head>\n<body><h1>" + title + "</h1>" + body + "</body></html>\n"
}

// message is a whole answer as bytes. headOnly leaves the body out, as for HEAD,
// and keeps its length.
func message(status int, h http.Header, body string, headOnly bool) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	if status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	h.Write(&b)
	b.WriteString("\r\n")
	if !headOnly {
		b.WriteString(body)
	}
	return []byte(b.String())
}
