package histories

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/onceward/onceward"
)

// ErrLost stands in place of an answer that Lossy has lost.
var ErrLost = errors.New("histories: the answer was lost")

// Lossy is a store whose answers get lost: it makes each call, and says ErrLost
// of a share of them. It is safe for concurrent use.
type Lossy struct {
	onceward.Store
	share float64
	mu    sync.Mutex
	rng   *rand.Rand
}

// NewLossy loses a share of store's answers, between 0 and 1.
func NewLossy(store onceward.Store, share float64, seed uint64) *Lossy {
	return &Lossy{Store: store, share: share, rng: rand.New(rand.NewPCG(seed, 1))}
}

func (l *Lossy) lose(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rng.Float64() < l.share {
		return ErrLost
	}
	return err
}

func (l *Lossy) Claim(ctx context.Context, c onceward.Claim) (onceward.Record, bool, error) {
	rec, claimed, err := l.Store.Claim(ctx, c)
	if err = l.lose(err); err != nil {
		return onceward.Record{}, false, err
	}
	return rec, claimed, nil
}

func (l *Lossy) Extend(ctx context.Context, key onceward.Key, tok onceward.Token, lease time.Duration, hold bool) error {
	return l.lose(l.Store.Extend(ctx, key, tok, lease, hold))
}

func (l *Lossy) Complete(ctx context.Context, key onceward.Key, tok onceward.Token, resp *onceward.Response, retain time.Duration) error {
	return l.lose(l.Store.Complete(ctx, key, tok, resp, retain))
}

func (l *Lossy) Release(ctx context.Context, key onceward.Key, tok onceward.Token) error {
	return l.lose(l.Store.Release(ctx, key, tok))
}
