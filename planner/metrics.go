package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/records"
	"github.com/onceward/onceward/sqlitestore"
	"github.com/onceward/onceward/telemetry"
	"github.com/onceward/onceward/telemetry/scrape"
)

// observed serves metrics on addr, for Prometheus, and returns the observer that
// feeds them; without an address it does nothing.
func observed(addr string, keys *sqlitestore.Store, log *slog.Logger) (onceward.Observer, func(context.Context) error, error) {
	if addr == "" {
		return onceward.Observer{}, func(context.Context) error { return nil }, nil
	}
	endpoint, err := scrape.Listen(addr, log)
	if err != nil {
		return onceward.Observer{}, nil, err
	}
	log.Info("planner: serving metrics", "url", endpoint.URL())
	observer, err := telemetry.New(endpoint.Meters(), nil, telemetry.Config{Claims: keys})
	if err != nil {
		return observer, nil, errors.Join(err, endpoint.Close(context.Background()))
	}
	return observer, endpoint.Close, nil
}

// paged serves the keys' states on addr, read-only; without an address it does nothing.
func paged(addr string, keys *sqlitestore.Store, log *slog.Logger) (func(context.Context) error, error) {
	if addr == "" {
		return func(context.Context) error { return nil }, nil
	}
	page, err := records.Listen(addr, keys, log)
	if err != nil {
		return nil, err
	}
	log.Info("planner: serving records", "url", page.URL())
	return page.Close, nil
}
