//go:build unix

package onceward_test

import (
	"bytes"
	"net/http"
	"os/signal"
	"syscall"
	"testing"

	"github.com/onceward/onceward"
)

// A disk that fills up takes the first half of a write and refuses the second.
func TestADiskThatFillsUpInMidWriteSpoilsNoAnswer(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	small := old
	small.Cur = 150 << 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
	}()
	first, second := bytes.Repeat([]byte("1"), 100<<10), bytes.Repeat([]byte("2"), 100<<10)
	r := newRig(t, nil, onceward.Config{MaxResponse: 1 << 10, SpoolDir: t.TempDir()}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(first)
		_, _ = w.Write(second)
	})
	w := r.post("k", "x")
	if got := w.Body.Bytes(); !bytes.Equal(got, append(first, second...)) {
		t.Errorf("%d bytes arrived, %d of them twos; want %d and %d", len(got), bytes.Count(got, []byte("2")), len(first)+len(second), len(second))
	}
}
