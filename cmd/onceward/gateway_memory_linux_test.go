package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// peak is the most memory, in bytes, that a process has had at a time.
func peak(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	rest, _, _ = strings.Cut(rest, "kB")
	kilobytes, err := strconv.Atoi(strings.TrimSpace(rest))
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// zeros are a body of so many bytes.
type zeros int

func (z *zeros) Read(p []byte) (int, error) {
	n := min(len(p), int(*z))
	clear(p[:n])
	if *z -= zeros(n); n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// B110: twenty uploads at once, 160 MiB in all, with a key and without, are in nobody's
// memory.
func TestB110TwentyUploadsAtOnceAreNotHeldInMemory(t *testing.T) {
	t.Parallel()
	const uploads, size = 20, 8 << 20
	app, applied := application(t)
	p := startCommand(t, "gateway", "--listen", "127.0.0.1:0", "--to", app, "--store", "sqlite:"+filepath.Join(t.TempDir(), "keys.db"), "--scope", "unscoped", "--log", "none", "--body-timeout", "5m")
	before := peak(t, p.Process.Pid)
	for _, keyed := range []bool{true, false} {
		var all, there sync.WaitGroup
		there.Add(uploads)
		for i := range uploads {
			all.Go(func() {
				conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
				if err != nil {
					t.Error(err)
					there.Done()
					return
				}
				defer conn.Close()
				head := fmt.Sprintf("POST /up HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nContent-Length: %d\r\n", size)
				if keyed {
					head += fmt.Sprintf("Idempotency-Key: k%d\r\n", i)
				}
				body := zeros(size)
				_, err = io.Copy(conn, io.MultiReader(strings.NewReader(head+"\r\n"), io.LimitReader(&body, size-1)))
				// Each is held back at its last byte until all are there.
				there.Done()
				there.Wait()
				if err == nil {
					_, err = io.Copy(conn, &body)
				}
				answer, _ := io.ReadAll(conn)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 201 ") {
					t.Errorf("answered %.200q, %v", answer, err)
				}
			})
		}
		all.Wait()
	}
	if n := applied.Load(); n != 2*uploads {
		t.Errorf("%d uploads arrived, want %d", n, 2*uploads)
	}
	// The race detector takes several times what the program does.
	if took := peak(t, p.Process.Pid) - before; took > uploads*size/2 {
		t.Errorf("uploads of %d MiB took %d MiB of memory", uploads*size>>20, took>>20)
	} else {
		t.Logf("uploads of %d MiB took %d MiB of memory", uploads*size>>20, took>>20)
	}
	p.stop(t, syscall.SIGTERM)
}
