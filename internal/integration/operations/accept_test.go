package operations

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/operation"
)

// modes are the two ways to stand behind the guard.
func modes(t *testing.T, c change, cfg onceward.Config, test func(t *testing.T, s *shop)) {
	for _, mode := range []string{"handler", "atomic"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			onEach(t, c, func(t *testing.T, b *backend) { test(t, newShop(t, b, mode == "atomic", cfg)) })
		})
	}
}

// Requirement 66: 202 with the status's address, then pending, then complete with the
// result; and the repeat has the same id and the current state, and starts nothing.
func TestRequirement66LongWorkIsAcceptedAndItsStatusTellsTheResult(t *testing.T) {
	t.Parallel()
	modes(t, change{}, onceward.Config{}, func(t *testing.T, s *shop) {
		first := s.post("k1", wait, "Prefer", "respond-async, wait=5")
		to := first.header.Get("Location")
		if first.code != http.StatusAccepted || to != "/operations/"+first.body.ID || first.body.State != "pending" || len(first.body.ID) != 64 {
			t.Fatalf("%v", first)
		}
		if n, err := strconv.Atoi(first.header.Get("Retry-After")); err != nil || n < 1 || first.header.Get("Preference-Applied") != "respond-async" {
			t.Errorf("%v", first)
		}
		if !strings.HasPrefix(first.header.Get("Idempotency-Status"), "executed") {
			t.Errorf("%v", first)
		}
		if key := onceward.NewKey("anna", "k1"); !strings.HasPrefix(first.body.ID, key.RecordID()) {
			t.Errorf("the id %s is not the record's of the log, %s", first.body.ID, key.RecordID())
		}
		if a := s.get(to); a.code != 200 || a.body.State != "pending" || a.header.Get("Retry-After") == "" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", a)
		}
		s.b.start(t)
		<-s.b.gate.arrived
		repeat := s.post("k1", wait)
		if repeat.code != http.StatusAccepted || repeat.header.Get("Location") != to || repeat.body.ID != first.body.ID || repeat.body.State != "pending" ||
			repeat.header.Get("Idempotency-Replayed") != "1" || repeat.header.Get("Preference-Applied") != "" {
			t.Errorf("while it runs: %v", repeat)
		}
		waiting := make(chan answer)
		go func() { waiting <- s.get(to + "?wait=20") }()
		close(s.b.gate.open)
		if a := <-waiting; a.code != 200 || a.body.State != "complete" || string(a.body.Result) != `{"did":"wait"}` || a.header.Get("Retry-After") != "" || a.body.Finished.Before(a.body.Created) || a.body.Created.IsZero() {
			t.Errorf("%v", a)
		}
		for range 3 {
			repeat = s.post("k1", wait)
			if repeat.code != http.StatusAccepted || repeat.header.Get("Location") != to || repeat.body.ID != first.body.ID || repeat.body.State != "complete" ||
				string(repeat.body.Result) != `{"did":"wait"}` || repeat.header.Get("Retry-After") != "" || repeat.header.Get("Idempotency-Replayed") != "1" {
				t.Errorf("after it: %v", repeat)
			}
		}
		if o, j, e := s.b.count(countOperations), s.b.count(countJobs), s.b.count(countEffects); o != 1 || j != 1 || e != 1 {
			t.Errorf("%d operations, %d jobs, %d effects", o, j, e)
		}
	})
}

