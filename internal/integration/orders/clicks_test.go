package orders_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// Cases of G1 and G11 whose effect lies outside the shop's own database, or hours
// later: here the handler is in the test's hands, and the guard is real.

// guardAround makes a guard around a handler; everybody is one person.
func guardAround(t *testing.T, handler http.HandlerFunc) http.Handler {
	t.Helper()
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := guard.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return guard.Handler(handler)
}

// B007: two presses at once are one call of the payment provider, which takes no
// key of ours, and one order.
func TestB007TwoPressesAtOnceCallThePaymentProviderOnce(t *testing.T) {
	var payments atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond)
		fmt.Fprintf(w, "payment-%d", payments.Add(1))
	}))
	defer provider.Close()
	var mu sync.Mutex
	var orders []string
	shop := func(w http.ResponseWriter, r *http.Request) {
		resp, err := http.Post(provider.URL, "text/plain", nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		receipt, err := io.ReadAll(resp.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		mu.Lock()
		orders = append(orders, string(receipt))
		mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(receipt)
	}
	pressTwice := func(h http.Handler, key string) (bodies [2]string) {
		var wg sync.WaitGroup
		for i := range bodies {
			wg.Go(func() {
				r := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("cart=7"))
				r.Header.Set("Idempotency-Key", key)
				r.Header.Set("Prefer", "wait=10")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				bodies[i] = w.Body.String()
			})
		}
		wg.Wait()
		return bodies
	}

	guarded := guardAround(t, shop)
	for i := range 20 {
		if b := pressTwice(guarded, fmt.Sprint("press-", i)); b[0] != b[1] || b[0] == "" {
			t.Errorf("the two presses see %q", b)
		}
	}
	if payments.Load() != 20 || len(orders) != 20 {
		t.Errorf("%d payments and %d orders, want 20 of each", payments.Load(), len(orders))
	}
	// Without the guard the same presses pay twice: the test can tell.
	if b := pressTwice(http.HandlerFunc(shop), "bare"); b[0] == b[1] || payments.Load() != 22 {
		t.Errorf("without a guard the two presses see %q, and there are %d payments", b, payments.Load())
	}
}

// navigation is a plain form as a browser sends it.
func navigation(fields url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/save", strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Accept", "text/html")
	return r
}

// B014: a token against forged requests is good once, and the first click has used
// it up. The second click never reaches the handler that would say so.
func TestB014ATokenThatTheFirstClickUsedUpIsNoErrorToTheSecond(t *testing.T) {
	var mu sync.Mutex
	tokens := map[string]bool{"guarded": true, "bare": true}
	saved := 0
	app := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		good := tokens[r.PostFormValue("csrf")]
		delete(tokens, r.PostFormValue("csrf"))
		mu.Unlock()
		if !good {
			http.Error(w, "the security token is invalid", http.StatusForbidden)
			return
		}
		time.Sleep(50 * time.Millisecond)
		mu.Lock()
		saved++
		mu.Unlock()
		fmt.Fprint(w, "<h1>Saved</h1>")
	}
	doubleClick := func(h http.Handler, token string) (answers [2]*httptest.ResponseRecorder) {
		var wg sync.WaitGroup
		for i := range answers {
			answers[i] = httptest.NewRecorder()
			wg.Go(func() { h.ServeHTTP(answers[i], navigation(url.Values{"_key": {"form-" + token}, "csrf": {token}})) })
		}
		wg.Wait()
		return answers
	}

	for i, a := range doubleClick(guardAround(t, app), "guarded") {
		if a.Code != http.StatusOK || a.Body.String() != "<h1>Saved</h1>" {
			t.Errorf("click %d of two sees %d %q", i+1, a.Code, a.Body)
		}
	}
	if saved != 1 {
		t.Errorf("saved %d times", saved)
	}
	bare := doubleClick(http.HandlerFunc(app), "bare")
	if bare[0].Code+bare[1].Code != http.StatusOK+http.StatusForbidden {
		t.Errorf("without a guard the clicks see %d and %d: the test shows nothing", bare[0].Code, bare[1].Code)
	}
}

// B123, B124: a browser that sends a finished form again without asking: four
// times at once, and each time that the phone wakes up or the session is restored,
// up to a day later.
func TestB124AFormThatTheBrowserSendsAgainForHoursIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int64
		guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := guard.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		h := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			fmt.Fprintf(w, "<h1>Thank you, number %d</h1>", done.Add(1))
		}))
		send := func() string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, navigation(url.Values{"_key": {"form-1"}, "text": {"homework"}}))
			return fmt.Sprint(w.Code, " ", w.Body)
		}
		const page = "200 <h1>Thank you, number 1</h1>"
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if got := send(); got != page {
					t.Errorf("of four at once one sees %s", got)
				}
			})
		}
		wg.Wait()
		for _, later := range []time.Duration{time.Hour, time.Hour, 20 * time.Hour} {
			time.Sleep(later)
			if got := send(); got != page {
				t.Errorf("%v later it sees %s", later, got)
			}
		}
		if done.Load() != 1 {
			t.Errorf("it was done %d times", done.Load())
		}
	})
}
