package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward"
)

const scopeName = "github.com/onceward/onceward/telemetry"

// Config says what [New] shall tell besides what the guard does by itself. The zero
// value is safe.
type Config struct {
	// Claims is the guard's store. Whenever metrics are collected its claims in
	// progress are gone through, up to 10,000 of them, but for no more than 1 % of
	// the time: Postgres and Redis need seconds for millions of records, and are
	// then asked every few minutes only; SQLite has an index. Nil: nothing is told
	// about claims, and nobody notices one that a dead process has left.
	Claims onceward.Lister
	// ClaimsTimeout bounds one such tour, for which whoever collects has to wait. Zero
	// means 5 s. While tours fail nothing is told about claims, but
	// onceward.surveys.failed grows.
	ClaimsTimeout time.Duration
	// Route names the route of a request. Its values become attributes of metrics, so
	// they must be few. Nil, or "": the pattern of the http.ServeMux that the request
	// has passed, outside the guard or inside, if any.
	Route func(method, path string) string
}

// New returns an Observer for [onceward.Config]. Either provider may be nil: then there
// are no metrics, or no traces. One Observer may serve any number of guards over one
// store. It starts nothing that has to be ended.
func New(meters metric.MeterProvider, tracers trace.TracerProvider, cfg Config) (onceward.Observer, error) {
	if cfg.ClaimsTimeout < 0 {
		return onceward.Observer{}, fmt.Errorf("telemetry: Config.ClaimsTimeout is negative: %v", cfg.ClaimsTimeout)
	}
	if cfg.ClaimsTimeout == 0 {
		cfg.ClaimsTimeout = 5 * time.Second
	}
	t := &telemetry{cfg: cfg}
	if tracers != nil {
		t.tracer = tracers.Tracer(scopeName)
	}
	var observer onceward.Observer
	if meters != nil {
		m, err := newInstruments(meters.Meter(scopeName))
		if err == nil && cfg.Claims != nil {
			err = m.watchClaims(cfg.Claims, cfg.ClaimsTimeout)
		}
		if err != nil {
			return onceward.Observer{}, fmt.Errorf("telemetry: %w", err)
		}
		t.metrics = m
		observer.Called = m.called
		observer.Began = func(ctx context.Context) { m.active.Add(ctx, 1) }
		observer.Ended = func(ctx context.Context) { m.active.Add(ctx, -1) }
	}
	if t.metrics != nil || t.tracer != nil {
		observer.Decided, observer.Happened = t.decided, t.happened
	}
	return observer, nil
}

// telemetry is one Observer's state. Either half may be missing.
type telemetry struct {
	cfg     Config
	metrics *instruments
	tracer  trace.Tracer
}

// none stands for the outcome of a request about which the guard decided nothing: its
// scope was refused, or its body broke off.
const none = "none"

func (t *telemetry) decided(ctx context.Context, d onceward.Decision) {
	if d.Outcome == "" {
		d.Outcome = none
	}
	if t.cfg.Route != nil {
		if route := t.cfg.Route(d.Method, d.Path); route != "" {
			d.Route = route
		}
	}
	attrs := make([]attribute.KeyValue, 0, 8)
	attrs = append(attrs, attribute.String("onceward.outcome", d.Outcome), attribute.String("http.request.method", d.Method))
	if d.Route != "" {
		attrs = append(attrs, attribute.String("http.route", d.Route))
	}
	if d.Status != 0 {
		attrs = append(attrs, attribute.Int("http.response.status_code", d.Status))
	}
	if t.tracer != nil {
		// The metrics are recorded in the span, so that an exemplar leads to it.
		ctx = t.span(ctx, d, attrs)
	}
	if t.metrics != nil {
		t.metrics.decisions.Add(ctx, 1, metric.WithAttributes(attrs...))
		if d.Status != 0 {
			t.metrics.duration.Record(ctx, d.Took.Seconds(), metric.WithAttributes(attrs[0]))
		}
	}
}

func (t *telemetry) span(ctx context.Context, d onceward.Decision, attrs []attribute.KeyValue) context.Context {
	end := time.Now()
	ctx, span := t.tracer.Start(ctx, "onceward", trace.WithTimestamp(end.Add(-d.Took)), trace.WithAttributes(attrs...))
	if d.Key != (onceward.Key{}) {
		span.SetAttributes(attribute.String("onceward.record", d.Key.RecordID()), attribute.String("onceward.scope", d.Key.ScopeID()))
	}
	if d.Attempt > 0 {
		span.SetAttributes(attribute.Int("onceward.attempt", d.Attempt))
	}
	// The error's text stays in the log: it may have what a trace is not for.
	if d.Err != nil && (d.Status == 0 || d.Status >= 500 || d.Status < 400) {
		span.SetStatus(codes.Error, d.Outcome)
	}
	span.End(trace.WithTimestamp(end))
	return ctx
}

func (t *telemetry) happened(ctx context.Context, e onceward.Event) {
	if t.metrics != nil {
		if counter, ok := t.metrics.events[e.Kind]; ok && (e.Kind != onceward.EventClaimed || e.Attempt > 1) {
			counter.Add(ctx, int64(e.Count))
		}
	}
	if t.tracer == nil || e.Key == (onceward.Key{}) {
		return
	}
	attrs := []attribute.KeyValue{attribute.String("onceward.record", e.Key.RecordID())}
	if e.Attempt > 0 {
		attrs = append(attrs, attribute.Int("onceward.attempt", e.Attempt))
	}
	name := "onceward." + string(e.Kind)
	switch span := trace.SpanFromContext(ctx); {
	case span.IsRecording():
		span.AddEvent(name, trace.WithAttributes(attrs...))
	case span.SpanContext().IsValid() && e.Kind != onceward.EventClaimed:
		_, span = t.tracer.Start(ctx, name, trace.WithAttributes(attrs...))
		span.End()
	}
}

// errorType is a short name for why a call failed; empty where it did not.
func errorType(err error) string {
	switch {
	case err == nil || errors.Is(err, onceward.ErrClaimLost):
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "_OTHER"
}
