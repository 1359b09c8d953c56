package programs

import "syscall"

// ownGroup makes a process the head of a group of its own, which ends with the
// test even when the test is killed: gunicorn's workers end when its head has.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
