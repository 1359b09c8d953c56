package orders_test

import (
	"net"
	"testing"

	"github.com/onceward/onceward/fault"
)

// badNetwork is a fault proxy in front of a server.
type badNetwork struct {
	*fault.Proxy
	t   *testing.T
	url string
}

// behindFaults puts a proxy in front of the server; the script says what the
// next requests meet.
func (s *server) behindFaults(script string) *badNetwork {
	s.t.Helper()
	p, err := fault.New(s.url, fault.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := p.SetScript(script); err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = p.Serve(l)
		close(ended)
	}()
	s.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			s.t.Errorf("the proxy: %v", err)
		}
		<-ended
	})
	return &badNetwork{p, s.t, "http://" + l.Addr().String()}
}