// Requirement 66: failed is a problem, which says what its owner may know and nothing
// else; the repeat says it again and starts nothing.
func TestRequirement66AFailureIsAProblemAndLeaksNothing(t *testing.T) {
	t.Parallel()
	modes(t, change{}, onceward.Config{}, func(t *testing.T, s *shop) {
		s.b.start(t)
		for do, want := range map[string]struct{ kind, title, detail string }{
			final:  {"urn:shop:no-paper", "There is no paper", "Somebody buys some."},
			wrong:  {"urn:onceward:problem:operation-failed", "The work could not be done", ""},
			panics: {"urn:onceward:problem:operation-failed", "The work could not be done", ""},
			exits:  {"urn:onceward:problem:operation-failed", "The work could not be done", ""}, // and its worker is there for the next try
		} {
			first := s.post("k-"+do, do)
			a := s.until(first.header.Get("Location"))
			for _, a := range []answer{a, s.post("k-"+do, do)} {
				if a.header.Get("Content-Type") != "application/problem+json" || a.body.State != "failed" || a.body.Type != want.kind || a.body.Title != want.title ||
					want.detail != "" && a.body.Detail != want.detail || a.body.Status != nil || a.body.ID != first.body.ID {
					t.Errorf("%s: %v", do, a)
				}
				if strings.Contains(a.text, "hunter2") || strings.Contains(a.text, "goroutine") {
					t.Errorf("%s leaks: %v", do, a)
				}
			}
			if a.code != 200 {
				t.Errorf("%s: %v", do, a)
			}
		}
		const givenUp = `SELECT count(*) FROM river_job WHERE state = 'discarded' AND attempt = 3`
		for end := time.Now().Add(20 * time.Second); s.b.count(givenUp) != 3; time.Sleep(10 * time.Millisecond) { // River's own row is written later
			if time.Now().After(end) {
				t.Fatalf("%d jobs were given up after three tries, want 3", s.b.count(givenUp))
			}
		}
		if n := s.b.count(countEffects); n != 0 {
			t.Errorf("%d effects", n)
		}
	})
}

// Cancelled by an operator, before it runs and while it runs.
func TestACancelledJobIsAFailedOperation(t *testing.T) {
	t.Parallel()
	onEach(t, change{}, func(t *testing.T, b *backend) {
		s := newShop(t, b, true, onceward.Config{})
		waits := s.post("waits", write)
		if err := b.cancel(int64(b.count(`SELECT max(id) FROM river_job`))); err != nil {
			t.Fatal(err)
		}
		b.start(t)
		runs := s.post("runs", wait)
		<-b.gate.arrived
		if err := b.cancel(int64(b.count(`SELECT max(id) FROM river_job`))); err != nil {
			t.Fatal(err)
		}
		for _, first := range []answer{waits, runs} {
			a := s.until(first.header.Get("Location"))
			if a.body.State != "failed" || a.body.Type != "urn:onceward:problem:operation-cancelled" {
				t.Errorf("%v", a)
			}
		}
		if n := b.count(countEffects); n != 0 {
			t.Errorf("%d effects", n)
		}
	})
}

// What only River's row tells is told from the request's own transaction, which holds
// SQLite's only connection; and it is told again when River has cleaned up its row.
func TestAJobThatRiverGaveUpStaysAFailedOperation(t *testing.T) {
	t.Parallel()
	for how, giveUp := range map[string]string{
		"cancelled": "",
		"discarded": `UPDATE river_job SET state = 'discarded', finalized_at = created_at`,
	} {
		for first, look := range map[string]bool{"looked at": true, "sent again": false} {
			t.Run(how+", "+first, func(t *testing.T) {
				t.Parallel()
				onEach(t, change{}, func(t *testing.T, b *backend) {
					// The guard has forgotten the key when it is sent again.
					s := newShop(t, b, true, onceward.Config{Retention: time.Millisecond})
					to := s.post("k", write).header.Get("Location")
					var err error
					if giveUp == "" {
						err = b.cancel(int64(b.count(`SELECT max(id) FROM river_job`)))
					} else {
						err = b.exec(giveUp)
					}
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(20 * time.Millisecond)
					kind := "urn:onceward:problem:operation-" + how
					if how == "discarded" {
						kind = operation.FailedSilently.Type
					}
					again := func() (a answer) {
						start := time.Now()
						if a = s.post("k", write); a.code != http.StatusAccepted || a.body.State != "failed" || a.body.Type != kind || a.header.Get("Location") != to {
							t.Errorf("%v", a)
						}
						if took := time.Since(start); took > 4*time.Second {
							t.Errorf("the repeat took %v", took)
						}
						return a
					}
					var before answer
					if look {
						before = s.get(to)
					} else {
						before = again()
					}
					if before.body.State != "failed" || before.body.Type != kind || before.body.Finished.IsZero() {
						t.Errorf("%v", before)
					}
					if n := b.count(`SELECT count(*) FROM onceward_operations WHERE state = 'failed'`); n != 1 {
						t.Error("the failure was not written down")
					}
					if err := b.exec(`DELETE FROM river_job`); err != nil {
						t.Fatal(err)
					}
					for _, a := range []answer{s.get(to), again()} {
						if a.body.State != "failed" || a.body.Type != kind || !a.body.Finished.Equal(before.body.Finished) {
							t.Errorf("after River's cleaning: %v, want %v", a, before)
						}
					}
					if n := b.count(countEffects); n != 0 {
						t.Errorf("%d effects", n)
					}
				})
			})
		}
	}
}

