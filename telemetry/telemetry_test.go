package telemetry_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
	"github.com/onceward/onceward/telemetry"
)

// rig is an observed guard, with all that it tells at hand.
type rig struct {
	t      *testing.T
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer
	store  *memstore.Store
	h      http.Handler
}

func newRig(t *testing.T, cfg telemetry.Config, guardConfig onceward.Config, app http.Handler) *rig {
	t.Helper()
	r := &rig{t: t, reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder(), store: memstore.New(memstore.Config{})}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	r.tracer = tracers.Tracer("test")
	if cfg.Claims == nil {
		cfg.Claims = r.store
	}
	observer, err := telemetry.New(meters, tracers, cfg)
	if err != nil {
		t.Fatal(err)
	}
	guardConfig.Observer, guardConfig.SweepEvery = observer, -1
	guard, err := onceward.New(r.store, func(*http.Request) (string, error) { return "ann", nil }, guardConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := guard.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r.h = guard.Handler(app)
	return r
}

// post sends a request inside a span of its own, and returns that span's context.
func (r *rig) post(key, body string) trace.SpanContext {
	ctx, span := r.tracer.Start(context.Background(), "request")
	req := httptest.NewRequestWithContext(ctx, "POST", "/orders/17", strings.NewReader(body))
	req.Header.Set("Idempotency-Key", key)
	r.h.ServeHTTP(httptest.NewRecorder(), req)
	span.End()
	return span.SpanContext()
}

// points are the values of an instrument by its attributes; of a histogram its count.
func (r *rig) points(name string) map[string]float64 {
	r.t.Helper()
	var all metricdata.ResourceMetrics
	_ = r.reader.Collect(context.Background(), &all) // one callback's failure is not the others'
	found := map[string]float64{}
	add := func(set attribute.Set, value float64) {
		found[set.Encoded(attribute.DefaultEncoder())] = value
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			default:
				r.t.Fatalf("%s is %T", name, data)
			}
		}
	}
	return found
}

func (r *rig) want(name string, want map[string]float64) {
	r.t.Helper()
	got := r.points(name)
	for set, value := range want {
		if got[set] != value {
			r.t.Errorf("%s{%s} is %v, want %v", name, set, got[set], value)
		}
	}
	if len(got) != len(want) {
		r.t.Errorf("%s has %v, want %v", name, got, want)
	}
}

func app(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Idempotency-Key") == "fails" {
		w.WriteHeader(500)
		return
	}
	w.WriteHeader(201)
}

func TestDecisionsAndCallsAreCountedByFewValues(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}", app)
	r := newRig(t, telemetry.Config{}, onceward.Config{}, mux)
	r.post("k", "x")
	r.post("k", "x")
	r.post("k", "y")
	r.post("fails", "x")
	r.want("onceward.decisions", map[string]float64{
		"http.request.method=POST,http.response.status_code=201,http.route=POST /orders/{id},onceward.outcome=executed": 1,
		"http.request.method=POST,http.response.status_code=201,onceward.outcome=replayed":                              1,
		"http.request.method=POST,http.response.status_code=422,onceward.outcome=key-reused":                            1,
		"http.request.method=POST,http.response.status_code=500,http.route=POST /orders/{id},onceward.outcome=released": 1,
	})
	r.want("onceward.request.duration", map[string]float64{
		"onceward.outcome=executed": 1, "onceward.outcome=replayed": 1, "onceward.outcome=key-reused": 1, "onceward.outcome=released": 1,
	})
	calls := r.points("onceward.store.call.duration")
	for operation, n := range map[string]float64{"claim": 4, "complete": 1, "release": 1} {
		if calls["onceward.store.operation="+operation] != n {
			t.Errorf("the calls are %v, want %v of %s", calls, n, operation)
		}
	}
	r.want("onceward.active_handlers", map[string]float64{"": 0})
	// They begin with zero, or the first event would be no growth.
	for _, name := range []string{
		"onceward.takeovers", "onceward.lease.losses", "onceward.lease.renewal_failures", "onceward.answers.recorded_late",
		"onceward.answers.never_recorded", "onceward.handlers.overrun", "onceward.requests.unguarded", "onceward.records.swept", "onceward.surveys.failed",
	} {
		r.want(name, map[string]float64{"": 0})
	}
}

func TestTheApplicationMayNameItsRoutes(t *testing.T) {
	r := newRig(t, telemetry.Config{Route: func(method, path string) string {
		if method == "POST" && strings.HasPrefix(path, "/orders/") {
			return "/orders/{id}"
		}
		return ""
	}}, onceward.Config{}, http.HandlerFunc(app))
	r.post("k", "x")
	r.post("k", "x")
	r.want("onceward.decisions", map[string]float64{
		"http.request.method=POST,http.response.status_code=201,http.route=/orders/{id},onceward.outcome=executed": 1,
		"http.request.method=POST,http.response.status_code=201,http.route=/orders/{id},onceward.outcome=replayed": 1,
	})
}

