package fault

import (
	"net"
	"syscall"
	"unsafe"
)

// unsent says whether bytes written to conn are not yet acknowledged.
func unsent(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	var queued int32
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&queued)))
	})
	return err == nil && errno == 0 && queued > 0
}
