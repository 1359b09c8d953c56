package operation

import (
	"net/http"
	"strings"

	"github.com/onceward/onceward"
)

// Repeats stands outside the guard, around a route that accepts long work, and
// brings a replayed 202 up to date: the same status and Location, but the operation
// as it stands now instead of the "pending" that was stored. The guard's promise of
// the same bytes is for answers that say what was done; a 202 says what is going
// on.
//
// Only that answer is rewritten, whole: a 202 that the guard replays, whose Location
// is an operation's. If the runner cannot be asked, the stored answer goes out; its
// Location is still true.
//
// It is outside, and not in the guard or in the handler: so the guard keeps its
// one rule of replaying, which claims, fingerprints and Atomic build on, and a
// repeat runs no handler.
func (o *Operations) Repeats(guarded http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guarded.ServeHTTP(&repeat{ResponseWriter: w, o: o, r: r}, r)
	})
}

// repeat looks at the head of an answer when it is written.
type repeat struct {
	http.ResponseWriter
	o        *Operations
	r        *http.Request
	headed   bool
	replaced bool // the body that comes is the stored one
}

// Unwrap is for http.ResponseController.
func (w *repeat) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *repeat) WriteHeader(status int) {
	if w.headed || status < 200 {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.headed = true
	if op, ok := w.current(status); ok {
		w.replaced = true
		h := w.Header()
		for _, name := range []string{"Content-Length", "Content-Type", "Content-Encoding", "Content-Language", "Etag", "Hx-Reswap"} {
			h.Del(name)
		}
		if rest, omitted := strings.CutPrefix(h.Get(onceward.StatusHeader), "replayed;body=omitted"); omitted {
			h.Set(onceward.StatusHeader, "replayed"+rest)
		}
		w.o.Accepted(w.ResponseWriter, w.r, op)
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *repeat) Write(p []byte) (int, error) {
	if !w.headed {
		w.WriteHeader(http.StatusOK)
	}
	if w.replaced {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// current is the operation whose stored 202 is about to be replayed.
func (w *repeat) current(status int) (Operation, bool) {
	h := w.Header()
	token, _, _ := strings.Cut(h.Get(onceward.StatusHeader), ";")
	id, ours := strings.CutPrefix(h.Get("Location"), w.o.cfg.Path)
	if status != http.StatusAccepted || token != "replayed" || !ours {
		return Operation{}, false
	}
	op, err := w.o.Look(w.r, id)
	if err != nil {
		w.o.log("onceward: a repeat could not be brought up to date", w.r, err)
		return Operation{}, false
	}
	return op, true
}
