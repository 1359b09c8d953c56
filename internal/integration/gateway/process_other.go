//go:build !linux

package gateway

import "syscall"

// OwnGroup makes a process the head of a group of its own.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
