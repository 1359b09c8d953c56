package stores_test

import (
	"errors"
	"sync/atomic"

	"github.com/onceward/onceward/storetest"
)

// The contract's cases about what a lost message leaves behind need connections that
// lose one: a proxy before a server, a driver around a driver before a file.

var _, _ storetest.Lose = (*cutter)(nil).loseOne, (*spy)(nil).loseOne

// loseOne cuts the connection at one message.
func (c *cutter) loseOne(what storetest.Loss, n int) func() bool {
	c.arm(n, what == storetest.LoseAnswer)
	return c.disarm
}

// loseOne makes one statement fail, before it is done or after it.
func (s *spy) loseOne(what storetest.Loss, n int) func() bool {
	lost := errors.New("disk I/O error")
	var left, met atomic.Int64
	left.Store(int64(n))
	one := func(string) error {
		if left.Add(-1) == -1 {
			met.Add(1)
			return lost
		}
		return nil
	}
	if what == storetest.LoseAnswer {
		s.lose(one)
	} else {
		s.meet(one)
	}
	return func() bool {
		s.lose(nil)
		s.meet(nil)
		return met.Load() > 0
	}
}
