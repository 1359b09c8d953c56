package fault_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/fault"
)

// every is a plan in which every mode has its share.
const every = "refuse=0.08,half-request=0.08,cut-after-forward=0.08,cut-mid-body=0.08,blackhole=0.04:5ms,500=0.04,502-after=0.04,503=0.04:ra=1," +
	"504-after=0.04,duplicate=0.08,duplicate-concurrent=0.08,captive-200=0.04,login-302=0.04,login-200=0.04,waf-403=0.04,slow=0.1:2ms,slow-after=0.1:2ms"

func TestTheSameSeedGivesTheSameFates(t *testing.T) {
	type fate struct {
		mode      string
		fate      fault.Fate
		forwarded int
		status    int
		index     uint64
	}
	run := func(seed uint64, noise bool) (fates []fate, applied int) {
		up := newUpstream(t, func(_ int, w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "an answer") })
		p, addr := start(t, up.URL, fault.Config{Plan: mustPlan(t, every), Seed: seed})
		c := oneShot(20 * time.Second)
		for i := range 120 {
			if noise && i%3 == 0 {
				send(c, "GET", "http://"+addr+"/noise", "")
			}
			send(c, "POST", fmt.Sprintf("http://%s/%d", addr, i), "body")
		}
		for _, e := range p.Log() {
			if e.Method == "POST" {
				fates = append(fates, fate{e.Mode, e.Fate, e.Forwarded, e.Status, e.Index})
			}
		}
		for _, s := range up.whole() {
			if s.Method == "POST" {
				applied++
			}
		}
		return fates, applied
	}
	first, applied := run(42, false)
	again, appliedAgain := run(42, true)
	if !reflect.DeepEqual(first, again) || applied != appliedAgain {
		t.Errorf("the same seed gave other fates:\n%v (%d)\n%v (%d)", first, applied, again, appliedAgain)
	}
	other, _ := run(43, false)
	if reflect.DeepEqual(first, other) {
		t.Error("another seed gave the same fates")
	}
	forwarded := 0
	met := map[string]bool{}
	for _, f := range first {
		forwarded += f.forwarded
		met[f.mode] = true
	}
	if forwarded != applied {
		t.Errorf("the log says %d were forwarded, the application saw %d", forwarded, applied)
	}
	if len(met) < 15 {
		t.Errorf("only these were met: %v", met)
	}
}

func TestRulesAreTriedInOrderAndCountOnTheirOwn(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{Plan: mustPlan(t, "POST /a* -> 502; * /a/x -> 503; GET /b -> 504")})
	c := oneShot(20 * time.Second)
	for _, r := range []struct {
		method, path string
		status       int
		rule         string
		index        uint64
	}{
		{"POST", "/a", 502, "POST /a*", 0},
		{"GET", "/a/x", 503, "* /a/x", 0},
		{"POST", "/a/x", 502, "POST /a*", 1},
		{"GET", "/b", 504, "GET /b", 0},
		{"POST", "/b", 201, "", 0},
		{"GET", "/a/x?q=1", 503, "* /a/x", 1},
	} {
		if g := send(c, r.method, "http://"+addr+r.path, ""); g.status != r.status {
			t.Errorf("%s %s: %d, want %d", r.method, r.path, g.status, r.status)
		}
		log := p.Log()
		if e := log[len(log)-1]; e.Rule != r.rule || e.Index != r.index || (e.By == "plan") != (r.rule != "") {
			t.Errorf("%s %s: the log says %+v", r.method, r.path, e)
		}
	}
}

// The default is for changing requests: a page can be read over the worst
// network.
func TestAPlanWithoutAMatchTouchesChangingRequestsOnly(t *testing.T) {
	up := newUpstream(t, nil)
	_, addr := start(t, up.URL, fault.Config{Plan: mustPlan(t, "502")})
	for method, want := range map[string]int{"GET": 201, "HEAD": 201, "OPTIONS": 201, "POST": 502, "PUT": 502, "PATCH": 502, "DELETE": 502} {
		if g := send(oneShot(20*time.Second), method, "http://"+addr+"/", ""); g.status != want {
			t.Errorf("%s: %d, want %d", method, g.status, want)
		}
	}
}

