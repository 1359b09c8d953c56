//go:build race

package gateway_test

func init() { buildFlags = append(buildFlags, "-race") }
