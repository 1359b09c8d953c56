package servers

import (
	"os/exec"
	"syscall"
)

func redisDiesWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
