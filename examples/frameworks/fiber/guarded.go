package main

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v3"
)

// docs: fiber
// guarded makes a guard one of fiber's middlewares. adaptor.HTTPMiddleware would
// not do: it runs the handler after the middleware, which sees no answer.
func guarded(guard func(http.Handler) http.Handler) fiber.Handler {
	return func(c fiber.Ctx) error {
		if c.Context().Value(again{}) != nil {
			return c.Next() // the guard is around it already
		}
		r, err := request(c)
		if err != nil {
			return err
		}
		kept := &answer{header: headerOf(c)}
		before := &answer{header: kept.header.Clone()}
		defer kept.send(c) // after a panic too: what recovers from it answers with this header
		// fiber uses c for another request when this has returned, and a handler
		// past MaxRuntime still has it: so this waits for the handler.
		var turn sync.Mutex
		over, run := false, c.Next
		defer func() {
			turn.Lock()
			over = true
			turn.Unlock()
		}()
		guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			turn.Lock()
			defer turn.Unlock()
			if over {
				return
			}
			c.SetContext(context.WithValue(r.Context(), again{}, true))
			err := run()
			// Should the database want a transaction once more: c's handlers are behind it.
			run = func() error { before.send(c); return c.RestartRouting() }
			if err == nil {
				err = whole(c)
			}
			if err != nil {
				err = c.App().ErrorHandler(c, err)
			}
			if err != nil {
				c.Response().Reset()
				c.Status(http.StatusInternalServerError)
			}
			clear(w.Header())
			for name, values := range headerOf(c) {
				w.Header()[name] = values
			}
			w.WriteHeader(c.Response().StatusCode())
			_, _ = w.Write(c.Response().Body())
		})).ServeHTTP(kept, r)
		return nil
	}
}

// whole reads a streamed answer to its end. One that breaks off is an error: fasthttp
// would answer with the error's text.
func whole(c fiber.Ctx) error {
	if !c.Response().IsBodyStream() {
		return nil
	}
	var body bytes.Buffer
	if err := c.Response().BodyWriteTo(&body); err != nil {
		c.Response().ResetBody()
		return err
	}
	c.Response().SetBodyRaw(body.Bytes())
	return nil
}

// again marks what guard.Atomic runs for a second time.
type again struct{}

// docs: end

// request is c's request as net/http has it, in memory of its own: fasthttp uses
// its own again.
func request(c fiber.Ctx) (*http.Request, error) {
	r, err := http.NewRequestWithContext(c.Context(), string(c.Request().Header.Method()), "", bytes.NewReader(bytes.Clone(c.BodyRaw())))
	if err != nil {
		return nil, err
	}
	r.RequestURI = strings.Clone(c.OriginalURL())
	if r.URL, err = url.ParseRequestURI(r.RequestURI); err != nil {
		return nil, fiber.ErrBadRequest
	}
	r.Host, r.RemoteAddr = string(c.Request().Host()), c.RequestCtx().RemoteAddr().String()
	for name, value := range c.Request().Header.All() {
		r.Header.Add(string(name), string(value))
	}
	return r, nil
}

// headerOf is the header of c's answer so far.
func headerOf(c fiber.Ctx) http.Header {
	h := make(http.Header)
	for name, value := range c.Response().Header.All() {
		if n := http.CanonicalHeaderKey(string(name)); n != "Content-Length" {
			h[n] = append(h[n], string(value))
		}
	}
	return h
}

// answer is the whole answer, before c has it. Nothing is flushed: fasthttp would
// send only when the handler has returned.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

func (a *answer) send(c fiber.Ctx) {
	c.Response().Reset()
	c.Response().Header.SetNoDefaultContentType(true)
	if a.status != 0 {
		c.Status(a.status)
	}
	for name, values := range a.header {
		if name == "Content-Length" {
			continue // fasthttp sets it
		}
		for _, value := range values {
			c.Response().Header.Add(name, value)
		}
	}
	c.Response().SetBodyRaw(a.body.Bytes())
}
