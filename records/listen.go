package records

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/endpoint"
)

// Endpoint is a page on a listener of its own. It is safe for concurrent use.
type Endpoint struct{ own *endpoint.Endpoint }

// Listen begins to serve the page of a store on addr. A host that is left out
// (":9465") is this machine alone; to be reached from others, the address has to say so
// ("0.0.0.0:9465"): there is no password. log gets what goes wrong later; nil means
// none. The store stays the caller's, who closes it after [Endpoint.Close].
func Listen(addr string, store onceward.Store, log *slog.Logger) (*Endpoint, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	page, err := Page(store, Config{Logger: log})
	if err != nil {
		return nil, err
	}
	own, err := endpoint.Listen(addr, "/", page, log, "records: the page is no longer served")
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	return &Endpoint{own}, nil
}

// URL is where the page is, as a browser on this machine asks for it.
func (e *Endpoint) URL() string { return e.own.URL() }

// Close ends the listener and waits, as long as ctx allows, for what is being served.
func (e *Endpoint) Close(ctx context.Context) error {
	if err := e.own.Close(ctx); err != nil {
		return fmt.Errorf("records: close: %w", err)
	}
	return nil
}
