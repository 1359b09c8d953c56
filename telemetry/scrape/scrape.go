// Package scrape serves a program's metrics to Prometheus, on a listener of their
// own: what is measured is for the people who run the program, not for its users.
//
//	endpoint, err := scrape.Listen("127.0.0.1:9464", logger)
//	observer, err := telemetry.New(endpoint.Meters(), nil, telemetry.Config{Claims: store})
//
// A program that sends its metrics elsewhere (OTLP) needs none of this: it gives its
// own MeterProvider to [telemetry.New].
package scrape

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/onceward/onceward/internal/endpoint"
)

// Endpoint serves GET /metrics: what is told to its MeterProvider, and what the Go
// runtime and the operating system say of the process. It is safe for concurrent use.
type Endpoint struct {
	meters *sdk.MeterProvider
	own    *endpoint.Endpoint
}

// Listen begins to serve on addr. A host that is left out (":9464") is this machine
// alone; to be reached from others, the address has to say so ("0.0.0.0:9464"): there is
// no password. log gets what goes wrong later; nil means none. The caller ends it with
// Close.
func Listen(addr string, log *slog.Logger) (*Endpoint, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo(),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, fmt.Errorf("scrape: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		// What cannot be read must not hide the rest.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true, MaxRequestsInFlight: 4,
	}))
	own, err := endpoint.Listen(addr, "/metrics", mux, log, "scrape: metrics are no longer served")
	if err != nil {
		return nil, fmt.Errorf("scrape: %w", err)
	}
	return &Endpoint{meters: sdk.NewMeterProvider(sdk.WithReader(reader)), own: own}, nil
}

// Meters is the MeterProvider whose instruments are served.
func (e *Endpoint) Meters() metric.MeterProvider { return e.meters }

// URL is where the metrics are, as a scraper on this machine asks for them.
func (e *Endpoint) URL() string { return e.own.URL() }

// Close ends the listener and waits, as long as ctx allows, for what is being served.
func (e *Endpoint) Close(ctx context.Context) error {
	err := e.own.Close(ctx)
	if err = errors.Join(err, e.meters.Shutdown(ctx)); err != nil {
		return fmt.Errorf("scrape: close: %w", err)
	}
	return nil
}
