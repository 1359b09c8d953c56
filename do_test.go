package onceward_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

func newGuard(t testing.TB, store onceward.Store, cfg onceward.Config) *onceward.Guard {
	t.Helper()
	if store == nil {
		store = memstore.New(memstore.Config{})
	}
	cfg.SweepEvery = -1
	guard, err := onceward.New(store, onceward.Unscoped, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = guard.Close(context.Background()) })
	return guard
}

// task counts how often it ran.
type task struct {
	mu   sync.Mutex
	runs int
}

func (k *task) run() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runs++
	return k.runs
}

func (k *task) want(t testing.TB, n int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs != n {
		t.Errorf("the work ran %d times, want %d", k.runs, n)
	}
}

func called(key string) onceward.Call {
	return onceward.Call{Scope: "queue", Key: key, Name: "charge", Input: []byte("12.50")}
}

// wantErr checks an error against every sentinel that it could be.
func wantErr(t testing.TB, err error, want ...error) {
	t.Helper()
	for _, e := range []error{
		onceward.ErrInProgress, onceward.ErrKeyReused, onceward.ErrOutcomeUnknown, onceward.ErrKeyExpired, onceward.ErrKeyMissing,
		onceward.ErrKeyInvalid, onceward.ErrTooLarge, onceward.ErrUnavailable, onceward.ErrClaimLost, onceward.ErrResultOmitted,
	} {
		if errors.Is(err, e) != slices.Contains(want, e) {
			t.Errorf("%v: is %q: %v", err, e, errors.Is(err, e))
		}
	}
	for _, e := range want {
		if !errors.Is(err, e) {
			t.Errorf("%v is not %q", err, e)
		}
	}
	if len(want) == 0 && err != nil {
		t.Errorf("error %v, want none", err)
	}
}

type receipt struct {
	ID    int       `json:"id"`
	Lines []string  `json:"lines,omitempty"`
	At    time.Time `json:"at"`
}

func TestACallRunsOnceAndItsResultIsReplayed(t *testing.T) {
	guard := newGuard(t, nil, onceward.Config{})
	var k task
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for i := range 3 {
		got, replayed, err := onceward.Do(t.Context(), guard, called("k"), func(context.Context) (receipt, error) {
			return receipt{k.run(), []string{"tea"}, at}, nil
		})
		wantErr(t, err)
		if replayed != (i > 0) {
			t.Errorf("call %d: replayed: %v", i, replayed)
		}
		if got.ID != 1 || !slices.Equal(got.Lines, []string{"tea"}) || !got.At.Equal(at) {
			t.Errorf("call %d returned %+v", i, got)
		}
	}
	k.want(t, 1)
	for i := range 2 {
		got, _, err := onceward.Do(t.Context(), guard, called("bytes"), func(context.Context) ([]byte, error) { return []byte{0, 0xff}, nil })
		wantErr(t, err)
		if string(got) != "\x00\xff" {
			t.Errorf("call %d returned the bytes %q", i, got)
		}
		none, replayed, err := onceward.Do(t.Context(), guard, called("nothing"), func(context.Context) (error, error) { return nil, nil })
		if none != nil || replayed != (i > 0) || err != nil {
			t.Errorf("call %d of nothing: %v, %v, %v", i, none, replayed, err)
		}
	}
}

func TestAnotherCallUnderTheSameKeyIsRefused(t *testing.T) { // S29
	guard := newGuard(t, nil, onceward.Config{})
	var k task
	work := func(context.Context) (int, error) { return k.run(), nil }
	_, _, err := onceward.Do(t.Context(), guard, called("k"), work)
	wantErr(t, err)
	for _, change := range []func(*onceward.Call){
		func(c *onceward.Call) { c.Input = []byte("13") },
		func(c *onceward.Call) { c.Name = "refund" },
	} {
		c := called("k")
		change(&c)
		_, _, err := onceward.Do(t.Context(), guard, c, work)
		wantErr(t, err, onceward.ErrKeyReused)
		if after := onceward.RetryAfter(err); after != 0 {
			t.Errorf("a mistake is worth another try after %v", after)
		}
	}
	k.want(t, 1)
	other := called("k")
	other.Scope = "another"
	if n, replayed, err := onceward.Do(t.Context(), guard, other, work); n != 2 || replayed || err != nil {
		t.Errorf("another scope got %v, %v, %v", n, replayed, err)
	}
	// A request of that name is another thing too.
	w := httptest.NewRecorder()
	h := guard.Handler(http.HandlerFunc(created))
	for _, key := range []string{"k", "h"} {
		r := request(key, "12.50")
		c := called(key)
		c.Scope = "unscoped"
		if key == "h" {
			h.ServeHTTP(w, r)
			_, _, err := onceward.Do(t.Context(), guard, c, work)
			wantErr(t, err, onceward.ErrKeyReused)
			continue
		}
		_, _, err := onceward.Do(t.Context(), guard, c, work)
		wantErr(t, err)
		h.ServeHTTP(w, r)
		want(t, w, 422, "key-reused")
		w = httptest.NewRecorder()
	}
}

