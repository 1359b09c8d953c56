package fault

import (
	"io"
	"net"
	"time"
)

// reset ends a TCP connection with RST, as a network that loses its state does.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// resetAfterDelivery resets the connection once the peer's kernel has what was
// written: an RST throws away what is still on its way, and then half an answer
// would look like none.
func resetAfterDelivery(conn net.Conn) {
	for end := time.Now().Add(time.Second); time.Now().Before(end) && unsent(conn); {
		time.Sleep(time.Millisecond)
	}
	reset(conn)
}

// closeGently closes a connection whose peer may still be sending: closing with
// bytes unread would reset it, and the peer might lose the last answer.
func closeGently(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		tcp.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		io.Copy(io.Discard, tcp)
	}
	conn.Close()
}