func TestOfflineRulesEverythingThenTheScriptThenPassThenThePlan(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{Plan: mustPlan(t, "502")})
	c := oneShot(20 * time.Second)
	set := func(mode, script string) {
		t.Helper()
		if err := p.Set(fault.Change{Mode: &mode, Script: &script}); err != nil {
			t.Fatal(err)
		}
	}
	set("offline", "POST /s -> 503, 504")
	for _, method := range []string{"GET", "POST"} {
		if g := send(c, method, "http://"+addr+"/s", ""); g.kind() != "reset" {
			t.Errorf("offline, %s: %s", method, g.kind())
		}
	}
	if s := p.State(); s.Mode != "offline" || s.Script != "POST /s -> 503, 504" {
		t.Errorf("%+v", s)
	}
	if err := p.SetMode("pass"); err != nil {
		t.Fatal(err)
	}
	if g := send(c, "POST", "http://"+addr+"/s", ""); g.status != 503 {
		t.Errorf("the script's first step: %d", g.status)
	}
	if g := send(c, "POST", "http://"+addr+"/other", ""); g.status != 201 {
		t.Errorf("pass, where the script does not match: %d", g.status)
	}
	if err := p.SetMode("plan"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{504, 502} {
		if g := send(c, "POST", "http://"+addr+"/s", ""); g.status != want {
			t.Errorf("the script's last step, then the plan: %d, want %d", g.status, want)
		}
	}
	var by []string
	for _, e := range p.Log() {
		by = append(by, e.By)
	}
	if want := []string{"mode", "mode", "script", "mode", "script", "plan"}; !slices.Equal(by, want) {
		t.Errorf("chosen by %v, want %v", by, want)
	}
}

