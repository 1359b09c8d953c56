package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// receipts is an application that answers with the number of the request.
func receipts(t *testing.T) (url string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, asked.Add(1))
	}))
	t.Cleanup(app.Close)
	return app.URL, asked
}

// R (scope by header): the same key of two callers is two keys, each gets his own
// answer, and a key of nobody is refused before the application hears of it.
func TestTheGatewayKeepsTheKeysOfTwoHeadersApart(t *testing.T) {
	app, asked := receipts(t)
	for _, name := range []string{"Authorization", "X-Account"} {
		t.Run(name, func(t *testing.T) {
			before := asked.Load()
			p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "sqlite:"+filepath.Join(t.TempDir(), "keys.db"), "--scope", "header:"+name)
			bodies := map[string]string{}
			for i, c := range []struct{ who, outcome string }{
				{"Bearer ann", "executed"}, {"Bearer bob", "executed"}, {"Bearer ann", "replayed"}, {"Bearer bob", "replayed"}, {"bearer ann", "executed"},
			} {
				status, outcome, body := keyed(t, p.url, name, c.who)
				if status != 201 || outcome != c.outcome || bodies[c.who] != "" && bodies[c.who] != body {
					t.Errorf("%d: %s: %d %s %q, want %s", i, c.who, status, outcome, body, c.outcome)
				}
				bodies[c.who] = body
			}
			for _, nobody := range [][]string{nil, {name, ""}, {"X-Other", "Bearer ann"}} {
				if status, outcome, body := keyed(t, p.url, nobody...); status != 401 || outcome != "" || !strings.Contains(body, "urn:onceward:problem:anonymous") {
					t.Errorf("%q: %d %s %s", nobody, status, outcome, body)
				}
			}
			p.stop(t, syscall.SIGTERM)
			if n := asked.Load() - before; n != 3 {
				t.Errorf("the application was asked %d times, want 3", n)
			}
			if strings.Contains(p.stderr.String(), "Bearer") {
				t.Errorf("the log has the credential: %s", p.stderr)
			}
		})
	}
}

// signer makes tokens, good ones and others.
type signer struct {
	alg  string
	sign func(signed []byte) []byte
}

func (s signer) token(claims map[string]any) string {
	return s.withHead(map[string]any{"alg": s.alg, "typ": "JWT"}, claims)
}

func (s signer) withHead(head, claims map[string]any) string {
	segment := func(v any) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := segment(head) + "." + segment(claims)
	return signed + "." + base64.RawURLEncoding.EncodeToString(s.sign([]byte(signed)))
}

func hs256(secret []byte) signer {
	return signer{"HS256", func(signed []byte) []byte {
		m := hmac.New(sha256.New, secret)
		m.Write(signed)
		return m.Sum(nil)
	}}
}

func rs256(key *rsa.PrivateKey) signer {
	return signer{"RS256", func(signed []byte) []byte {
		sum := sha256.Sum256(signed)
		sig, _ := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		return sig
	}}
}

func es256(key *ecdsa.PrivateKey) signer {
	return signer{"ES256", func(signed []byte) []byte {
		sum := sha256.Sum256(signed)
		r, s, _ := ecdsa.Sign(rand.Reader, key, sum[:])
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}}
}

func eddsa(key ed25519.PrivateKey) signer {
	return signer{"EdDSA", func(signed []byte) []byte { return ed25519.Sign(key, signed) }}
}

