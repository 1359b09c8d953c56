package onceward_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/memstore"
)

// ledger is the smallest database: rows, and the records of a memory store that
// commit with them. One transaction runs at a time.
type ledger struct {
	onceward.Store
	turn     chan struct{} // has room for one
	mu       sync.Mutex
	rows     map[string]string
	conflict int   // so many times a commit is refused and the work runs again
	broken   error // of every commit
}

func newLedger() *ledger {
	return &ledger{Store: memstore.New(memstore.Config{}), turn: make(chan struct{}, 1), rows: map[string]string{}}
}

type ledgerTx struct{ rows map[string]string }

type ledgerKey struct{}

// rows are those of the transaction that ctx carries; nil outside one.
func rowsOf(ctx context.Context) map[string]string {
	tx, _ := ctx.Value(ledgerKey{}).(*ledgerTx)
	if tx == nil {
		return nil
	}
	return tx.rows
}

func (l *ledger) Transact(ctx context.Context, c onceward.Claim, work func(context.Context) (onceward.Verdict, *onceward.Response, error)) (onceward.Record, bool, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return onceward.Record{}, false, ctx.Err()
	}
	c.Lease = time.Hour
	rec, claimed, err := l.Claim(ctx, c)
	if err != nil || !claimed {
		return rec, false, err
	}
	undo := func() { _ = l.Release(context.Background(), c.Key, c.Token) }
	for {
		l.mu.Lock()
		tx := &ledgerTx{rows: maps.Clone(l.rows)}
		l.mu.Unlock()
		verdict, resp, err := work(context.WithValue(ctx, ledgerKey{}, tx))
		if err == nil && l.broken != nil {
			err = l.broken
		}
		if err != nil || verdict == onceward.Abort {
			undo()
			return onceward.Record{}, err == nil, err
		}
		if l.conflict > 0 {
			l.conflict--
			continue
		}
		if verdict == onceward.Commit {
			l.mu.Lock()
			l.rows = tx.rows
			l.mu.Unlock()
		}
		return rec, true, l.Complete(context.Background(), c.Key, c.Token, resp, c.Keep)
	}
}

func (l *ledger) row(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows[name]
}

// newAtomicRig is newRig with Guard.Atomic.
func newAtomicRig(t testing.TB, l *ledger, cfg onceward.Config, app http.HandlerFunc) *rig {
	r := newRig(t, l, cfg, nil)
	r.h = r.guard.Atomic(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.runs.Add(1)
		app(w, req)
	}))
	return r
}

// keep writes the body into the row "a" and answers with a status.
func keep(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rowsOf(r.Context())["a"] += string(body)
		w.Header().Set("Location", "/a")
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

func TestAtomicKeepsTheWorkAndItsAnswerTogether(t *testing.T) {
	l := newLedger()
	r := newAtomicRig(t, l, onceward.Config{}, keep(201))
	want(t, r.post("k", "one"), 201, "executed")
	w := r.post("k", "one")
	want(t, w, 201, "replayed")
	if w.Body.String() != "one" || w.Header().Get("Location") != "/a" {
		t.Errorf("the replay is %q with %v", w.Body, w.Header())
	}
	want(t, r.post("k", "two"), 422, "key-reused")
	r.wantRuns(1)
	if l.row("a") != "one" {
		t.Errorf("the row is %q", l.row("a"))
	}
}

func TestAtomicUndoesTheWorkOfARefusalAndKeepsTheRefusal(t *testing.T) {
	l := newLedger()
	r := newAtomicRig(t, l, onceward.Config{}, keep(409))
	want(t, r.post("k", "one"), 409, "executed")
	want(t, r.post("k", "one"), 409, "replayed")
	r.wantRuns(1)
	if l.row("a") != "" {
		t.Errorf("the row is %q", l.row("a"))
	}
}

func TestAtomicRollsBackWhatSpeaksOfTheMoment(t *testing.T) {
	for _, status := range []int{307, 401, 429, 500, 503} {
		l := newLedger()
		r := newAtomicRig(t, l, onceward.Config{}, keep(status))
		want(t, r.post("k", "one"), status, "released")
		want(t, r.post("k", "one"), status, "released")
		r.wantRuns(2)
		if l.row("a") != "" {
			t.Errorf("%d: the row is %q", status, l.row("a"))
		}
	}
}

func TestAHandlerMarksItsAnswerUnderAtomic(t *testing.T) {
	l := newLedger()
	r := newAtomicRig(t, l, onceward.Config{}, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Mark") == "final" {
			onceward.MarkFinal(req.Context())
			keep(503)(w, req)
		} else {
			onceward.MarkTransient(req.Context())
			keep(200)(w, req)
		}
	})
	want(t, r.post("k", "one", "X-Mark", "final"), 503, "executed")
	want(t, r.post("k", "one", "X-Mark", "final"), 503, "replayed")
	want(t, r.post("k2", "one"), 200, "released")
	r.wantRuns(2)
	if l.row("a") != "" {
		t.Errorf("the row is %q", l.row("a"))
	}
}

