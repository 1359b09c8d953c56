//go:build race

package deploys_test

func init() { buildFlags = append(buildFlags, "-race") }
