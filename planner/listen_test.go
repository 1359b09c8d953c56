package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

// By plain http a phone gets no service worker, and nothing waits for a network.
func TestWhoeverServesOthersByPlainHTTPIsToldThatPhonesNeedHTTPS(t *testing.T) {
	for addr, wants := range map[string]bool{"127.0.0.1": false, "::1": false, "::": true, "0.0.0.0": true, "192.168.1.5": true} {
		var out bytes.Buffer
		announce(&out, &net.TCPAddr{IP: net.ParseIP(addr), Port: 8080}, "./data")
		if first, _, _ := strings.Cut(out.String(), "\n"); !strings.HasPrefix(first, "planner: http://") || !strings.HasSuffix(first, ":8080, data in ./data") {
			t.Errorf("%s: %s", addr, first)
		}
		if strings.Contains(out.String(), "https") != wants {
			t.Errorf("%s: %s", addr, &out)
		}
	}
}

func TestAnAddressThatIsTakenNamesTheFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = run(context.Background(), []string{"-addr", taken.Addr().String(), "-data", t.TempDir()}, io.Discard, io.Discard)
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "-addr") {
		t.Error(err)
	}
}
