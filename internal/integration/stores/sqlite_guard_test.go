package stores_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// openAtomicShop serves handler under Guard.Atomic on a shop.
func openAtomicShop(t *testing.T, conns int, limit time.Duration, handler http.HandlerFunc) (*shop, *httptest.Server) {
	t.Helper()
	s := openShop(t, conns, sqlitestore.Config{Patience: time.Minute})
	scope := func(*http.Request) (string, error) { return "user", nil }
	guard, err := onceward.New(s.store, scope, onceward.Config{MaxTransaction: limit, StoreTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(guard.Atomic(handler))
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := guard.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s, server
}

// postOrder sends one named request and returns its status, its Idempotency-Status
// without the key, and its body.
func postOrder(ctx context.Context, server *httptest.Server, key, body string) (status int, outcome, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/orders", strings.NewReader(body))
	if err != nil {
		return 0, "", "", err
	}
	r.Header.Set("Idempotency-Key", key)
	r.GetBody = nil // Go's transport must not send it again by itself
	resp, err := server.Client().Do(r)
	if err != nil {
		return 0, "", "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	outcome, _, _ = strings.Cut(resp.Header.Get("Idempotency-Status"), ";")
	return resp.StatusCode, outcome, string(text), err
}

func createOrder(w http.ResponseWriter, r *http.Request) {
	name, err := io.ReadAll(r.Body)
	if err == nil {
		err = insertOrder(r.Context(), string(name))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "order %s", name)
}

// B001, B002, B083, B091, B092: 100 orders, each sent three times at once, by the
// guard, on a pool of many and on a pool of one: each is made once, and every client
// has the answer.
func TestAtomicOnSQLiteMakesEachOrderOnce(t *testing.T) {
	for _, conns := range []int{1, 8} {
		t.Run(fmt.Sprintf("pool-of-%d", conns), func(t *testing.T) {
			s, server := openAtomicShop(t, conns, time.Minute, createOrder)
			var want []string
			var wg sync.WaitGroup
			for i := range 100 {
				name := fmt.Sprintf("order-%03d", i)
				want = append(want, name)
				for range 3 {
					wg.Go(func() {
						for {
							status, outcome, answer, err := postOrder(t.Context(), server, name, name)
							switch {
							case err == nil && status == http.StatusConflict && outcome == "in-progress":
								time.Sleep(10 * time.Millisecond)
								continue
							case err != nil || status != 201 || answer != "order "+name || outcome != "executed" && outcome != "replayed":
								t.Errorf("%s: %d %s %q, %v", name, status, outcome, answer, err)
							}
							return
						}
					})
				}
			}
			wg.Wait()
			if got := s.orders(); got != strings.Join(want, " ") {
				t.Errorf("the orders are %s", got)
			}
		})
	}
}

// B037, B043: what fails after it has written leaves nothing, and the retry has its
// effect once; a refusal leaves its answer and nothing else.
func TestAtomicOnSQLiteUndoesWhatFails(t *testing.T) {
	for name, c := range map[string]struct {
		fail           func(w http.ResponseWriter)
		status         int // of the first try; 0: the connection breaks
		first, second  string
		orders, answer string
	}{
		"a panic": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 0, "", "executed", "order", "order order"},
		"a 500":   {func(w http.ResponseWriter) { http.Error(w, "no", 500) }, 500, "released", "executed", "order", "order order"},
		"a 422":   {func(w http.ResponseWriter) { http.Error(w, "sold out", http.StatusUnprocessableEntity) }, http.StatusUnprocessableEntity, "executed", "replayed", "", "sold out\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			s, server := openAtomicShop(t, 1, time.Minute, func(w http.ResponseWriter, r *http.Request) {
				if tries++; tries == 1 {
					if err := insertOrder(r.Context(), "order"); err != nil {
						t.Error(err)
					}
					c.fail(w)
					return
				}
				createOrder(w, r)
			})
			status, outcome, _, err := postOrder(t.Context(), server, "key", "order")
			if status != c.status || outcome != c.first || (err != nil) != (c.status == 0) {
				t.Errorf("the first try: %d %s, %v", status, outcome, err)
			}
			if got := s.orders(); got != "" {
				t.Errorf("after it the orders are %q", got)
			}
			if _, outcome, answer, err := postOrder(t.Context(), server, "key", "order"); err != nil || outcome != c.second || answer != c.answer {
				t.Errorf("the retry: %s %q, %v", outcome, answer, err)
			}
			if got := s.orders(); got != c.orders {
				t.Errorf("the orders are %q, want %q", got, c.orders)
			}
		})
	}
}

// B035: the client hangs up between a write and a read that looks at the context.
// The request is done all the same, once.
func TestAtomicOnSQLiteOutlivesAHangUp(t *testing.T) {
	written, gone := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s, server := openAtomicShop(t, 1, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		createOrder(w, r)
		once.Do(func() {
			close(written)
			<-gone
		})
		var n int
		if err := sqlitestore.Tx(r.Context()).QueryRowContext(r.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
			t.Errorf("a read after the client has gone: %v", err)
		}
	})
	ctx, hangUp := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, _, _, err := postOrder(ctx, server, "key", "order")
		answered <- err
	}()
	<-written
	hangUp()
	if err := <-answered; err == nil {
		t.Error("the client did not hang up")
	}
	time.Sleep(20 * time.Millisecond)
	close(gone)
	for {
		_, outcome, answer, err := postOrder(t.Context(), server, "key", "order")
		if outcome == "in-progress" {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil || outcome != "replayed" || answer != "order order" {
			t.Errorf("the same request again: %s %q, %v", outcome, answer, err)
		}
		break
	}
	if got := s.orders(); got != "order" {
		t.Errorf("the orders are %q", got)
	}
}

// One handler that never looks at its context gets 503 when its limit is over, and
// the others, who had to wait for it, are served then; its key is free.
func TestAtomicOnSQLiteBoundsASlowHandler(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s, server := openAtomicShop(t, 1, 300*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == "slow" {
			first := false
			once.Do(func() { first = true })
			if first {
				insertOrder(r.Context(), "stray")
				close(begun)
				<-release
				if err := insertOrder(r.Context(), "stray"); err == nil {
					t.Error("a statement past the limit was accepted")
				}
			}
		}
		createOrder(w, r)
	})
	slow := make(chan string, 1)
	go func() {
		status, outcome, _, err := postOrder(t.Context(), server, "slow", "slow")
		slow <- fmt.Sprint(status, outcome, err)
	}()
	<-begun
	for i := range 3 {
		name := fmt.Sprint("quick-", i)
		for {
			status, _, answer, err := postOrder(t.Context(), server, name, name)
			if status == http.StatusServiceUnavailable { // a slow machine: it has a limit too
				continue
			}
			if err != nil || status != 201 || answer != "order "+name {
				t.Errorf("%s: %d %q, %v", name, status, answer, err)
			}
			break
		}
	}
	if got := <-slow; !strings.HasPrefix(got, "503") {
		t.Errorf("the slow one got %s, want 503", got)
	}
	close(release)
	for {
		status, outcome, _, err := postOrder(t.Context(), server, "slow", "slow")
		if status == http.StatusConflict || status == http.StatusServiceUnavailable {
			time.Sleep(10 * time.Millisecond) // its handler is still on its way out
			continue
		}
		if err != nil || status != 201 || outcome != "executed" {
			t.Errorf("the slow one again: %d %s, %v", status, outcome, err)
		}
		break
	}
	if got := s.orders(); got != "quick-0 quick-1 quick-2 slow" {
		t.Errorf("the orders are %q", got)
	}
}
