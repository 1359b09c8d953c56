//go:build !linux

package servers

import "os/exec"

// Elsewhere a killed test leaves its servers behind.
func redisDiesWithUs(*exec.Cmd) {}