func TestTheControlAPISteersTheProxy(t *testing.T) {
	up := newUpstream(t, nil)
	var file bytes.Buffer
	p, addr := start(t, up.URL, fault.Config{LogTo: &file, Seed: 5})
	url := "http://" + addr
	c := oneShot(20 * time.Second)

	state := func(g got) (s fault.State) {
		t.Helper()
		if err := json.Unmarshal([]byte(g.body), &s); err != nil || g.header.Get("Content-Type") != "application/json" || g.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %q %v: %v", g.status, g.body, g.header, err)
		}
		return s
	}
	if s := state(ask(t, "GET", url+"/.fault", "")); s.Target != up.URL || s.Mode != "plan" || s.Plan != "" || s.Seed != 5 || s.Requests != 0 {
		t.Errorf("at the start: %+v", s)
	}
	s := state(ask(t, "PUT", url+"/.fault", `{"plan":"POST /tasks* -> 503=1:ra=3","seed":42,"script":"502, pass"}`))
	if s.Plan != "POST /tasks* -> 503=1:ra=3" || s.Seed != 42 || s.Script != "502, pass" {
		t.Errorf("after a change: %+v", s)
	}
	send(c, "POST", url+"/tasks?x=1", form, "Content-Type", "application/x-www-form-urlencoded; charset=utf-8", "Idempotency-Key", "k1")
	send(c, "POST", url+"/tasks", "x")
	send(c, "POST", url+"/tasks", "x")
	send(c, "GET", url+"/", "")
	s = state(ask(t, "GET", url+"/.fault/", ""))
	if s.Requests != 4 || s.Open != 0 || s.Kept != 4 || s.Script != "" ||
		!reflect.DeepEqual(s.Counts, map[string]int{"502": 1, "503": 1, "pass": 2}) ||
		!reflect.DeepEqual(s.Changing, map[string]int{"502": 1, "503": 1, "pass": 1}) {
		t.Errorf("after four requests: %+v", s)
	}

	var log []fault.Entry
	g := ask(t, "GET", url+"/.fault/log", "")
	if err := json.Unmarshal([]byte(g.body), &log); err != nil || len(log) != 4 {
		t.Fatalf("%q: %v", g.body, err)
	}
	if e := log[0]; e.N != 1 || e.Method != "POST" || e.Path != "/tasks" || e.Query != "x=1" || e.Key != "k1" || e.FormKey != "key-abc-123" ||
		e.Mode != "502" || e.By != "script" || e.Fate != fault.StandIn || e.Status != 502 || e.Forwarded != 0 || e.Bytes != len(form) || e.Conn == 0 || e.Time.IsZero() {
		t.Errorf("the first entry: %+v", e)
	}
	for _, name := range []string{`"n":1`, `"_key":"key-abc-123"`, `"key":"k1"`, `"mode":"502"`, `"fate":"stand-in"`, `"forwarded":0`, `"ms":`, `"conn":3`, `"time":"`} {
		if !strings.Contains(g.body, name) {
			t.Errorf("the log's JSON has no %s: %s", name, g.body)
		}
	}
	if g := ask(t, "GET", url+"/.fault/log?after=3", ""); strings.Count(g.body, `"n":`) != 1 || !strings.Contains(g.body, `"n":4`) {
		t.Errorf("after=3: %s", g.body)
	}
	if g := ask(t, "DELETE", url+"/.fault/log", ""); g.status != 204 || g.body != "" {
		t.Errorf("DELETE: %+v", g)
	}
	if g := ask(t, "GET", url+"/.fault/log", ""); g.body != "[]\n" {
		t.Errorf("after DELETE: %q", g.body)
	}
	if s := p.State(); len(s.Counts) != 0 || s.Requests != 4 {
		t.Errorf("after DELETE: %+v", s)
	}
	// Control requests are no traffic: nobody sees them.
	if n := len(up.all()); n != 2 {
		t.Errorf("the application saw %d requests", n)
	}
	p.Close()
	if lines := strings.Split(strings.TrimSpace(file.String()), "\n"); len(lines) != 4 {
		t.Errorf("the log file has %d lines: %s", len(lines), file.String())
	} else {
		for _, line := range lines {
			var e fault.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Fate == fault.Open {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestBadInputToTheControlAPIChangesNothingAndSaysWhatToSend(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{Plan: mustPlan(t, "502=0.5"), Seed: 9})
	before := p.State()
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "/.fault", "", 400, `send JSON with one or more of plan, mode`},
		{"PUT", "/.fault", "{}", 400, "nothing to change"},
		{"POST", "/.fault", "mode=offline", 400, "send JSON"},
		{"POST", "/.fault", `{"mode":"ofline"}`, 400, `no mode \"ofline\"`},
		{"POST", "/.fault", `{"mode":""}`, 400, `to follow the plan`},
		{"POST", "/.fault", `{"mode":"pass","plan":"nonsense"}`, 400, "the modes are"},
		{"POST", "/.fault", `{"plan":"502","script":"x"}`, 400, "no mode"},
		{"POST", "/.fault", `{"seed":-1}`, 400, "send JSON"},
		{"POST", "/.fault", `{"seed":1,"speed":2}`, 400, "speed"},
		{"POST", "/.fault", `{"seed":1}{"seed":2}`, 400, "more than one"},
		{"POST", "/.fault", `[]`, 400, "send JSON"},
		{"DELETE", "/.fault", "", 405, "allowed: GET, HEAD, POST, PUT"},
		{"PUT", "/.fault/log", "{}", 405, "allowed: DELETE, GET, HEAD"},
		{"GET", "/.fault/log?after=x", "", 400, "after=N"},
		{"GET", "/.fault/log?before=1", "", 400, "after=N"},
		{"GET", "/.fault/nothing", "", 404, "/.fault/log"},
	} {
		g := ask(t, c.method, "http://"+addr+c.path, c.body)
		if g.status != c.status || !strings.Contains(g.body, c.want) || !json.Valid([]byte(g.body)) {
			t.Errorf("%s %s %q: %d %q, want %d with %q", c.method, c.path, c.body, g.status, g.body, c.status, c.want)
		}
	}
	if after := p.State(); !reflect.DeepEqual(before, after) {
		t.Errorf("the state was %+v and is %+v", before, after)
	}
	big := `{"plan":"` + strings.Repeat("x", 2<<20) + `"}`
	if g := ask(t, "PUT", "http://"+addr+"/.fault", big); g.status != 413 {
		t.Errorf("2 MiB: %d", g.status)
	}
	if g := send(oneShot(20*time.Second), "POST", "http://"+addr+"/.fault", `{"mode":"offline"}`, "Sec-Fetch-Site", "cross-site"); g.status != 403 || p.State().Mode != "plan" {
		t.Errorf("a page of another site: %d, mode %s", g.status, p.State().Mode)
	}
	if g := send(oneShot(20*time.Second), "HEAD", "http://"+addr+"/.fault", ""); g.status != 200 || g.body != "" {
		t.Errorf("HEAD: %+v", g)
	}
	// A path that only begins alike is the application's.
	if g := send(oneShot(20*time.Second), "GET", "http://"+addr+"/.faulty", ""); g.status != 201 {
		t.Errorf("/.faulty: %+v", g)
	}
}

