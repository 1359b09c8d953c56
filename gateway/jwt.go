package gateway

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of the algorithms below
	_ "crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward"
)

// JWTConfig says which tokens are believed. Claim, From and one of Keys and
// Secret are required.
type JWTConfig struct {
	// Claim names the claim that says whose the request is, such as "sub": a
	// string or a whole number at the top level.
	Claim string
	// From is where the token stands. In Authorization it follows "Bearer".
	From Source
	// Keys verify signatures: RSA keys RS256, RS384, RS512, PS256, PS384 and
	// PS512, of 2048 bits at least; ECDSA keys ES256, ES384 or ES512, as their
	// curve is; Ed25519 keys EdDSA. The token's own header never widens that.
	Keys []crypto.PublicKey
	// Secret verifies HS256, HS384 and HS512; it has 32 bytes at least.
	Secret []byte
	// Issuer and Audience are required of the token where they are not empty.
	Issuer, Audience string
	// Leeway is how far two clocks may differ for exp and nbf. Zero means 1 min.
	Leeway time.Duration

	now func() time.Time
}

// maxToken is more than a header line of common servers takes.
const maxToken = 16 << 10

// JWT scopes keys by a claim of a signed token (RFC 7519 in the compact form of
// RFC 7515). A token that is not valid is none: the request is anonymous. The
// claim's value is the scope, so a token that was renewed names the same caller.
func JWT(cfg JWTConfig) (onceward.ScopeFunc, error) {
	switch {
	case cfg.Claim == "":
		return nil, errors.New("gateway: JWTConfig.Claim is empty")
	case cfg.From == nil:
		return nil, errors.New("gateway: JWTConfig.From is missing")
	case (len(cfg.Keys) > 0) == (len(cfg.Secret) > 0):
		return nil, errors.New("gateway: JWTConfig needs either Keys or Secret")
	case len(cfg.Secret) > 0 && len(cfg.Secret) < 32:
		return nil, fmt.Errorf("gateway: JWTConfig.Secret has %d bytes; less than 32 can be guessed (RFC 7518 section 3.2)", len(cfg.Secret))
	case cfg.Leeway < 0:
		return nil, fmt.Errorf("gateway: JWTConfig.Leeway is negative: %v", cfg.Leeway)
	}
	for _, key := range cfg.Keys {
		if err := checkKey(key); err != nil {
			return nil, err
		}
	}
	cfg.Keys, cfg.Secret = slices.Clone(cfg.Keys), bytes.Clone(cfg.Secret)
	if cfg.Leeway == 0 {
		cfg.Leeway = time.Minute
	}
	if cfg.now == nil {
		cfg.now = time.Now
	}
	return func(r *http.Request) (string, error) {
		values := cfg.From(r)
		if len(values) != 1 {
			return "", anonymous(r) // none, or nobody can say which the application takes
		}
		token := values[0]
		if scheme, rest, ok := strings.Cut(token, " "); ok && strings.EqualFold(scheme, "Bearer") {
			token = strings.Trim(rest, " ")
		}
		name, err := cfg.verify(token)
		if err != nil {
			return "", anonymous(r)
		}
		return name, nil
	}, nil
}

func checkKey(key crypto.PublicKey) error {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < 2048 {
			return fmt.Errorf("gateway: an RSA key of %d bits is too short; 2048 is the least (RFC 7518 section 3.3)", k.N.BitLen())
		}
	case *ecdsa.PublicKey:
		if _, ok := curves[k.Curve]; !ok {
			return fmt.Errorf("gateway: no algorithm of JSON Web Tokens has the curve %s", k.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return fmt.Errorf("gateway: a key of type %T verifies no token", key)
	}
	return nil
}

// ParseJWTKeys reads public keys from PEM: PUBLIC KEY, RSA PUBLIC KEY and
// CERTIFICATE blocks. Several are there while one takes the other's place.
func ParseJWTKeys(text []byte) ([]crypto.PublicKey, error) {
	var keys []crypto.PublicKey
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key crypto.PublicKey
		var err error
		switch block.Type {
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			key, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "CERTIFICATE":
			var cert *x509.Certificate
			if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
				key = cert.PublicKey
			}
		default:
			err = fmt.Errorf("a block of type %q; public keys are needed", block.Type)
		}
		if err == nil {
			err = checkKey(key)
		}
		if err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("gateway: there is no PEM block in it")
	}
	return keys, nil
}

// errToken is every reason why a token is not believed. Nobody is told which.
var errToken = errors.New("gateway: the token is not valid")

