package gateway_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/gateway"
)

func request(header ...string) *http.Request {
	r, _ := http.NewRequest("POST", "http://shop.test/orders", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// B080: whoever does not say who he is has no scope, least of all one that all
// such callers share.
func TestAScopeIsReadByteForByte(t *testing.T) {
	for _, c := range []struct {
		scope  onceward.ScopeFunc
		header []string
		want   string // "" for anonymous
	}{
		{gateway.Cookie("s"), nil, ""},
		{gateway.Cookie("s"), []string{"Cookie", "s="}, ""},
		{gateway.Cookie("s"), []string{"Cookie", "t=1; ss=2; S=3"}, ""},
		{gateway.Cookie("s"), []string{"Cookie", "s"}, ""},
		{gateway.Cookie("s"), []string{"Cookie", "a=1; s=x"}, "x"},
		{gateway.Cookie("s"), []string{"Cookie", "a=1;s=x=y ;b"}, "x=y"},
		{gateway.Cookie("s"), []string{"Cookie", `s={"a":1,"b c"}`}, `{"a":1,"b c"}`},
		{gateway.Cookie("s"), []string{"Cookie", "a=1", "Cookie", "s=x"}, "x"},
		{gateway.Cookie("s"), []string{"Cookie", "s=x; s=y"}, `"x""y"`},
		{gateway.Cookie("s"), []string{"Cookie", "s=y; s=x"}, `"y""x"`},
		{gateway.Cookie("s"), []string{"Cookie", `s=x""y`}, `x""y`},
		{gateway.Header("authorization"), nil, ""},
		{gateway.Header("authorization"), []string{"Authorization", ""}, ""},
		{gateway.Header("authorization"), []string{"Authorization", "Basic eDp5"}, "Basic eDp5"},
		{gateway.Header("X-User"), []string{"X-User", "ann", "X-User", "bob"}, `"ann""bob"`},
	} {
		got, err := c.scope(request(c.header...))
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, gateway.ErrAnonymous) {
			t.Errorf("%q: %q, %v; want %q", c.header, got, err, c.want)
		}
	}
}

// B077, B080: one person's key is not another's, and a key without a person is
// refused, or passes without a guard where that is wanted.
func TestKeysOfDifferentPeopleNeverMeet(t *testing.T) {
	app := serve(t, true, always(created))
	addr := frontScoped(t, app.url(), gateway.Cookie("who"), gateway.Config{})
	for i, who := range []string{"ann", "bob"} {
		send(t, addr, "POST", "/orders", "tea", key, "k", "Cookie", "lang=en; who="+who).want(t, 201, "executed")
		send(t, addr, "POST", "/orders", "tea", key, "k", "Cookie", "who="+who).want(t, 201, "replayed")
		app.wantArrivals(i + 1)
	}
	got := send(t, addr, "POST", "/orders", "tea", key, "k")
	got.want(t, 401, "")
	if !strings.Contains(got.body, "urn:onceward:problem:anonymous") {
		t.Errorf("answered %v", got)
	}
	page := send(t, addr, "POST", "/orders", "_key=k", "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html")
	page.want(t, 401, "")
	if !strings.Contains(page.body, "sign in again") {
		t.Errorf("a person reads %v", page)
	}
	page = send(t, addr, "POST", "/orders", "_key=k", "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html", "Accept-Language", "ru-RU")
	if !strings.Contains(page.body, "Войдите ещё раз") {
		t.Errorf("a person reads %v", page)
	}
	app.wantArrivals(2)
	send(t, addr, "POST", "/login", "name=ann", "Content-Type", "application/x-www-form-urlencoded").want(t, 201, "")
	app.wantArrivals(3)

	open := frontScoped(t, app.url(), gateway.Cookie("who"), gateway.Config{PassAnonymous: true})
	for range 2 {
		send(t, open, "POST", "/orders", "tea", key, "k").want(t, 201, "")
	}
	app.wantArrivals(5)
	send(t, open, "POST", "/orders", "tea", key, "k", "Cookie", "who=ann").want(t, 201, "executed")
	send(t, open, "POST", "/orders", "tea", key, "k", "Cookie", "who=ann").want(t, 201, "replayed")
	app.wantArrivals(6)
}
