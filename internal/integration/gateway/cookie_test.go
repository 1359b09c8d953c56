package gateway_test

import (
	"net/http"
	"net/url"
	"testing"
)

// R: whoever was signed in before the application learned of the cookie `who`, or has
// lost it with the browser's end, can send forms: each page brings the cookie along.
func TestWhoeverIsSignedInHasTheAccountsCookie(t *testing.T) {
	onEach(t, func(t *testing.T, s *shop) {
		g := openGateway(t, s.url, sqlite(t), "cookie:who")
		p := s.signIn(g.url, "ann")
		who := p.cookie["who"]
		if who == "" {
			t.Fatal("signing in sets no cookie")
		}
		form := func() request {
			page := p.must(g.url, request{method: "GET", path: "/"})
			fields := url.Values{"_key": {hidden(t, page.body, "_key")}, "item": {"tea"}}
			if s.kind == "django" {
				fields.Set("csrfmiddlewaretoken", hidden(t, page.body, "csrfmiddlewaretoken"))
			}
			return request{path: "/orders", kind: "application/x-www-form-urlencoded", body: fields.Encode(), accept: "text/html"}
		}

		// The browser begins anew while a page stands open in it.
		open := form()
		for name, ends := range p.brief {
			if ends {
				delete(p.cookie, name)
			}
		}
		p.must(g.url, open).want(t, http.StatusSeeOther, "executed")
		p.must(g.url, open).want(t, http.StatusSeeOther, "replayed")
		p.wantEffects("tea", 1)

		// Signed in before the deploy: a session, and no cookie; or another one.
		for _, value := range []string{"", "of somebody else"} {
			p.cookie["who"] = value
			if value == "" {
				delete(p.cookie, "who")
				p.must(g.url, open).want(t, http.StatusUnauthorized, "")
			}
			before := p.effects("tea")
			r := form()
			if p.cookie["who"] != who {
				t.Errorf("with the cookie %q the page brings %q, want the account's", value, p.cookie["who"])
			}
			p.must(g.url, r).want(t, http.StatusSeeOther, "executed")
			p.must(g.url, r).want(t, http.StatusSeeOther, "replayed")
			p.wantEffects("tea", before+1)
		}

		// Another account, another value; nobody, none.
		if bob := s.signIn(g.url, "bob"); bob.cookie["who"] == "" || bob.cookie["who"] == who {
			t.Error("two accounts have one cookie")
		}
		p.must(g.url, request{path: "/logout"}).want(t, map[string]int{"flask": 303, "django": 302}[s.kind], "")
		if p.cookie["who"] != "" {
			t.Error("after signing out the cookie is still there")
		}
	})
}
