package gateway_test

import (
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/gateway"
)

// journal is a log that many goroutines write.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *journal) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *journal) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Requirement 70: why nobody knows what became of a request is found by the same
// grep as that nobody knows.
func TestRequirement70TheReasonOfAnUnknownOutcomeHasTheRecordsID(t *testing.T) {
	for name, c := range map[string]struct{ answer, reason string }{
		"no answer":   {"", "did not answer"},
		"half a body": {"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nfirst", "cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			app := serve(t, true, func(a *arrival) bool { a.say(c.answer); return false })
			log := &journal{}
			addr := front(t, app.url(), gateway.Config{Guard: onceward.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}})
			send(t, addr, "POST", "/orders", "tea", key, "k")
			send(t, addr, "POST", "/orders", "tea", key, "k").want(t, 409, "outcome-unknown")
			id := regexp.MustCompile(`record=([0-9a-f]{16}) .*outcome=outcome-unknown`).FindStringSubmatch(log.String())
			if id == nil {
				t.Fatalf("no line says outcome-unknown:\n%s", log)
			}
			found := false
			for line := range strings.Lines(log.String()) {
				found = found || strings.Contains(line, c.reason) && strings.Contains(line, "record="+id[1])
			}
			if !found {
				t.Errorf("no line of %s says %q:\n%s", id[1], c.reason, log)
			}
		})
	}
}
