package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"

	"github.com/onceward/onceward/memstore"
)

// caller sends requests over kept connections and reads no more of an answer than
// it must, so that it costs both sides little, and both the same.
type caller struct {
	addr  string
	conns chan *conn // free ones; nil: not yet made
}

type conn struct {
	net.Conn
	in  *bufio.Reader
	out bytes.Buffer
}

func newCaller(b *testing.B, addr string, clients int) *caller {
	b.Helper()
	c := &caller{addr: addr, conns: make(chan *conn, clients)}
	for range clients {
		c.conns <- nil
	}
	b.Cleanup(func() {
		for range clients {
			if free := <-c.conns; free != nil {
				free.Close()
			}
		}
	})
	return c
}

// order sends one and wants status 201 with loopbackAnswer.
func (c *caller) order(key string) error {
	free := <-c.conns
	defer func() { c.conns <- free }()
	if free == nil {
		plain, err := net.Dial("tcp", c.addr)
		if err != nil {
			return err
		}
		free = &conn{Conn: plain, in: bufio.NewReader(plain)}
	}
	free.out.Reset()
	fmt.Fprintf(&free.out, "POST /create-order HTTP/1.1\r\nHost: shop.example\r\nContent-Type: application/json\r\n"+
		"Idempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", key, len(orderBody), orderBody)
	if _, err := free.Write(free.out.Bytes()); err != nil {
		return err
	}
	line, err := free.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 201 ")) {
		return fmt.Errorf("the answer is %q", line)
	}
	length := -1
	for {
		line, err := free.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length != len(loopbackAnswer) {
		return fmt.Errorf("the answer has %d bytes, want %d", length, len(loopbackAnswer))
	}
	_, err = free.in.Discard(length)
	return err
}

const loopbackAnswer = `{"id":1,"item":"notebook","qty":1}`

// The same handler over net/http and over fiber, each bare and with the key looked
// after in memory, over real connections: a first request, and a repeat of one.
func BenchmarkBesideFiber(b *testing.B) {
	const clients = 32
	var made atomic.Int64
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, loopbackAnswer)
	})
	serve := func(b *testing.B, h http.Handler) *caller {
		b.Helper()
		listener := listen(b)
		server := &http.Server{Handler: h}
		go func() { _ = server.Serve(listener) }()
		b.Cleanup(func() { server.Close() })
		return newCaller(b, listener.Addr().String(), clients)
	}
	serveFiber := func(b *testing.B, before ...any) *caller {
		b.Helper()
		app := fiber.New()
		for _, h := range before {
			app.Use(h)
		}
		app.Post("/create-order", func(c fiber.Ctx) error {
			made.Add(1)
			_ = c.Body()
			c.Set("Content-Type", "application/json")
			return c.Status(http.StatusCreated).SendString(loopbackAnswer)
		})
		listener := listen(b)
		go func() { _ = app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
		b.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := app.ShutdownWithContext(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				b.Error(err)
			}
		})
		return newCaller(b, listener.Addr().String(), clients)
	}
	sides := func(b *testing.B, key func(id uint64) string) []*side {
		b.Helper()
		store := memstore.New(memstore.Config{MaxRecords: -1, MaxBytes: -1})
		fiberKeys := idempotency.New(idempotency.Config{KeyHeader: "Idempotency-Key", Lifetime: 24 * time.Hour})
		var all []*side
		for _, s := range []struct {
			name string
			*caller
		}{
			{"guard", serve(b, guardOf(b, store).Handler(plain))},
			{"nethttp", serve(b, plain)},
			{"fiber-keys", serveFiber(b, fiberKeys)},
			{"fiber", serveFiber(b)},
		} {
			all = append(all, &side{name: s.name, request: func(id uint64) error { return s.order(key(id)) }})
		}
		return all
	}
	report := func(b *testing.B, all []*side) {
		b.Helper()
		for i, s := range all {
			b.ReportMetric(s.rate(), s.name+"/s")
			if i%2 == 0 {
				b.ReportMetric(s.rate()/all[i+1].rate(), s.name+"-x-"+all[i+1].name)
			}
		}
	}
	b.Run("first", func(b *testing.B) {
		all := sides(b, keyOf)
		made.Store(0)
		before := ids.Load()
		inTurn(b, clients, all...)
		if asked := int64(ids.Load() - before); made.Load() != asked {
			b.Errorf("%d orders were made of %d requests", made.Load(), asked)
		}
		report(b, all)
	})
	b.Run("replay", func(b *testing.B) {
		all := sides(b, func(id uint64) string { return keyOf(id % 64) })
		for _, s := range all {
			for id := range uint64(64) {
				if err := s.request(id); err != nil {
					b.Fatal(err)
				}
			}
		}
		for _, s := range []*side{all[0], all[2]} {
			made.Store(0)
			s.run(b, clients)
			if made.Load() != 0 {
				b.Errorf("%s: %d replays ran the handler", s.name, made.Load())
			}
			s.ran, s.latencies = 0, nil
		}
		inTurn(b, clients, all...)
		report(b, all)
	})
}

func listen(b *testing.B) net.Listener {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return listener
}