// R (scope by a token's claim): a real gateway believes what is signed by its keys, is
// valid now, and was issued by and for whom it was told; everything else is nobody's, and
// the application is not asked.
func TestTheGatewayTakesAScopeFromATokenItCanTrust(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var public bytes.Buffer
	for _, key := range []any{&rsaKey.PublicKey, &ecKey.PublicKey, edPublic} {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := pem.Encode(&public, &pem.Block{Type: "PUBLIC KEY", Bytes: der}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "keys.pem")
	if err := os.WriteFile(file, public.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	app, asked := receipts(t)
	p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "sqlite:"+filepath.Join(t.TempDir(), "keys.db"),
		"--scope", "jwt:sub", "--jwt-key", file, "--jwt-issuer", "https://id.test", "--jwt-audience", "shop")

	now := time.Now().Unix()
	claims := func(change ...any) map[string]any {
		c := map[string]any{"sub": "ann", "iss": "https://id.test", "aud": "shop", "iat": now, "exp": now + 600}
		for i := 0; i < len(change); i += 2 {
			if c[change[i].(string)] = change[i+1]; change[i+1] == nil {
				delete(c, change[i].(string))
			}
		}
		return c
	}
	ec := es256(ecKey)
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	// Each of the keys; one who has a new token, or another kind of it, is who he was.
	for i, c := range []struct{ token, outcome, receipt string }{
		{ec.token(claims()), "executed", "1"}, {ec.token(claims("exp", now+9000)), "replayed", "1"},
		{rs256(rsaKey).token(claims()), "replayed", "1"}, {eddsa(edKey).token(claims("aud", []string{"x", "shop"})), "replayed", "1"},
		{ec.token(claims("sub", "bob")), "executed", "2"}, {ec.token(claims("sub", "bob", "nbf", now-5)), "replayed", "2"},
	} {
		if status, outcome, body := keyed(t, p.url, bearer(c.token)...); status != 201 || outcome != c.outcome || body != c.receipt {
			t.Errorf("%d: %d %s %q, want %s %s", i, status, outcome, body, c.outcome, c.receipt)
		}
	}
	good := ec.token(claims())
	unsigned := signer{"none", func([]byte) []byte { return nil }}
	cut := strings.LastIndexByte(good, '.')
	last := strings.Split(ec.token(claims("sub", "bob")), ".")
	for name, header := range map[string][]string{
		"no token":                        nil,
		"alg none":                        bearer(unsigned.token(claims())),
		"alg None":                        bearer(signer{"None", unsigned.sign}.token(claims())),
		"alg none, with a signature":      bearer(ec.withHead(map[string]any{"alg": "none"}, claims())),
		"no alg":                          bearer(ec.withHead(map[string]any{"typ": "JWT"}, claims())),
		"signature cut off":               bearer(good[:cut+1]),
		"signature of another":            bearer(good[:cut+1] + last[2]),
		"payload of another":              bearer(strings.Join([]string{last[0], last[1], good[cut+1:]}, ".")),
		"a stranger's key":                bearer(es256(foreign).token(claims())),
		"public key as secret (PEM)":      bearer(hs256(public.Bytes()).token(claims())),
		"public key as secret (DER)":      bearer(hs256(edPublic).token(claims())),
		"one kind's key by another's alg": bearer(signer{"RS256", ec.sign}.token(claims())),
		"its own key in the head":         bearer(es256(foreign).withHead(map[string]any{"alg": "ES256", "jwk": map[string]any{"kty": "EC"}}, claims())),
		"a critical extension":            bearer(ec.withHead(map[string]any{"alg": "ES256", "crit": []string{"b64"}, "b64": false}, claims())),
		"expired":                         bearer(ec.token(claims("exp", now-120))),
		"expiry is no number":             bearer(ec.token(claims("exp", "never"))),
		"not yet":                         bearer(ec.token(claims("nbf", now+120))),
		"foreign issuer":                  bearer(ec.token(claims("iss", "https://other.test"))),
		"no issuer":                       bearer(ec.token(claims("iss", nil))),
		"for somebody else":               bearer(ec.token(claims("aud", "bank"))),
		"for nobody":                      bearer(ec.token(claims("aud", nil))),
		"no subject":                      bearer(ec.token(claims("sub", nil))),
		"empty subject":                   bearer(ec.token(claims("sub", ""))),
		"subject is a list":               bearer(ec.token(claims("sub", []string{"ann"}))),
		"where it is not asked for":       {"Cookie", "access=" + good, "X-Token", good},
		"another scheme":                  {"Authorization", "Basic " + good},
	} {
		if status, outcome, body := keyed(t, p.url, header...); status != 401 || outcome != "" || !strings.Contains(body, "urn:onceward:problem:anonymous") {
			t.Errorf("%s: %d %s %s", name, status, outcome, body)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the application was asked %d times, want 2", n)
	}
	// Without a key nobody's token matters to the gateway: the application judges.
	if status := post(t, p.url, "tea"); status != 201 {
		t.Errorf("without a key: %d", status)
	}
	p.stop(t, syscall.SIGTERM)
	if log := p.stderr.String(); strings.Contains(log, good[cut+1:]) || strings.Contains(log, last[1]) {
		t.Errorf("the log has a token: %s", log)
	}
}