func TestWhatACallMayBeNamed(t *testing.T) {
	guard := newGuard(t, nil, onceward.Config{MaxRequest: 5})
	work := func(context.Context) (int, error) { return 0, nil }
	for key, sentinel := range map[string]error{
		"": onceward.ErrKeyMissing, "  ": onceward.ErrKeyInvalid, "ключ": onceward.ErrKeyInvalid, "a\n": onceward.ErrKeyInvalid,
		strings.Repeat("k", onceward.MaxKeyLength+1): onceward.ErrKeyInvalid,
	} {
		_, _, err := onceward.Do(t.Context(), guard, called(key), work)
		wantErr(t, err, sentinel)
	}
	c := called("k")
	c.Input = []byte("123456")
	_, _, err := onceward.Do(t.Context(), guard, c, work)
	wantErr(t, err, onceward.ErrTooLarge)
	c.Input, c.Scope = nil, ""
	if _, _, err = onceward.Do(t.Context(), guard, c, work); err == nil || !strings.Contains(err.Error(), "Call.Scope") {
		t.Errorf("an empty scope: %v", err)
	}
}

func TestTheInputOfACallMayBeComparedAsJSON(t *testing.T) {
	guard := newGuard(t, nil, onceward.Config{Volatile: []string{"sent_at"}})
	work := func(context.Context) (int, error) { return 1, nil }
	c := called("k")
	for i, input := range []string{`{"sum":1.50,"sent_at":1}`, `{"sent_at":2, "sum":1.5}`, `{"sum":1.51,"sent_at":1}`} {
		c.Input = []byte(input)
		_, _, err := onceward.Do(t.Context(), guard, c, work)
		if i < 2 {
			wantErr(t, err)
		} else {
			wantErr(t, err, onceward.ErrKeyReused)
		}
	}
}

var errSoldOut = &onceward.FinalError{Code: "sold-out", Message: "sold out"}

func TestAnErrorFreesTheKeyAndAFinalOneIsKept(t *testing.T) { // S27, B041, B043
	guard := newGuard(t, nil, onceward.Config{})
	broken := errors.New("the printer is on fire")
	for _, c := range []struct {
		name  string
		work  func(context.Context) (int, error)
		kept  bool
		check func(error) bool
	}{
		{"an error", func(context.Context) (int, error) { return 7, broken }, false, func(err error) bool { return err == broken }},
		{"a final error", func(context.Context) (int, error) { return 7, errSoldOut }, true,
			func(err error) bool { return errors.Is(err, errSoldOut) && err.Error() == "sold out" }},
		{"a final error inside another", func(context.Context) (int, error) { return 7, fmt.Errorf("tea: %w", errSoldOut) }, true,
			func(err error) bool { return errors.Is(err, errSoldOut) && err.Error() == "tea: sold out" }},
		{"a final error with data", func(context.Context) (int, error) {
			return 7, &onceward.FinalError{Message: "declined", Data: []byte{1, 0}}
		}, true, func(err error) bool {
			e := (*onceward.FinalError)(nil)
			return errors.As(err, &e) && e.Error() == "declined" && string(e.Data) == "\x01\x00" && !errors.Is(err, errSoldOut)
		}},
		{"an error that was marked", func(ctx context.Context) (int, error) {
			onceward.MarkFinal(ctx)
			return 7, broken
		}, true, func(err error) bool {
			e := (*onceward.FinalError)(nil)
			return errors.As(err, &e) && e.Message == broken.Error()
		}},
		{"a final error that was unmarked", func(ctx context.Context) (int, error) {
			onceward.MarkTransient(ctx)
			return 7, errSoldOut
		}, false, func(err error) bool { return errors.Is(err, errSoldOut) }},
		{"a result that was unmarked", func(ctx context.Context) (int, error) {
			onceward.MarkTransient(ctx)
			return 7, nil
		}, false, func(err error) bool { return err == nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var k task
			for i := range 3 {
				got, replayed, err := onceward.Do(t.Context(), guard, called(strings.ReplaceAll(c.name, " ", "-")), func(ctx context.Context) (int, error) {
					k.run()
					return c.work(ctx)
				})
				if !c.check(err) {
					t.Errorf("call %d: %v", i, err)
				}
				if replayed != (c.kept && i > 0) || err != nil && got != 0 {
					t.Errorf("call %d: %v, replayed: %v", i, got, replayed)
				}
			}
			if c.kept {
				k.want(t, 1)
			} else {
				k.want(t, 3)
			}
		})
	}
}