func TestAtomicRunsAgainWhenTheDatabaseAsksAndTheRequestIsAsItCame(t *testing.T) {
	l := newLedger()
	l.conflict = 2
	r := newAtomicRig(t, l, onceward.Config{}, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Seen") != "" || req.URL.Path != "/orders" {
			t.Error("the second run sees what the first has changed")
		}
		req.Header.Set("X-Seen", "1")
		req.URL.Path = "/elsewhere"
		w.Header().Add("X-Run", "x")
		keep(201)(w, req)
	})
	w := r.post("k", "one")
	want(t, w, 201, "executed")
	if w.Body.String() != "one" || len(w.Header()["X-Run"]) != 1 {
		t.Errorf("the answer is %q with %v", w.Body, w.Header())
	}
	r.wantRuns(3)
	if l.row("a") != "one" {
		t.Errorf("the row is %q", l.row("a"))
	}
}

func TestAPanicUnderAtomicRollsBackAndGoesOn(t *testing.T) {
	l := newLedger()
	fail := true
	r := newAtomicRig(t, l, onceward.Config{}, func(w http.ResponseWriter, req *http.Request) {
		keep(201)(w, req)
		if fail {
			panic("no")
		}
	})
	func() {
		defer func() {
			if got := recover(); got != "no" {
				t.Errorf("recovered %v", got)
			}
		}()
		r.post("k", "one")
	}()
	if l.row("a") != "" {
		t.Errorf("the row is %q", l.row("a"))
	}
	fail = false
	want(t, r.post("k", "one"), 201, "executed")
}

func TestACommitThatFailsIs503AndKeepsNothing(t *testing.T) {
	l := newLedger()
	l.broken = errors.New("disk full")
	r := newAtomicRig(t, l, onceward.Config{}, keep(201))
	w := r.post("k", "eggs")
	want(t, w, 503, "unavailable")
	if w.Header().Get("Location") != "" || strings.Contains(w.Body.String(), "eggs") {
		t.Errorf("the handler's answer went out: %v %q", w.Header(), w.Body)
	}
	l.broken = errInDoubt
	want(t, r.post("k", "eggs"), 503, "in-progress")
	l.broken = nil
	want(t, r.post("k", "eggs"), 201, "executed")
}

var errInDoubt = errors.Join(errors.New("the connection was lost in COMMIT"), onceward.ErrInProgress)

func TestAtomicSendsNothingBeforeTheCommit(t *testing.T) {
	l := newLedger()
	l.broken = errors.New("disk full")
	r := newAtomicRig(t, l, onceward.Config{MaxResponse: 4, MaxSpool: 8}, func(w http.ResponseWriter, req *http.Request) {
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Flush returned %v", err)
		}
		_, err := w.Write(bytes.Repeat([]byte("x"), 100)) // more than there is room for
		if err == nil {
			t.Error("an answer without room was taken")
		}
	})
	w := r.post("k", "1")
	want(t, w, 503, "unavailable")
	if strings.Contains(w.Body.String(), "xx") {
		t.Errorf("half an answer went out: %q", w.Body)
	}
}

func TestAnAtomicHandlerThatIsTooSlowIsRolledBackAndItsConnectionIsItsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		release := make(chan struct{})
		slow := true
		r := newAtomicRig(t, l, onceward.Config{}, func(w http.ResponseWriter, req *http.Request) {
			if slow {
				w.Header().Set("X-Half", "1")
				w.WriteHeader(201)
				<-release // deaf to its context
				if req.Context().Err() == nil {
					t.Error("the context goes on past the limit")
				}
				_, _ = io.ReadAll(req.Body)
				if _, err := io.WriteString(w, "late"); err == nil {
					t.Error("it could still write")
				}
				return
			}
			keep(201)(w, req)
		})
		start := time.Now()
		w := r.post("k", "one")
		want(t, w, 503, "unavailable")
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if w.Header().Get("X-Half") != "" {
			t.Error("half of its answer went out")
		}
		closed := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			closed <- r.guard.Close(ctx)
		}()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("Close did not wait for the handler: %v", err)
		default:
		}
		close(release)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

func TestARepeatWaitsForTheTransactionAndIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		r := newAtomicRig(t, l, onceward.Config{}, func(w http.ResponseWriter, req *http.Request) {
			time.Sleep(3 * time.Second)
			keep(201)(w, req)
		})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				w := r.post("k", "one", "Prefer", "wait=10")
				if w.Code != 201 {
					t.Errorf("got %d %q", w.Code, w.Body)
				}
			})
		}
		all.Wait()
		r.wantRuns(1)
	})
}

func TestAtomicNeedsATransactor(t *testing.T) {
	r := newRig(t, nil, onceward.Config{}, created)
	defer func() {
		if got, ok := recover().(string); !ok || !strings.Contains(got, "Transactor") {
			t.Errorf("recovered %q", got)
		}
	}()
	r.guard.Atomic(http.NotFoundHandler())
}

func TestAtomicLetsARequestWithoutAKeyThrough(t *testing.T) {
	r := newAtomicRig(t, newLedger(), onceward.Config{}, func(w http.ResponseWriter, req *http.Request) {
		if rowsOf(req.Context()) != nil {
			t.Error("there is a transaction")
		}
		w.WriteHeader(204)
	})
	want(t, r.post("", "one"), 204, "")
	w := httptest.NewRecorder()
	r.h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	want(t, w, 204, "")
}
