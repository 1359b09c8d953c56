//go:build race

package frameworks

func init() { buildFlags = append(buildFlags, "-race") }
