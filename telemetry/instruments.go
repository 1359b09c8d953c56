package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/onceward/onceward"
)

// A guarded request takes from tens of microseconds to MaxRuntime, a call of a store
// from less than one to StoreTimeout.
var (
	requestBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	storeBuckets   = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}
)

// instruments are those that the guard's calls feed.
type instruments struct {
	meter     metric.Meter
	decisions metric.Int64Counter
	duration  metric.Float64Histogram
	calls     metric.Float64Histogram
	active    metric.Int64UpDownCounter
	events    map[onceward.EventKind]metric.Int64Counter
}

// counters are the instruments of events. Of claims only those are counted that
// displaced another.
var counters = map[onceward.EventKind]struct{ name, unit, what string }{
	onceward.EventClaimed:       {"onceward.takeovers", "{claim}", "Claims that displaced an abandoned one: the request ran again, and what its first run did is not known."},
	onceward.EventLeaseLost:     {"onceward.lease.losses", "{lease}", "Claims that their owner lost while it was still at work."},
	onceward.EventRenewalFailed: {"onceward.lease.renewal_failures", "{renewal}", "Attempts to renew a lease that failed."},
	onceward.EventRecordedLate:  {"onceward.answers.recorded_late", "{answer}", "Answers that were sent before they could be recorded, and were recorded afterwards."},
	onceward.EventNeverRecorded: {"onceward.answers.never_recorded", "{answer}", "Answers that were sent and never recorded: a repeat of the request runs again."},
	onceward.EventOverran:       {"onceward.handlers.overrun", "{handler}", "Handlers that ran into MaxRuntime or MaxTransaction."},
	onceward.EventUnguarded:     {"onceward.requests.unguarded", "{request}", "Requests that ran without the guard, because the store did not answer and FailOpen is set."},
	onceward.EventSwept:         {"onceward.records.swept", "{record}", "Records that were deleted when their time was over."},
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	m := &instruments{meter: meter, events: make(map[onceward.EventKind]metric.Int64Counter, len(counters))}
	var errs [4]error
	m.decisions, errs[0] = meter.Int64Counter("onceward.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Decisions of the guard about requests."))
	m.duration, errs[1] = meter.Float64Histogram("onceward.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a request's arrival to the end of its answer."), metric.WithExplicitBucketBoundaries(requestBuckets...))
	m.calls, errs[2] = meter.Float64Histogram("onceward.store.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of one call of the store; of transact without the handler's own."), metric.WithExplicitBucketBoundaries(storeBuckets...))
	m.active, errs[3] = meter.Int64UpDownCounter("onceward.active_handlers", metric.WithUnit("{handler}"),
		metric.WithDescription("Handlers at work under a claim."))
	err := errors.Join(errs[:]...)
	for kind, c := range counters {
		counter, problem := m.counter(c.name, c.unit, c.what)
		m.events[kind], err = counter, errors.Join(err, problem)
	}
	if err != nil {
		return nil, err
	}
	m.active.Add(context.Background(), 0)
	return m, nil
}

// counter makes a counter that is there from the start: an alert on its growth would
// miss the first event if the series began with it.
func (m *instruments) counter(name, unit, what string) (metric.Int64Counter, error) {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
	if err == nil {
		c.Add(context.Background(), 0)
	}
	return c, err
}

func (m *instruments) called(ctx context.Context, c onceward.StoreCall) {
	attrs := make([]attribute.KeyValue, 1, 2)
	attrs[0] = attribute.String("onceward.store.operation", c.Operation)
	if kind := errorType(c.Err); kind != "" {
		attrs = append(attrs, attribute.String("error.type", kind))
	}
	m.calls.Record(ctx, c.Took.Seconds(), metric.WithAttributes(attrs...))
}
