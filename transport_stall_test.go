package onceward_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
)

// A refusal whose body stalls is given up: reading its rest would only save a
// connection.
func TestTheRestOfARefusalIsNotWaitedForForEver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nhalf")
			}()
		}
	}()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	transport, err := onceward.NewTransport(base, onceward.TransportConfig{Hosts: []string{"*"}, AttemptTimeout: 500 * time.Millisecond, MaxElapsed: 2 * time.Second, MaxAttempts: 3})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+"/x", strings.NewReader("tea"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := transport.RoundTrip(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it still waits")
	}
}
