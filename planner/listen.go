package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// listen takes the address of the flag -addr.
func listen(addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("planner: %w (choose another with -addr, such as -addr 127.0.0.1:8081)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	return listener, nil
}

// announce says where the planner is, and what it is not there: browsers let a
// service worker run in a secure context only, and other machines reach this
// address by plain http.
func announce(w io.Writer, at net.Addr, data string) {
	fmt.Fprintf(w, "planner: http://%s, data in %s\n", at, data)
	if tcp, ok := at.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		fmt.Fprintln(w, "planner: a phone needs https to work without a network: put a proxy with a certificate in front (see -trust-proxy)")
	}
}
