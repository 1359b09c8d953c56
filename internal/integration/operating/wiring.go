package operating

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/sqlitestore"
	"github.com/onceward/onceward/telemetry"
	"github.com/onceward/onceward/telemetry/scrape"
)

// docs: switch it on
func observedGuard(addr string, store *sqlitestore.Store, scope onceward.ScopeFunc, tracers trace.TracerProvider, logger *slog.Logger) (*onceward.Guard, *scrape.Endpoint, error) {
	endpoint, err := scrape.Listen(addr, logger) // "127.0.0.1:9464"
	if err != nil {
		return nil, nil, err
	}
	observer, err := telemetry.New(endpoint.Meters(), tracers, telemetry.Config{Claims: store})
	if err != nil {
		return nil, nil, errors.Join(err, endpoint.Close(context.Background()))
	}
	guard, err := onceward.New(store, scope, onceward.Config{Logger: logger, Observer: observer})
	return guard, endpoint, err
}

// docs: end