func TestAPanicOfTheWorkFreesTheKeyAndGoesOn(t *testing.T) { // R1, B029
	guard := newGuard(t, nil, onceward.Config{})
	boom := func(end func()) (got any) {
		defer func() { got = recover() }()
		_, _, _ = onceward.Do(t.Context(), guard, called("k"), func(context.Context) (int, error) {
			end()
			return 0, nil
		})
		return nil
	}
	if got := boom(func() { panic("on fire") }); got != "on fire" {
		t.Errorf("the caller recovered %v", got)
	}
	ended := make(chan bool)
	go func() {
		defer close(ended)
		boom(runtime.Goexit)
		t.Error("runtime.Goexit in the work returned to the caller")
	}()
	<-ended
	_, replayed, err := onceward.Do(t.Context(), guard, called("k"), func(context.Context) (int, error) { return 1, nil })
	if replayed || err != nil {
		t.Errorf("after the panics: %v, %v", replayed, err)
	}
}

// wantIs checks for an error that is not this package's.
func wantIs(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

func TestUnderHoldAFailedCallIsNeverRunAgain(t *testing.T) { // B033
	guard := newGuard(t, nil, onceward.Config{Unknown: onceward.Hold})
	var k task
	half := errors.New("half of it is done")
	_, _, err := onceward.Do(t.Context(), guard, called("k"), func(context.Context) (int, error) { k.run(); return 0, half })
	wantErr(t, err, onceward.ErrOutcomeUnknown)
	wantIs(t, err, half)
	_, _, err = onceward.Do(t.Context(), guard, called("k"), func(context.Context) (int, error) { return k.run(), nil })
	wantErr(t, err, onceward.ErrOutcomeUnknown)
	k.want(t, 1)
	_, _, err = onceward.Do(t.Context(), guard, called("k2"), func(ctx context.Context) (int, error) {
		onceward.MarkTransient(ctx)
		return 0, half
	})
	if wantIs(t, err, half); errors.Is(err, onceward.ErrOutcomeUnknown) {
		t.Errorf("what the work calls transient: %v", err)
	}
}

func TestResolveFindsWhatBecameOfACall(t *testing.T) {
	for name, found := range map[string]any{"a result": 42, "a refusal": errSoldOut, "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New(memstore.Config{})
			dead := newGuard(t, deaf{store}, onceward.Config{Lease: time.Nanosecond})
			_, _, err := onceward.Do(t.Context(), dead, called("k"), func(context.Context) (int, error) { return 0, errors.New("the process dies") })
			if err == nil {
				t.Fatal("it lives")
			}
			asked := ""
			guard := newGuard(t, store, onceward.Config{Unknown: onceward.Resolve, Resolve: func(r *http.Request, rec onceward.Record) (*onceward.Response, error) {
				var b strings.Builder
				_ = r.Write(&b)
				asked = r.Method + " " + r.URL.Path + " " + b.String()[strings.LastIndex(b.String(), "\n")+1:]
				if found == nil {
					return nil, nil
				}
				return onceward.ResultResponse(found)
			}})
			got, replayed, err := onceward.Do(t.Context(), guard, called("k"), func(context.Context) (int, error) { return 1, nil })
			switch found {
			case nil:
				if got != 1 || replayed || err != nil {
					t.Errorf("%v, %v, %v", got, replayed, err)
				}
			case 42:
				if got != 42 || !replayed || err != nil {
					t.Errorf("%v, %v, %v", got, replayed, err)
				}
			default:
				if !replayed || !errors.Is(err, errSoldOut) {
					t.Errorf("%v, %v, %v", got, replayed, err)
				}
			}
			if !strings.HasPrefix(asked, "DO charge ") {
				t.Errorf("Resolve was asked about %q", asked)
			}
		})
	}
}

