//go:build unix

package onceward_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// The end of a process, as docs/guide.md prints it: what stands between "guide begins"
// and "guide ends"; a test holds the two together.

// guide begins: serve
// serve runs until SIGINT or SIGTERM. Then it lets everything end that has begun: by
// Shutdown what has a client, by Close what its client has left.
func serve(server *http.Server, l net.Listener, guard *onceward.Guard) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // Config.MaxRuntime
	defer cancel()
	return errors.Join(server.Shutdown(patience), guard.Close(patience))
}

// guide ends.

func TestASignalLetsEndWhatHasBegun(t *testing.T) {
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	came, release := make(chan bool, 2), make(chan bool)
	var done atomic.Int64
	server := &http.Server{Handler: guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- true
		<-release
		done.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(server, l, guard) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	send := func(ctx context.Context, key string) (int, error) {
		r, err := http.NewRequestWithContext(ctx, "POST", "http://"+l.Addr().String()+"/", strings.NewReader("tea"))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Idempotency-Key", key)
		answer, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, err
	}
	leaving, leave := context.WithCancel(t.Context())
	left, stayed := make(chan error, 1), make(chan int, 1)
	go func() { _, err := send(leaving, "left"); left <- err }()
	<-came
	leave()
	if err := <-left; err == nil {
		t.Error("the client that left was answered")
	}
	go func() { status, _ := send(t.Context(), "stayed"); stayed <- status }()
	<-came

	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for { // from here on nobody new is let in
		if c, err := net.Dial("tcp", l.Addr().String()); err != nil {
			break
		} else {
			c.Close()
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended in mid-request: %v", err)
	default:
	}
	close(release)
	if status := <-stayed; status != http.StatusCreated {
		t.Errorf("the client that stayed got %d", status)
	}
	if err := <-ended; err != nil || done.Load() != 2 {
		t.Errorf("ended with %v, %d of 2 done", err, done.Load())
	}
}
