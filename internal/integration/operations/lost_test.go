package operations

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
	"github.com/onceward/onceward/riveroperation/onsqlite"
)

type (
	sqlTx = *sql.Tx
	pgTx  = pgx.Tx
)

func request(s *shop, key, do string) *http.Request {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.server.URL+"/works", strings.NewReader(do))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-User", "anna")
	req.Header.Set("Idempotency-Key", key)
	return req
}

// What the runner has lost it does not know, and says so: the job, or all of it. It
// begins nothing anew.
func TestWhatTheRunnerHasLostIsUnknown(t *testing.T) {
	t.Parallel()
	onEach(t, change{}, func(t *testing.T, b *backend) {
		s := newShop(t, b, true, onceward.Config{})
		to := s.post("k", write).header.Get("Location")
		for _, lose := range []string{`DELETE FROM river_job`, `DELETE FROM onceward_operations`} {
			if err := b.exec(lose); err != nil {
				t.Fatal(err)
			}
			if a := s.get(to + "?wait=20"); a.code != 200 || a.body.State != "unknown" {
				t.Errorf("%s: %v", lose, a)
			}
			if a := s.post("k", write); a.code != 202 || a.body.State != "unknown" || a.header.Get("Location") != to {
				t.Errorf("%s: %v", lose, a)
			}
		}
		if a := s.get(to, "X-User", "boris"); a.code != 404 {
			t.Errorf("%v", a)
		}
		// A record of something else is no operation.
		s.after = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusCreated); return true }
		if a := s.post("other", write); a.code != 201 {
			t.Fatalf("%v", a)
		}
		if err := b.exec(`DELETE FROM onceward_operations`); err != nil {
			t.Fatal(err)
		}
		if a := s.get("/operations/" + operation.Operation{Key: onceward.NewKey("anna", "other")}.ID()); a.code != 404 {
			t.Errorf("%v", a)
		}
		if n := b.count(countJobs); n != 1 {
			t.Errorf("%d jobs", n)
		}
	})
}

// An account is deleted while its work runs: nothing of it is left, and what comes
// late writes nothing.
func TestAForgottenScopeLeavesNothingAndItsWorkWritesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, change{}, func(t *testing.T, b *backend) {
		s := newShop(t, b, true, onceward.Config{})
		b.start(t)
		to := s.post("k", wait).header.Get("Location")
		boris := s.post("k", write, "X-User", "boris").header.Get("Location")
		<-b.gate.arrived
		if a := s.get(boris+"?wait=20", "X-User", "boris"); a.body.State != "complete" {
			t.Errorf("%v", a)
		}
		scope := onceward.NewKey("anna", "").Scope
		if err := b.runner.Forget(t.Context(), scope); err != nil {
			t.Fatal(err)
		}
		if err := b.store.(onceward.Forgetter).Forget(t.Context(), scope); err != nil {
			t.Fatal(err)
		}
		close(b.gate.open)
		if a := s.get(to + "?wait=5"); a.code != 404 {
			t.Errorf("%v", a)
		}
		if err := b.runner.Stop(t.Context()); err != nil { // it has come to its end
			t.Fatal(err)
		}
		if o, e := b.count(countOperations), b.count(countEffects); o != 1 || e != 1 {
			t.Errorf("%d operations, %d effects, want boris's alone", o, e)
		}
	})
}

