package gateway_test

import (
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
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/gateway"
)

var b64 = base64.RawURLEncoding.EncodeToString

// token signs a head and claims; signing may be nil for no signature at all.
func token(head, claims string, sign func(signed []byte) []byte) string {
	signed := b64([]byte(head)) + "." + b64([]byte(claims))
	if sign == nil {
		return signed + "."
	}
	return signed + "." + b64(sign([]byte(signed)))
}

func hmac256(secret string) func([]byte) []byte {
	return func(signed []byte) []byte {
		m := hmac.New(sha256.New, []byte(secret))
		m.Write(signed)
		return m.Sum(nil)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var (
	rsaKey  = must(rsa.GenerateKey(rand.Reader, 2048))
	p256    = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	p521    = must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	_, ed25 = must2(ed25519.GenerateKey(rand.Reader))
)

func must2[A, B any](a A, b B, err error) (A, B) {
	if err != nil {
		panic(err)
	}
	return a, b
}

func rs(hash crypto.Hash) func([]byte) []byte {
	return func(signed []byte) []byte {
		h := hash.New()
		h.Write(signed)
		return must(rsa.SignPKCS1v15(rand.Reader, rsaKey, hash, h.Sum(nil)))
	}
}

func ps(hash crypto.Hash) func([]byte) []byte {
	return func(signed []byte) []byte {
		h := hash.New()
		h.Write(signed)
		return must(rsa.SignPSS(rand.Reader, rsaKey, hash, h.Sum(nil), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}))
	}
}

func es(key *ecdsa.PrivateKey, hash crypto.Hash, half int) func([]byte) []byte {
	return func(signed []byte) []byte {
		h := hash.New()
		h.Write(signed)
		r, s, err := ecdsa.Sign(rand.Reader, key, h.Sum(nil))
		if err != nil {
			panic(err)
		}
		return append(r.FillBytes(make([]byte, half)), s.FillBytes(make([]byte, half))...)
	}
}

const secret = "a secret of at least thirty-two bytes"

func scopeBy(t *testing.T, cfg gateway.JWTConfig) onceward.ScopeFunc {
	t.Helper()
	if cfg.Claim == "" {
		cfg.Claim = "sub"
	}
	if cfg.From == nil {
		cfg.From = gateway.FromHeader("Authorization")
	}
	scope, err := gateway.JWT(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

// pemOf is the keys as an operator writes them down.
func pemOf(keys ...crypto.PublicKey) []byte {
	var b []byte
	for _, k := range keys {
		b = append(b, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(k))})...)
	}
	return b
}