func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	found := map[string]string{}
	for _, kv := range s.Attributes() {
		found[string(kv.Key)] = kv.Value.String()
	}
	return found
}

func TestADecisionIsASpanInTheRequestsTrace(t *testing.T) {
	r := newRig(t, telemetry.Config{}, onceward.Config{}, http.HandlerFunc(app))
	first, second, third := r.post("k", "x"), r.post("k", "x"), r.post("fails", "x")
	id := onceward.NewKey("ann", "k")
	var ours []sdktrace.ReadOnlySpan
	for _, s := range r.spans.Ended() {
		if s.Name() == "onceward" {
			ours = append(ours, s)
		}
	}
	if len(ours) != 3 {
		t.Fatalf("%d spans, want 3", len(ours))
	}
	for i, parent := range []trace.SpanContext{first, second, third} {
		s := ours[i]
		if s.Parent().SpanID() != parent.SpanID() || s.SpanContext().TraceID() != parent.TraceID() {
			t.Errorf("span %d is not the request's", i)
		}
		if s.EndTime().Before(s.StartTime()) {
			t.Errorf("span %d ends before it begins", i)
		}
		if s.Status().Code == codes.Error {
			t.Errorf("span %d is an error: %v", i, s.Status())
		}
	}
	for i, outcome := range []string{"executed", "replayed", "released"} {
		if got := attributesOf(ours[i])["onceward.outcome"]; got != outcome {
			t.Errorf("span %d says %s", i, got)
		}
	}
	a, b := attributesOf(ours[0]), attributesOf(ours[1])
	if a["onceward.record"] != id.RecordID() || b["onceward.record"] != id.RecordID() || a["onceward.scope"] != id.ScopeID() || a["onceward.attempt"] != "1" || a["http.response.status_code"] != "201" {
		t.Errorf("the spans have %v and %v", a, b)
	}
	// Where the request's span still runs, the rest are its events.
	for _, s := range r.spans.Ended() {
		if s.Name() == "request" && s.SpanContext().SpanID() == first.SpanID() {
			if len(s.Events()) != 1 || s.Events()[0].Name != "onceward.claimed" {
				t.Errorf("the request's span has the events %v", s.Events())
			}
		}
	}
}

func TestWhatHappensAfterTheAnswerIsInTheTraceToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Config{}, onceward.Config{MaxRuntime: time.Second}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(time.Minute)
		}))
		request := r.post("k", "x")
		time.Sleep(2 * time.Minute)
		var names []string
		for _, s := range r.spans.Ended() {
			if s.SpanContext().TraceID() != request.TraceID() {
				t.Errorf("%s is in another trace", s.Name())
			}
			names = append(names, s.Name()+" "+attributesOf(s)["onceward.outcome"]+" "+s.Status().Code.String())
		}
		if want := []string{"onceward in-progress Error", "request  Unset", "onceward released Error"}; !slices.Equal(names, want) {
			t.Errorf("the spans are %q, want %q", names, want)
		}
		if s := r.spans.Ended()[2]; s.EndTime().Sub(s.StartTime()) != time.Minute {
			t.Errorf("the handler's minute is %v", s.EndTime().Sub(s.StartTime()))
		}
		r.want("onceward.handlers.overrun", map[string]float64{"": 1})
	})
}

func TestClaimsAreToldByStateWithTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Config{}, onceward.Config{}, http.HandlerFunc(app))
		const state = "onceward.claim.state="
		r.want("onceward.claims.open", map[string]float64{state + "in-progress": 0, state + "unknown": 0, state + "held": 0})
		claim := func(name string, lease time.Duration) onceward.Claim {
			c := onceward.Claim{Key: onceward.NewKey("ann", name), Token: onceward.Token{1}, Lease: lease, Keep: -1}
			if _, claimed, err := r.store.Claim(t.Context(), c); err != nil || !claimed {
				t.Fatal(claimed, err)
			}
			return c
		}
		claim("dead", time.Second)
		time.Sleep(time.Minute)
		claim("dead too", time.Second)
		held := claim("held", time.Hour)
		if err := r.store.Extend(t.Context(), held.Key, held.Token, 0, true); err != nil {
			t.Fatal(err)
		}
		claim("alive", time.Hour)
		r.post("answered", "x")
		time.Sleep(10 * time.Second)
		r.want("onceward.claims.open", map[string]float64{state + "in-progress": 1, state + "unknown": 2, state + "held": 1})
		r.want("onceward.claims.oldest", map[string]float64{state + "in-progress": 10, state + "unknown": 70, state + "held": 10})
	})
}

