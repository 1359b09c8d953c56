// Package halfanswer asks a framework's app what becomes of an answer that a
// handler begins and then returns an error behind. It is for tests.
package halfanswer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
)

// Check sends one named request again and again to app, whose handler is
// Handler.Write. While the handler fails in the middle, the client must see a broken
// answer and nothing may be kept of it; afterwards it is executed once and replayed.
func Check(app http.Handler, h *Handler) error {
	server := httptest.NewServer(app)
	defer server.Close()
	send := func() (outcome, body string, err error) {
		r, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader("{}"))
		if err != nil {
			return "", "", err
		}
		r.Header.Set("Idempotency-Key", "k")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return "", "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		outcome, _, _ = strings.Cut(resp.Header.Get("Idempotency-Status"), ";")
		return outcome, string(text), err
	}
	if outcome, body, err := send(); err == nil {
		return fmt.Errorf("half of an answer is a whole one: %s %q", outcome, body)
	}
	h.mended.Store(true)
	for _, want := range []string{"executed", "replayed"} {
		if outcome, body, err := send(); outcome != want || body != "half of it" || err != nil {
			return fmt.Errorf("then %s %q (%v), want %s", outcome, body, err, want)
		}
	}
	return nil
}

// Handler is what the app does; the zero value fails until Check mends it.
type Handler struct{ mended atomic.Bool }

// Write answers w, in halves.
func (h *Handler) Write(w io.Writer) error {
	_, _ = io.WriteString(w, "half of ")
	if !h.mended.Load() {
		return errors.New("the database is gone")
	}
	_, err := io.WriteString(w, "it")
	return err
}
