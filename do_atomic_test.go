package onceward_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// writing returns work that writes a row and ends so.
func writing(k *task, result int, err error) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		k.run()
		rowsOf(ctx)["a"] += "x"
		return result, err
	}
}

func TestACallUnderAtomicKeepsItsWorkAndItsResultTogether(t *testing.T) {
	l := newLedger()
	guard := newGuard(t, l, onceward.Config{})
	var k task
	for i := range 3 {
		got, replayed, err := onceward.DoAtomic(t.Context(), guard, called("k"), writing(&k, 7, nil))
		if got != 7 || replayed != (i > 0) || err != nil {
			t.Errorf("call %d: %v, %v, %v", i, got, replayed, err)
		}
	}
	if l.row("a") != "x" {
		t.Errorf("the row is %q", l.row("a"))
	}
	k.want(t, 1)
}

func TestUnderAtomicAFinalErrorUndoesItsWorkAndIsKept(t *testing.T) {
	l := newLedger()
	guard := newGuard(t, l, onceward.Config{})
	var k task
	for i := range 2 {
		got, replayed, err := onceward.DoAtomic(t.Context(), guard, called("k"), writing(&k, 7, errSoldOut))
		if got != 0 || replayed != (i > 0) || !errors.Is(err, errSoldOut) {
			t.Errorf("call %d: %v, %v, %v", i, got, replayed, err)
		}
	}
	if l.row("a") != "" {
		t.Errorf("the row is %q", l.row("a"))
	}
	k.want(t, 1)
}

func TestUnderAtomicAFailureRollsBackEverything(t *testing.T) {
	l := newLedger()
	guard := newGuard(t, l, onceward.Config{})
	var k task
	broken := errors.New("on fire")
	_, replayed, err := onceward.DoAtomic(t.Context(), guard, called("k"), writing(&k, 7, broken))
	if replayed || err != broken {
		t.Errorf("%v, %v", replayed, err)
	}
	func() {
		defer func() {
			if got := recover(); got != "on fire" {
				t.Errorf("the caller recovered %v", got)
			}
		}()
		_, _, _ = onceward.DoAtomic(t.Context(), guard, called("k"), func(ctx context.Context) (int, error) {
			_, _ = writing(&k, 0, nil)(ctx)
			panic("on fire")
		})
	}()
	_, _, err = onceward.DoAtomic(t.Context(), guard, called("k"), func(ctx context.Context) (float64, error) {
		_, _ = writing(&k, 0, nil)(ctx)
		return math.NaN(), nil
	})
	if err == nil {
		t.Error("a result that cannot be kept is no error")
	}
	_, _, err = onceward.DoAtomic(t.Context(), guard, called("k"), func(ctx context.Context) (explosive, error) {
		_, _ = writing(&k, 0, nil)(ctx)
		return explosive{}, nil
	})
	if err == nil {
		t.Error("a result that panics is no error")
	}
	l.broken = errors.New("the disk is full")
	_, _, err = onceward.DoAtomic(t.Context(), guard, called("k"), writing(&k, 7, nil))
	wantErr(t, err, onceward.ErrUnavailable)
	wantIs(t, err, l.broken)
	l.broken = nil
	if l.row("a") != "" {
		t.Errorf("the row is %q", l.row("a"))
	}
	got, replayed, err := onceward.DoAtomic(t.Context(), guard, called("k"), writing(&k, 7, nil))
	if got != 7 || replayed || err != nil || l.row("a") != "x" {
		t.Errorf("%v, %v, %v, %q", got, replayed, err, l.row("a"))
	}
	k.want(t, 6)
}

func TestACallUnderAtomicRunsAgainWhereTheDatabaseAsks(t *testing.T) {
	l := newLedger()
	l.conflict = 2
	guard := newGuard(t, l, onceward.Config{})
	var k task
	got, replayed, err := onceward.DoAtomic(t.Context(), guard, called("k"), writing(&k, 7, nil))
	if got != 7 || replayed || err != nil || l.row("a") != "x" {
		t.Errorf("%v, %v, %v, %q", got, replayed, err, l.row("a"))
	}
	k.want(t, 3)
}

func TestACallUnderAtomicThatIsTooSlowIsRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		guard := newGuard(t, l, onceward.Config{})
		begun := time.Now()
		_, _, err := onceward.DoAtomic(t.Context(), guard, called("k"), func(ctx context.Context) (int, error) {
			rowsOf(ctx)["a"] = "x"
			<-ctx.Done()
			time.Sleep(time.Minute) // it does not obey
			return 1, nil
		})
		wantErr(t, err, onceward.ErrUnavailable)
		if time.Since(begun) != 5*time.Second || l.row("a") != "" {
			t.Errorf("after %v the row is %q", time.Since(begun), l.row("a"))
		}
		if err := guard.Close(context.Background()); err != nil || time.Since(begun) != 65*time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(begun))
		}
	})
}

func TestARepeatOfACallUnderAtomicWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, newLedger(), onceward.Config{MaxTransaction: time.Minute})
		first := make(chan error)
		go func() {
			_, _, err := onceward.DoAtomic(t.Context(), guard, called("k"), func(context.Context) (int, error) {
				time.Sleep(3 * time.Second)
				return 1, nil
			})
			first <- err
		}()
		synctest.Wait()
		c := called("k")
		c.Wait = 5 * time.Second
		got, replayed, err := onceward.DoAtomic(t.Context(), guard, c, func(context.Context) (int, error) { return 2, nil })
		if got != 1 || !replayed || err != nil {
			t.Errorf("%v, %v, %v", got, replayed, err)
		}
		wantErr(t, <-first)
	})
}

func TestACallUnderAtomicNeedsATransactor(t *testing.T) {
	guard := newGuard(t, memstore.New(memstore.Config{}), onceward.Config{})
	_, _, err := onceward.DoAtomic(t.Context(), guard, called("k"), func(context.Context) (int, error) { return 1, nil })
	if err == nil {
		t.Error("memory takes part in a transaction")
	}
}
