package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/telemetry"
	"github.com/onceward/onceward/telemetry/scrape"
)

// observed serves metrics on addr, for Prometheus, and returns the observer that
// feeds them; without an address it does nothing.
func observed(addr string, store onceward.Store, log *slog.Logger) (onceward.Observer, func() error, error) {
	if addr == "" {
		return onceward.Observer{}, func() error { return nil }, nil
	}
	endpoint, err := scrape.Listen(addr, log)
	if err != nil {
		return onceward.Observer{}, nil, err
	}
	log.Info("serving metrics", "url", endpoint.URL())
	end := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return endpoint.Close(ctx)
	}
	lister, _ := store.(onceward.Lister)
	observer, err := telemetry.New(endpoint.Meters(), nil, telemetry.Config{Claims: lister})
	if err != nil {
		return observer, nil, errors.Join(err, end())
	}
	return observer, end, nil
}
