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

// Requirement 70, for what the gateway knows itself: its reason stands under the id
// of the record, beside the outcome.
func TestRequirement70TheReasonOfARefusalHasTheRecordsID(t *testing.T) {
	gone := serve(t, true, always(""))
	nobody := gone.url()
	gone.l.Close()
	for name, c := range map[string]struct {
		url, outcome string
		says         []string
	}{
		"nobody there": {nobody, "released", []string{"did not answer", "sent=false", "refused"}},
		"a 500":        {serve(t, true, always("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")).url(), "released", []string{"status=500"}},
		"a 504":        {serve(t, true, always("HTTP/1.1 504 No\r\nContent-Length: 0\r\n\r\n")).url(), "outcome-unknown", []string{"status=504"}},
	} {
		t.Run(name, func(t *testing.T) {
			log := &journal{}
			addr := front(t, c.url, gateway.Config{Guard: onceward.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}})
			send(t, addr, "POST", "/orders", "tea", key, "k")
			id := regexp.MustCompile(`record=([0-9a-f]{16}) .*outcome=` + c.outcome).FindStringSubmatch(log.String())
			if id == nil {
				t.Fatalf("no line says %s:\n%s", c.outcome, log)
			}
			var found strings.Builder
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "record="+id[1]) {
					found.WriteString(line)
				}
			}
			for _, text := range c.says {
				if !strings.Contains(found.String(), text) {
					t.Errorf("no line of %s says %q:\n%s", id[1], text, log)
				}
			}
		})
	}
}
