package histories

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// Cutter stands between clients and a server and cuts connections at the worst
// moment: when the server has been told, and has answered, and nobody has heard.
// It knows nothing of what it carries.
type Cutter struct {
	to       string
	listener net.Listener
	share    atomic.Uint64 // of 1<<32: the server's messages that are lost with their connection
	mu       sync.Mutex    // guards what follows
	rng      *rand.Rand
	cuts     []int64
	open     map[net.Conn]bool
	closed   bool
	wait     sync.WaitGroup
}

// NewCutter listens on a port of its own and forwards to the address to. It cuts
// nothing until Cut says so. Close it.
func NewCutter(to string, seed uint64) (*Cutter, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("histories: %w", err)
	}
	c := &Cutter{to: to, listener: listener, rng: rand.New(rand.NewPCG(seed, 7)), open: map[net.Conn]bool{}}
	c.wait.Go(c.accept)
	return c, nil
}

// Addr is where clients go.
func (c *Cutter) Addr() string { return c.listener.Addr().String() }

// Cut loses a share of the server's messages, between 0 and 1, each with its
// connection.
func (c *Cutter) Cut(share float64) { c.share.Store(uint64(share * (1 << 32))) }

// Cuts are the moments at which a connection was cut, on the clock of a history.
func (c *Cutter) Cuts() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.cuts)
}

// Close cuts everything and waits until nothing runs any more.
func (c *Cutter) Close() error {
	err := c.listener.Close()
	c.mu.Lock()
	c.closed = true
	for conn := range c.open {
		conn.Close()
	}
	c.mu.Unlock()
	c.wait.Wait()
	return err
}

func (c *Cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		server, err := net.Dial("tcp", c.to)
		if err != nil {
			client.Close()
			continue
		}
		if !c.keep(client, server) {
			return
		}
		c.wait.Go(func() {
			defer c.drop(client, server)
			_, _ = io.Copy(server, client)
		})
		c.wait.Go(func() {
			defer c.drop(client, server)
			c.answers(client, server)
		})
	}
}

// answers carries what the server says, until a message is not to arrive.
func (c *Cutter) answers(client, server net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			if c.unlucky() {
				if tcp, ok := client.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0) // a reset, as from a machine that is gone
				}
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *Cutter) unlucky() bool {
	share := c.share.Load()
	if share == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint64(c.rng.Uint32()) >= share {
		return false
	}
	c.cuts = append(c.cuts, monotonic())
	return true
}

func (c *Cutter) keep(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		if c.closed {
			conn.Close()
		} else {
			c.open[conn] = true
		}
	}
	return !c.closed
}

func (c *Cutter) drop(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
		delete(c.open, conn)
	}
}