func TestAResultThatCannotBeKeptStillCountsAsDone(t *testing.T) {
	guard := newGuard(t, nil, onceward.Config{MaxResponse: 10})
	var k task
	for i := range 2 {
		got, replayed, err := onceward.Do(t.Context(), guard, called("large"), func(context.Context) (string, error) {
			k.run()
			return "longer than ten", nil
		})
		if i == 0 {
			if got != "longer than ten" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			continue
		}
		wantErr(t, err, onceward.ErrResultOmitted)
		if !replayed {
			t.Error("it does not say that it was done before")
		}
	}
	for i := range 2 {
		got, _, err := onceward.Do(t.Context(), guard, called("nan"), func(context.Context) (float64, error) {
			k.run()
			return math.Inf(1), nil
		})
		if i == 0 && (!math.IsInf(got, 1) || err != nil) {
			t.Errorf("%v, %v", got, err)
		} else if i == 1 {
			wantErr(t, err, onceward.ErrResultOmitted)
		}
	}
	k.want(t, 2)
	_, _, err := onceward.Do(t.Context(), guard, called("int"), func(context.Context) (int, error) { return 1, nil })
	wantErr(t, err)
	s, replayed, err := onceward.Do(t.Context(), guard, called("int"), func(context.Context) (string, error) { return "", nil })
	wantErr(t, err, onceward.ErrUnavailable)
	wantIs(t, err, onceward.ErrEncoding)
	if s != "" || !replayed {
		t.Errorf("%q, %v", s, replayed)
	}
}

// explosive cannot be written down.
type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("no JSON") }

// careless is an error whose nil pointer has no text.
type careless struct{ text string }

func (c *careless) Error() string { return c.text }

// What work returns is not ours: where it panics when it is looked at, its work is done
// all the same, and its claim is ended.
func TestAResultThatPanicsStillCountsAsDone(t *testing.T) {
	store := memstore.New(memstore.Config{})
	var log strings.Builder
	guard := newGuard(t, store, onceward.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var k task
	for i := range 2 {
		_, replayed, err := onceward.Do(t.Context(), guard, called("explosive"), func(context.Context) (explosive, error) {
			k.run()
			return explosive{}, nil
		})
		if i == 0 {
			wantErr(t, err)
		} else if wantErr(t, err, onceward.ErrResultOmitted); !replayed {
			t.Error("it does not say that it was done before")
		}
	}
	k.want(t, 1)
	for i := range 2 { // an error frees the key
		_, _, err := onceward.Do(t.Context(), guard, called("careless"), func(context.Context) (int, error) {
			return k.run(), (*careless)(nil)
		})
		if _, ok := err.(*careless); !ok {
			t.Errorf("%d: %T", i, err)
		}
	}
	k.want(t, 3)
	for i := range 2 {
		_, replayed, err := onceward.Do(t.Context(), guard, called("final"), func(ctx context.Context) (int, error) {
			onceward.MarkFinal(ctx)
			return k.run(), (*careless)(nil)
		})
		if final := (*onceward.FinalError)(nil); !errors.As(err, &final) || replayed != (i == 1) {
			t.Errorf("%d: %v, %T", i, replayed, err)
		}
	}
	k.want(t, 4)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := guard.Close(ctx); err != nil {
		t.Errorf("something runs for ever: %v", err)
	}
	if n := strings.Count(log.String(), "whose text cannot be had"); n < 2 {
		t.Errorf("the log is\n%s", log.String())
	}
}

func TestEveryCallIsOneLogLineAndEveryRunOneMore(t *testing.T) { // S70
	var log strings.Builder
	guard := newGuard(t, nil, onceward.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 2 {
		_, _, _ = onceward.Do(t.Context(), guard, called("k"), func(context.Context) (int, error) { return 1, nil })
	}
	_, _, _ = onceward.Do(t.Context(), guard, called("e"), func(context.Context) (int, error) { return 1, errors.New("no") })
	_, _, _ = onceward.Do(t.Context(), guard, called("f"), func(context.Context) (int, error) { return 1, errSoldOut })
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	id := onceward.NewKey("queue", "k").RecordID()
	for i, wanted := range []string{
		"level=INFO claimed record=" + id + " method=DO path=charge attempt=1",
		"level=INFO record=" + id + " outcome=executed method=DO path=charge status=200",
		"level=INFO record=" + id + " outcome=replayed method=DO path=charge status=200",
		"level=INFO claimed",
		"level=WARN outcome=released method=DO path=charge status=500 error=no",
		"level=INFO claimed",
		"level=INFO outcome=executed method=DO path=charge status=422",
	} {
		for _, part := range strings.Fields(wanted) {
			if i >= len(lines) || !strings.Contains(lines[i], part) {
				t.Errorf("line %d has no %s:\n%s", i, part, log.String())
			}
		}
	}
	if len(lines) != 7 {
		t.Errorf("%d lines:\n%s", len(lines), log.String())
	}
}
