package operating

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

var root = filepath.FromSlash("../../..")

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// impatient are the documented rules, except that they ring at once: what has to be so
// for five minutes has to be so for a second.
func impatient(t *testing.T) string {
	t.Helper()
	rules := read(t, "docs/alerts.yaml")
	waits := regexp.MustCompile(`(?m)^( +for:) \d+m$`)
	if n := len(waits.FindAllString(rules, -1)); n < 5 {
		t.Fatalf("found %d waits in docs/alerts.yaml", n)
	}
	return waits.ReplaceAllString(rules, "$1 1s")
}

// A claim that a dead process has left raises the documented alarm in a real
// Prometheus; what docs/operations.md says then finds the claim, and ends it, and the
// alarm.
func TestAStuckClaimRaisesItsAlarmAndTheRunbookEndsIt(t *testing.T) {
	for _, c := range []struct {
		how     string
		signal  syscall.Signal
		mend    string
		outcome string // what the repeat is told then
	}{
		{"killed", syscall.SIGKILL, "stuck: it was not done", "executed"},
		{"stopped", syscall.SIGSTOP, "stuck: it was done", "replayed"},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "shop.db")
			flags := []string{"-store", "sqlite:" + file, "-lease", "3s"}
			healthy, victim := start(t, flags...), start(t, flags...)
			prom := startPrometheus(t, impatient(t), map[string]*program{"healthy": healthy, "victim": victim})
			prom.waitScraped(2)

			id := idOf(t, "k")
			go victim.post("k", tea, "sleep_ms=600000")
			victim.waitLog(id)
			eventually(t, "the claim is seen", func() bool {
				found, err := prom.query(`onceward_claims_open{job="healthy",onceward_claim_state="in-progress"} == 1`)
				return err == nil && len(found) == 1
			})
			if ringing := prom.firing(); len(ringing) > 0 {
				t.Fatalf("while all is well there ring %v", ringing)
			}
			victim.stopOutside(c.signal, file)
			var labels map[string]string
			eventually(t, "OncewardClaimStuck rings", func() bool {
				labels = prom.firing()["OncewardClaimStuck"]
				return labels != nil
			})
			if labels["job"] != "healthy" || labels["onceward_claim_state"] != "unknown" || labels["severity"] != "ticket" {
				t.Errorf("the alarm says %v", labels)
			}

			env := []string{"ONCEWARD_STORE=sqlite:" + file, "ID=" + id, "LOG=" + victim.logName, "KEY=k"}
			looked := sh(t, runbook(t)["stuck: look"], env...)
			for _, word := range []string{id, "unknown", "POST /create-order", "onceward: claimed"} {
				if !strings.Contains(looked, word) {
					t.Errorf("who looks does not see %q:\n%s", word, looked)
				}
			}
			sh(t, runbook(t)[c.mend], env...)
			shown := sh(t, "onceward keys list --stuck", env...)
			if strings.Contains(shown, id) {
				t.Errorf("the claim is stuck still:\n%s", shown)
			}
			a := healthy.post("k", tea, "").want(t, 201, c.outcome)
			if c.outcome == "replayed" && a.header.Get("Location") != "/orders/7" {
				t.Errorf("the repeat is sent to %q", a.header.Get("Location"))
			}
			if story := sh(t, runbook(t)["look up"], env...); c.outcome == "replayed" && !strings.Contains(story, "order 7 is there") {
				t.Errorf("nobody says who ended it:\n%s", story)
			}
			eventually(t, "OncewardClaimStuck is silent", func() bool { return prom.firing()["OncewardClaimStuck"] == nil })
			if c.signal != syscall.SIGSTOP {
				return
			}
			// It wakes, and finds its claim gone.
			victim.signal(syscall.SIGCONT)
			eventually(t, "OncewardLeaseLost rings", func() bool { return prom.firing()["OncewardLeaseLost"]["job"] == "victim" })
			if got := story(t, id, victim.logName); !slices.Contains(got, "claim-lost") {
				t.Errorf("the victim's story is %q", got)
			}
			if found := sh(t, grepOf(t, "OncewardLeaseLost"), env...); !strings.Contains(found, id) {
				t.Errorf("who looks for lost claims finds %q", found)
			}
		})
	}
}

// A store that does not answer rings, and stops ringing by itself.
func TestAStoreThatDoesNotAnswerRaisesItsAlarms(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.db")
	p := start(t, "-store", "sqlite:"+file)
	rules := strings.NewReplacer("[2m]", "[20s]", "[5m]", "[20s]").Replace(impatient(t))
	prom := startPrometheus(t, rules, map[string]*program{"shop": p})
	prom.waitScraped(1)
	p.post("before", tea, "").want(t, 201, "executed")
	unlock := lockFile(t, file)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				p.post("k", tea, "")
			}
		}
	}()
	eventually(t, "OncewardUnavailable and OncewardStoreFails ring", func() bool {
		ringing := prom.firing()
		return ringing["OncewardUnavailable"] != nil && ringing["OncewardStoreFails"] != nil
	})
	if op := prom.firing()["OncewardStoreFails"]["onceward_store_operation"]; op != "claim" && op != "release" {
		t.Errorf("the call that fails is %q", op)
	}
	unlock()
	close(stop)
	<-stopped
	eventually(t, "the request runs", func() bool { return p.post("k", tea, "").status == 201 })
	eventually(t, "silence", func() bool { return len(prom.firing()) == 0 })
}

