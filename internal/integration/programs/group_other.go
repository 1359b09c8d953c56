//go:build !linux

package programs

import "syscall"

// ownGroup makes a process the head of a group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
