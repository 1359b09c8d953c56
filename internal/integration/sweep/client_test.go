//go:build linux

package sweep

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward"
)

// answer is what a client has of one request.
type answer struct {
	err        error  // there was none, or only a piece of one
	status     string // the token of Idempotency-Status
	unrecorded bool
	text       string // everything by which two answers can differ
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return "no answer: " + a.err.Error()
	case a.unrecorded:
		return a.status + ";unrecorded: " + a.text
	}
	return a.status + ": " + a.text
}

// acknowledged: the client need not repeat the request.
func (a answer) acknowledged() bool {
	return a.err == nil && (a.status == "executed" || a.status == "replayed")
}

// kept: every later answer must be the same.
func (a answer) kept() bool { return a.acknowledged() && !a.unrecorded }

// final: repeating would not change anything.
func (a answer) final() bool {
	return a.acknowledged() || a.err == nil && a.status == "outcome-unknown"
}

// client has one connection for each request: on a connection that is used again
// net/http would repeat a request with a key by itself.
var client = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	Timeout:   time.Minute,
}

// send sends the request once.
func send(ctx context.Context, url, key string) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/orders", strings.NewReader("one loaf of bread"))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{err: err}
	}
	status, rest, _ := strings.Cut(resp.Header.Get(onceward.StatusHeader), ";")
	return answer{
		status: status, unrecorded: strings.HasPrefix(rest, "unrecorded"),
		text: fmt.Sprintf("%d %s %s %q", resp.StatusCode, resp.Header.Get("Location"), resp.Header.Get("Content-Type"), body),
	}
}

// repeat sends the request until its answer is final, or says the last one when
// the time is over. tries has every answer.
func repeat(ctx context.Context, url, key string, limit time.Duration) (last answer, tries []answer, waited time.Duration) {
	for begun := time.Now(); ; {
		last = send(ctx, url, key)
		tries = append(tries, last)
		waited = time.Since(begun)
		if last.final() || waited > limit {
			return last, tries, waited
		}
		time.Sleep(25 * time.Millisecond)
	}
}
