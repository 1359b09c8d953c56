//go:build race

package orders_test

func init() { buildFlags = append(buildFlags, "-race") }