func TestASignedTokenNamesItsCaller(t *testing.T) {
	keys, err := gateway.ParseJWTKeys(pemOf(&rsaKey.PublicKey, &p256.PublicKey, &p521.PublicKey, ed25.Public()))
	if err != nil || len(keys) != 4 {
		t.Fatal(keys, err)
	}
	byKey, bySecret := scopeBy(t, gateway.JWTConfig{Keys: keys}), scopeBy(t, gateway.JWTConfig{Secret: []byte(secret)})
	claims := `{"sub":"ann"}`
	for name, c := range map[string]struct {
		scope onceward.ScopeFunc
		token string
	}{
		"HS256": {bySecret, token(`{"alg":"HS256","typ":"JWT"}`, claims, hmac256(secret))},
		"RS256": {byKey, token(`{"alg":"RS256"}`, claims, rs(crypto.SHA256))},
		"RS512": {byKey, token(`{"alg":"RS512"}`, claims, rs(crypto.SHA512))},
		"PS384": {byKey, token(`{"alg":"PS384"}`, claims, ps(crypto.SHA384))},
		"ES256": {byKey, token(`{"alg":"ES256"}`, claims, es(p256, crypto.SHA256, 32))},
		"ES512": {byKey, token(`{"alg":"ES512"}`, claims, es(p521, crypto.SHA512, 66))},
		"EdDSA": {byKey, token(`{"alg":"EdDSA"}`, claims, func(signed []byte) []byte { return ed25519.Sign(ed25, signed) })},
	} {
		for _, scheme := range []string{"Bearer ", "bearer  ", ""} {
			if got, err := c.scope(request("Authorization", scheme+c.token)); got != "ann" || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	cookie := scopeBy(t, gateway.JWTConfig{Secret: []byte(secret), From: gateway.FromCookie("access"), Claim: "user_id"})
	tok := token(`{"alg":"HS256"}`, `{"user_id":42}`, hmac256(secret))
	if got, err := cookie(request("Cookie", "access="+tok)); got != "42" || err != nil {
		t.Errorf("from a cookie: %q, %v", got, err)
	}
	if got, err := cookie(request("Cookie", "access="+tok+"; access="+tok)); err == nil {
		t.Errorf("two tokens: %q", got)
	}
}

// The examples of RFC 7515 (A.1 with its key; A.2 to A.4 differ in the key's kind
// alone) and RFC 8037 A.4, which were signed by others than this test.
func TestTokensOfTheSpecifications(t *testing.T) {
	key := must(base64.RawURLEncoding.DecodeString("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"))
	hs := "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	// It expired in 2011; the leeway brings it back.
	scope := scopeBy(t, gateway.JWTConfig{Secret: key, Claim: "iss", Leeway: 100 * 365 * 24 * time.Hour})
	if got, err := scope(request("Authorization", "Bearer "+hs)); got != "joe" || err != nil {
		t.Errorf("RFC 7515 A.1: %q, %v", got, err)
	}
	scope = scopeBy(t, gateway.JWTConfig{Secret: key, Claim: "iss"})
	if got, err := scope(request("Authorization", "Bearer "+hs)); err == nil {
		t.Errorf("RFC 7515 A.1, long expired: %q", got)
	}
	point := append([]byte{4}, must(base64.RawURLEncoding.DecodeString("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"))...)
	point = append(point, must(base64.RawURLEncoding.DecodeString("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"))...)
	ec := must(ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point))
	es := "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
	scope = scopeBy(t, gateway.JWTConfig{Keys: []crypto.PublicKey{ec}, Claim: "iss", Leeway: 100 * 365 * 24 * time.Hour})
	if got, err := scope(request("Authorization", "Bearer "+es)); got != "joe" || err != nil {
		t.Errorf("RFC 7515 A.3: %q, %v", got, err)
	}
}

// R: a token that nobody verified is never an identity.
func TestATokenThatIsNotValidIsAnonymous(t *testing.T) {
	good := `{"sub":"ann"}`
	sign := hmac256(secret)
	now := time.Now().Unix()
	valid := token(`{"alg":"HS256"}`, good, sign)
	pemText := pemOf(&rsaKey.PublicKey)
	keys := must(gateway.ParseJWTKeys(pemText))
	bySecret := scopeBy(t, gateway.JWTConfig{Secret: []byte(secret)})
	byKey := scopeBy(t, gateway.JWTConfig{Keys: append(keys, &p256.PublicKey)})
	strict := scopeBy(t, gateway.JWTConfig{Secret: []byte(secret), Issuer: "idp", Audience: "shop"})
	for name, c := range map[string]struct {
		scope onceward.ScopeFunc
		token string
	}{
		"nothing":                  {bySecret, ""},
		"no token":                 {bySecret, "ann"},
		"two parts":                {bySecret, valid[:strings.LastIndex(valid, ".")]},
		"four parts":               {bySecret, valid + ".x"},
		"none":                     {bySecret, token(`{"alg":"none"}`, good, nil)},
		"None":                     {bySecret, token(`{"alg":"None"}`, good, nil)},
		"no alg":                   {bySecret, token(`{}`, good, sign)},
		"no signature":             {bySecret, token(`{"alg":"HS256"}`, good, nil)},
		"another secret":           {bySecret, token(`{"alg":"HS256"}`, good, hmac256(secret+"!"))},
		"another algorithm's name": {bySecret, token(`{"alg":"HS512"}`, good, sign)},
		"XX256":                    {bySecret, token(`{"alg":"XX256"}`, good, sign)},
		"padding":                  {bySecret, valid + "="},
		"loose bits":               {bySecret, valid[:len(valid)-1] + next(valid[len(valid)-1])},
		"a critical extension":     {bySecret, token(`{"alg":"HS256","crit":["b64"],"b64":false}`, good, sign)},
		"another caller's claims":  {bySecret, strings.Replace(valid, b64([]byte(good)), b64([]byte(`{"sub":"bob"}`)), 1)},
		"expired":                  {bySecret, token(`{"alg":"HS256"}`, fmt.Sprintf(`{"sub":"ann","exp":%d}`, now-90), sign)},
		"not yet":                  {bySecret, token(`{"alg":"HS256"}`, fmt.Sprintf(`{"sub":"ann","nbf":%d}`, now+90), sign)},
		"exp is a string":          {bySecret, token(`{"alg":"HS256"}`, `{"sub":"ann","exp":"9999999999"}`, sign)},
		"exp is null":              {bySecret, token(`{"alg":"HS256"}`, `{"sub":"ann","exp":null}`, sign)},
		"no sub":                   {bySecret, token(`{"alg":"HS256"}`, `{"name":"ann"}`, sign)},
		"empty sub":                {bySecret, token(`{"alg":"HS256"}`, `{"sub":""}`, sign)},
		"sub is null":              {bySecret, token(`{"alg":"HS256"}`, `{"sub":null}`, sign)},
		"sub is a list":            {bySecret, token(`{"alg":"HS256"}`, `{"sub":["ann"]}`, sign)},
		"sub is a fraction":        {bySecret, token(`{"alg":"HS256"}`, `{"sub":1.5}`, sign)},
		"sub is half a character":  {bySecret, token(`{"alg":"HS256"}`, `{"sub":"\ud83d"}`, sign)},
		"sub is broken UTF-8":      {bySecret, token(`{"alg":"HS256"}`, "{\"sub\":\"\xff\"}", sign)},
		"no JSON":                  {bySecret, token(`{"alg":"HS256"}`, `ann`, sign)},
		"too long":                 {bySecret, token(`{"alg":"HS256"}`, `{"sub":"`+strings.Repeat("a", 20_000)+`"}`, sign)},
		"the public key as secret": {byKey, token(`{"alg":"HS256"}`, good, hmac256(string(pemText)))},
		"RSA by another hash":      {byKey, token(`{"alg":"RS256"}`, good, rs(crypto.SHA512))},
		"the other curve":          {byKey, token(`{"alg":"ES512"}`, good, es(p521, crypto.SHA512, 66))},
		"ES256 by ES512's hash":    {byKey, token(`{"alg":"ES512"}`, good, es(p256, crypto.SHA512, 32))},
		"zeros":                    {byKey, token(`{"alg":"ES256"}`, good, func([]byte) []byte { return make([]byte, 64) })},
		"another issuer":           {strict, token(`{"alg":"HS256"}`, `{"sub":"ann","iss":"x","aud":"shop"}`, sign)},
		"no issuer":                {strict, token(`{"alg":"HS256"}`, `{"sub":"ann","aud":"shop"}`, sign)},
		"another audience":         {strict, token(`{"alg":"HS256"}`, `{"sub":"ann","iss":"idp","aud":["x"]}`, sign)},
		"no audience":              {strict, token(`{"alg":"HS256"}`, `{"sub":"ann","iss":"idp"}`, sign)},
	} {
		if got, err := c.scope(request("Authorization", "Bearer "+c.token)); got != "" || !errors.Is(err, gateway.ErrAnonymous) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, claims := range []string{
		fmt.Sprintf(`{"sub":"ann","iss":"idp","aud":"shop","exp":%d,"nbf":%d}`, now-30, now+30), // within the leeway
		`{"sub":"ann","iss":"idp","aud":["x","shop"],"exp":99999999999.5}`,
	} {
		if got, err := strict(request("Authorization", "Bearer "+token(`{"alg":"HS256"}`, claims, sign))); got != "ann" || err != nil {
			t.Errorf("%s: %q, %v", claims, got, err)
		}
	}
}

// next is another last character that decodes to the same bytes if loose bits are
// forgiven.
func next(c byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, c)|1])
}

