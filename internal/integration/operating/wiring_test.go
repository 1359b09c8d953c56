package operating

import (
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
)

// The code that docs/operations.md shows gives metrics and traces.
func TestTheWiringOfTheRunbookWorks(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "keys.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := sqlitestore.New(t.Context(), db, sqlitestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(t.Context())
	spans := tracetest.NewSpanRecorder()
	guard, endpoint, err := observedGuard("127.0.0.1:0", store, onceward.Unscoped, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer endpoint.Close(t.Context())
	defer guard.Close(t.Context())
	r := httptest.NewRequest("POST", "/orders", strings.NewReader("tea"))
	r.Header.Set("Idempotency-Key", "k")
	guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) })).ServeHTTP(httptest.NewRecorder(), r)
	p := &program{t: t, metrics: endpoint.URL()}
	if text := p.scrape(); !strings.Contains(text, `onceward_outcome="executed"} 1`) || !strings.Contains(text, "onceward_claims_open{") {
		t.Errorf("the metrics are\n%s", text)
	}
	if n := len(spans.Ended()); n != 1 {
		t.Errorf("%d spans, want 1", n)
	}
}

// The planner serves its metrics, and the page of its keys, on listeners of their own, and
// its users see none.
func TestThePlannerServesItsMetricsAndItsRecordsToNobodyElse(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(filepath.Join(bin, "planner"), "-addr", "127.0.0.1:0", "-data", t.TempDir(), "-metrics", "127.0.0.1:0", "-records", "127.0.0.1:0")
	p := startProgram(t, filepath.Join(t.TempDir(), "log"), cmd, regexp.MustCompile(`(http://[0-9.:]+)`))
	text := p.scrape()
	for _, name := range []string{`onceward_claims_open{onceward_claim_state="unknown"} 0`, "onceward_takeovers_total 0", "go_goroutines "} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("the planner's metrics lack %s", name)
		}
	}
	page := regexp.MustCompile(`serving records" url=(\S+)`).FindStringSubmatch(p.log())
	if page == nil {
		t.Fatalf("the log does not say where the page is:\n%s", p.log())
	}
	resp, err := client.Get(page[1])
	if err != nil {
		t.Fatal(err)
	}
	shown, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(shown), "There are no such records") {
		t.Errorf("the page of the keys: %d, %v\n%s", resp.StatusCode, err, shown)
	}
	for _, path := range []string{"/metrics", "/record/" + strings.Repeat("0", 64) + "/" + strings.Repeat("0", 64)} {
		resp, err := client.Get(p.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("the planner's users get %d for %s", resp.StatusCode, path)
		}
	}
}
