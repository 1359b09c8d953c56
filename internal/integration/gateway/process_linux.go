package gateway

import "syscall"

// OwnGroup makes a process the head of a group of its own, which ends with the
// test even when the test is killed: gunicorn's workers end when its head has.
func OwnGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
