package onceward_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

func TestASecondCallWhileTheFirstRunsIsToldOrWaits(t *testing.T) { // S24, B008
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, onceward.Config{})
		var k task
		var all sync.WaitGroup
		all.Go(func() {
			_, _, err := onceward.Do(t.Context(), guard, called("k"), func(context.Context) (int, error) {
				time.Sleep(5 * time.Second)
				return k.run(), nil
			})
			wantErr(t, err)
		})
		time.Sleep(time.Second)
		again := func(ctx context.Context, wait time.Duration) (int, bool, time.Duration, error) {
			c, begun := called("k"), time.Now()
			c.Wait = wait
			n, replayed, err := onceward.Do(ctx, guard, c, func(context.Context) (int, error) { return k.run(), nil })
			return n, replayed, time.Since(begun), err
		}
		_, _, took, err := again(t.Context(), 0)
		wantErr(t, err, onceward.ErrInProgress)
		if after := onceward.RetryAfter(err); took != 0 || after != 2*time.Second {
			t.Errorf("told after %v, to try again after %v", took, after)
		}
		_, _, took, err = again(t.Context(), time.Second)
		wantErr(t, err, onceward.ErrInProgress)
		if took != time.Second {
			t.Errorf("waited for %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, _, err = again(ctx, 9*time.Second)
		wantErr(t, err, onceward.ErrInProgress)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller whose time was over got %v", err)
		}
		n, replayed, took, err := again(t.Context(), 9*time.Second)
		if n != 1 || !replayed || err != nil || took != 2*time.Second {
			t.Errorf("the waiter got %v, %v, %v after %v", n, replayed, err, took)
		}
		all.Wait()
		k.want(t, 1)
	})
}

type whoKey struct{}

func TestTheWorkGoesOnWhenItsCallerIsGone(t *testing.T) { // B034, B035
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, onceward.Config{})
		var k task
		gone := errors.New("the consumer shuts down")
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), whoKey{}, "ann"))
		time.AfterFunc(time.Second, func() { cancel(gone) })
		begun := time.Now()
		_, _, err := onceward.Do(ctx, guard, called("k"), func(ctx context.Context) (any, error) {
			time.Sleep(time.Minute) // two leases
			k.run()
			return ctx.Value(whoKey{}), ctx.Err()
		})
		wantErr(t, err, onceward.ErrInProgress)
		if !errors.Is(err, gone) || time.Since(begun) != time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		closed := make(chan error)
		go func() { closed <- guard.Close(context.Background()) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close did not wait for the work")
		default:
		}
		if err := <-closed; err != nil || time.Since(begun) < time.Minute {
			t.Errorf("Close: %v after %v", err, time.Since(begun))
		}
		k.want(t, 1)
		_, _, err = onceward.Do(ctx, guard, called("k2"), func(context.Context) (int, error) { return k.run(), nil })
		if !errors.Is(err, gone) || errors.Is(err, onceward.ErrInProgress) {
			t.Errorf("a call that comes too late: %v", err)
		}
		_, _, err = onceward.Do(t.Context(), guard, called("k3"), func(context.Context) (int, error) { return k.run(), nil })
		wantErr(t, err, onceward.ErrUnavailable) // closed
		k.want(t, 1)
	})
}

func TestALaterCallGetsWhatTheAbandonedOneMade(t *testing.T) { // B034
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, onceward.Config{})
		for name, fails := range map[string]bool{"done": false, "failed": true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			work := func(context.Context) (string, error) {
				time.Sleep(5 * time.Second)
				if fails {
					return "", errors.New("no")
				}
				return "first", nil
			}
			_, _, err := onceward.Do(ctx, guard, called(name), work)
			wantErr(t, err, onceward.ErrInProgress)
			cancel()
			c := called(name)
			c.Wait = 9 * time.Second
			got, replayed, err := onceward.Do(t.Context(), guard, c, func(context.Context) (string, error) { return "second", nil })
			if want := map[bool]string{false: "first", true: "second"}[fails]; got != want || replayed == fails || err != nil {
				t.Errorf("%s: %v, %v, %v", name, got, replayed, err)
			}
		}
	})
}

