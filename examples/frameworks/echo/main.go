// Command echo is the shop of examples/orders on echo v5. Its handlers return
// errors, which echo's central error handler answers.
package main

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/onceward/onceward/examples/frameworks/internal/shop"
)

func main() {
	shop.Main("echo", shop.Mount{Name: "router", Handler: app}, shop.Mount{Name: "middleware", Handler: appOfOne})
}

// docs: echo
// app has two of them: the outer one recovers and authenticates, the inner one
// works, with its error handler, and the guard stands around all of it.
func app(p *shop.Program, guard func(http.Handler) http.Handler) http.Handler {
	inner := echo.New()
	inner.HTTPErrorHandler = answerError
	routes(inner, p)

	outer := echo.New()
	outer.Use(middleware.Recover(), authenticate(p.UserHeader))
	outer.Any("/*", echo.WrapHandler(guard(inner)))
	return outer
}

// docs: end

// docs: echo middleware
// guarded makes a guard one of echo's own middlewares. echo.WrapMiddleware would
// not do: the error would pass the guard by and reach the error handler after it,
// when an empty 200 has been stored and sent.
func guarded(guard func(http.Handler) http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			outerRequest, outerResponse := c.Request(), c.Response()
			defer func() {
				c.SetRequest(outerRequest)
				c.SetResponse(outerResponse)
			}()
			// echo uses c for another request when this has returned, and a handler
			// past MaxRuntime still has it: so this waits for the handler.
			var turn sync.Mutex
			over := false
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
				c.SetRequest(r)
				c.SetResponse(echo.NewResponse(w, c.Logger()))
				if err := next(c); err != nil {
					c.Echo().HTTPErrorHandler(c, err)
				}
			})).ServeHTTP(outerResponse, outerRequest)
			return nil
		}
	}
}

// docs: end

func appOfOne(p *shop.Program, guard func(http.Handler) http.Handler) http.Handler {
	e := echo.New()
	e.HTTPErrorHandler = answerError
	e.Use(middleware.Recover(), authenticate(p.UserHeader), guarded(guard))
	routes(e, p)
	return e
}

// authenticate trusts a header, where a real service looks at a session.
func authenticate(header string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			r := c.Request()
			c.SetRequest(r.WithContext(shop.WithUser(r.Context(), r.Header.Get(header))))
			return next(c)
		}
	}
}

// answerError is echo's central error handler: the one place where an error
// becomes an answer. What echo itself has to say, such as a 404, it says. An error
// behind half of an answer is none: that half is not to be kept for a whole.
func answerError(c *echo.Context, err error) {
	if r, _ := echo.UnwrapResponse(c.Response()); r != nil && r.Committed {
		panic(http.ErrAbortHandler)
	}
	e := shop.AsError(err)
	if status := echo.StatusCode(err); status != 0 {
		e = &shop.Error{Status: status, Text: err.Error()}
	}
	for name, value := range e.Header() {
		c.Response().Header().Set(name, value)
	}
	if e.Body() == nil {
		_ = c.NoContent(e.Status)
		return
	}
	_ = c.JSON(e.Status, e.Body())
}

func routes(e *echo.Echo, p *shop.Program) {
	e.POST("/create-order", func(c *echo.Context) error {
		user, err := p.User(c.Request().Context())
		if err != nil {
			return err
		}
		wish, err := order(c)
		if err != nil {
			return err
		}
		o, placed, err := p.Create(c.Request().Context(), user, wish)
		if err != nil {
			return err
		}
		return showAt(c, placed, o)
	})
	e.GET("/orders", func(c *echo.Context) error {
		orders, err := p.All(c.Request().Context())
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, orders)
	})
	// on is a handler for one order, whose id is in the path.
	on := func(do func(c *echo.Context, user, id string, when shop.Conditions) error) echo.HandlerFunc {
		return func(c *echo.Context) error {
			user, err := p.User(c.Request().Context())
			if err != nil {
				return err
			}
			when, err := shop.ConditionsOf(c.Request().Header)
			if err != nil && c.Request().Method != http.MethodGet {
				return err
			}
			return do(c, user, c.Param("id"), when)
		}
	}
	e.GET("/orders/:id", on(func(c *echo.Context, user, id string, when shop.Conditions) error {
		o, err := p.Find(c.Request().Context(), user, id, when)
		if err != nil {
			return err
		}
		return show(c, http.StatusOK, o)
	}))
	e.PUT("/orders/:id", on(func(c *echo.Context, user, id string, when shop.Conditions) error {
		wish, err := order(c)
		if err != nil {
			return err
		}
		o, placed, err := p.Replace(c.Request().Context(), user, id, wish, when)
		if err != nil {
			return err
		}
		if placed {
			return showAt(c, placed, o)
		}
		return show(c, http.StatusOK, o)
	}))
	e.DELETE("/orders/:id", on(func(c *echo.Context, user, id string, when shop.Conditions) error {
		if err := p.Remove(c.Request().Context(), user, id, when); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	}))
	e.POST("/orders/:id/cancel", on(func(c *echo.Context, user, id string, when shop.Conditions) error {
		o, err := p.Cancel(c.Request().Context(), user, id, when)
		if err != nil {
			return err
		}
		return show(c, http.StatusOK, o)
	}))
	e.POST("/orders/:id/add", on(func(c *echo.Context, user, id string, when shop.Conditions) error {
		wish, err := order(c)
		if err != nil {
			return err
		}
		o, err := p.Add(c.Request().Context(), user, id, wish.Qty, when)
		if err != nil {
			return err
		}
		return show(c, http.StatusOK, o)
	}))
}

func order(c *echo.Context) (shop.Order, error) {
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return shop.Order{}, err
	}
	c.Request().Body = io.NopCloser(bytes.NewReader(body))
	return shop.ParseOrder(body, c.FormValue, func() (io.ReadCloser, error) {
		f, err := c.FormFile("file")
		if err != nil {
			return nil, err
		}
		return f.Open()
	})
}

// showAt shows an order, which may be a new one, and says where it is.
func showAt(c *echo.Context, placed bool, o shop.Order) error {
	c.Response().Header().Set(echo.HeaderLocation, "/orders/"+o.ID)
	if placed {
		return show(c, http.StatusCreated, o)
	}
	return show(c, http.StatusOK, o)
}

func show(c *echo.Context, status int, o shop.Order) error {
	c.Response().Header().Set("ETag", o.ETag())
	return answer(c, status, o)
}

func answer(c *echo.Context, status int, v any) error {
	if shop.Twisted(c.Request().Context()) {
		res, err := echo.UnwrapResponse(c.Response())
		if err != nil {
			return err
		}
		shop.Write(flushed{res}, c.Request(), status, v)
		return nil
	}
	return c.JSON(status, v)
}

// docs: echo flush
// flushed is echo's writer for a handler that flushes, by http.ResponseController:
// echo's own Flush panics where nothing can be flushed, as in a transaction.
type flushed struct{ *echo.Response }

func (f flushed) FlushError() error {
	return http.NewResponseController(f.Unwrap()).Flush()
}

// docs: end
