// Command fiber is the shop of examples/orders on fiber v3, which is not net/http.
// Its handlers return errors, which fiber's central error handler answers.
package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/onceward/onceward/examples/frameworks/internal/shop"
)

func main() {
	shop.Start("fiber", func(ctx context.Context, p *shop.Program, l net.Listener) error {
		app := newApp(p, p.Guarded)
		return shop.Until(ctx, func() error {
			return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
		}, app.ShutdownWithContext)
	})
}

// docs: fiber app
func newApp(p *shop.Program, guard func(http.Handler) http.Handler) *fiber.App {
	app := fiber.New(fiber.Config{
		ErrorHandler: answerError, BodyLimit: 64 << 20,
		DisablePreParseMultipartForm: true, // or fasthttp would put a form together anew, each time in another order
	})
	app.Use(recover.New()) // without it a panic ends the process
	if p.Chaos {
		app.Use(chaos(p))
	}
	app.Use(authenticate(p.UserHeader), guarded(guard))
	routes(app, p)
	return app
}

// docs: end

// authenticate trusts a header, where a real service looks at a session.
func authenticate(header string) fiber.Handler {
	return func(c fiber.Ctx) error {
		c.SetContext(shop.WithUser(c.Context(), strings.Clone(c.Get(header))))
		return c.Next()
	}
}

// answerError is fiber's central error handler: the one place where an error
// becomes an answer. What fiber itself has to say, such as a 404, it says.
func answerError(c fiber.Ctx, err error) error {
	e := shop.AsError(err)
	if own, ok := err.(*fiber.Error); ok {
		e = &shop.Error{Status: own.Code, Text: own.Message}
	}
	for name, value := range e.Header() {
		c.Set(name, value)
	}
	if e.Body() == nil {
		return c.SendStatus(e.Status)
	}
	return c.Status(e.Status).JSON(e.Body())
}

func routes(app *fiber.App, p *shop.Program) {
	app.Post("/create-order", func(c fiber.Ctx) error {
		user, err := p.User(c.Context())
		if err != nil {
			return err
		}
		wish, err := order(c)
		if err != nil {
			return err
		}
		o, placed, err := p.Create(c.Context(), user, wish)
		if err != nil {
			return err
		}
		return showAt(c, placed, o)
	})
	app.Get("/orders", func(c fiber.Ctx) error {
		orders, err := p.All(c.Context())
		if err != nil {
			return err
		}
		return c.JSON(orders)
	})
	// on is a handler for one order, whose id is in the path.
	on := func(do func(c fiber.Ctx, user, id string, when shop.Conditions) error) fiber.Handler {
		return func(c fiber.Ctx) error {
			user, err := p.User(c.Context())
			if err != nil {
				return err
			}
			r, err := request(c) // in memory of its own
			if err != nil {
				return err
			}
			when, err := shop.ConditionsOf(r.Header)
			if err != nil && r.Method != http.MethodGet {
				return err
			}
			return do(c, user, strings.Clone(c.Params("id")), when)
		}
	}
	app.Get("/orders/:id", on(func(c fiber.Ctx, user, id string, when shop.Conditions) error {
		o, err := p.Find(c.Context(), user, id, when)
		if err != nil {
			return err
		}
		return show(c, http.StatusOK, o)
	}))
	app.Put("/orders/:id", on(func(c fiber.Ctx, user, id string, when shop.Conditions) error {
		wish, err := order(c)
		if err != nil {
			return err
		}
		o, placed, err := p.Replace(c.Context(), user, id, wish, when)
		if err != nil {
			return err
		}
		if placed {
			return showAt(c, placed, o)
		}
		return show(c, http.StatusOK, o)
	}))
	app.Delete("/orders/:id", on(func(c fiber.Ctx, user, id string, when shop.Conditions) error {
		if err := p.Remove(c.Context(), user, id, when); err != nil {
			return err
		}
		return c.SendStatus(http.StatusNoContent)
	}))
	app.Post("/orders/:id/cancel", on(func(c fiber.Ctx, user, id string, when shop.Conditions) error {
		o, err := p.Cancel(c.Context(), user, id, when)
		if err != nil {
			return err
		}
		return show(c, http.StatusOK, o)
	}))
	app.Post("/orders/:id/add", on(func(c fiber.Ctx, user, id string, when shop.Conditions) error {
		wish, err := order(c)
		if err != nil {
			return err
		}
		o, err := p.Add(c.Context(), user, id, wish.Qty, when)
		if err != nil {
			return err
		}
		return show(c, http.StatusOK, o)
	}))
}

func order(c fiber.Ctx) (shop.Order, error) {
	return shop.ParseOrder(c.Body(), func(field string) string { return strings.Clone(c.FormValue(field)) }, func() (io.ReadCloser, error) {
		f, err := c.FormFile("file")
		if err != nil {
			return nil, err
		}
		return f.Open()
	})
}

// showAt shows an order, which may be a new one, and says where it is.
func showAt(c fiber.Ctx, placed bool, o shop.Order) error {
	c.Set(fiber.HeaderLocation, "/orders/"+o.ID)
	if placed {
		return show(c, http.StatusCreated, o)
	}
	return show(c, http.StatusOK, o)
}

func show(c fiber.Ctx, status int, o shop.Order) error {
	c.Set(fiber.HeaderETag, o.ETag())
	return reply(c, status, o)
}

func reply(c fiber.Ctx, status int, v any) error {
	if !shop.Twisted(c.Context()) {
		return c.Status(status).JSON(v)
	}
	r, err := request(c)
	if err != nil {
		return err
	}
	twisted := &answer{header: headerOf(c)}
	shop.Write(twisted, r, status, v)
	twisted.WriteHeader(http.StatusOK)
	twisted.send(c)
	return nil
}

// chaos gives every request its wish, as [shop.Main] does over net/http.
func chaos(p *shop.Program) fiber.Handler {
	return func(c fiber.Ctx) error {
		query, err := url.ParseQuery(string(c.Request().URI().QueryString()))
		if err != nil {
			return fiber.ErrBadRequest
		}
		ctx, err := shop.WithWish(c.Context(), query, strings.Clone(c.Get("X-Chaos")))
		if err != nil {
			return err
		}
		if c.Path() == "/chaos" {
			return c.JSON(p.Vitals(query.Get("gc") == "1"))
		}
		c.SetContext(ctx)
		if err := c.Next(); err != nil {
			return err
		}
		shop.DieInstead(ctx, c.GetRespHeader("Idempotency-Status"))
		return nil
	}
}