func TestTheWorkIsCancelledWithItsCallerWhereThatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, onceward.Config{CancelWithClient: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, _, err := onceward.Do(ctx, guard, called("k"), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return 0, ctx.Err()
		})
		wantIs(t, err, context.DeadlineExceeded)
		if time.Since(begun) != 2*time.Second {
			t.Errorf("Do returned after %v", time.Since(begun))
		}
		_, replayed, err := onceward.Do(t.Context(), guard, called("k"), func(context.Context) (int, error) { return 1, nil })
		if replayed || err != nil {
			t.Errorf("then: %v, %v", replayed, err)
		}
	})
}

func TestPastMaxRuntimeTheWorkIsToldAndNoSecondCopyStarts(t *testing.T) { // B031
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, onceward.Config{MaxRuntime: time.Minute})
		begun := time.Now()
		var told time.Duration
		_, _, err := onceward.Do(t.Context(), guard, called("k"), func(ctx context.Context) (string, error) {
			<-ctx.Done()
			told = time.Since(begun)
			time.Sleep(3 * time.Minute) // it does not obey
			return "late", nil
		})
		wantErr(t, err, onceward.ErrInProgress)
		if time.Since(begun) != time.Minute {
			t.Errorf("Do returned after %v", time.Since(begun))
		}
		time.Sleep(2 * time.Minute)
		second := func(context.Context) (string, error) { return "second", nil }
		_, _, err = onceward.Do(t.Context(), guard, called("k"), second)
		wantErr(t, err, onceward.ErrInProgress)
		time.Sleep(2 * time.Minute)
		got, replayed, err := onceward.Do(t.Context(), guard, called("k"), second)
		if got != "late" || !replayed || err != nil || told != time.Minute {
			t.Errorf("%q, %v, %v; told after %v", got, replayed, err, told)
		}
	})
}

func TestALostClaimCancelsTheWorkAndAResultAlreadyMadeIsReturned(t *testing.T) { // R5, B020
	synctest.Test(t, func(t *testing.T) {
		for name, obeys := range map[string]bool{"obeys": true, "finishes": false} {
			guard := newGuard(t, &faulty{Store: memstore.New(memstore.Config{}), extend: func() error { return onceward.ErrClaimLost }}, onceward.Config{})
			got, replayed, err := onceward.Do(t.Context(), guard, called(name), func(ctx context.Context) (int, error) {
				<-ctx.Done()
				if obeys {
					return 0, context.Cause(ctx)
				}
				return 5, nil
			})
			if obeys {
				wantErr(t, err, onceward.ErrInProgress, onceward.ErrClaimLost)
			} else if got != 5 || replayed || err != nil {
				t.Errorf("%v, %v, %v", got, replayed, err)
			}
		}
	})
}

func TestACallWhoseStoreIsDownHasNotRun(t *testing.T) { // B097
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: memstore.New(memstore.Config{}), claim: failing(3)}
		guard := newGuard(t, store, onceward.Config{})
		var k task
		work := func(context.Context) (int, error) { return k.run(), nil }
		_, _, err := onceward.Do(t.Context(), guard, called("k"), work)
		wantErr(t, err, onceward.ErrUnavailable)
		if onceward.RetryAfter(err) != 2*time.Second {
			t.Errorf("to be tried again after %v", onceward.RetryAfter(err))
		}
		k.want(t, 0)
		store.claim = failing(3)
		open, err := guard.With(func(c *onceward.Config) { c.FailOpen = true })
		if err != nil {
			t.Fatal(err)
		}
		if n, replayed, err := onceward.Do(t.Context(), open, called("k"), work); n != 1 || replayed || err != nil {
			t.Errorf("%v, %v, %v", n, replayed, err)
		}
		store.complete = failing(3)
		if n, _, err := onceward.Do(t.Context(), guard, called("k2"), work); n != 2 || err != nil {
			t.Errorf("the work is done, but: %v, %v", n, err)
		}
		_, _, err = onceward.Do(t.Context(), guard, called("k2"), work)
		wantErr(t, err, onceward.ErrInProgress)
		time.Sleep(5 * time.Second)
		if n, replayed, err := onceward.Do(t.Context(), guard, called("k2"), work); n != 2 || !replayed || err != nil {
			t.Errorf("recorded later: %v, %v, %v", n, replayed, err)
		}
		k.want(t, 2)
	})
}