// Twenty at once under one key: one job, one effect, one answer for all.
func TestTwentyPostsOfOneKeyAtOnceAreOneJob(t *testing.T) {
	t.Parallel()
	modes(t, change{}, onceward.Config{Wait: true}, func(t *testing.T, s *shop) {
		s.b.start(t)
		answers := make([]answer, 20)
		all(20, func(i int) { answers[i] = s.post("k", write) })
		for _, a := range answers {
			if a.code != http.StatusAccepted || a.header.Get("Location") == "" || a.header.Get("Location") != answers[0].header.Get("Location") {
				t.Errorf("%v", a)
			}
		}
		if a := s.until(answers[0].header.Get("Location")); a.body.State != "complete" {
			t.Errorf("%v", a)
		}
		if o, j, e := s.b.count(countOperations), s.b.count(countJobs), s.b.count(countEffects); o != 1 || j != 1 || e != 1 {
			t.Errorf("%d operations, %d jobs, %d effects", o, j, e)
		}
	})
}

// The runner itself refuses a second operation of one name, also with no guard before
// it and where nobody waits for anybody.
func TestTwentySubmissionsOfOneNameAtOnceAreOneJob(t *testing.T) {
	t.Parallel()
	onEach(t, change{}, func(t *testing.T, b *backend) {
		job := jobOf("anna", "k", write)
		all(20, func(int) {
			if op, err := b.runner.Submit(t.Context(), job); err != nil || op.Key != job.Key || op.State != "pending" {
				t.Errorf("%v, %v", op, err)
			}
		})
		if o, j := b.count(countOperations), b.count(countJobs); o != 1 || j != 1 {
			t.Errorf("%d operations, %d jobs", o, j)
		}
	})
}

// In Atomic the job belongs to the request's transaction: rolled back with it, and the
// repeat is a real one.
func TestAnUndoneRequestLeavesNoJob(t *testing.T) {
	t.Parallel()
	onEach(t, change{}, func(t *testing.T, b *backend) {
		s := newShop(t, b, true, onceward.Config{})
		s.after = func(w http.ResponseWriter) bool { http.Error(w, "no", http.StatusInternalServerError); return true }
		if a := s.post("k", write); a.code != 500 {
			t.Errorf("%v", a)
		}
		s.after = func(http.ResponseWriter) bool { panic(http.ErrAbortHandler) }
		if _, err := http.DefaultClient.Do(request(s, "k", write)); err == nil {
			t.Error("the panic was answered")
		}
		if o, j := b.count(countOperations), b.count(countJobs); o != 0 || j != 0 {
			t.Errorf("%d operations, %d jobs", o, j)
		}
		s.after = nil
		b.start(t)
		if a := s.until(s.post("k", write).header.Get("Location")); a.body.State != "complete" || b.count(countEffects) != 1 {
			t.Errorf("%v", a)
		}
	})
}

// Without Atomic a request can fail between the job and its answer. The repeat is a
// real one for the guard, and finds the job that is there.
func TestARequestThatFailsBehindItsJobHasOneJob(t *testing.T) {
	t.Parallel()
	onEach(t, change{}, func(t *testing.T, b *backend) {
		s := newShop(t, b, false, onceward.Config{})
		b.start(t)
		s.after = func(w http.ResponseWriter) bool { http.Error(w, "no", http.StatusInternalServerError); return true }
		if a := s.post("k", write); a.code != 500 || !strings.HasPrefix(a.header.Get("Idempotency-Status"), "released") {
			t.Errorf("%v", a)
		}
		s.after = nil
		a := s.post("k", write)
		if a.code != http.StatusAccepted || a.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%v", a)
		}
		if a := s.until(a.header.Get("Location")); a.body.State != "complete" {
			t.Errorf("%v", a)
		}
		if o, j, e := b.count(countOperations), b.count(countJobs), b.count(countEffects); o != 1 || j != 1 || e != 1 {
			t.Errorf("%d operations, %d jobs, %d effects", o, j, e)
		}
	})
}

// The operation outlives the guard's memory of its key: the repeat still starts
// nothing, and another request under the key is refused instead of being answered
// with the first one's result.
func TestAnOperationOutlivesItsKey(t *testing.T) {
	t.Parallel()
	modes(t, change{}, onceward.Config{Retention: time.Millisecond}, func(t *testing.T, s *shop) {
		s.b.start(t)
		first := s.post("k", write)
		s.until(first.header.Get("Location"))
		time.Sleep(20 * time.Millisecond)
		repeat := s.post("k", write)
		if repeat.code != http.StatusAccepted || repeat.header.Get("Idempotency-Replayed") != "" || repeat.body.ID != first.body.ID || repeat.body.State != "complete" {
			t.Errorf("%v", repeat)
		}
		time.Sleep(20 * time.Millisecond)
		other := s.post("k", final)
		if other.code != http.StatusUnprocessableEntity || other.body.Type != "urn:onceward:problem:key-reused" || strings.Contains(other.text, "did") {
			t.Errorf("%v", other)
		}
		if j, e := s.b.count(countJobs), s.b.count(countEffects); j != 1 || e != 1 {
			t.Errorf("%d jobs, %d effects", j, e)
		}
	})
}

// An operation is its owner's: for everybody else there is none. Two people with the
// same key have two.
func TestAnOperationIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	onEach(t, change{}, func(t *testing.T, b *backend) {
		s := newShop(t, b, true, onceward.Config{})
		b.start(t)
		anna := s.post("k", write)
		to := anna.header.Get("Location")
		if a := s.until(to); a.body.State != "complete" {
			t.Errorf("%v", a)
		}
		if a := s.get(to, "X-User", "boris"); a.code != 404 || strings.Contains(a.text, "did") {
			t.Errorf("%v", a)
		}
		boris := s.post("k", write, "X-User", "boris")
		if boris.code != http.StatusAccepted || boris.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%v", boris)
		}
		if a := s.get(to+"?wait=20", "X-User", "boris"); a.body.State != "complete" {
			t.Errorf("%v", a)
		}
		if n := b.count(countEffects); n != 2 {
			t.Errorf("%d effects", n)
		}
		for _, id := range []string{"x", "", strings.Repeat("0", 64), strings.ToUpper(anna.body.ID), anna.body.ID + "00", "../" + anna.body.ID} {
			if a := s.get("/operations/" + id); a.code != 404 && !(strings.HasPrefix(id, "..") && a.code >= 300) {
				t.Errorf("%q: %v", id, a)
			}
		}
		if a := s.get(to, "X-User", ""); a.code != 500 || strings.Contains(a.text, "did") {
			t.Errorf("%v", a)
		}
		if a := s.send("POST", "/works", write); a.code != 400 || a.body.Type != "urn:onceward:problem:key-missing" {
			t.Errorf("without a key: %v", a)
		}
	})
}
