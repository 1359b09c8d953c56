//go:build linux

package sweep

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
)

// shop is a server with an Atomic handler in this process. A request whose key
// begins with "slow" writes, and then stands still until it is released; it does
// not watch its context.
type shop struct {
	url      string
	reached  chan string // the keys of those that stand still
	release  func()
	late     chan error // what became of their last write, by which they find out that their time is over
	released chan struct{}
}

func openShop(t *testing.T, store onceward.Store, l ledger, cfg onceward.Config) *shop {
	t.Helper()
	s := &shop{reached: make(chan string, 16), late: make(chan error, 16), released: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.released) })
	cfg.SweepEvery = -1
	guard, err := onceward.New(store, onceward.Unscoped, cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		id, err := l.write(r.Context(), key, "shop")
		if err != nil {
			http.Error(w, "the work failed", http.StatusInternalServerError)
			return
		}
		if strings.HasPrefix(key, "slow") {
			select {
			case <-s.released:
			default:
				s.reached <- key
				<-s.released
				_, err := l.write(context.WithoutCancel(r.Context()), key, "too late")
				s.late <- err
			}
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d is taken\n", id)
	})))
	s.url = srv.URL
	t.Cleanup(func() {
		s.release()
		srv.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := guard.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sendAll sends requests at once, each until it is told something final.
func (s *shop) sendAll(t *testing.T, n int) {
	t.Helper()
	var sending sync.WaitGroup
	for i := range n {
		sending.Go(func() {
			last, tries, _ := repeat(t.Context(), s.url, fmt.Sprintf("other-%d", i), time.Minute)
			if !last.acknowledged() || len(tries) > 1 {
				t.Errorf("a request beside a slow one was answered with %v after %d tries", last, len(tries))
			}
		})
	}
	sending.Wait()
}

func wantEffects(t *testing.T, s site, key string, want int) {
	t.Helper()
	if n, err := s.effects(t.Context(), key); err != nil || n != want {
		t.Errorf("%s has %d effects, %v, want %d", key, n, err, want)
	}
}

// A handler that would stand still for ever holds up the others on SQLite
// until its limit, and is then told 503 with nothing of its work left. What
// it tries afterwards fails. Its key is free.
func TestASlowAtomicHandlerOnSQLiteDelaysOthersByItsLimitAndGets503(t *testing.T) {
	site := openSQLite(t).(sqliteSite)
	s := openShop(t, site.store, sqliteLedger{site.db, true}, onceward.Config{MaxTransaction: 500 * time.Millisecond})
	slow := make(chan answer, 1)
	go func() { slow <- send(t.Context(), s.url, "slow") }()
	<-s.reached
	// None of them can be answered unless the slow one is cut off: it is not
	// released before they are.
	s.sendAll(t, 20)
	a := <-slow
	if a.status != "unavailable" || a.text[:3] != "503" {
		t.Errorf("the slow one is answered with %v", a)
	}
	wantEffects(t, site, "slow", 0)
	s.release()
	if err := <-s.late; err == nil {
		t.Error("a write after the limit has succeeded")
	}
	wantEffects(t, site, "slow", 0)
	if a := send(t.Context(), s.url, "slow"); a.status != "executed" {
		t.Errorf("the repeat of the slow one is answered with %v", a)
	}
	wantEffects(t, site, "slow", 1)
}

// However many are slow, nobody waits past his own limit: he is told 503, and the
// same request is carried out later.
func TestAQueueOfSlowAtomicHandlersOnSQLiteEndsIn503(t *testing.T) {
	site := openSQLite(t).(sqliteSite)
	cfg := onceward.Config{MaxTransaction: 300 * time.Millisecond, StoreTimeout: 300 * time.Millisecond}
	s := openShop(t, site.store, sqliteLedger{site.db, true}, cfg)
	const crowd = 8
	answers := make(chan answer, crowd+1)
	for i := range crowd {
		go func() { answers <- send(t.Context(), s.url, fmt.Sprintf("slow-%d", i)) }()
	}
	<-s.reached
	go func() { answers <- send(t.Context(), s.url, "other") }()
	for range crowd + 1 {
		// released: its time ended between two statements, and the handler said 500.
		// in-progress, with 503: it was told that its time was over before its handler heard of it.
		if a := <-answers; a.err != nil || a.status != "unavailable" && a.status != "executed" && a.status != "released" && !(a.status == "in-progress" && strings.HasPrefix(a.text, "503")) {
			t.Errorf("beside %d slow ones a request is answered with %v", crowd, a)
		}
	}
	s.release()
	for _, key := range []string{"other", "slow-0", fmt.Sprint("slow-", crowd-1)} {
		if last, _, _ := repeat(t.Context(), s.url, key, 20*time.Second); !last.acknowledged() {
			t.Errorf("when all is over, %s is answered with %v", key, last)
		}
		wantEffects(t, site, key, 1)
	}
}

// On Postgres nobody waits for a slow handler at all: the others are answered
// while it stands still with all the time in the world.
func TestASlowAtomicHandlerOnPostgresDelaysNobody(t *testing.T) {
	site := openPostgres(t).(postgresSite)
	s := openShop(t, site.store, postgresLedger{site.pool, true}, onceward.Config{MaxTransaction: time.Minute})
	slow := make(chan answer, 1)
	go func() { slow <- send(t.Context(), s.url, "slow") }()
	<-s.reached
	s.sendAll(t, 20)
	select {
	case a := <-slow:
		t.Fatalf("the slow one has been answered already: %v", a)
	default:
	}
	wantEffects(t, site, "slow", 0)
	s.release()
	if err := <-s.late; err != nil {
		t.Errorf("a write within the limit: %v", err)
	}
	if a := <-slow; a.status != "executed" {
		t.Errorf("the slow one is answered with %v", a)
	}
	wantEffects(t, site, "slow", 2)
}

// On Postgres, too, a handler past its limit is told 503, and nothing of its work
// is left.
func TestASlowAtomicHandlerOnPostgresGets503AtItsLimit(t *testing.T) {
	site := openPostgres(t).(postgresSite)
	s := openShop(t, site.store, postgresLedger{site.pool, true}, onceward.Config{MaxTransaction: 500 * time.Millisecond})
	if a := send(t.Context(), s.url, "slow"); a.status != "unavailable" || a.text[:3] != "503" {
		t.Errorf("the slow one is answered with %v", a)
	}
	s.release()
	if err := <-s.late; err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a write after the limit: %v", err)
	}
	wantEffects(t, site, "slow", 0)
	if a := send(t.Context(), s.url, "slow"); a.status != "executed" {
		t.Errorf("the repeat of the slow one is answered with %v", a)
	}
	wantEffects(t, site, "slow", 1)
}