// verify returns the claim's value of a token that is valid now.
func (c *JWTConfig) verify(token string) (string, error) {
	if len(token) > maxToken {
		return "", errToken
	}
	signed, signature, ok := cutLast(token, '.')
	head, payload, ok2 := strings.Cut(signed, ".")
	if !ok || !ok2 || strings.Contains(payload, ".") {
		return "", errToken
	}
	var h struct {
		Alg  string          `json:"alg"`
		Crit json.RawMessage `json:"crit"`
	}
	if err := decodeSegment(head, &h); err != nil || h.Crit != nil {
		return "", errToken
	}
	sig, err := strict.DecodeString(signature)
	if err != nil || !c.signedBy(h.Alg, []byte(signed), sig) {
		return "", errToken
	}
	claims := map[string]json.RawMessage{}
	if err := decodeSegment(payload, &claims); err != nil {
		return "", errToken
	}
	if !c.timely(claims) || !c.meant(claims) {
		return "", errToken
	}
	return claimText(claims[c.Claim])
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

var strict = base64.RawURLEncoding.Strict()

func decodeSegment(text string, into any) error {
	b, err := strict.DecodeString(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// curves gives each curve its algorithm and the length of half a signature.
var curves = map[elliptic.Curve]struct {
	alg  string
	half int
}{elliptic.P256(): {"ES256", 32}, elliptic.P384(): {"ES384", 48}, elliptic.P521(): {"ES512", 66}}

// signedBy reports whether one of the keys made the signature by this
// algorithm. A key is only ever asked for the algorithms of its own kind.
func (c *JWTConfig) signedBy(alg string, signed, sig []byte) bool {
	if alg == "EdDSA" {
		return slices.ContainsFunc(c.Keys, func(key crypto.PublicKey) bool {
			k, ok := key.(ed25519.PublicKey)
			return ok && ed25519.Verify(k, signed, sig)
		})
	}
	if len(alg) != 5 {
		return false
	}
	hash, ok := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[alg[2:]]
	if !ok {
		return false
	}
	if alg[:2] == "HS" {
		if len(c.Secret) == 0 {
			return false
		}
		mac := hmac.New(hash.New, c.Secret)
		mac.Write(signed)
		return hmac.Equal(mac.Sum(nil), sig)
	}
	d := hash.New()
	d.Write(signed)
	sum := d.Sum(nil)
	return slices.ContainsFunc(c.Keys, func(key crypto.PublicKey) bool {
		switch k := key.(type) {
		case *rsa.PublicKey:
			return alg[:2] == "RS" && rsa.VerifyPKCS1v15(k, hash, sum, sig) == nil ||
				alg[:2] == "PS" && rsa.VerifyPSS(k, hash, sum, sig, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
		case *ecdsa.PublicKey:
			curve := curves[k.Curve]
			if alg != curve.alg || len(sig) != 2*curve.half {
				return false
			}
			r, s := new(big.Int).SetBytes(sig[:curve.half]), new(big.Int).SetBytes(sig[curve.half:])
			return ecdsa.Verify(k, sum, r, s)
		}
		return false
	})
}

// timely checks exp and nbf, where the token has them.
func (c *JWTConfig) timely(claims map[string]json.RawMessage) bool {
	now := float64(c.now().UnixMilli()) / 1000
	leeway := c.Leeway.Seconds()
	for name, fine := range map[string]func(t float64) bool{
		"exp": func(t float64) bool { return now < t+leeway },
		"nbf": func(t float64) bool { return now >= t-leeway },
	} {
		raw, ok := claims[name]
		if !ok {
			continue
		}
		var t *float64
		if err := json.Unmarshal(raw, &t); err != nil || t == nil || !fine(*t) {
			return false
		}
	}
	return true
}

// meant checks who issued the token and for whom, where that is asked for.
func (c *JWTConfig) meant(claims map[string]json.RawMessage) bool {
	if c.Issuer != "" {
		var issuer string
		if err := json.Unmarshal(claims["iss"], &issuer); err != nil || issuer != c.Issuer {
			return false
		}
	}
	if c.Audience == "" {
		return true
	}
	var one string
	if err := json.Unmarshal(claims["aud"], &one); err == nil {
		return one == c.Audience
	}
	var several []string
	return json.Unmarshal(claims["aud"], &several) == nil && slices.Contains(several, c.Audience)
}

// claimText is a claim as a name: a string, or a whole number as it is written. Of what
// is no text (half of a surrogate pair, broken UTF-8) encoding/json makes the same
// character each time, and two names would be one.
func claimText(raw json.RawMessage) (string, error) {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		if name == "" || strings.ContainsRune(name, utf8.RuneError) {
			return "", errToken
		}
		return name, nil
	}
	text := string(bytes.TrimSpace(raw))
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return "", errToken
	}
	return text, nil
}
