// Package telemetry makes an [onceward.Observer] that tells OpenTelemetry what a
// guard does:
//
//	observer, err := telemetry.New(meters, tracers, telemetry.Config{Claims: store})
//	guard, err := onceward.New(store, scope, onceward.Config{Observer: observer, Logger: logger})
//
// Package scrape, below this one, has a MeterProvider that Prometheus can scrape.
//
// # Metrics
//
// Attributes have few values: no key, no scope, no path. Names in parentheses are
// Prometheus's.
//
//	onceward.decisions              {decision}  (onceward_decisions_total)
//	    by onceward.outcome, http.request.method, http.route and
//	    http.response.status_code where known
//	onceward.request.duration       s           (onceward_request_duration_seconds)
//	    from the request's arrival to the end of its answer, by onceward.outcome
//	onceward.store.call.duration    s           (onceward_store_call_duration_seconds)
//	    by onceward.store.operation; with error.type (timeout, canceled, _OTHER)
//	    where the call failed
//	onceward.active_handlers        {handler}   (onceward_active_handlers)
//	onceward.takeovers              {claim}     (onceward_takeovers_total)
//	    claims whose owner had died or was cut off, and whose request ran again
//	onceward.lease.losses           {lease}     (onceward_lease_losses_total)
//	onceward.lease.renewal_failures {renewal}   (onceward_lease_renewal_failures_total)
//	onceward.answers.recorded_late  {answer}    (onceward_answers_recorded_late_total)
//	onceward.answers.never_recorded {answer}    (onceward_answers_never_recorded_total)
//	onceward.handlers.overrun       {handler}   (onceward_handlers_overrun_total)
//	onceward.requests.unguarded     {request}   (onceward_requests_unguarded_total)
//	onceward.records.swept          {record}    (onceward_records_swept_total)
//
// and with Config.Claims, by onceward.claim.state, which is in-progress, unknown
// (the lease is over) or held:
//
//	onceward.claims.open            {claim}     (onceward_claims_open)
//	onceward.claims.oldest          s           (onceward_claims_oldest_seconds)
//	onceward.surveys.failed         {survey}    (onceward_surveys_failed_total)
//
// # Traces
//
// Each decision is a span "onceward", a child of the span that the request's context
// has, from the request's arrival to the decision; it carries the outcome and the
// record's id, which is the log's. What else happens to a request is an event on the
// request's span, or where that has ended a span of its own. A replay does not link to
// the first execution's trace: a record does not hold it. Both spans have the same
// onceward.record.
//
// Use something else where requests are counted by user or by key: that is what the
// log is for.
package telemetry
