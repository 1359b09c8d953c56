package scrape_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/telemetry"
	"github.com/onceward/onceward/telemetry/scrape"
)

func get(url string) (int, string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func ExampleListen() {
	endpoint, err := scrape.Listen("127.0.0.1:0", nil) // in earnest a port of its own, as :9464
	if err != nil {
		panic(err)
	}
	defer endpoint.Close(context.Background())
	store := memstore.New(memstore.Config{})
	observer, err := telemetry.New(endpoint.Meters(), nil, telemetry.Config{Claims: store})
	if err != nil {
		panic(err)
	}
	guard, err := onceward.New(store, onceward.Unscoped, onceward.Config{Observer: observer})
	if err != nil {
		panic(err)
	}
	defer guard.Close(context.Background())
	mux := http.NewServeMux()
	mux.Handle("POST /orders", guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})))

	for range 3 {
		r := httptest.NewRequest("POST", "/orders", strings.NewReader("tea"))
		r.Header.Set("Idempotency-Key", "k")
		mux.ServeHTTP(httptest.NewRecorder(), r)
	}
	_, text, err := get(endpoint.URL())
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "onceward_decisions_total") || strings.HasPrefix(line, "onceward_claims_open") {
			fmt.Print(line)
		}
	}
	// Output:
	// onceward_claims_open{onceward_claim_state="held"} 0
	// onceward_claims_open{onceward_claim_state="in-progress"} 0
	// onceward_claims_open{onceward_claim_state="unknown"} 0
	// onceward_decisions_total{http_request_method="POST",http_response_status_code="201",http_route="POST /orders",onceward_outcome="executed"} 1
	// onceward_decisions_total{http_request_method="POST",http_response_status_code="201",http_route="POST /orders",onceward_outcome="replayed"} 2
}

func TestAnAddressWithoutAHostIsThisMachineAlone(t *testing.T) {
	endpoint, err := scrape.Listen(":0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(endpoint.URL(), "http://127.0.0.1:") {
		t.Errorf("it listens at %s", endpoint.URL())
	}
	status, text, err := get(endpoint.URL())
	if err != nil || status != 200 || !strings.Contains(text, "\ngo_goroutines ") || !strings.Contains(text, "\nprocess_resident_memory_bytes ") {
		t.Errorf("%d, %v: %.200s", status, err, text)
	}
	if status, _, err := get(strings.TrimSuffix(endpoint.URL(), "metrics")); err != nil || status != 404 {
		t.Errorf("beside it: %d, %v", status, err)
	}
	if err := endpoint.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := get(endpoint.URL()); err == nil {
		t.Error("it is served after Close")
	}
}

func TestAnAddressThatCannotBeIsRefused(t *testing.T) {
	taken, err := scrape.Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close(t.Context())
	busy := strings.TrimSuffix(strings.TrimPrefix(taken.URL(), "http://"), "/metrics")
	for _, addr := range []string{"9464", "", busy} {
		if e, err := scrape.Listen(addr, nil); err == nil || !strings.HasPrefix(err.Error(), "scrape: ") {
			t.Errorf("Listen(%q): %v, %v", addr, e, err)
		}
	}
}
