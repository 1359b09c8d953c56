// Command gin is the shop of examples/orders on gin. Its handlers leave their
// errors in the context, and a middleware answers them.
package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/onceward/onceward/examples/frameworks/internal/shop"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	shop.Main("gin", shop.Mount{Name: "router", Handler: app}, shop.Mount{Name: "middleware", Handler: appOfOne})
}

// docs: gin
// app has two engines: the outer one recovers and authenticates, the inner one
// works and answers errors, and the guard stands around all of it.
func app(p *shop.Program, guard func(http.Handler) http.Handler) http.Handler {
	inner := gin.New()
	inner.Use(answerErrors)
	routes(inner, p)

	outer := gin.New()
	outer.Use(recovered, authenticate(p.UserHeader))
	outer.Any("/*path", gin.WrapH(guard(inner)))
	return outer
}

// recovered lets http.ErrAbortHandler through, as net/http wants it: it says that
// the connection is to be cut, for half an answer is out. gin.Recovery keeps it,
// and the client takes that half for the whole.
func recovered(c *gin.Context) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case p == http.ErrAbortHandler || c.Writer.Written():
			panic(http.ErrAbortHandler)
		default:
			c.AbortWithStatus(http.StatusInternalServerError)
		}
	}()
	c.Next()
}

// docs: end

// docs: gin middleware
// guarded makes a guard one of engine's own middlewares. Those that answer errors
// come after it; those that recover before it.
func guarded(engine *gin.Engine, guard func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		if isAgain(c.Request) {
			return // the guard is around it already
		}
		outerRequest, outerWriter := c.Request, c.Writer
		defer func() { c.Request, c.Writer = outerRequest, outerWriter }()
		// gin uses c for another request when this has returned, and a handler past
		// MaxRuntime still has it: so this waits for the handler.
		var turn sync.Mutex
		over, ran := false, false
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
			if ran { // the database wants a transaction once more, and c has no way back
				engine.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), again{}, true)))
				return
			}
			ran = true
			c.Request, c.Writer = r, gin.CreateTestContextOnly(w, engine).Writer
			c.Next()
			c.Writer.WriteHeaderNow()
		})).ServeHTTP(outerWriter, outerRequest)
		c.Abort() // what comes after has run, or is not to run
	}
}

// again marks a request that guard.Atomic runs for a second time.
type again struct{}

func isAgain(r *http.Request) bool { return r.Context().Value(again{}) != nil }

// docs: end

func appOfOne(p *shop.Program, guard func(http.Handler) http.Handler) http.Handler {
	e := gin.New()
	e.Use(recovered, authenticate(p.UserHeader), guarded(e, guard), answerErrors)
	routes(e, p)
	return e
}

// authenticate trusts a header, where a real service looks at a session.
func authenticate(header string) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Request = c.Request.WithContext(shop.WithUser(c.Request.Context(), c.GetHeader(header)))
	}
}

// answerErrors is the one place where an error becomes an answer. It stands inside
// of the guard, or the guard would store gin's empty 200 before it.
func answerErrors(c *gin.Context) {
	c.Next()
	if last := c.Errors.Last(); last != nil && !c.Writer.Written() {
		e := shop.AsError(last.Err)
		for name, value := range e.Header() {
			c.Header(name, value)
		}
		if e.Body() == nil {
			c.Status(e.Status)
			return
		}
		c.JSON(e.Status, e.Body())
	}
}

// handle makes a function that returns its error one of gin's handlers. An error
// behind half of an answer is none: that half is not to be kept for a whole.
func handle(do func(c *gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := do(c); err != nil {
			if c.Writer.Written() {
				panic(http.ErrAbortHandler)
			}
			_ = c.Error(err)
		}
	}
}

func routes(e *gin.Engine, p *shop.Program) {
	e.POST("/create-order", handle(func(c *gin.Context) error {
		user, err := p.User(c.Request.Context())
		if err != nil {
			return err
		}
		wish, err := order(c)
		if err != nil {
			return err
		}
		o, placed, err := p.Create(c.Request.Context(), user, wish)
		if err != nil {
			return err
		}
		showAt(c, placed, o)
		return nil
	}))
	e.GET("/orders", handle(func(c *gin.Context) error {
		orders, err := p.All(c.Request.Context())
		if err == nil {
			c.JSON(http.StatusOK, orders)
		}
		return err
	}))
	// on is a handler for one order, whose id is in the path.
	on := func(do func(c *gin.Context, user, id string, when shop.Conditions) error) gin.HandlerFunc {
		return handle(func(c *gin.Context) error {
			user, err := p.User(c.Request.Context())
			if err != nil {
				return err
			}
			when, err := shop.ConditionsOf(c.Request.Header)
			if err != nil && c.Request.Method != http.MethodGet {
				return err
			}
			return do(c, user, c.Param("id"), when)
		})
	}
	e.GET("/orders/:id", on(func(c *gin.Context, user, id string, when shop.Conditions) error {
		o, err := p.Find(c.Request.Context(), user, id, when)
		if err == nil {
			show(c, http.StatusOK, o)
		}
		return err
	}))
	e.PUT("/orders/:id", on(func(c *gin.Context, user, id string, when shop.Conditions) error {
		wish, err := order(c)
		if err != nil {
			return err
		}
		switch o, placed, err := p.Replace(c.Request.Context(), user, id, wish, when); {
		case err != nil:
			return err
		case placed:
			showAt(c, placed, o)
		default:
			show(c, http.StatusOK, o)
		}
		return nil
	}))
	e.DELETE("/orders/:id", on(func(c *gin.Context, user, id string, when shop.Conditions) error {
		err := p.Remove(c.Request.Context(), user, id, when)
		if err == nil {
			c.Status(http.StatusNoContent)
		}
		return err
	}))
	e.POST("/orders/:id/cancel", on(func(c *gin.Context, user, id string, when shop.Conditions) error {
		o, err := p.Cancel(c.Request.Context(), user, id, when)
		if err == nil {
			show(c, http.StatusOK, o)
		}
		return err
	}))
	e.POST("/orders/:id/add", on(func(c *gin.Context, user, id string, when shop.Conditions) error {
		wish, err := order(c)
		if err != nil {
			return err
		}
		o, err := p.Add(c.Request.Context(), user, id, wish.Qty, when)
		if err == nil {
			show(c, http.StatusOK, o)
		}
		return err
	}))
}

func order(c *gin.Context) (shop.Order, error) {
	body, err := io.ReadAll(c.Request.Body)
	if err != nil {
		return shop.Order{}, err
	}
	c.Request.Body = io.NopCloser(bytes.NewReader(body))
	return shop.ParseOrder(body, c.PostForm, func() (io.ReadCloser, error) {
		f, err := c.FormFile("file")
		if err != nil {
			return nil, err
		}
		return f.Open()
	})
}

// showAt shows an order, which may be a new one, and says where it is.
func showAt(c *gin.Context, placed bool, o shop.Order) {
	c.Header("Location", "/orders/"+o.ID)
	if placed {
		show(c, http.StatusCreated, o)
	} else {
		show(c, http.StatusOK, o)
	}
}

func show(c *gin.Context, status int, o shop.Order) {
	c.Header("ETag", o.ETag())
	answer(c, status, o)
}

func answer(c *gin.Context, status int, v any) {
	if shop.Twisted(c.Request.Context()) {
		shop.Write(c.Writer, c.Request, status, v)
		return
	}
	c.JSON(status, v)
}
