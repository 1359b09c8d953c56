package operating

import (
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The application behind a gateway takes a request and dies: the key is held, in a real
// Prometheus the alarm rings for a held claim, and what the page says ends both. Its log
// is JSON here, in which the page's commands find as much.
func TestAHeldClaimOfTheGatewayRaisesItsAlarmAndTheRunbookEndsIt(t *testing.T) {
	t.Parallel()
	app, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { app.Close() })
	go func() {
		for {
			conn, err := app.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096)) // it has the request
			conn.Close()
		}
	}()
	file := filepath.Join(t.TempDir(), "keys.db")
	cmd := exec.Command(filepath.Join(bin, "onceward"), "gateway", "--listen", "127.0.0.1:0", "--to", "http://"+app.Addr().String(),
		"--store", "sqlite:"+file, "--scope", "header:X-User", "--metrics", "127.0.0.1:0", "--log", "json")
	p := startProgram(t, filepath.Join(t.TempDir(), "log"), cmd, regexp.MustCompile(`^listening on (http://\S+)`))
	prom := startPrometheus(t, impatient(t), map[string]*program{"gateway": p})
	prom.waitScraped(1)
	if ringing := prom.firing(); len(ringing) > 0 {
		t.Fatalf("while all is well there ring %v", ringing)
	}
	p.post("k", tea, "").want(t, 502, "outcome-unknown")
	var labels map[string]string
	eventually(t, "OncewardClaimStuck rings", func() bool {
		labels = prom.firing()["OncewardClaimStuck"]
		return labels != nil
	})
	if labels["job"] != "gateway" || labels["onceward_claim_state"] != "held" {
		t.Errorf("the alarm says %v", labels)
	}
	id := idOf(t, "k")
	env := []string{"ONCEWARD_STORE=sqlite:" + file, "ID=" + id, "LOG=" + p.logName, "KEY=k"}
	looked := sh(t, runbook(t)["stuck: look"], env...)
	for _, word := range []string{id, "held", "the application did not answer", `"sent":true`, `"record":"` + id + `"`} {
		if !strings.Contains(looked, word) {
			t.Errorf("who looks does not see %q:\n%s", word, looked)
		}
	}
	sh(t, runbook(t)["stuck: it was done"], env...)
	p.post("k", tea, "").want(t, 201, "replayed")
	eventually(t, "OncewardClaimStuck is silent", func() bool { return prom.firing()["OncewardClaimStuck"] == nil })
}
