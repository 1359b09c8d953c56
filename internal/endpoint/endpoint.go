// Package endpoint serves, on a listener of its own, what is for the people who run a
// program and not for its users.
package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Endpoint is a handler on a listener. It is safe for concurrent use.
type Endpoint struct {
	server *http.Server
	url    string
	ended  chan struct{}
}

// Listen begins to serve handler on addr; a host that is left out (":9465") is this
// machine alone. path is where a person or a program finds it, for [Endpoint.URL]; lost
// is what log is told when it is no longer served.
func Listen(addr, path string, handler http.Handler, log *slog.Logger, lost string) (*Endpoint, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	e := &Endpoint{
		server: &http.Server{
			Handler: handler, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
			ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		},
		url:   "http://" + listener.Addr().String() + path,
		ended: make(chan struct{}),
	}
	go func() {
		defer close(e.ended)
		if err := e.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error(lost, "error", err)
		}
	}()
	return e, nil
}

// URL is where it is, as asked for on this machine.
func (e *Endpoint) URL() string { return e.url }

// Close ends the listener and waits, as long as ctx allows, for what is being served.
func (e *Endpoint) Close(ctx context.Context) error {
	err := e.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, e.server.Close())
	}
	<-e.ended
	return err
}
