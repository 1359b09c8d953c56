package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/examples/frameworks/internal/halfanswer"
	"github.com/onceward/onceward/examples/frameworks/internal/shop"
	"github.com/onceward/onceward/memstore"
)

func init() { gin.SetMode(gin.ReleaseMode) }

func newGuard(t *testing.T) *onceward.Guard {
	t.Helper()
	guard, err := onceward.New(memstore.New(memstore.Config{}), onceward.Unscoped, onceward.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = guard.Close(context.Background()) })
	return guard
}

func post(h http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// What docs/frameworks.md warns of: the order of the middlewares. The guard has
// kept gin's empty 200 when the error is answered outside of it.
func TestAnErrorAnsweredOutsideOfTheGuardIsAnEmpty200ForTheRepeat(t *testing.T) {
	for name, c := range map[string]struct {
		order func(guard gin.HandlerFunc) []gin.HandlerFunc
		again int
	}{
		"outside": {func(guard gin.HandlerFunc) []gin.HandlerFunc { return []gin.HandlerFunc{answerErrors, guard} }, http.StatusOK},
		"inside":  {func(guard gin.HandlerFunc) []gin.HandlerFunc { return []gin.HandlerFunc{guard, answerErrors} }, http.StatusConflict},
	} {
		t.Run(name, func(t *testing.T) {
			e := gin.New()
			e.Use(c.order(guarded(e, newGuard(t).Handler))...)
			e.POST("/", func(c *gin.Context) { _ = c.Error(&shop.Error{Status: http.StatusConflict, Text: "sold out"}) })
			for i, want := range []int{http.StatusConflict, c.again} {
				if w := post(e); w.Code != want {
					t.Errorf("answer %d is %d %q, want %d", i+1, w.Code, w.Body, want)
				}
			}
		})
	}
}

// A panic in the middle of the answer: inside of the guard gin.Recovery makes half
// of an answer a whole one, which is kept. Outside it does the same to what is out
// already, in front of the client; recovered does not.
func TestWhoRecoversWhereMakesHalfAnAnswerWhole(t *testing.T) {
	half := func(c *gin.Context) {
		c.Status(http.StatusCreated)
		_, _ = c.Writer.WriteString("half of ")
		c.Writer.Flush()
		panic("in the middle")
	}
	engine := func(use gin.HandlerFunc, routes func(e *gin.Engine)) *gin.Engine {
		e := gin.New()
		e.Use(use)
		routes(e)
		return e
	}
	nothing := func(*gin.Context) {}
	quiet := gin.RecoveryWithWriter(io.Discard)
	for name, c := range map[string]struct {
		outer, inner gin.HandlerFunc
		whole        bool   // as the client sees it
		again        string // what becomes of the repeat
	}{
		"gin.Recovery inside":  {nothing, quiet, true, "replayed"},
		"gin.Recovery outside": {quiet, nothing, true, "executed"},
		"recovered outside":    {recovered, nothing, false, "executed"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := true
			inner := engine(c.inner, func(e *gin.Engine) {
				e.POST("/", func(c *gin.Context) {
					if broken {
						half(c)
					}
				})
			})
			guard := newGuard(t)
			srv := httptest.NewServer(engine(c.outer, func(e *gin.Engine) { e.Any("/*path", gin.WrapH(guard.Handler(inner))) }))
			t.Cleanup(srv.Close)
			send := func() (string, error) {
				r, err := http.NewRequest(http.MethodPost, srv.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Idempotency-Key", "k")
				r.Close = true
				resp, err := http.DefaultTransport.RoundTrip(r)
				if err != nil {
					return "", err
				}
				defer resp.Body.Close()
				outcome, _, _ := strings.Cut(resp.Header.Get("Idempotency-Status"), ";")
				_, err = io.ReadAll(resp.Body)
				return outcome, err
			}
			if _, err := send(); c.whole != (err == nil) {
				t.Errorf("the client got half of an answer with %v", err)
			}
			broken = false
			if outcome, err := send(); outcome != c.again || err != nil {
				t.Errorf("the repeat is %s, %v, want %s", outcome, err, c.again)
			}
		})
	}
}

// gin's Stream wants the writer to be an http.CloseNotifier.
func TestStreamRunsInsideOfTheGuard(t *testing.T) {
	inner := gin.New()
	inner.POST("/", func(c *gin.Context) {
		n := 0
		c.Stream(func(w io.Writer) bool {
			n++
			_, _ = io.WriteString(w, "part ")
			return n < 3
		})
	})
	srv := httptest.NewServer(newGuard(t).Handler(inner))
	t.Cleanup(srv.Close)
	r, err := http.NewRequest(http.MethodPost, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); string(body) != "part part part " || err != nil {
		t.Errorf("answered %q, %v", body, err)
	}
}

// An error that comes when half of the answer is written: that half is not kept, and
// the client does not take it for the whole.
func TestAnErrorBehindHalfOfAnAnswerCutsItOff(t *testing.T) {
	var half halfanswer.Handler
	e := gin.New()
	e.Use(recovered, guarded(e, newGuard(t).Handler), answerErrors)
	e.POST("/", handle(func(c *gin.Context) error { return half.Write(c.Writer) }))
	if err := halfanswer.Check(e, &half); err != nil {
		t.Error(err)
	}
}
