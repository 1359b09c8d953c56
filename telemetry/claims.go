package telemetry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/onceward/onceward"
)

const (
	pageSize = 1000
	maxPages = 10
	// rest is how many times as long as a tour took the store is left alone after it.
	rest = 99
)

// The states of a claim, as `onceward keys list` calls them.
var claimStates = [...]string{"in-progress", "unknown", "held"}

// claims goes through the claims in progress, and remembers what it found.
type claims struct {
	store   onceward.Lister
	timeout time.Duration
	failed  metric.Int64Counter
	calls   func(context.Context, onceward.StoreCall)

	mu    sync.Mutex
	next  time.Time // not before this
	known bool      // the last tour came to its end
	open  [len(claimStates)]int64
	ages  [len(claimStates)]time.Duration
}

// watchClaims adds the instruments that are read from the store whenever metrics are
// collected.
func (m *instruments) watchClaims(store onceward.Lister, timeout time.Duration) error {
	open, err := m.meter.Int64ObservableGauge("onceward.claims.open", metric.WithUnit("{claim}"),
		metric.WithDescription("Claims in progress, in all processes; 10,000 of them are counted at most."))
	if err != nil {
		return err
	}
	oldest, err := m.meter.Float64ObservableGauge("onceward.claims.oldest", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest claim in progress; 0 where there is none."))
	if err != nil {
		return err
	}
	failed, err := m.counter("onceward.surveys.failed", "{survey}", "Failed attempts to go through the claims in progress.")
	if err != nil {
		return err
	}
	var byState [len(claimStates)]metric.MeasurementOption
	for i, name := range claimStates {
		byState[i] = metric.WithAttributeSet(attribute.NewSet(attribute.String("onceward.claim.state", name)))
	}
	c := &claims{store: store, timeout: timeout, failed: failed, calls: m.called}
	_, err = m.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		err := c.look(ctx)
		if !c.known {
			return err
		}
		for i := range claimStates {
			o.ObserveInt64(open, c.open[i], byState[i])
			o.ObserveFloat64(oldest, c.ages[i].Seconds(), byState[i])
		}
		return err
	}, open, oldest)
	return err
}

// look makes a tour, unless the last one was just now.
func (c *claims) look(ctx context.Context) error {
	start := time.Now()
	if start.Before(c.next) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := c.tour(ctx)
	took := time.Since(start)
	c.next = time.Now().Add(rest * took)
	c.known = err == nil
	c.calls(ctx, onceward.StoreCall{Operation: "list", Took: took, Err: err})
	if err != nil {
		c.failed.Add(context.WithoutCancel(ctx), 1)
		return fmt.Errorf("telemetry: go through the claims in progress: %w", err)
	}
	return nil
}

func (c *claims) tour(ctx context.Context) error {
	clear(c.open[:])
	clear(c.ages[:])
	q := onceward.Query{State: onceward.InProgress, Limit: pageSize}
	for range maxPages {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return err
		}
		for _, rec := range page {
			state := 0
			switch {
			case rec.Held:
				state = 2
			case rec.LeaseLeft <= 0:
				state = 1
			}
			c.open[state]++
			c.ages[state] = max(c.ages[state], rec.Age)
		}
		if len(page) < pageSize {
			return nil
		}
		q.After = page[len(page)-1].Key
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