// A finished operation is forgotten when its time is over, and so is one that River
// has given up; one that waits or runs is not.
func TestSweepForgetsWhatIsOver(t *testing.T) {
	t.Parallel()
	onEach(t, change{retention: 50 * time.Millisecond}, func(t *testing.T, b *backend) {
		s := newShop(t, b, true, onceward.Config{})
		b.start(t)
		done := s.post("done", write).header.Get("Location")
		s.until(done)
		runs := s.post("runs", wait).header.Get("Location")
		<-b.gate.arrived
		gone := s.post("gone", wait).header.Get("Location")
		<-b.gate.arrived
		if err := b.exec(`UPDATE onceward_operations SET job_id = 1000000 WHERE job_id = (SELECT max(job_id) FROM onceward_operations)`); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if n, err := b.runner.Sweep(t.Context(), 100); n != 2 || err != nil {
			t.Errorf("%d swept: %v", n, err)
		}
		// The guard still knows that it accepted them.
		for to, want := range map[string]string{done: "unknown", gone: "unknown", runs: "pending"} {
			if a := s.get(to); a.body.State != want {
				t.Errorf("want %s: %v", want, a)
			}
		}
		if n, err := b.runner.Sweep(t.Context(), 100); n != 0 || err != nil {
			t.Errorf("%d swept: %v", n, err)
		}
		close(b.gate.open)
	})
}

// Stopping waits for what runs; where it may not, the job is given back as if it had
// not been tried, and done after the next start. No goroutine is left.
func TestStoppingLosesNoWorkAndLeavesNothingRunning(t *testing.T) {
	for name, open := range map[string]func(*testing.T, change) *backend{"sqlite": onSQLite, "postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			b := open(t, change{})
			if _, err := b.runner.Look(t.Context(), onceward.NewKey("x", "y")); !errors.Is(err, operation.ErrNotFound) {
				t.Fatal(err)
			}
			job := jobOf("anna", "k", wait)
			if _, err := b.runner.Submit(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			before := runtime.NumGoroutine()
			for range 3 {
				b.start(t)
				<-b.gate.arrived
				short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				err := b.runner.Stop(short)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
			}
			if n := b.count(`SELECT count(*) FROM river_job WHERE state = 'available'`); n != 1 {
				t.Errorf("%d jobs were given back", n)
			}
			deadline := time.Now().Add(10 * time.Second)
			for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
				time.Sleep(10 * time.Millisecond)
			}
			if after := runtime.NumGoroutine(); after > before {
				t.Errorf("%d goroutines before, %d after:\n%s", before, after, stacks())
			}
			b.start(t)
			<-b.gate.arrived
			stopped := make(chan error)
			go func() { stopped <- b.runner.Stop(t.Context()) }()
			close(b.gate.open)
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if op, err := b.runner.Look(t.Context(), job.Key); err != nil || op.State != operation.Complete || b.count(countEffects) != 1 {
				t.Errorf("%v, %v", op, err)
			}
		})
	}
}

func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// A database that does not answer is 503 and nothing else; the repeat is a real one.
func TestARunnerThatFailsIsUnavailableAndNothingMore(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	onEach(t, change{}, func(t *testing.T, b *backend) {
		s := newShop(t, b, false, onceward.Config{})
		broken, err := operation.New(brokenRunner{}, who, operation.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		s.ops = broken
		a := s.post("k", write)
		if a.code != 503 || a.header.Get("Retry-After") == "" || !strings.HasPrefix(a.header.Get("Idempotency-Status"), "released") || strings.Contains(a.text, "hunter2") {
			t.Errorf("%v", a)
		}
		if !strings.Contains(log.String(), "hunter2") {
			t.Error("the log does not say why")
		}
	})
}

// A wait whose time is over looks once more, but not for ever: here somebody holds the
// only connection.
func TestAWaitDoesNotWaitForADatabaseThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, filepath.Join(t.TempDir(), "shop.db"))
	t.Cleanup(func() { db.Close() })
	r := newRunner(t, onsqlite.Pool(db, nil), sqliteWork(newGate(), "here"), change{})
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Wait(ctx, onceward.NewKey("x", "y"))
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits still")
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

type brokenRunner struct{}

func (brokenRunner) Submit(context.Context, operation.Job) (operation.Operation, error) {
	return operation.Operation{}, errors.New(secret)
}

func (brokenRunner) Look(context.Context, onceward.Key) (operation.Operation, error) {
	return operation.Operation{}, errors.New(secret)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }
