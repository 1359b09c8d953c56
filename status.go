package onceward

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"time"
)

// StatusReport is what [Guard.Status] tells of a key, as JSON.
type StatusReport struct {
	// State is absent (never seen, released, or forgotten since), in-progress,
	// complete, or unknown: its run ended without an answer, or may have. Under Atomic
	// a key that a transaction of another process is at work on is in-progress where
	// the store is a [LockLooker], as pgxstore is; elsewhere (sqlitestore) it is absent
	// until that commits.
	State string `json:"state"`
	// Code is the HTTP status of the kept answer; 0 unless complete.
	Code int `json:"status,omitempty"`
	// Age is the time in seconds since the answer, or since the first claim.
	Age int `json:"age,omitempty"`
	// Method and Path are the request's that the key named.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
}

// Status serves the confirmation of a result: GET …/{key} tells what became of
// the request that the caller named so, in the caller's own scope. It never runs
// anything and never shows the answer itself. The key is the path's last element,
// escaped as in a URL, or the pattern's {key}. Mount it inside authentication:
//
//	mux.Handle("GET /idempotency/{key}", auth(guard.Status()))
//
// It panics if the store is no [Looker].
func (g *Guard) Status() http.Handler {
	looker, ok := power[Looker](g.store)
	if !ok {
		panic(fmt.Sprintf("onceward: Status needs a store that is a Looker, and %T is none", unwatched(g.store)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{g: g, w: w, r: r, start: time.Now()}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		report, err := q.look(looker)
		if err != nil {
			q.refuse(err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		body, _ := json.Marshal(report) // strings and ints: cannot fail
		_, _ = w.Write(append(body, '\n'))
	})
}

func (q *request) look(looker Looker) (StatusReport, error) {
	name := q.r.PathValue("key")
	if name == "" {
		// Unescaped before, a slash in the key would be one of the path.
		last := path.Base(q.r.URL.EscapedPath())
		if unescaped, err := url.PathUnescape(last); err == nil {
			last = unescaped
		}
		name = last
	}
	if err := validKey(name); err != nil {
		return StatusReport{}, err
	}
	scope, err := q.askScope()
	if err != nil {
		return StatusReport{}, err
	}
	q.id = NewKey(scope, name)
	var rec Record
	var found bool
	look := func(ctx context.Context) (err error) {
		start := time.Now()
		rec, found, err = looker.Look(ctx, q.id)
		q.g.cfg.called(ctx, "look", time.Since(start), err)
		return err
	}
	err = q.g.once(look)
	if locks, ok := power[LockLooker](q.g.store); ok && !found && err == nil && !q.g.flights.runs(q.id) {
		locked := false
		err = q.g.once(func(ctx context.Context) (err error) {
			start := time.Now()
			locked, err = locks.LookLock(ctx, q.id)
			q.g.cfg.called(ctx, "look", time.Since(start), err)
			return err
		})
		if err == nil && locked {
			return StatusReport{State: "in-progress"}, nil
		}
		if err == nil {
			err = q.g.once(look) // it may have committed between the two questions
		}
	}
	switch {
	case err != nil && !errors.Is(err, ErrEncoding):
		return StatusReport{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case !found && err == nil && q.g.flights.runs(q.id):
		return StatusReport{State: "in-progress"}, nil // a transaction of this process
	case !found && err == nil:
		return StatusReport{State: "absent"}, nil
	}
	report := StatusReport{State: "in-progress", Age: int(rec.Age / time.Second), Method: rec.Method, Path: rec.Path}
	switch {
	case rec.State == Completed && rec.Response != nil:
		report.State, report.Code = "complete", rec.Response.Status
	case rec.State == Completed || err != nil: // a later version's answer
		return StatusReport{}, fmt.Errorf("%w: the record cannot be read: %w", ErrUnavailable, cmp.Or(err, ErrEncoding))
	case rec.Held || rec.LeaseLeft <= 0 && !q.g.flights.runs(q.id):
		report.State = "unknown"
	}
	return report, nil
}

// Forget deletes every record of a scope, for the deletion of an account; scope
// is what the ScopeFunc returns. Called with the context of a transaction of the
// store's own database it takes part in it. It fails if the store is no
// [Forgetter].
func (g *Guard) Forget(ctx context.Context, scope string) error {
	forgetter, ok := power[Forgetter](g.store)
	if !ok {
		return fmt.Errorf("onceward: Forget needs a store that is a Forgetter, and %T is none", unwatched(g.store))
	}
	if scope == "" {
		return errScopeMissing
	}
	start := time.Now()
	err := forgetter.Forget(ctx, NewKey(scope, "").Scope)
	g.cfg.called(ctx, "forget", time.Since(start), err)
	if err != nil {
		return fmt.Errorf("onceward: forget: %w", err)
	}
	return nil
}