// A store with more claims than one page of its list has: all are seen, up to the limit.
func TestClaimsOnEveryPageOfTheListAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, telemetry.Config{}, onceward.Config{}, http.HandlerFunc(app))
		made := 0
		more := func(n int) {
			for ; made < n; made++ {
				c := onceward.Claim{Key: onceward.NewKey("ann", strconv.Itoa(made)), Token: onceward.Token{1}, Lease: time.Second, Keep: -1}
				if _, claimed, err := r.store.Claim(t.Context(), c); err != nil || !claimed {
					t.Fatal(claimed, err)
				}
			}
			time.Sleep(time.Minute)
		}
		for _, c := range [][2]int{{999, 999}, {1000, 1000}, {2500, 2500}, {10_050, 10_000}} {
			more(c[0])
			if got := r.points("onceward.claims.open")["onceward.claim.state=unknown"]; got != float64(c[1]) {
				t.Errorf("of %d claims %v are told, want %d", c[0], got, c[1])
			}
		}
	})
}

// slow is a Lister that takes its time.
type slow struct {
	takes time.Duration
	asked atomic.Int64
	err   error
}

func (s *slow) List(ctx context.Context, _ onceward.Query) ([]onceward.Record, error) {
	s.asked.Add(1)
	select {
	case <-time.After(s.takes):
		return []onceward.Record{{State: onceward.InProgress, Age: time.Hour}}, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestAStoreIsNotAskedForItsClaimsForMoreThanAHundredthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{takes: time.Second}
		r := newRig(t, telemetry.Config{Claims: s}, onceward.Config{}, http.HandlerFunc(app))
		begun := time.Now()
		for time.Since(begun) < 1000*time.Second {
			if r.points("onceward.claims.open")["onceward.claim.state=unknown"] != 1 {
				t.Fatal("what was found is not told in between")
			}
			time.Sleep(5 * time.Second)
		}
		if n := s.asked.Load(); n < 9 || n > 10 {
			t.Errorf("in 1000 s it was asked %d times for a second, want 10", n)
		}
	})
}

func TestAFailedSurveyIsCountedAndTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{takes: time.Hour}
		r := newRig(t, telemetry.Config{Claims: s, ClaimsTimeout: time.Second}, onceward.Config{}, http.HandlerFunc(app))
		r.want("onceward.claims.open", nil)
		r.want("onceward.surveys.failed", map[string]float64{"": 1})
		s.takes, s.err = 0, errors.New("the store is down")
		time.Sleep(2 * time.Minute)
		r.want("onceward.claims.oldest", nil)
		s.err = nil
		time.Sleep(time.Second)
		r.want("onceward.claims.oldest", map[string]float64{
			"onceward.claim.state=in-progress": 0, "onceward.claim.state=unknown": 3600, "onceward.claim.state=held": 0,
		})
		calls := r.points("onceward.store.call.duration")
		if calls["error.type=timeout,onceward.store.operation=list"] != 1 || calls["error.type=_OTHER,onceward.store.operation=list"] != 1 {
			t.Errorf("the calls are %v", calls)
		}
	})
}

func TestEitherHalfMayBeMissing(t *testing.T) {
	observer, err := telemetry.New(nil, nil, telemetry.Config{})
	if err != nil || observer.Decided != nil || observer.Called != nil || observer.Began != nil || observer.Ended != nil || observer.Happened != nil {
		t.Errorf("without providers: %v, %+v", err, observer)
	}
	recorder := tracetest.NewSpanRecorder()
	observer, err = telemetry.New(nil, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)), telemetry.Config{})
	if err != nil || observer.Called != nil {
		t.Fatalf("with traces alone: %v", err)
	}
	observer.Decided(t.Context(), onceward.Decision{Outcome: "executed", Method: "POST", Status: 201})
	observer.Happened(t.Context(), onceward.Event{Kind: onceward.EventLeaseLost, Key: onceward.NewKey("ann", "k"), Count: 1})
	if n := len(recorder.Ended()); n != 1 {
		t.Errorf("%d spans, want 1: an event outside a trace is none", n)
	}
	observer, err = telemetry.New(sdkmetric.NewMeterProvider(), nil, telemetry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	observer.Decided(t.Context(), onceward.Decision{Outcome: "executed", Method: "POST", Status: 201})
	observer.Happened(t.Context(), onceward.Event{Kind: onceward.EventSwept, Count: 3})
	if _, err := telemetry.New(nil, nil, telemetry.Config{ClaimsTimeout: -1}); err == nil || !strings.Contains(err.Error(), "ClaimsTimeout") {
		t.Errorf("a negative time limit: %v", err)
	}
}