func TestKeysThatAreTooWeakAreRefused(t *testing.T) {
	p224 := must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))
	from := gateway.FromHeader("Authorization")
	for name, cfg := range map[string]gateway.JWTConfig{
		"no claim":      {From: from, Secret: []byte(secret)},
		"no source":     {Claim: "sub", Secret: []byte(secret)},
		"no key":        {Claim: "sub", From: from},
		"both":          {Claim: "sub", From: from, Secret: []byte(secret), Keys: []crypto.PublicKey{&p256.PublicKey}},
		"short secret":  {Claim: "sub", From: from, Secret: []byte("dev")},
		"curve":         {Claim: "sub", From: from, Keys: []crypto.PublicKey{&p224.PublicKey}},
		"short RSA":     {Claim: "sub", From: from, Keys: []crypto.PublicKey{&rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 1023), E: 65537}}},
		"a private key": {Claim: "sub", From: from, Keys: []crypto.PublicKey{rsaKey}},
		"leeway":        {Claim: "sub", From: from, Secret: []byte(secret), Leeway: -1},
	} {
		if _, err := gateway.JWT(cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(rsaKey))})
	for name, text := range map[string][]byte{"nothing": nil, "text": []byte("secret"), "private": private, "broken": []byte(strings.Replace(string(pemOf(&p256.PublicKey)), "M", "N", 1))} {
		if keys, err := gateway.ParseJWTKeys(text); err == nil {
			t.Errorf("%s: %v", name, keys)
		}
	}
}

// FuzzToken: whatever is sent, only what the secret signed has a name.
func FuzzToken(f *testing.F) {
	valid := token(`{"alg":"HS256"}`, `{"sub":"ann"}`, hmac256(secret))
	f.Add(valid)
	f.Add(valid[1:])
	f.Add(token(`{"alg":"none"}`, `{"sub":"ann"}`, nil))
	scope, err := gateway.JWT(gateway.JWTConfig{Claim: "sub", From: gateway.FromHeader("Authorization"), Secret: []byte(secret)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := request()
		r.Header["Authorization"] = []string{text}
		if name, err := scope(r); err == nil && strings.TrimSpace(text[max(0, len(text)-len(valid)):]) != valid {
			t.Errorf("%q names %q", text, name)
		}
	})
}
