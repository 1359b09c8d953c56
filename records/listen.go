package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/onceward/onceward"
)

// Endpoint is a page on a listener of its own. It is safe for concurrent use.
type Endpoint struct {
	server *http.Server
	url    string
	ended  chan struct{}
}

// Listen begins to serve the page of a store on addr. A host that is left out
// (":9465") is this machine alone; to be reached from others, the address has to say so
// ("0.0.0.0:9465"): there is no password. log gets what goes wrong later; nil means
// none. The store stays the caller's, who closes it after [Endpoint.Close].
func Listen(addr string, store onceward.Store, log *slog.Logger) (*Endpoint, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	page, err := Page(store, Config{Logger: log})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	e := &Endpoint{
		server: &http.Server{
			Handler: page, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
			ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		},
		url:   "http://" + listener.Addr().String() + "/",
		ended: make(chan struct{}),
	}
	go func() {
		defer close(e.ended)
		if err := e.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("records: the page is no longer served", "error", err)
		}
	}()
	return e, nil
}

// URL is where the page is, as a browser on this machine asks for it.
func (e *Endpoint) URL() string { return e.url }

// Close ends the listener and waits, as long as ctx allows, for what is being served.
func (e *Endpoint) Close(ctx context.Context) error {
	err := e.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, e.server.Close())
	}
	<-e.ended
	if err != nil {
		return fmt.Errorf("records: close: %w", err)
	}
	return nil
}
