package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/gateway"
)

// scopeFunc reads --scope and, for a token, the flags that go with it.
func (f *gatewayFlags) scopeFunc() (onceward.ScopeFunc, error) {
	kind, name, _ := strings.Cut(f.scope, ":")
	if kind != "jwt" && (f.jwtKey != "" || f.jwtSecret != "" || f.jwtIssuer != "" || f.jwtAudience != "") {
		return nil, fmt.Errorf("--jwt-key and its like go with --scope jwt:CLAIM, not with %q", f.scope)
	}
	switch {
	case f.scope == "unscoped":
		return onceward.Unscoped, nil
	case kind == "cookie" && isToken(name):
		return gateway.Cookie(name), nil
	case kind == "header" && isToken(name):
		return gateway.Header(name), nil
	case kind == "jwt" && name != "":
		return f.jwt(name)
	}
	return nil, fmt.Errorf("--scope %q is neither cookie:NAME, header:NAME, jwt:CLAIM nor unscoped", f.scope)
}

func (f *gatewayFlags) jwt(claim string) (onceward.ScopeFunc, error) {
	cfg := gateway.JWTConfig{Claim: claim, Issuer: f.jwtIssuer, Audience: f.jwtAudience}
	kind, name, _ := strings.Cut(f.jwtFrom, ":")
	switch {
	case kind == "cookie" && isToken(name):
		cfg.From = gateway.FromCookie(name)
	case kind == "header" && isToken(name):
		cfg.From = gateway.FromHeader(name)
	default:
		return nil, fmt.Errorf("--jwt-from %q is neither cookie:NAME nor header:NAME", f.jwtFrom)
	}
	switch {
	case f.jwtKey != "" && f.jwtSecret != "":
		return nil, errors.New("--jwt-key and --jwt-secret: a token is verified by one or by the other")
	case f.jwtKey != "":
		text, err := os.ReadFile(f.jwtKey)
		if err == nil {
			cfg.Keys, err = gateway.ParseJWTKeys(text)
		}
		if err != nil {
			return nil, fmt.Errorf("--jwt-key: %s", gatewayPlain(err))
		}
	case f.jwtSecret != "":
		text, err := os.ReadFile(f.jwtSecret)
		if err != nil {
			return nil, fmt.Errorf("--jwt-secret: %w", err)
		}
		cfg.Secret = bytes.TrimRight(text, "\r\n")
		if len(cfg.Secret) == 0 {
			return nil, fmt.Errorf("--jwt-secret: %s is empty", f.jwtSecret)
		}
	default:
		return nil, errors.New("which tokens are believed? Write --jwt-key FILE (public keys) or --jwt-secret FILE; a token that nobody verifies names nobody")
	}
	return gateway.JWT(cfg)
}

// isToken reports whether a cookie or a header can have this name.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}