func TestTheControlAPIAnswersWhileEverythingIsOffline(t *testing.T) {
	up := newUpstream(t, nil)
	_, addr := start(t, up.URL, fault.Config{})
	c, br := rawDial(t, addr)
	for _, mode := range []string{"offline", "blackhole", "slow:1h", "reset-once", "pass"} {
		body := fmt.Sprintf(`{"mode":%q}`, mode)
		fmt.Fprintf(c, "PUT /.fault HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		if res.StatusCode != 200 || !strings.Contains(string(b), fmt.Sprintf(`"mode":%q`, mode)) {
			t.Errorf("%s: %d %s", mode, res.StatusCode, b)
		}
	}
}

func TestCutResetsWhatIsOpenButNotWhoAsks(t *testing.T) {
	forwarded := make(chan struct{})
	goOn := make(chan struct{})
	up := newUpstream(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		close(forwarded)
		<-goOn
		w.WriteHeader(200)
	})
	defer close(goOn)
	p, addr := start(t, up.URL, fault.Config{})
	ended := make(chan got, 1)
	go func() { ended <- send(oneShot(time.Minute), "POST", "http://"+addr+"/", "x") }()
	<-forwarded
	idle, br := rawDial(t, addr)
	io.WriteString(idle, "GET /.fault HTTP/1.1\r\nHost: x\r\n\r\n")
	if res, err := http.ReadResponse(br, nil); err != nil {
		t.Fatal(err)
	} else {
		io.Copy(io.Discard, res.Body)
	}
	if g := ask(t, "POST", "http://"+addr+"/.fault", `{"cut":true}`); g.status != 200 {
		t.Errorf("the asker got %+v", g)
	}
	if g := <-ended; g.kind() != "reset" {
		t.Errorf("the open request saw %s", g.kind())
	}
	if _, err := br.ReadByte(); err == nil {
		t.Error("the idle connection goes on")
	}
	until(t, "the log has it", func() bool { return p.Log()[0].Fate == fault.Left })
	if e := p.Log()[0]; e.Forwarded != 1 {
		t.Errorf("what was forwarded stays forwarded: %+v", e)
	}
}

func TestTheLogKeepsTheNewestEntries(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{LogSize: 3})
	for range 5 {
		send(oneShot(20*time.Second), "GET", "http://"+addr+"/", "")
	}
	log := p.Log()
	if len(log) != 3 || log[0].N != 3 || log[2].N != 5 {
		t.Errorf("%+v", log)
	}
	if s := p.State(); s.Dropped != 2 || s.Kept != 3 || s.Counts["pass"] != 5 {
		t.Errorf("%+v", s)
	}
}

// Whoever has the end of an answer, or of a connection, finds the fate in the
// log at once: tests need no waiting.
func TestTheFateIsInTheLogBeforeTheClientKnows(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{Plan: mustPlan(t, every), Seed: 1})
	c := oneShot(20 * time.Second)
	for range 300 {
		send(c, "POST", "http://"+addr+"/", "x")
		log := p.LogAfter(p.State().Requests - 1)
		if len(log) != 1 || log[0].Fate == fault.Open {
			t.Fatalf("the client has its answer, and the log says %+v", log)
		}
	}
}

func TestManyClientsAndManyChangesAtOnce(t *testing.T) {
	up := newUpstream(t, nil)
	p, addr := start(t, up.URL, fault.Config{Plan: mustPlan(t, every), Seed: 1})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c := oneShot(20 * time.Second)
			for j := range 25 {
				send(c, "POST", fmt.Sprintf("http://%s/%d/%d", addr, i, j), form, "Content-Type", "application/x-www-form-urlencoded")
			}
		})
	}
	all.Go(func() {
		for _, mode := range []string{"plan", "pass", "slow:1ms", "plan"} {
			if err := p.SetMode(mode); err != nil {
				t.Error(err)
			}
			p.Log()
			p.State()
			time.Sleep(20 * time.Millisecond)
		}
	})
	all.Wait()
	forwarded := 0
	until(t, "all have ended", func() bool { return p.State().Open == 0 })
	for _, e := range p.Log() {
		forwarded += e.Forwarded
	}
	if whole := len(up.whole()); whole != forwarded || p.State().Requests != 200 {
		t.Errorf("%d requests, %d forwarded, %d seen whole by the application", p.State().Requests, forwarded, whole)
	}
}
