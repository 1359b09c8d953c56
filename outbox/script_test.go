package outbox_test

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/outbox"
)

var contentOf = regexp.MustCompile(`<meta name="([^"]+)" content="([^"]*)">`)

func metas(t *testing.T, page string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, f := range contentOf.FindAllStringSubmatch(page, -1) {
		m[f[1]] = html.UnescapeString(f[2])
	}
	return m
}

func TestThePageIsToldWhatTheServerKnows(t *testing.T) {
	page := string(outbox.Script(outbox.ScriptConfig{
		Owner: "tag", Login: "/login?a=1&b=2", Retention: 7 * 24 * time.Hour, MaxAge: 6 * 24 * time.Hour,
		SoftLimit: 1500 * time.Millisecond, MaxBody: 1 << 20,
		Texts: map[string]string{"look": `Ver "todo" </script>`},
	}))
	m := metas(t, page)
	if m["outbox-owner"] != "tag" {
		t.Errorf("owner %q", m["outbox-owner"])
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(m["outbox-config"]), &got); err != nil {
		t.Fatalf("%v in %s", err, m["outbox-config"])
	}
	for name, want := range map[string]any{
		"prefix": "/outbox/", "worker": "/outbox/sw.js", "login": "/login?a=1&b=2",
		"retention": 604800000.0, "maxAge": 518400000.0, "softLimit": 1500.0, "maxBody": 1048576.0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if _, ok := got["hardLimit"]; ok {
		t.Error("a zero is told: it would displace the script's own default")
	}
	if texts, _ := got["texts"].(map[string]any); texts["look"] != `Ver "todo" </script>` {
		t.Errorf("texts %v", got["texts"])
	}
	if n := strings.Count(page, "</script>"); n != 2 {
		t.Errorf("%d ends of scripts in\n%s", n, page)
	}
}

// Each name that Go writes is one that a script reads: the engine's defaults, or a
// property that a script takes out of the configuration.
func TestEveryNameInTheConfigurationIsRead(t *testing.T) {
	one := time.Second
	page := string(outbox.Script(outbox.ScriptConfig{
		Owner: "tag", Former: []string{"old"},
		Worker: "/sw.js", ClassicWorker: true, Scope: "/", Login: "/login", KeyField: "key", Status: "/idempotency/", Headers: map[string]string{"X-CSRF-Token": "t"},
		Deny: "^/pay", SignIn: "^/enter$", Acknowledge: outbox.Acknowledge{Header: "X-Saved", Values: []string{"yes"}},
		Retention: -1, MaxAge: one, SoftLimit: one, HardLimit: one, HardLimitMax: one,
		Backoff: one, BackoffVisible: one, BackoffHidden: one, KickEvery: one, MaxBody: 1, MaxBytes: 1, MaxEntries: 1,
		NoBadge: true, Texts: map[string]string{"look": "x"},
	}))
	var got map[string]any
	if err := json.Unmarshal([]byte(metas(t, page)["outbox-config"]), &got); err != nil {
		t.Fatal(err)
	}
	if n := reflect.TypeFor[outbox.ScriptConfig]().NumField() - 4; len(got) != n { // Owner, Unknown, Nonce and NoKit are no part of it
		t.Errorf("%d names for %d fields", len(got), n)
	}
	if got["retention"] != -1.0 {
		t.Errorf("retention %v", got["retention"])
	}
	var scripts string
	for _, name := range []string{"page.js", "kit.js", "ask.js", "worker.js"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		scripts += string(text)
	}
	defaults := strings.Fields(node(t, "--input-type=module", "-e",
		"import { defaults } from './line.js'; console.log(Object.keys(defaults).join(' '))"))
	for name := range got {
		reads := regexp.MustCompile(`\b(cfg|config|said)\.` + name + `\b|\b` + name + `[,:] `)
		if !slices.Contains(defaults, name) && !reads.MatchString(scripts) {
			t.Errorf("nothing reads %q", name)
		}
	}
}

func TestScriptsOptions(t *testing.T) {
	page := string(outbox.Script(outbox.ScriptConfig{Prefix: "/o/", Worker: "/sw.js", Nonce: "n1", Owner: `"><b>`}))
	if strings.Count(page, `nonce="n1"`) != 3 || !strings.Contains(page, `src="/o/page.js"`) || strings.Contains(page, "<b>") {
		t.Error(page)
	}
	if !strings.Contains(metas(t, page)["outbox-config"], `"worker":"/sw.js"`) {
		t.Error(page)
	}
	page = string(outbox.Script(outbox.ScriptConfig{NoBadge: true, Texts: map[string]string{"waiting.few": "{n} zmiany"}}))
	if c := metas(t, page)["outbox-config"]; !strings.Contains(c, `"noBadge":true`) || !strings.Contains(c, `"texts":{"waiting.few":"{n} zmiany"}`) {
		t.Error(page)
	}
	if strings.Contains(page, `"ack"`) || strings.Contains(page, "deny") {
		t.Errorf("what was not said displaces the scripts' own: %s", page)
	}
	page = string(outbox.Script(outbox.ScriptConfig{Deny: "^/pay", SignIn: "^/enter$"}))
	if c := metas(t, page)["outbox-config"]; !strings.Contains(c, `"deny":"(?:^/pay)|(?:^/enter$)"`) || !strings.Contains(c, `"auth":"^/enter$"`) {
		t.Error(c)
	}
	page = string(outbox.Script(outbox.ScriptConfig{Acknowledge: outbox.Acknowledge{Header: "X-Saved", Values: []string{"yes"}}}))
	if !strings.Contains(metas(t, page)["outbox-config"], `"ack":{"header":"X-Saved","values":["yes"]}`) {
		t.Error(page)
	}
	page = string(outbox.Script(outbox.ScriptConfig{NoKit: true, Worker: "-"}))
	if strings.Contains(page, "kit") || !strings.Contains(metas(t, page)["outbox-config"], `"worker":""`) || strings.Contains(page, "nonce") {
		t.Error(page)
	}
}

func ExampleScript() {
	fmt.Print(outbox.Script(outbox.ScriptConfig{Owner: outbox.Tag([]byte("secret"), "anna"), NoKit: true}))
	// Output:
	// <meta name="outbox-owner" content="KhyJIJAfRC2R1RB43p6LoQ">
	// <meta name="outbox-config" content="{&#34;prefix&#34;:&#34;/outbox/&#34;,&#34;worker&#34;:&#34;/outbox/sw.js&#34;}">
	// <script type="module" src="/outbox/page.js"></script>
}

// To the worker an empty owner is a log-out; a page that does not know has none.
func TestAPageThatDoesNotKnowWhoIsSignedInSaysNothingOfIt(t *testing.T) {
	page := string(outbox.Script(outbox.ScriptConfig{Unknown: true, Owner: "tag", Former: []string{"tag of old"}, Login: "/login", Headers: map[string]string{"X-CSRF-Token": "hers"}}))
	m := metas(t, page)
	if _, ok := m["outbox-owner"]; ok || strings.Contains(page, "tag") || strings.Contains(page, "hers") {
		t.Errorf("it says who it is:\n%s", page)
	}
	if c := m["outbox-config"]; !strings.Contains(c, `"worker":""`) || !strings.Contains(c, `"login":"/login"`) {
		t.Errorf("config %s", c)
	}
	if !strings.Contains(page, "/outbox/kit.js") {
		t.Error("it has no kit")
	}
}
