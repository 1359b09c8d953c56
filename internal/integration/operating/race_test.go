//go:build race

package operating

func init() { buildFlags = append(buildFlags, "-race") }