// Every rule is valid, and rings when it should and no sooner.
func TestEveryAlarmRingsWhenItShould(t *testing.T) {
	tool := find(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(root, "docs", "alerts.yaml")},
		{"test", "rules", filepath.Join("testdata", "alerts.test.yaml")},
	} {
		if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	cases := ruleCases(t)
	for _, name := range alarms(t) {
		rings, silent := 0, 0
		for _, c := range cases[name] {
			silent += strings.Count(c, "exp_alerts: []") + strings.Count(c, "exp_samples: []")
			rings += strings.Count(c, "exp_labels: {job: ")
		}
		if rings == 0 || silent == 0 {
			t.Errorf("testdata/alerts.test.yaml has %d cases where %s rings and %d where it is silent", rings, name, silent)
		}
	}
}

// alarms are the names in docs/alerts.yaml.
func alarms(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(read(t, "docs/alerts.yaml"), -1) {
		names = append(names, m[1])
	}
	if len(names) < 10 {
		t.Fatalf("found %d alarms", len(names))
	}
	return names
}

// expressions are all that docs/alerts.yaml and docs/grafana.json ask Prometheus.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	rules := read(t, "docs/alerts.yaml")
	for part := range strings.SplitSeq(rules, "expr: ") {
		if part == "" || strings.HasPrefix(part, "#") {
			continue
		}
		expr, _, _ := regexpCut(part, `\n +(for|labels):`)
		all = append(all, strings.Join(strings.Fields(strings.TrimPrefix(expr, ">-")), " "))
	}
	if len(all) != len(alarms(t)) {
		t.Fatalf("found %d expressions of %d alarms", len(all), len(alarms(t)))
	}
	var board struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(read(t, "docs/grafana.json")), &board); err != nil {
		t.Fatal(err)
	}
	if len(board.Panels) < 10 {
		t.Fatalf("the dashboard has %d panels", len(board.Panels))
	}
	fill := strings.NewReplacer("$job", ".*", "$__rate_interval", "1m")
	for _, p := range board.Panels {
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("a panel has no title or asks nothing: %+v", p)
		}
		for _, target := range p.Targets {
			all = append(all, fill.Replace(target.Expr))
		}
	}
	return all
}

func regexpCut(text, pattern string) (before, after string, found bool) {
	at := regexp.MustCompile(pattern).FindStringIndex(text)
	if at == nil {
		return text, "", false
	}
	return text[:at[0]], text[at[1]:], true
}

var (
	quotedText = regexp.MustCompile(`"[^"]*"`)
	word       = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	family     = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`)
	label      = regexp.MustCompile(`([a-z_]+)="`)
)

// Every metric and every label that an alarm or the dashboard names is there in what a
// program really exposes, and Prometheus understands each question.
func TestWhatAlarmsAndDashboardAskForIsScraped(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.db")
	p := start(t, "-store", "sqlite:"+file)
	p.post("k", tea, "").want(t, 201, "executed")
	p.post("k", tea, "").want(t, 201, "replayed")
	unlock := lockFile(t, file)
	p.post("k2", tea, "").want(t, 503, "unavailable")
	unlock()
	text := p.scrape()

	known := map[string]bool{"job": true, "instance": true, "le": true, "ALERTS": true, "alertname": true, "alertstate": true}
	comment := read(t, "telemetry/doc.go")
	for _, m := range family.FindAllStringSubmatch(text, -1) {
		known[m[1]] = true
		if strings.HasPrefix(m[1], "onceward_") && !strings.Contains(comment, "("+m[1]+")") {
			t.Errorf("the comment of package telemetry does not name %s", m[1])
		}
		if m[2] == "histogram" {
			known[m[1]+"_bucket"], known[m[1]+"_sum"], known[m[1]+"_count"] = true, true, true
		}
	}
	for _, m := range label.FindAllStringSubmatch(text, -1) {
		known[m[1]] = true
	}
	// Functions and operators are Prometheus's to check, below.
	grammar := strings.Fields("sum max rate increase by histogram_quantile m s h")
	used := map[string]bool{}
	all := expressions(t)
	for _, expr := range all {
		for _, name := range word.FindAllString(quotedText.ReplaceAllString(expr, `""`), -1) {
			if slices.Contains(grammar, name) {
				continue
			}
			used[name] = true
			if !known[name] {
				t.Errorf("nothing is called %s, which is asked for in\n%s", name, expr)
			}
		}
	}
	// What is measured for nobody is measured in vain.
	for name := range known {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if strings.HasPrefix(base, "onceward_") && !used[base] && !used[base+"_bucket"] && !used[base+"_count"] {
			t.Errorf("neither an alarm nor the dashboard asks for %s", base)
		}
	}

	prom := startPrometheus(t, impatient(t), map[string]*program{"shop": p})
	prom.waitScraped(1)
	for _, expr := range all {
		if _, err := prom.query(expr); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// No attribute has many values: no key, no scope, no path of one order.
func TestMetricsNameNoKeyNoUserAndNoPath(t *testing.T) {
	t.Parallel()
	p := start(t, "-store", "memory:", "-user-header", "X-User")
	before := len(strings.Split(p.scrape(), "\n"))
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		p.post("secret-"+key, tea, "").want(t, 201, "executed")
	}
	first := len(strings.Split(p.scrape(), "\n"))
	for i := range 30 {
		p.post("secret-"+strings.Repeat("x", i+1), tea, "").want(t, 201, "executed")
	}
	text := p.scrape()
	if n := len(strings.Split(text, "\n")); n != first || first == before {
		t.Errorf("the metrics have %d lines at first, %d after five requests and %d after thirty more", before, first, n)
	}
	for _, secret := range []string{"secret", "ann", idOf(t, "secret-a"), `="/create-order"`} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics have %q", secret)
		}
	}
	if !strings.Contains(text, `http_route="POST /create-order"`) {
		t.Error("the metrics do not tell the route")
	}
}
