package clients

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/integration/pages"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/sqlitestore"
)

// TestThePageShowsTheCodeThatRuns holds docs/clients.md to code.go.
func TestThePageShowsTheCodeThatRuns(t *testing.T) { pages.Hold(t, "clients.md", "code.go") }

func newGuard(t *testing.T, store onceward.Store, cfg onceward.Config) *onceward.Guard {
	t.Helper()
	guard, err := onceward.New(store, onceward.Unscoped, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := guard.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return guard
}

func TestWhatAQueueIsToldOfADelivery(t *testing.T) {
	guard := newGuard(t, memstore.New(memstore.Config{}), onceward.Config{})
	hold, err := guard.With(func(c *onceward.Config) { c.Unknown = onceward.Hold })
	if err != nil {
		t.Fatal(err)
	}
	charges := 0
	charge := func(err error) func(context.Context, []byte) (string, error) {
		return func(context.Context, []byte) (string, error) { charges++; return "receipt", err }
	}
	down, declined := errors.New("the bank is down"), &onceward.FinalError{Message: "declined"}
	for _, c := range []struct {
		what    string
		guard   *onceward.Guard
		id      string
		body    string
		err     error
		want    answer
		charges int
	}{
		{"the bank is down", guard, "m1", "12.50", down, deliverAgain, 1},
		{"it is up again", guard, "m1", "12.50", nil, acknowledge, 2},
		{"a second delivery", guard, "m1", "12.50", nil, acknowledge, 2},
		{"another message of that id", guard, "m1", "99.00", nil, putAside, 2},
		{"declined", guard, "m2", "12.50", declined, acknowledge, 3},
		{"declined, and delivered again", guard, "m2", "12.50", nil, acknowledge, 3},
		{"half done", hold, "m3", "12.50", down, putAside, 4},
		{"half done, and delivered again", hold, "m3", "12.50", nil, putAside, 4},
	} {
		got, after := consume(t.Context(), c.guard, message{c.id, []byte(c.body)}, charge(c.err))
		if got != c.want || charges != c.charges || (after > 0) != (got == deliverAgain) {
			t.Errorf("%s: answer %v after %v, %d charges", c.what, got, after, charges)
		}
	}
}

func TestANightlyRunIsBegunByManyAndRunOnce(t *testing.T) {
	guard := newGuard(t, memstore.New(memstore.Config{}), onceward.Config{})
	runs := 0
	report := func(context.Context) (int, error) {
		runs++
		if runs == 1 {
			return 0, errors.New("no paper")
		}
		time.Sleep(100 * time.Millisecond)
		return 42, nil
	}
	day := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	if _, err := nightly(t.Context(), guard, day, report); err == nil {
		t.Error("a run that failed is no error")
	}
	sent := make(chan int)
	for range 5 {
		go func() {
			n, err := nightly(t.Context(), guard, day, report)
			if err != nil {
				t.Error(err)
			}
			sent <- n
		}()
	}
	for range 5 {
		if n := <-sent; n != 42 {
			t.Errorf("a machine says %d", n)
		}
	}
	if runs != 2 {
		t.Errorf("it ran %d times", runs)
	}
}

func TestAShelfIsEmptiedOnce(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "stock.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE stock (item text PRIMARY KEY, "left" integer NOT NULL); INSERT INTO stock VALUES ('tea', 1)`); err != nil {
		t.Fatal(err)
	}
	store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())
	guard := newGuard(t, store, onceward.Config{})
	for _, c := range []struct {
		id   string
		left int
		err  error
	}{{"m1", 0, nil}, {"m1", 0, nil}, {"m2", 0, errSoldOut}, {"m2", 0, errSoldOut}} {
		left, err := reserve(t.Context(), guard, message{ID: c.id}, "tea")
		if left != c.left || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v", c.id, left, err)
		}
	}
	if _, err := db.Exec(`UPDATE stock SET "left" = 5`); err != nil {
		t.Fatal(err)
	}
	if _, err := reserve(t.Context(), guard, message{ID: "m2"}, "tea"); !errors.Is(err, errSoldOut) {
		t.Errorf("a refusal that was kept: %v", err)
	}
	var left int
	if err := db.QueryRow(`SELECT "left" FROM stock`).Scan(&left); err != nil || left != 5 {
		t.Errorf("%d left, %v", left, err)
	}
}

func TestAPageFromAPortalIsNoOrder(t *testing.T) { // B131
	guard := newGuard(t, memstore.New(memstore.Config{}), onceward.Config{})
	var keys []string
	shop := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusCreated)
	}))
	portal, firewall := true, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if firewall {
			http.Error(w, "Blocked by policy", http.StatusForbidden)
			return
		}
		if portal {
			_, _ = io.WriteString(w, "<html>Welcome to the station's wifi")
			return
		}
		shop.ServeHTTP(w, r)
	}))
	defer server.Close()
	client, err := newClient()
	if err != nil {
		t.Fatal(err)
	}
	place := func() (*http.Response, error) {
		return placeOrder(t.Context(), client, server.URL, "order-7", `{"item":"tea"}`)
	}
	if res, err := place(); err == nil {
		t.Errorf("the portal's page was taken for an order: %d", res.StatusCode)
	}
	portal, firewall = false, true
	if res, err := place(); err == nil {
		t.Errorf("the firewall's page was taken for the shop's no: %d", res.StatusCode)
	}
	firewall = false
	for range 2 {
		res, err := place()
		if err != nil || res.StatusCode != http.StatusCreated {
			t.Fatalf("%v, %v", res, err)
		}
		res.Body.Close()
	}
	if len(keys) != 1 || keys[0] != "order-7" {
		t.Errorf("orders %q", keys)
	}
	client.CloseIdleConnections()
}
